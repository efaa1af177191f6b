//! The rules, each a question to the engine's view of a budget.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_core::model::{BudgetKey, BudgetKind, ObjectKey, Threshold};
use holdfast_core::view::{BudgetView, PROCESSING, ReplicaState, Unit};

use super::code::{Code, Severity};
use super::finding::{Finding, Findings, Subject};
use crate::ask::{Cluster, Given, Selector, count, kind_name, threshold};

pub fn apply(cluster: &Cluster, selector: Option<&Selector>) -> Findings {
    let mut findings: Vec<Finding> = Vec::new();
    let chosen: Vec<&Given> =
        cluster.budgets().filter(|g| selector.is_none_or(|s| s.matches(&g.labels))).collect();
    for given in &chosen {
        if let Some(view) = cluster.view(&given.budget.key) {
            let subject = subject(given);
            let found = of_budget(&view).into_iter();
            findings.extend(found.map(|(code, what)| Finding::new(code, subject.clone(), what)));
        }
    }
    findings.extend(shared_pods(cluster, &chosen));
    let unreadable = cluster.unreadable.iter();
    findings.extend(
        unreadable.map(|why| Finding::new(Code::Unreadable, Subject::default(), why.clone())),
    );
    Findings::new(findings)
}

pub fn subject(given: &Given) -> Subject {
    let key = &given.budget.key;
    Subject {
        file: given.place.as_ref().map(|place| place.file.clone()),
        document: given.place.as_ref().map(|place| place.document),
        api_version: given.api_version.clone(),
        kind: kind_name(key).to_owned(),
        namespace: key.object.namespace.clone(),
        name: key.object.name.clone(),
    }
}

fn of_budget(view: &BudgetView) -> Vec<(Code, String)> {
    let mut found = Vec::new();
    if view.all_pods().next().is_none() {
        let selects_by_target = view.spec.unavailable.as_ref().is_some_and(|u| u.target.is_some());
        let why = if view.spec.selector.is_none() && !selects_by_target {
            "it has no selector, and so selects no pod"
        } else {
            "it selects no pod that is there"
        };
        return vec![(Code::SelectsNothing, why.to_owned())];
    }
    found.extend(references(view));
    found.extend(conditions(view));
    // One that is not counted in full has no numbers to judge.
    match &view.failure {
        Some(why) if why == PROCESSING => return found,
        Some(why) if found.is_empty() => {
            let is_pub = view.key.kind == BudgetKind::PodUnavailableBudget;
            let code = if is_pub { Code::NoScale } else { Code::NotComputed };
            found.push((code, why.clone()));
        }
        Some(_) => {}
        None => found.extend(room(view)),
    }
    found.extend(grouped_pods(view));
    found
}

/// Whether it leaves room for anything, and protects anything.
fn room(view: &BudgetView) -> Option<(Code, String)> {
    let (unit, threshold) = (view.unit.name(), threshold(&view.spec));
    let BudgetView { desired, expected, .. } = *view;
    let needs = format!("{threshold} of {} needs {desired}", count(expected, unit));
    if expected == 1 {
        let what = if desired > 0 { "it can never go" } else { "nothing protects it" };
        return Some((Code::OnlyOne, format!("there is only 1 {unit}: with {threshold}, {what}")));
    }
    let without = view.spec.min_available.is_none() && view.spec.max_unavailable.is_none();
    if without {
        return Some((
            Code::NeverAllows,
            "it has neither minAvailable nor maxUnavailable".to_owned(),
        ));
    }
    view.never?;
    let rounds = matches!(view.spec.min_available, Some(Threshold::Percent(p)) if p < 100);
    let code = if rounds { Code::NoRoomInPercent } else { Code::NeverAllows };
    Some((code, format!("{needs}, so that no {unit} may ever go")))
}

