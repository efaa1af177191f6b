//! Replicas under several budgets. The test replaces evicted pods, as a controller would. It uses new names,
//! because kwok deletes by name and late, and would delete a successor of the same name.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::observer::Observer;
use crate::pod::Pod;
use crate::wait::until_within;
use crate::world::{World, grants};
use holdfast_audit::cluster::is_healthy;
use serde_json::{Value, json};

const BUDGETS: &str = "apis/policy.holdfast.dev/v1";

#[derive(Debug)]
pub struct Shape {
    pub budgets: usize,
    /// The number of replicas under each budget.
    pub replicas: usize,
    pub pods: usize,
    pub min_count: usize,
    /// The threshold of each budget.
    pub min_available: usize,
}

#[derive(Debug)]
pub struct Job {
    pub world: World,
    shape: Shape,
    places: Mutex<Vec<Place>>,
}

/// The place of a pod in its replica.
#[derive(Clone, Debug)]
struct Place {
    name: String,
    group: String,
    budget: String,
    node: String,
    /// The number of earlier pods in this place.
    generation: usize,
}

impl Place {
    fn pod(&self) -> Pod {
        let name = format!("{}-{}", self.name, self.generation);
        Pod::new(name).of(&self.group).on(&self.node).label("set", &self.budget)
    }
}

impl Job {
    pub fn create(name: &str, shape: Shape) -> Self {
        let world = World::new(name);
        let nodes: Vec<String> = (0..4).map(|i| world.node(&format!("n{i}"))).collect();
        let mut places = Vec::new();
        for (budget, replica) in indices(shape.budgets, shape.replicas) {
            let group = group(budget, replica);
            world.group(&group, shape.min_count);
            for i in 0..shape.pods {
                places.push(Place {
                    name: format!("{group}-{i}"),
                    group: group.clone(),
                    budget: budget_name(budget),
                    node: nodes[i % nodes.len()].clone(),
                    generation: 0,
                });
            }
        }
        let job = Self { world, shape, places: Mutex::new(places) };
        for budget in 0..job.shape.budgets {
            let name = budget_name(budget);
            let spec = json!({
                "selector": {"matchLabels": {"set": name}},
                "minAvailable": job.shape.min_available,
                "budgetScope": "Workload",
            });
            let _ = job.world.try_budget(&name, spec).ok();
        }
        job.world.pods_at_once(&job.pods());
        job.wait_whole();
        job
    }

    /// Replaces evicted pods until `stop` is set.
    pub fn keep_bringing_back(&self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            self.bring_back();
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Returns the names of the pods that should exist.
    pub fn names(&self) -> Vec<String> {
        self.pods().iter().map(|pod| pod.name().to_owned()).collect()
    }

    fn pods(&self) -> Vec<Pod> {
        self.places.lock().expect("not poisoned").iter().map(Place::pod).collect()
    }

    /// Creates pods in the places of those that are gone.
    fn bring_back(&self) {
        let there = self.by_name();
        let mut new = Vec::new();
        for place in self.places.lock().expect("not poisoned").iter_mut() {
            if !there.contains_key(place.pod().name()) {
                place.generation += 1;
                new.push(place.pod());
            }
        }
        self.world.pods_at_once(&new);
    }

    /// Waits until every pod exists and is healthy.
    #[track_caller]
    pub fn wait_whole(&self) {
        until_within(Duration::from_mins(2), "every pod is there and Ready", || {
            self.bring_back();
            let healthy = self.by_name().values().filter(|pod| is_healthy(pod)).count();
            if healthy == self.names().len() { Ok(()) } else { Err(format!("{healthy} pods")) }
        });
    }

    /// Observes the replicas of every budget. The budget with the fewest counts.
    pub fn observe(&self) -> Observer {
        let budgets = self.budgets();
        self.world.observe_budgets(budgets.iter().map(holdfast_audit::json::budget).collect())
    }

    /// Checks that no budget was ever below its threshold. Returns the lowest number of any budget.
    #[track_caller]
    pub fn assert_never_below(&self, observer: &Observer) -> usize {
        let (least, needed) = (observer.least(), self.shape.min_available);
        assert!(least >= needed, "a budget had {least} healthy replicas and needs {needed}");
        least
    }

    /// Returns all grants that the budgets record now, by pod.
    pub fn grants(&self) -> Vec<String> {
        let budgets = self.budgets();
        let all = budgets.iter().flat_map(|budget| grants(&budget["status"]));
        all.map(|(pod, _)| pod).collect()
    }

    /// Waits until every status agrees with the pods, and only grants of pods that are gone are left.
    /// Holdfast cannot know that those evictions have ended, so these grants stay until they expire. Call it
    /// when nothing changes any more.
    #[track_caller]
    pub fn wait_status_is_true(&self, limit: Duration) {
        let count = |n: usize| i64::try_from(n).expect("few");
        let Shape { replicas, pods, min_available, .. } = self.shape;
        until_within(limit, "every status is what the pods show", || {
            for budget in self.budgets() {
                let status = &budget["status"];
                let expected = json!({
                    "currentHealthyReplicas": count(replicas),
                    "desiredHealthyReplicas": count(min_available),
                    "expectedReplicas": count(replicas),
                    "disruptionsAllowedReplicas": count(replicas - min_available),
                    "currentHealthy": count(replicas * pods),
                    "expectedPods": count(replicas * pods),
                    "observedGeneration": budget["metadata"]["generation"],
                });
                let expected = expected.as_object().expect("an object");
                let wrong: Vec<&String> = expected
                    .iter()
                    .filter(|(k, v)| status[k.as_str()] != **v)
                    .map(|(k, _)| k)
                    .collect();
                let there = self.by_name();
                let held = grants(status).iter().any(|(pod, _)| there.contains_key(pod));
                if !wrong.is_empty() || held {
                    return Err(format!("{wrong:?} in {status:#}"));
                }
            }
            Ok(())
        });
    }

    /// Waits until the budgets of earlier tests are gone. Their namespaces take some time to terminate.
    #[track_caller]
    pub fn wait_alone(&self) {
        until_within(Duration::from_mins(1), "the budgets of earlier tests are gone", || {
            let all = self.world.admin.list(&format!("/{BUDGETS}/poddisruptionbudgets")).len();
            if all == self.shape.budgets { Ok(()) } else { Err(format!("{all} budgets")) }
        });
    }

    /// Returns the resourceVersion of each budget, which changes with every write.
    pub fn versions(&self) -> Vec<String> {
        let version = |budget: &Value| budget["metadata"]["resourceVersion"].to_string();
        self.budgets().iter().map(version).collect()
    }

    pub fn by_name(&self) -> BTreeMap<String, Value> {
        let pods = self.world.admin.list(&self.world.path("api/v1", "pods", ""));
        let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        pods.into_iter().map(|pod| (name(&pod), pod)).collect()
    }

    pub fn budgets_path(&self) -> String {
        self.world.path(BUDGETS, "poddisruptionbudgets", "")
    }

    fn budgets(&self) -> Vec<Value> {
        self.world.admin.list(&self.budgets_path())
    }
}

impl Drop for Job {
    /// Deletes the budgets at once. Otherwise Holdfast would write them until the namespace is gone.
    fn drop(&mut self) {
        self.world.admin.delete(&self.budgets_path());
    }
}

fn indices(budgets: usize, replicas: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..budgets).flat_map(move |budget| (0..replicas).map(move |replica| (budget, replica)))
}

fn budget_name(budget: usize) -> String {
    format!("b{budget}")
}

fn group(budget: usize, replica: usize) -> String {
    format!("b{budget}r{replica}")
}
