//! Where a simulation would be kinder, or harsher, than the cluster.

use std::collections::BTreeMap;

use serde_json::Value;

use super::labels;
use super::objects::{GivenBudget, Objects};
use super::scenario::count;

/// The API server answers an eviction of a pod that two `policy/v1` budgets cover with an error, for
/// as long as both do, and asks nobody.
pub fn refuse_doubly_covered(objects: &mut Objects) {
    let builtin: Vec<&GivenBudget> =
        objects.budgets.iter().filter(|given| given.api == "policy/v1").collect();
    // By two budgets: how many pods both cover, and one of them.
    let mut doubly: BTreeMap<(usize, usize), (usize, &str)> = BTreeMap::new();
    for pod in objects.pods.iter().map(|placed| &placed.pod) {
        let mut covering =
            builtin.iter().enumerate().filter(|(_, given)| labels::cover(&given.budget, pod));
        if let (Some((first, _)), Some((second, _))) = (covering.next(), covering.next()) {
            doubly.entry((first, second)).or_insert((0, &pod.key.name)).0 += 1;
        }
    }
    let problems: Vec<_> = doubly
        .into_iter()
        .map(|((first, second), (pods, example))| {
            let name = &builtin[first].budget.key.object.name;
            let why = format!(
                "{} covered by budget {name} too, such as {example}: with two policy/v1 budgets on \
                 a pod the API server refuses every eviction of it",
                if pods == 1 { "1 pod is".to_owned() } else { format!("{pods} pods are") },
            );
            (builtin[second].place.clone(), why)
        })
        .collect();
    for (place, why) in problems {
        objects.problem(&place, "spec.selector", why);
    }
}

/// Constraints of a pod spec that the simulated scheduler does not know.
pub fn constraints(spec: &Value) -> Vec<&'static str> {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let is_required = |kind: &str| match &spec["affinity"][kind][REQUIRED] {
        Value::Array(terms) => !terms.is_empty(),
        terms => terms.is_object(),
    };
    let mut spread = spec["topologySpreadConstraints"].as_array().into_iter().flatten();
    let found = [
        (is_required("nodeAffinity"), "required node affinity"),
        (is_required("podAffinity"), "required pod affinity"),
        (is_required("podAntiAffinity"), "required pod anti-affinity"),
        // It is the default.
        (
            spread.any(|one| one["whenUnsatisfiable"] != "ScheduleAnyway"),
            "topology spread constraints",
        ),
    ];
    found.into_iter().filter_map(|(is_there, what)| is_there.then_some(what)).collect()
}

pub fn note_constraints(objects: &Objects, notes: &mut Vec<String>) {
    let mut by_kind: BTreeMap<&str, usize> = BTreeMap::new();
    for constraint in objects.pods.iter().flat_map(|placed| &placed.constraints) {
        *by_kind.entry(constraint).or_default() += 1;
    }
    if by_kind.is_empty() {
        return;
    }
    let kinds: Vec<String> = by_kind
        .into_iter()
        .map(|(what, n)| {
            format!("{} {} {what}", count(n, "pod"), if n == 1 { "has" } else { "have" })
        })
        .collect();
    notes.push(format!(
        "{}, which is not modelled: they may be placed where they could not run",
        kinds.join(", ")
    ));
}
