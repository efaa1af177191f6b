//! Clients that evict pods through all API servers, which may be down.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holdfast_audit::cluster::is_healthy;
use holdfast_e2e::client::Client;
use holdfast_e2e::evict::Eviction;
use holdfast_e2e::fixture::fixture;
use holdfast_sim::Random;
use http::Method;

use super::workload::Workload;

/// Clients send only one of this many evictions of unhealthy pods.
const BROKEN: usize = 20;

/// Longer than a webhook may take, shorter than the longest pause.
const LIMIT: Duration = Duration::from_secs(15);

#[derive(Debug, Default)]
pub struct Answers(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    /// By status code. None is no answer.
    codes: BTreeMap<Option<u16>, usize>,
    /// One message for each code other than 201, 404 and 429.
    examples: BTreeMap<Option<u16>, String>,
}

impl Answers {
    pub fn count(&self, code: u16) -> usize {
        self.lock().codes.get(&Some(code)).copied().unwrap_or_default()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Counted> {
        self.0.lock().expect("not poisoned")
    }
}

impl fmt::Display for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = self.lock();
        let name = |code: &Option<u16>| code.map_or("none".to_owned(), |code| code.to_string());
        let all: Vec<String> =
            counted.codes.iter().map(|(code, n)| format!("{}: {n}", name(code))).collect();
        write!(f, "answers {}", all.join(", "))?;
        for (code, message) in &counted.examples {
            write!(f, "\n  {}: {message}", name(code))?;
        }
        Ok(())
    }
}

/// Runs one client until `stop` is set. Every second client sends the uid. kubectl does not.
pub fn evict_all_the_time(
    workload: &Workload,
    number: usize,
    answers: &Answers,
    stop: &AtomicBool,
) {
    let kubeconfig = fixture().kubeconfig_of("drainer", number % fixture().apiservers());
    let client = Client::new(&kubeconfig).expect("the kubeconfig is in use");
    let mut random = Random::new(number as u64 + 1);
    let (pods, world) = (Workload::pods(), &workload.world);
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(100));
        let name = &pods[random.below(pods.len())];
        let path = world.path("api/v1", "pods", name);
        let Ok(pod) = client.attempt(Method::GET, &path, None, LIMIT) else { continue };
        let Some(uid) = pod.body["metadata"]["uid"].as_str() else { continue };
        // Otherwise clients would evict a broken group all the time, and it would never be whole again.
        if !is_healthy(&pod.body) && random.below(BROKEN) > 0 {
            continue;
        }
        let names_uid = number.is_multiple_of(2);
        let eviction = Eviction::of(name);
        let eviction = if names_uid { eviction.for_uid(uid) } else { eviction };
        let outcome = eviction.attempt(&client, &world.namespace, LIMIT);
        let mut counted = answers.lock();
        let code = outcome.as_ref().ok().map(|outcome| outcome.code);
        *counted.codes.entry(code).or_default() += 1;
        match outcome {
            Ok(outcome) if [201, 404, 429].contains(&outcome.code) => {}
            Ok(outcome) => drop(counted.examples.entry(code).or_insert(outcome.message)),
            Err(error) => drop(counted.examples.entry(code).or_insert(error)),
        }
    }
}
