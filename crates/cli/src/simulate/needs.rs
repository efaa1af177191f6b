//! What budgets need before the drain, as far as that can be told.

use holdfast_core::model::Scope;
use holdfast_sim::World;

use super::labels;
use super::objects::GivenBudget;
use super::scenario::Scenario;

/// How many pods a budget covers, and what it wants: how many units of how many, if that can be told.
pub type Needs = Vec<(usize, Option<(i64, i64)>)>;

pub fn of(scenario: &Scenario, world: &World) -> Needs {
    let of = |given: &GivenBudget| {
        let status = world.engine().status(&given.budget.key).unwrap_or_default();
        let (needed, expected) = match given.budget.spec.scope {
            Scope::Pod => (status.desired_healthy, status.expected_pods),
            Scope::Workload => (status.desired_healthy_replicas, status.expected_replicas),
        };
        let failed = status.conditions.iter().any(|condition| {
            ["SyncFailed", "WorkloadResolutionFailed"].contains(&condition.reason.as_str())
        });
        let pods = world.pods().filter(|pod| labels::cover(&given.budget, pod)).count();
        // Pods without a controller: of how many they are is nowhere written.
        let unknown = failed || (expected == 0 && pods > 0);
        let told = !(unknown && given.budget.spec.needs_total());
        (pods, told.then_some((needed, expected)))
    };
    scenario.objects.budgets.iter().map(of).collect()
}
