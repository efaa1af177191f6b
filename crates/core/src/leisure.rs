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
/// them costs about one write per second.
const PACE: Duration = Duration::from_secs(1);
/// The distance between two such writes of any budgets in the long run, which is how often upstream's controller may write
/// by default,
const APART: Duration = Duration::from_millis(50);
/// a second's worth of them at once, as upstream's may too,
const AT_ONCE: Duration = Duration::from_secs(1);
/// but nobody's status gets much older than this.
const LATE_MAX: Duration = Duration::from_secs(5);
/// Those that have to wait are written together, at multiples of this: to write five at once takes less time than to wake up
/// five times for one;
const TOGETHER_MS: i64 = 250;
/// and of this when it takes seconds until all have had their turn.
const TOGETHER_LATE_MS: i64 = 1000;

#[derive(Debug, Default)]
pub(crate) struct Leisure {
    under_way: usize,
    /// Their housekeeping stays due. One that is written for another reason meanwhile has nothing to do
    /// when it is woken.
    waiting: VecDeque<(Arc<str>, BudgetId)>,
    /// The next turn, were they taken one by one.
    next: Timestamp,
}

impl Leisure {
    /// When a budget is to be looked at that was written then.
    pub(crate) fn turn(&mut self, now: Timestamp, wrote: Option<Timestamp>) -> Timestamp {
        let soon = now + GATHER;
        let slot = self.next.max(now);
        self.next = (slot + APART).min(now + LATE_MAX);
        let at_once = slot.since(now) < AT_ONCE;
        let turn = if at_once { soon } else { slot };
        let turn = wrote.map_or(turn, |wrote| turn.max(wrote + PACE));
        match turn > soon {
            true if at_once => turn.rounded_up(TOGETHER_MS),
            true => turn.rounded_up(TOGETHER_LATE_MS),
            false => soon,
        }
    }

    /// When a budget is to be looked at whose turn has come while it is being written for another reason.
    pub(crate) fn next_turn(now: Timestamp) -> Timestamp {
        (now + PACE).rounded_up(TOGETHER_MS)
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

    const START: Timestamp = Timestamp::from_secs(1000);

    /// How often each of so many is written in a minute, if each changes all the time.
    fn writes_in_a_minute(budgets: usize) -> usize {
        let mut leisure = Leisure::default();
        let mut due = vec![START; budgets];
        let mut writes = 0;
        for ms in (0..60_000).step_by(5) {
            let now = START + Duration::from_millis(ms);
            for due in due.iter_mut().filter(|due| **due <= now) {
                *due = leisure.turn(now, Some(now));
                writes += 1;
            }
        }
        writes / budgets
    }

    #[test]
    fn the_more_budgets_change_the_less_often_each_is_written() {
        assert_eq!(writes_in_a_minute(1), 60);
        assert!((55..=60).contains(&writes_in_a_minute(20)));
        assert!((18..=24).contains(&writes_in_a_minute(60)));
        assert!((10..=12).contains(&writes_in_a_minute(1000)));
    }

    #[test]
    fn a_crowd_takes_turns_and_a_few_do_not() {
        let mut leisure = Leisure::default();
        let crowd: Vec<Timestamp> = (0..200).map(|_| leisure.turn(START, None)).collect();
        assert!(crowd[..20].iter().all(|turn| *turn == START + GATHER));
        assert!(crowd.is_sorted());
        assert_eq!(crowd[20], START + Duration::from_secs(1));
        assert_eq!(crowd[60], START + Duration::from_secs(3));
        assert!(crowd[100..].iter().all(|turn| *turn == START + LATE_MAX));
        // Written together, and not one by one.
        assert_eq!(crowd[21..=40], [crowd[40]; 20]);
    }

    #[test]
    fn after_a_storm_a_lone_change_is_shown_at_once() {
        let mut leisure = Leisure::default();
        (0..5000).for_each(|_| {
            leisure.turn(START, None);
        });
        let over = START + LATE_MAX;
        assert_eq!(leisure.turn(over, None), over + GATHER);
    }
}
