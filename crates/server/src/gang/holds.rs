//! What is being done to which object, and what has to wait before it is tried again.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_core::gang::Action;
use holdfast_core::model::ObjectKey;
use tokio::time::Instant;

/// For the watch to show what was done.
const SHOWN: Duration = Duration::from_millis(100);

/// After the first failure; after each further one twice as long.
const RETRY: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// From then on failures of the past do not count.
const FORGOTTEN: Duration = Duration::from_mins(2);

#[derive(Debug, Default)]
pub struct Holds {
    objects: BTreeMap<(&'static str, ObjectKey), Hold>,
    under_way: usize,
    evictions: usize,
}

#[derive(Debug)]
struct Hold {
    /// None: it is under way.
    until: Option<Instant>,
    failures: u32,
}

impl Holds {
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    pub fn evictions(&self) -> usize {
        self.evictions
    }

    /// False: not now.
    pub fn begin(&mut self, action: &Action) -> bool {
        let (kind, key) = action.object();
        let hold = self.objects.entry((kind, key.clone()));
        let hold = hold.or_insert_with(|| Hold { until: Some(Instant::now()), failures: 0 });
        if hold.until.is_none_or(|until| until > Instant::now()) {
            return false;
        }
        hold.until = None;
        self.under_way += 1;
        self.evictions += usize::from(matches!(action, Action::Evict { .. }));
        true
    }

    pub fn ended(&mut self, action: &Action, is_done: bool) {
        self.under_way -= 1;
        self.evictions -= usize::from(matches!(action, Action::Evict { .. }));
        let (kind, key) = action.object();
        let Some(hold) = self.objects.get_mut(&(kind, key.clone())) else { return };
        let pause = if is_done {
            hold.failures = 0;
            SHOWN
        } else {
            hold.failures += 1;
            RETRY.saturating_mul(1 << (hold.failures - 1).min(16)).min(RETRY_MAX)
        };
        hold.until = Some(Instant::now() + pause);
    }

    /// When the next one may be tried again. Forgets what is long past.
    pub fn next(&mut self, now: Instant) -> Option<Instant> {
        self.objects.retain(|_, hold| {
            let keep = if hold.failures == 0 { Duration::ZERO } else { FORGOTTEN };
            hold.until.is_none_or(|until| until + keep > now)
        });
        self.objects.values().filter_map(|hold| hold.until).filter(|until| *until > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lift(name: &str) -> Action {
        Action::Lift { pod: ObjectKey::new("n", name), uid: "u".to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_is_not_touched_twice_at_a_time() {
        let mut holds = Holds::default();
        assert!(holds.begin(&lift("a")));
        assert!(!holds.begin(&lift("a")));
        assert!(holds.begin(&lift("b")));
        assert_eq!(holds.under_way(), 2);
        holds.ended(&lift("a"), true);
        assert!(!holds.begin(&lift("a")), "the watch has not shown it");
        let shown = holds.next(Instant::now()).unwrap();
        tokio::time::sleep_until(shown).await;
        assert!(holds.begin(&lift("a")));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_make_it_wait_longer_each_time() {
        let mut holds = Holds::default();
        let mut pauses = Vec::new();
        for _ in 0..10 {
            assert!(holds.begin(&lift("a")));
            holds.ended(&lift("a"), false);
            let now = Instant::now();
            let until = holds.next(now).unwrap();
            pauses.push((until - now).as_millis());
            tokio::time::sleep_until(until).await;
        }
        assert_eq!(pauses[..3], [200, 400, 800]);
        assert_eq!(pauses[9], 30_000);
        tokio::time::sleep(FORGOTTEN).await;
        assert_eq!(holds.next(Instant::now()), None);
        assert!(holds.objects.is_empty());
    }
}
