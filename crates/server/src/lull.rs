//! While a lot changes and nobody waits for us, more is taken in at a time.
//!
//! A storm of changes comes one by one, a millisecond apart. Whoever wakes up for each finds the processor's caches full of
//! what other programs did meanwhile, and spends time on filling them again. So the thread stays asleep for a
//! moment, as network cards hold back interrupts, and then takes in all that has come:
//!
//! ```text
//!   changes     | || | || |  | ||
//!   one by one  ^ ^^ ^ ^^ ^  ^ ^^     each a wake-up
//!   in a lull   ^      ^      ^       each a few of them
//! ```
//!
//! A change that comes alone is taken in at once, and so is everything as long as requests come in.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum::middleware::map_request;

/// A watch is not noticeably late by it, and a status that nobody waits for is not either.
const LULL: Duration = Duration::from_millis(10);

/// So many within [`WINDOW`] are a storm. A change that comes alone brings three: itself, the answer to the write that shows
/// it, and the event of that write.
const MANY: usize = 6;
const WINDOW: Duration = Duration::from_millis(50);

/// Who asked so recently may be about to ask again.
const ATTENTIVE: Duration = Duration::from_secs(1);

/// Shared by those who hear of changes, those who are asked, and the thread that does the work.
#[derive(Clone, Debug, Default)]
pub struct Lull(Arc<Mutex<Traffic>>);

#[derive(Debug, Default)]
struct Traffic {
    /// Until then all is taken in as soon as it can be: we are waited for.
    is_ready: bool,
    asked: Option<Instant>,
    window: Option<Instant>,
    /// Within the window.
    changes: usize,
    /// There were many in the one before.
    storm: bool,
}

impl Lull {
    /// So many changes, or answers to what we have sent, have come.
    pub(crate) fn changed(&self, count: usize) {
        self.with(|traffic| traffic.changes += count);
    }

    /// Everything has been listed, and requests may come.
    pub(crate) fn ready(&self) {
        self.with(|traffic| traffic.is_ready = true);
    }

    /// Whoever sends a request waits for its answer.
    pub(crate) fn around(&self, router: Router) -> Router {
        let lull = self.clone();
        router.layer(map_request(move |request: Request| {
            lull.with(|traffic| traffic.asked = Some(Instant::now()));
            std::future::ready(request)
        }))
    }

    /// To be called by the thread that does all the work, before it waits for something to do. In a storm it sleeps here
    /// for a while.
    pub fn rest(&self) {
        let now = Instant::now();
        if self.with(|traffic| traffic.is_storm(now)) {
            std::thread::sleep(LULL);
        }
    }

    fn with<T>(&self, f: impl FnOnce(&mut Traffic) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Traffic {
    /// Many changes, and nobody who waits.
    fn is_storm(&mut self, now: Instant) -> bool {
        let since = |then: Option<Instant>| then.map(|then| now.saturating_duration_since(then));
        if since(self.window).is_none_or(|age| age >= WINDOW) {
            // One that is long over says nothing of now.
            let recent = since(self.window).is_some_and(|age| age < 2 * WINDOW);
            self.storm = recent && self.changes >= MANY;
            self.window = Some(now);
            self.changes = 0;
        }
        let attentive = since(self.asked).is_some_and(|ago| ago < ATTENTIVE);
        self.is_ready && !attentive && (self.storm || self.changes >= MANY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api_client::ApiClient;

    fn at(ms: u64) -> Instant {
        use std::sync::OnceLock;
        static START: OnceLock<Instant> = OnceLock::new();
        *START.get_or_init(Instant::now) + Duration::from_millis(ms)
    }

    fn ready() -> Traffic {
        Traffic { is_ready: true, ..Traffic::default() }
    }

    /// Whether it is a storm at each of these times, one change having come before each.
    fn storms(traffic: &mut Traffic, times: impl IntoIterator<Item = u64>) -> Vec<bool> {
        let look = |ms| {
            traffic.changes += 1;
            traffic.is_storm(at(ms))
        };
        times.into_iter().map(look).collect()
    }

    #[test]
    fn a_change_that_comes_alone_is_taken_in_at_once() {
        // It, an answer and its event; again and again.
        let times = (0..100).flat_map(|n| [0, 4, 8].map(|ms| n * 200 + ms));
        assert!(!storms(&mut ready(), times).contains(&true));
    }

    #[test]
    fn in_a_storm_they_are_taken_in_together_until_it_is_over() {
        let mut traffic = ready();
        let seen = storms(&mut traffic, 0..500);
        assert!(seen[..MANY].iter().all(|storm| !storm));
        assert!(seen[MANY..].iter().all(|storm| *storm));
        // Taken in together, they are as many as before.
        for n in 0..20 {
            traffic.changes += 5;
            assert!(traffic.is_storm(at(500 + n * 5)), "after {} ms", n * 5);
        }
        assert!(!traffic.is_storm(at(1000)));
    }

    #[test]
    fn whoever_waits_for_an_answer_does_not_wait_for_this() {
        let mut traffic = Traffic { asked: Some(at(100)), ..ready() };
        let seen = storms(&mut traffic, 100..1500);
        assert!(!seen[..1000].contains(&true));
        assert!(seen[1000..].iter().all(|storm| *storm));
    }

    #[test]
    fn the_first_lists_are_taken_in_as_they_come() {
        assert!(!storms(&mut Traffic::default(), 0..500).contains(&true));
    }

    #[tokio::test]
    async fn requests_are_noticed_whatever_they_are_for() {
        let lull = Lull::default();
        let router = lull.around(Router::new());
        assert!(lull.with(|traffic| traffic.asked.is_none()));
        let client = ApiClient::new(kube::Client::new(router, "default"));
        client.get("/anything").await.unwrap();
        assert!(lull.with(|traffic| traffic.asked.is_some()));
    }
}