/// Replicas that cannot be resolved, and pods that name none.
fn references(view: &BudgetView) -> Vec<(Code, String)> {
    let mut found: BTreeMap<Code, BTreeSet<&str>> = BTreeMap::new();
    for replica in &view.replicas {
        if let ReplicaState::Unresolved(why) = &replica.state {
            let code = if replica.basic { Code::BasicGroup } else { Code::MissingReference };
            found.entry(code).or_default().insert(why);
        }
    }
    let mut found: Vec<(Code, String)> =
        found.into_iter().map(|(code, why)| (code, some(&why))).collect();
    if view.unit != Unit::Pod && !view.pods.is_empty() {
        let names: BTreeSet<&str> = view.pods.iter().map(|pod| pod.name.as_str()).collect();
        found.push((
            Code::NoReplica,
            format!("pods that name no {}: {}", view.unit.name(), some(&names)),
        ));
    }
    found
}

/// What the engine's own conditions say besides.
fn conditions(view: &BudgetView) -> Vec<(Code, String)> {
    let wrong = view.status.conditions.iter().filter_map(|condition| {
        let code = match condition.reason.as_str() {
            "NotEnforced" | "NamespaceExcluded" => Code::NotEnforced,
            "MultipleWorkloadsDetected" => Code::SeveralWorkloads,
            "ImpossibleMinReadyReplicas" => Code::NeverAllows,
            _ => return None,
        };
        Some((code, condition.message.clone()))
    });
    wrong.collect()
}

/// Counted one by one although the loss of one is the loss of several.
fn grouped_pods(view: &BudgetView) -> Option<(Code, String)> {
    if view.unit != Unit::Pod {
        return None;
    }
    let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
    for replica in view.pods.iter().filter_map(|pod| pod.replica.as_deref()) {
        *sizes.entry(replica).or_default() += 1;
    }
    let groups: BTreeSet<&str> =
        sizes.into_iter().filter(|(_, pods)| *pods > 1).map(|(replica, _)| replica).collect();
    if groups.is_empty() {
        return None;
    }
    let message =
        format!("it counts pods, and they belong to replicas of several: {}", some(&groups));
    Some((Code::CountsPodsOfReplicas, message))
}

/// One finding for each set of budgets that share pods.
fn shared_pods(cluster: &Cluster, chosen: &[&Given]) -> Vec<Finding> {
    let mut shared: BTreeMap<Vec<BudgetKey>, BTreeSet<String>> = BTreeMap::new();
    for given in chosen {
        let Some(view) = cluster.view(&given.budget.key) else { continue };
        for pod in view.all_pods().filter(|pod| pod.budgets > 1) {
            let key = ObjectKey::new(&view.key.object.namespace, &pod.name);
            let budgets = cluster.opinions(&key).0.into_iter().map(|o| o.budget).collect();
            shared.entry(budgets).or_default().insert(pod.name.clone());
        }
    }
    let finding = |(budgets, pods): (Vec<BudgetKey>, BTreeSet<String>)| {
        let given: Vec<&Given> =
            budgets.iter().filter_map(|budget| cluster.given(budget)).collect();
        let names: BTreeSet<&str> = budgets.iter().map(|b| b.object.name.as_str()).collect();
        let pods: BTreeSet<&str> = pods.iter().map(String::as_str).collect();
        let builtin = given.iter().filter(|given| given.api_version == "policy/v1").count();
        let mut message = format!("budgets {} cover the same pods: {}", some(&names), some(&pods));
        message += if builtin > 1 {
            "; with two of policy/v1 on a pod the API server refuses every eviction of it"
        } else {
            "; every one of them has to allow an eviction"
        };
        let mut finding = Finding::new(Code::SeveralBudgets, subject(given.first()?), message);
        if builtin > 1 {
            finding.severity = Severity::Error;
        }
        Some(finding)
    };
    shared.into_iter().filter_map(finding).collect()
}

/// `a, b, c and 4 more`
fn some(names: &BTreeSet<&str>) -> String {
    let shown: Vec<&str> = names.iter().copied().take(3).collect();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
