//! `LeaderWorkerSet`s under overlapping budgets.

use std::time::{Duration, Instant};

use holdfast_audit::cluster::{ClusterAudit, every_replica, healthy_in, read};
use holdfast_e2e::world::{WORLD, World};
use serde_json::{Value, json};

use super::etcd::{Change, Etcd};

const NODES: usize = 4;
/// The number of groups of each set.
pub const GROUPS: usize = 8;
/// The number of pods of each group.
const PODS: usize = 3;

const SETS: [&str; 2] = ["a", "b"];
const SET_API: &str = "apis/leaderworkerset.x-k8s.io/v1";

/// For a busy machine whose API servers have just restarted.
const PATIENCE: Duration = Duration::from_mins(3);

#[derive(Debug)]
pub struct Workload {
    pub world: World,
}

impl Workload {
    /// Creates the sets and budgets. Waits until all groups are Ready and every status shows this.
    pub fn create(etcd: &Etcd) -> Self {
        let world = World::new("nemesis");
        (0..NODES).for_each(|i| drop(world.node(&format!("n{i}"))));
        for set in SETS {
            let path = world.path(SET_API, "leaderworkersets", "");
            let _ = world.admin.post(&path, &manifest(&world, set)).ok();
        }
        let workload = Self { world };
        workload.wait_whole(etcd).unwrap_or_else(|error| panic!("{error}"));
        for (name, selector, threshold) in budgets() {
            let mut spec =
                json!({"selector": {"matchLabels": selector}, "budgetScope": "Workload"});
            spec[threshold.0] = json!(threshold.1);
            workload.world.budget(name, spec);
        }
        workload.wait_status_is_true(etcd).unwrap_or_else(|error| panic!("{error}"));
        workload
    }

    /// Returns the names of all pods when every group is whole.
    pub fn pods() -> Vec<String> {
        let groups = SETS.iter().flat_map(|set| (0..GROUPS).map(move |i| format!("{set}-{i}")));
        let workers = |leader: String| {
            let workers: Vec<String> = (1..PODS).map(|i| format!("{leader}-{i}")).collect();
            [leader].into_iter().chain(workers)
        };
        groups.flat_map(workers).collect()
    }

    /// Returns the prefixes in etcd of all objects that decide about the health of groups and the desired
    /// number.
    pub fn prefixes(&self) -> Vec<String> {
        let namespace = &self.world.namespace;
        KINDS.iter().map(|(at, ..)| format!("/registry/{at}/{namespace}/")).collect()
    }

    /// Returns the present state in etcd.
    pub fn state(&self, etcd: &Etcd) -> Result<ClusterAudit, String> {
        let revision = etcd.revision().ok_or("etcd does not answer")?;
        let stored = etcd.list(&self.prefixes(), revision)?;
        let read = |change: &Change| read(change.object.as_ref()?, change.revision);
        let objects = stored.iter().filter_map(read);
        Ok(ClusterAudit::new(Duration::ZERO, objects))
    }

    pub fn wait_whole(&self, etcd: &Etcd) -> Result<(), String> {
        wait(PATIENCE, "every group is whole", || {
            let healthy =
                healthy_in(self.state(etcd)?.state(), &every_replica(&self.world.namespace));
            if healthy == SETS.len() * GROUPS { Ok(()) } else { Err(format!("{healthy} groups")) }
        })
    }

    /// Waits until every status has the numbers of a recount.
    pub fn wait_status_is_true(&self, etcd: &Etcd) -> Result<(), String> {
        wait(PATIENCE, "every status equals a recount", || {
            let wrong = self.state(etcd)?.wrong_statuses();
            if wrong.is_empty() { Ok(()) } else { Err(format!("{wrong:#?}")) }
        })
    }

    /// Waits until no grant is recorded. Returns how long that took.
    pub fn wait_no_grants(&self, etcd: &Etcd, limit: Duration) -> Result<Duration, String> {
        let began = Instant::now();
        wait(limit, "no grant is left", || {
            let left = self.state(etcd)?.grants();
            if left.is_empty() { Ok(()) } else { Err(format!("{left:#?}")) }
        })?;
        Ok(began.elapsed())
    }

    /// Writes an object of every kind at the end. Returns the revision of each write, in the order of
    /// [`Self::prefixes`].
    pub fn mark_end(&self) -> Vec<u64> {
        let mark = json!({"metadata": {"annotations": {"e2e.holdfast.dev/end": "true"}}});
        let admin = &self.world.admin;
        let write = |api: &str, plural: &str| {
            let path = if plural == "poddisruptionbudgets" {
                self.world.budget_path("")
            } else {
                self.world.path(api, plural, "")
            };
            let first = admin.list(&path).swap_remove(0);
            let name = first["metadata"]["name"].as_str().unwrap_or_default();
            let written = admin.patch(&format!("{path}/{name}"), &mark).ok().body;
            let version = written["metadata"]["resourceVersion"].as_str();
            version.and_then(|v| v.parse().ok()).expect("what is written has a version")
        };
        KINDS.iter().map(|(_, api, plural)| write(api, plural)).collect()
    }
}

impl Drop for Workload {
    /// Deletes the budgets at once. Otherwise Holdfast would write them until the namespace is gone.
    fn drop(&mut self) {
        let limit = Duration::from_secs(20);
        let sets = self.world.path(SET_API, "leaderworkersets", "");
        for path in [self.world.budget_path(""), sets] {
            if let Err(error) = self.world.admin.attempt(http::Method::DELETE, &path, None, limit) {
                eprintln!("delete {path}: {error}");
            }
        }
    }
}

/// Repeats until it succeeds. After a failure it returns the last state, because the history must still be
/// audited.
fn wait(
    limit: Duration,
    what: &str,
    mut holds: impl FnMut() -> Result<(), String>,
) -> Result<(), String> {
    let began = Instant::now();
    while let Err(seen) = holds() {
        if began.elapsed() > limit {
            return Err(format!("waited {} s for: {what}\nlast seen: {seen}", limit.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// The prefix in etcd of each kind, and its API.
const KINDS: [(&str, &str, &str); 4] = [
    ("pods", "api/v1", "pods"),
    ("statefulsets", "apis/apps/v1", "statefulsets"),
    ("leaderworkerset.x-k8s.io/leaderworkersets", SET_API, "leaderworkersets"),
    ("policy.holdfast.dev/poddisruptionbudgets", "", "poddisruptionbudgets"),
];

/// Returns name, labels of the pods, and threshold. Two budgets cover every pod.
fn budgets() -> [(&'static str, Value, (&'static str, usize)); 3] {
    [
        ("a", json!({"set": "a"}), ("maxUnavailable", 2)),
        ("b", json!({"set": "b"}), ("minAvailable", GROUPS - 1)),
        ("both", json!({"app": "nemesis"}), ("maxUnavailable", 2)),
    ]
}

fn manifest(world: &World, name: &str) -> Value {
    json!({
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name},
        "spec": {"replicas": GROUPS, "leaderWorkerTemplate": {
            "size": PODS,
            "workerTemplate": {
                "metadata": {
                    "labels": {"app": "nemesis", "set": name},
                    // kwok must not delete them, because it deletes by name and may delete a successor: see
                    // `kubelet`.
                    "annotations": {"localkube/lingers": "10h"},
                },
                "spec": {
                    "nodeSelector": {WORLD: world.namespace},
                    "containers": [{"name": "main", "image": "example.com/main"}],
                },
            },
        }},
    })
}
