//! Clients that delete, evict and update pods of many groups under one `PodUnavailableBudget`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use holdfast_audit::cluster::{healthy, is_healthy};
use holdfast_audit::objects::Budget;
use holdfast_e2e::client::Client;
use holdfast_e2e::evict::{Eviction, Outcome};
use holdfast_e2e::fixture::fixture;
use holdfast_e2e::history::{Event, History};
use holdfast_e2e::observer::{Counted, Observer};
use holdfast_e2e::pod::Pod;
use holdfast_e2e::wait::{SetWhenDropped, until_within};
use holdfast_e2e::world::World;
use holdfast_sim::Random;
use serde_json::{Value, json};

use holdfast_e2e::fleet::Fleet;

const INSTANCES: usize = 2;
const CLIENTS: usize = 16;
const GROUPS: usize = 40;
const PODS: usize = 2;
const MAX_UNAVAILABLE: usize = 3;

const LABEL: &str = "group";

pub fn no_more_groups_are_down_than_allowed() {
    storm("groups", Duration::from_secs(20));
}

pub fn two_minutes_of_groups() {
    storm("long-groups", Duration::from_mins(2));
}

fn storm(name: &'static str, length: Duration) {
    let fleet = Fleet::start(name, INSTANCES);
    let gang = Gang::create(name);
    let counted = Counted { others: Vec::new(), budgets: vec![gang.guard()], counts: is_applied };
    let observer = Observer::start(&gang.world.admin, &gang.world.namespace, counted);
    let paths = [gang.world.guard_path(""), gang.world.path("api/v1", "pods", "")];
    let history = History::of(&gang.world.admin, &paths);
    let tally = Tally::default();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ends = SetWhenDropped(&stop);
        scope.spawn(|| gang.keep(&stop));
        for client in 0..CLIENTS {
            let (gang, tally, stop) = (&gang, &tally, &stop);
            scope.spawn(move || gang.disrupt(tally, client, stop));
        }
        let began = Instant::now();
        while began.elapsed() < length && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(100));
        }
        drop(ends);
    });
    let decided: Vec<usize> =
        fleet.servers.iter().map(|server| server.decisions(&gang.world.namespace).len()).collect();
    println!("{name}: {:?}\ndecided by each instance: {decided:?}", tally.lock());
    assert!(decided.iter().all(|n| *n > 0), "{decided:?}");

    let least = observer.least();
    assert!(least >= GROUPS - MAX_UNAVAILABLE, "{least} of {GROUPS} groups were available");
    let most = most_granted(&history.end());
    println!("{name}: at least {least} of {GROUPS} groups available, at most {most} granted");
    assert!((1..=MAX_UNAVAILABLE).contains(&most), "{most} groups granted at once");
    for what in ["delete", "evict", "update"] {
        assert!(tally.of(what, |code| code < 300) > 0, "nobody could {what}");
        assert!(tally.of(what, |code| code == 429) > 0, "everybody could {what}");
    }
    gang.wait_whole();
    gang.world.wait_guard("gang", "counts what is there", |status| {
        status["totalReplicas"] == GROUPS && status["desiredAvailable"] == GROUPS - MAX_UNAVAILABLE
    });
    drop(gang);
    fleet.stop();
}

