//! Clients that evict pods all the time.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::client::Client;
use crate::evict::Eviction;
use crate::fixture::fixture;
use crate::job::Job;
use crate::wait::SetWhenDropped;
use holdfast_sim::Random;
use serde_json::Value;

/// Counts answers by status code, and records the evicted pods.
#[derive(Debug, Default)]
pub struct Tally {
    codes: Mutex<BTreeMap<u16, usize>>,
    /// Name and uid of each evicted pod.
    evicted: Mutex<Vec<(String, String)>>,
    /// One answer of each code other than 201 and 429.
    examples: Mutex<BTreeMap<u16, String>>,
}

impl Tally {
    pub fn count(&self, code: u16) -> usize {
        self.codes.lock().expect("not poisoned").get(&code).copied().unwrap_or_default()
    }

    /// Checks that there were only answers with these codes.
    #[track_caller]
    pub fn assert_only(&self, codes: &[u16]) {
        let known =
            self.codes.lock().expect("not poisoned").keys().all(|code| codes.contains(code));
        assert!(known, "{self}");
    }

    pub fn evicted(&self) -> Vec<(String, String)> {
        self.evicted.lock().expect("not poisoned").clone()
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "answers {:?}", self.codes.lock().expect("not poisoned"))?;
        for (code, message) in self.examples.lock().expect("not poisoned").iter() {
            write!(f, "\n  {code}: {message}")?;
        }
        Ok(())
    }
}

/// Runs `meanwhile` while `clients` clients evict pods and the test replaces them.
pub fn under_load(job: &Job, clients: usize, meanwhile: impl FnOnce()) -> Tally {
    let (tally, stop) = (Tally::default(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let ends = SetWhenDropped(&stop);
        scope.spawn(|| job.keep_bringing_back(&stop));
        for client in 0..clients {
            let (tally, stop) = (&tally, &stop);
            scope.spawn(move || evict_all_the_time(job, tally, client, stop));
        }
        meanwhile();
        drop(ends);
    });
    tally
}

/// Runs one client until `stop` is set. Every second client sends the uid. kubectl does not.
fn evict_all_the_time(job: &Job, tally: &Tally, number: usize, stop: &AtomicBool) {
    let client = Client::new(&fixture().drainer_kubeconfig).expect("the kubeconfig is in use");
    let mut random = Random::new(number as u64 + 1);
    let path = |name: &str| job.world.path("api/v1", "pods", name);
    while !stop.load(Ordering::Relaxed) {
        let names = job.names();
        let name = &names[random.below(names.len())];
        let pod = client.get(&path(name));
        let Some(uid) = pod.body["metadata"]["uid"].as_str() else { continue };
        let eviction = Eviction::of(name);
        let eviction = if number.is_multiple_of(2) { eviction.for_uid(uid) } else { eviction };
        let outcome = eviction.send(&client, &job.world.namespace);
        *tally.codes.lock().expect("not poisoned").entry(outcome.code).or_default() += 1;
        match outcome.code {
            // Without the precondition it may have evicted the successor, so the uid is unknown.
            201 if number.is_multiple_of(2) => {
                tally.evicted.lock().expect("not poisoned").push((name.clone(), uid.to_owned()));
            }
            201 | 429 => {}
            code => {
                let mut examples = tally.examples.lock().expect("not poisoned");
                examples.entry(code).or_insert(outcome.message);
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the present uid of this pod at the API server.
pub fn uid_of(pods: &BTreeMap<String, Value>, name: &str) -> Option<String> {
    pods.get(name)?["metadata"]["uid"].as_str().map(str::to_owned)
}
