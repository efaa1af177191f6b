//! Status writes that nobody waits for, a few at a time and each in good time: after a start or a
//! change of leaders every budget may need one, in a storm every budget changes all the time, and
//! evictions must not queue up behind them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::model::Timestamp;
use crate::namespace::BudgetId;
use crate::timer::{Due, Timers};

/// Upstream's controller has one worker. Each of ours takes a connection of its own.
const UNDER_WAY_MAX: usize = 4;

/// Each gathers what happens within this time: a pod that has a grant in one budget is felt in all that cover it, and the
/// request may be on its way to them.
const GATHER: Duration = Duration::from_millis(1);

/// The distance between two such writes of one budget: a lone change is shown at once, and a storm of
/// them costs about one write per second,
const PACE: Duration = Duration::from_secs(1);
/// or less when so many budgets change that it would be more often than this in all, which is how often upstream's
/// controller may write by default,
const APART: Duration = Duration::from_millis(50);
/// but nobody's status gets much older than this.
const PACE_MAX: Duration = Duration::from_secs(5);
/// Those that have to wait are written together, at multiples of this: to write five at once takes less time than to wake up
/// five times for one.
const TOGETHER_MS: i64 = 250;

#[derive(Debug, Default)]
pub(crate) struct Leisure {
    under_way: usize,
    /// Their housekeeping stays due. One that is written for another reason meanwhile has nothing to do
    /// when it is woken.
    waiting: VecDeque<(Arc<str>, BudgetId)>,
    /// Budgets that are to be looked at.
    planned: usize,
}

impl Leisure {
    /// When a budget is to be looked at that was written then.
    pub(crate) fn turn(&self, now: Timestamp, wrote: Option<Timestamp>) -> Timestamp {
        let soon = now + GATHER;
        match wrote.map(|wrote| wrote + self.pace()) {
            Some(turn) if turn > soon => turn.rounded_up(TOGETHER_MS),
            _ => soon,
        }
    }

    fn pace(&self) -> Duration {
        let all = u32::try_from(self.planned).map_or(PACE_MAX, |n| APART.saturating_mul(n));
        all.clamp(PACE, PACE_MAX)
    }

    /// A budget is to be looked at that was not before.
    pub(crate) fn plan(&mut self) {
        self.planned += 1;
    }

    /// It was, or need not be any more.
    pub(crate) fn done(&mut self) {
        self.planned -= 1;
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_budgets_change_the_less_often_each_is_written() {
        // Every one of them is looked at, and planned again, as soon as it may be.
        let writes_in_a_minute = |budgets: usize| {
            let mut leisure = Leisure { planned: budgets, ..Leisure::default() };
            let mut due = vec![Timestamp::from_secs(1000); budgets];
            let mut writes = 0;
            for ms in (0..60_000).step_by(5) {
                let now = Timestamp::from_secs(1000) + Duration::from_millis(ms);
                for due in due.iter_mut().filter(|due| **due <= now) {
                    leisure.done();
                    *due = now + leisure.pace();
                    leisure.plan();
                    writes += 1;
                }
            }
            writes / budgets
        };
        assert_eq!(writes_in_a_minute(1), 60);
        assert_eq!(writes_in_a_minute(20), 60);
        assert!((19..=22).contains(&writes_in_a_minute(60)));
        assert_eq!(writes_in_a_minute(1000), 12);
    }

    #[test]
    fn when_the_last_of_a_storm_are_written_the_pace_is_what_it_was() {
        let mut leisure = Leisure { planned: 5000, ..Leisure::default() };
        assert_eq!(leisure.pace(), PACE_MAX);
        (0..5000).for_each(|_| leisure.done());
        assert_eq!(leisure.pace(), PACE);
    }
}