/// The operations and their answers.
#[derive(Default)]
struct Tally(Mutex<BTreeMap<(&'static str, u16), usize>>);

impl Tally {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<(&'static str, u16), usize>> {
        self.0.lock().expect("not poisoned")
    }

    fn of(&self, what: &str, is: impl Fn(u16) -> bool) -> usize {
        let all = self.lock();
        all.iter().filter(|((asked, code), _)| *asked == what && is(*code)).map(|(_, n)| n).sum()
    }
}

/// Groups of pods. The test replaces pods that are gone, and writes the status of updated pods as a kubelet
/// would.
struct Gang {
    world: World,
    nodes: Vec<String>,
    /// The number of pods that have been in each place.
    generations: Mutex<BTreeMap<(usize, usize), usize>>,
}

impl Gang {
    fn create(name: &str) -> Self {
        let world = World::new(name);
        let nodes = (0..4).map(|i| world.node(&format!("n{i}"))).collect();
        let places = (0..GROUPS).flat_map(|group| (0..PODS).map(move |i| ((group, i), 0)));
        let gang = Self { world, nodes, generations: Mutex::new(places.collect()) };
        gang.wait_whole();
        gang.world.guard("gang", spec());
        gang
    }

    fn keep(&self, stop: &AtomicBool) {
        let _ends = SetWhenDropped(stop);
        while !stop.load(Ordering::Relaxed) {
            self.look_after();
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Replaces pods under new names, because kwok deletes by name and late.
    fn look_after(&self) {
        let pods = self.pods();
        let there: BTreeSet<&str> = pods.iter().filter_map(name).collect();
        let mut missing = Vec::new();
        for ((group, i), generation) in self.generations.lock().expect("not poisoned").iter_mut() {
            if !there.contains(place(*group, *i, *generation).as_str()) {
                *generation += 1;
                let node = &self.nodes[(group + i) % self.nodes.len()];
                let pod = Pod::new(place(*group, *i, *generation)).on(node);
                missing.push(pod.label(LABEL, &format!("g{group}")));
            }
        }
        let updated = pods.iter().filter(|pod| is_healthy(pod) && !is_applied(pod));
        let updated: Vec<&str> = updated.filter_map(name).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| self.world.pods_at_once(&missing));
            for part in updated.chunks(updated.len().div_ceil(4).max(1)) {
                scope.spawn(move || part.iter().for_each(|pod| self.apply(pod)));
            }
        });
    }

    /// Writes the status of the present spec, unless the pod is gone.
    fn apply(&self, pod: &str) {
        let path = self.world.path("api/v1", "pods", pod);
        let object = self.world.admin.get(&path).body;
        let image = object["spec"]["containers"][0]["image"].clone();
        let change = [
            json!({"op": "test", "path": "/metadata/uid", "value": object["metadata"]["uid"]}),
            json!({"op": "replace", "path": "/status/containerStatuses/0/image", "value": image}),
        ];
        self.world.admin.json_patch(&format!("{path}/status"), &json!(change));
    }

    /// Runs one client until `stop` is set.
    fn disrupt(&self, tally: &Tally, number: usize, stop: &AtomicBool) {
        let _ends = SetWhenDropped(stop);
        let client = Client::new(&fixture().admin_kubeconfig).expect("the kubeconfig is in use");
        let mut random = Random::new(number as u64 + 1);
        while !stop.load(Ordering::Relaxed) {
            let (group, i) = (random.below(GROUPS), random.below(PODS));
            let generation = self.generations.lock().expect("not poisoned")[&(group, i)];
            let name = place(group, i, generation);
            let path = self.world.path("api/v1", "pods", &name);
            let (what, outcome): (_, Outcome) = match random.below(3) {
                0 => ("delete", client.delete(&path).into()),
                1 => ("evict", Eviction::of(&name).send(&client, &self.world.namespace)),
                _ => {
                    let image = format!("example.com/main:{}", random.below(1_000_000));
                    let at = "/spec/containers/0/image";
                    let change = json!([{"op": "replace", "path": at, "value": image}]);
                    ("update", client.json_patch(&path, &change).into())
                }
            };
            let expected = [200, 201, 404, 409, 429].contains(&outcome.code);
            assert!(expected, "{what} {name}: {outcome:#?}");
            *tally.lock().entry((what, outcome.code)).or_default() += 1;
        }
    }

    #[track_caller]
    fn wait_whole(&self) {
        until_within(Duration::from_mins(2), "every group is available", || {
            self.look_after();
            let pods = self.pods();
            let available = healthy(pods.iter().filter(|pod| is_applied(pod)), &self.guard());
            if available == GROUPS { Ok(()) } else { Err(format!("{available} groups")) }
        });
    }

    fn pods(&self) -> Vec<Value> {
        self.world.admin.list(&self.world.path("api/v1", "pods", ""))
    }

    /// Returns the budget for the auditor.
    fn guard(&self) -> Budget {
        let metadata = json!({"name": "gang", "namespace": self.world.namespace});
        holdfast_audit::json::unavailable(&json!({"metadata": metadata, "spec": spec()}))
    }
}

fn spec() -> Value {
    json!({
        "selector": {"matchLabels": {"app": "job"}},
        "maxUnavailable": MAX_UNAVAILABLE,
        "protectTotalReplicas": GROUPS,
        "podGroupPolicy": {"groupLabelKey": LABEL, "minReadyReplicas": PODS},
    })
}

/// Returns true if the pod runs the image of its spec.
fn is_applied(pod: &Value) -> bool {
    pod["spec"]["containers"][0]["image"] == pod["status"]["containerStatuses"][0]["image"]
}

/// Returns the largest number of groups with grants at the same time, from the budget's records. Grants of
/// pods that are gone do not count. They stay for some time if their end is unknown.
fn most_granted(history: &[Event]) -> usize {
    let mut pods: BTreeMap<&str, &str> = BTreeMap::new();
    let mut most = BTreeSet::new();
    for event in history {
        let object = &event.object;
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        if let Some(group) = object["metadata"]["labels"][LABEL].as_str() {
            if event.gone {
                pods.remove(uid);
            } else {
                pods.insert(uid, group);
            }
            continue;
        }
        let granted = object["status"]["grants"].as_array().into_iter().flatten();
        let spent = granted.filter(|grant| grant["cost"] != 0);
        let groups = spent.filter_map(|grant| pods.get(grant["uid"].as_str()?).copied());
        let groups: BTreeSet<&str> = groups.collect();
        if groups.len() > most.len() {
            most = groups;
        }
    }
    most.len()
}

fn place(group: usize, i: usize, generation: usize) -> String {
    format!("g{group}-{i}-{generation}")
}

fn name(pod: &Value) -> Option<&str> {
    pod["metadata"]["name"].as_str()
}
