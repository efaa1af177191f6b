//! Clients that evict whatever they find, all the time.

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

/// Answers by status code, and what was evicted.
#[derive(Debug, Default)]
pub struct Tally {
    codes: Mutex<BTreeMap<u16, usize>>,
    /// Name and uid.
    evicted: Mutex<Vec<(String, String)>>,
    /// Of answers that are neither 201 nor 429, one of each code.
    examples: Mutex<BTreeMap<u16, String>>,
}

impl Tally {
    pub fn count(&self, code: u16) -> usize {
        self.codes.lock().expect("not poisoned").get(&code).copied().unwrap_or_default()
    }

    /// That there was no other answer.
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

/// Does `meanwhile` while so many clients evict and what they evict is brought back.
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

/// One client, until `stop`. Every second one names the uid, as careful clients do; kubectl does not.
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
            // Without the precondition it may have hit the successor: nothing is known of its uid.
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

/// The uid that the API server has for this pod now.
pub fn uid_of(pods: &BTreeMap<String, Value>, name: &str) -> Option<String> {
    pods.get(name)?["metadata"]["uid"].as_str().map(str::to_owned)
}
