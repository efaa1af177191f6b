//! Races that the ledger is built against, and races that seeds of the simulator found, each as short
//! as it can be told.

mod found;
mod fourth_review;
mod fresh;
mod hostile;
mod hostile_owners;
mod known;
mod old_scales;
mod second_review;
mod third_review;

use std::time::Duration;

use holdfast_core::Config;
use holdfast_core::model::Grant;
use holdfast_core::verdict::{AllowReason, Verdict};
use holdfast_sim::{World, budget, group, pod};

/// So many instances, replicas `a`, `b` and `c` of two pods each, and a budget that may lose one.
fn cluster(instances: usize) -> World {
    let mut world = World::with_instances(Config::default(), instances);
    for name in ["a", "b", "c"] {
        world.apply_pod_group(group(name).gang(2));
        for member in ["0", "1"] {
            world.apply_pod(pod(&format!("{name}-{member}")).group(name).ready());
        }
    }
    world.apply_budget(budget("one").per_replica().min_available(2));
    world.sync();
    for index in 1..instances {
        world.instance(index).lead(false);
    }
    world.advance(Duration::from_secs(2));
    world
}

/// Lets the pod watch pass the version of everything that happened so far.
fn show_pods(world: &mut World) {
    world.edit_pod("c-1", |pod| pod.generation += 1);
}

/// As in native mode: the API server deletes whatever pod has the name. The eviction is not executed yet.
fn evict_by_name(world: &mut World, pod: &str) -> Verdict {
    let mut eviction = world.eviction(pod);
    eviction.by_name = true;
    world.decide(eviction)
}

fn grants<'a>(world: &'a World, budget: &str) -> &'a [Grant] {
    &world.budget(budget).expect("it exists").status.grants
}

fn reason(verdict: &Verdict) -> AllowReason {
    match verdict {
        Verdict::Allow(allowed) => allowed.reason,
        Verdict::Deny(denial) => panic!("denied: {}", denial.message),
    }
}
