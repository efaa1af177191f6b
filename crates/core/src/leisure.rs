//! Status writes that nobody waits for, a few at a time: after a start or a change of leaders every
//! budget may need one, and evictions must not queue up behind them.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::model::Timestamp;
use crate::namespace::BudgetId;
use crate::timer::{Due, Timers};

/// Upstream's controller has one worker. Each of ours takes a connection of its own.
const UNDER_WAY_MAX: usize = 4;

#[derive(Debug, Default)]
pub(crate) struct Leisure {
    under_way: usize,
    /// Their housekeeping stays due. One that is written for another reason meanwhile has nothing to do
    /// when it is woken.
    waiting: VecDeque<(Arc<str>, BudgetId)>,
}

impl Leisure {
    pub(crate) fn is_full(&self) -> bool {
        self.under_way >= UNDER_WAY_MAX
    }

    pub(crate) fn wait(&mut self, namespace: &Arc<str>, budget: &BudgetId) {
        self.waiting.push_back((namespace.clone(), budget.clone()));
    }

    pub(crate) fn begin(&mut self) {
        self.under_way += 1;
    }

    pub(crate) fn end(&mut self, now: Timestamp, timers: &mut Timers) {
        self.under_way -= 1;
        self.wake_next(now, timers);
    }

    /// To be called by whoever was woken, too: if it had nothing to write, another may.
    pub(crate) fn wake_next(&mut self, now: Timestamp, timers: &mut Timers) {
        if self.is_full() {
            return;
        }
        if let Some((namespace, budget)) = self.waiting.pop_front() {
            timers.at(now, &namespace, Due::Housekeep { budget });
        }
    }
}
