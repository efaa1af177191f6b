//! Status writes that nobody waits for, a few at a time and each in good time: after a start or a
//! change of leaders every budget may need one, in a storm every budget changes all the time, and
//! evictions must not queue up behind them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::model::{BudgetId, Timestamp};
use crate::timer::{Due, Timers};

/// Upstream's controller has one worker. Each of ours takes a connection of its own.
const UNDER_WAY_MAX: usize = 4;

/// Each gathers what happens within this time: a pod that has a grant in one budget is felt in all that cover it, and the
/// request may be on its way to them.
pub(crate) const GATHER: Duration = Duration::from_millis(1);

/// The distance between two such writes of one budget: a lone change is shown at once, and a storm of
/// them costs about one write per second,
const PACE: Duration = Duration::from_secs(1);
/// or less when so many budgets change that it would be more often than this in all, which is how often upstream's
/// controller may write by default,
const APART: Duration = Duration::from_millis(50);
/// a second's worth of them at once, as upstream's may too;
const AT_ONCE: Duration = Duration::from_secs(1);
/// but nobody's status gets much older than this.
const LATE_MAX: Duration = Duration::from_secs(5);
/// So much of what was written is held against the next at most: soon after a storm a lone change is shown at once again.
const SPENT_MAX: Duration = Duration::from_secs(2);
/// Those that have to wait are written together, at multiples of this: to write five at once takes less time than to wake up
/// five times for one;
const TOGETHER_MS: i64 = 250;
/// and of this in a crowd.
const TOGETHER_IN_CROWD_MS: i64 = 1000;

#[derive(Clone, Debug, Default)]
pub(crate) struct Leisure {
    under_way: usize,
    /// Their housekeeping stays due. One that is written for another reason meanwhile has nothing to do
    /// when it is woken.
    waiting: VecDeque<(Arc<str>, BudgetId)>,
    /// Budgets that are to be looked at.
    planned: usize,
    /// Until when those that were written would have taken, one after the other.
    spent: Timestamp,
}

impl Leisure {
    /// When a budget is to be looked at that was written then.
    pub(crate) fn turn(&self, now: Timestamp, wrote: Option<Timestamp>) -> Timestamp {
        let soon = now + GATHER;
        let ahead = self.ahead(now);
        let crowd = ahead >= AT_ONCE;
        // A storm over others does not keep a budget waiting that is not part of it.
        let is_quiet = wrote.is_none_or(|wrote| wrote + LATE_MAX <= now);
        let late_max = if is_quiet { PACE } else { LATE_MAX };
        let turn = if crowd { now + ahead.min(late_max) } else { soon };
        let turn = wrote.map_or(turn, |wrote| turn.max(wrote + PACE));
        if turn <= soon {
            return soon;
        }
        turn.rounded_up(if crowd { TOGETHER_IN_CROWD_MS } else { TOGETHER_MS })
    }

    /// How long it would take to write what is planned, or has been written just now, one after the other.
    fn ahead(&self, now: Timestamp) -> Duration {
        let planned = u32::try_from(self.planned).map_or(LATE_MAX, |n| APART.saturating_mul(n));
        planned.max(self.spent.since(now))
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

    pub(crate) fn begin(&mut self, now: Timestamp) {
        self.under_way += 1;
        self.spent = (self.spent.max(now) + APART).min(now + SPENT_MAX);
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
        let mut leisure = Leisure { planned: budgets, ..Leisure::default() };
        let mut due = vec![START; budgets];
        let mut writes = 0;
        for ms in (0..60_000).step_by(5) {
            let now = START + Duration::from_millis(ms);
            for due in due.iter_mut().filter(|due| **due <= now) {
                leisure.done();
                leisure.begin(now);
                *due = leisure.turn(now, Some(now));
                leisure.plan();
                writes += 1;
            }
        }
        writes / budgets
    }

    #[test]
    fn the_more_budgets_change_the_less_often_each_is_written() {
        assert_eq!(writes_in_a_minute(1), 60);
        assert_eq!(writes_in_a_minute(20), 60);
        assert!((19..=22).contains(&writes_in_a_minute(60)));
        assert_eq!(writes_in_a_minute(1000), 12);
    }

    /// The turns of so many budgets that are seen so many milliseconds apart, and looked at before the next is seen if
    /// their turn has come.
    fn turns(leisure: &mut Leisure, budgets: u64, apart_ms: u64, writes: bool) -> Vec<Timestamp> {
        let mut turns: Vec<Timestamp> = Vec::new();
        for n in 0..budgets {
            let now = START + Duration::from_millis(n * apart_ms);
            let turn = leisure.turn(now, None);
            leisure.plan();
            if turn < now + Duration::from_millis(apart_ms) {
                leisure.done();
                if writes {
                    leisure.begin(turn);
                }
            }
            turns.push(turn);
        }
        turns
    }

    #[test]
    fn of_a_crowd_twenty_are_shown_at_once_and_the_others_in_good_time() {
        for apart_ms in [0, 3] {
            let crowd = turns(&mut Leisure::default(), 200, apart_ms, true);
            let first = |turn: &Timestamp| turn.since(START) < Duration::from_millis(100);
            let at_once = crowd.iter().filter(|turn| first(turn)).count();
            assert!((20..=22).contains(&at_once), "{at_once}");
            let last = crowd.iter().max().unwrap();
            assert!(last.since(START) <= Duration::from_secs(3), "{last:?}");
        }
    }

    #[test]
    fn what_need_not_be_written_keeps_nobody_waiting() {
        let mut leisure = Leisure::default();
        let seen = turns(&mut leisure, 5000, 2, false);
        let at = |n: u64| START + Duration::from_millis(2 * n);
        assert!((0..).zip(&seen).all(|(n, turn)| *turn == at(n) + GATHER));
    }

    #[test]
    fn a_storm_over_others_keeps_a_quiet_budget_waiting_for_a_moment_only() {
        let leisure = Leisure { planned: 5000, ..Leisure::default() };
        let turn = |wrote_ms: u64| {
            let now = START + Duration::from_millis(wrote_ms);
            leisure.turn(now, Some(START)).since(now)
        };
        assert_eq!(turn(1000), LATE_MAX);
        assert_eq!(turn(5000), PACE);
    }

    #[test]
    fn soon_after_a_storm_a_lone_change_is_shown_at_once() {
        let mut leisure = Leisure::default();
        (0..5000).for_each(|_| leisure.begin(START));
        let later = START + Duration::from_millis(1001);
        assert_eq!(leisure.turn(later, Some(START)), later + GATHER);
    }
}
