//! Manifests into an engine, as if they were applied to an empty cluster.

use holdfast_api::decode::{Decoded, unavailable_budget};
use holdfast_core::Config;
use holdfast_core::model::{ControllerRef, Phase, Timestamp};

use super::code::Code;
use super::finding::{Finding, Findings, Subject};
use super::rules;
use crate::ask::{Builtins, Cluster, Given};
use crate::simulate::{self, Document, Input, Objects, Problem};

pub fn lint(mut input: Input, namespace: &str) -> Findings {
    let is_pub = |document: &Document| document.value["kind"] == "PodUnavailableBudget";
    // The simulator translates them; the engine itself needs no translation.
    let (pubs, documents) = input.documents.into_iter().partition(is_pub);
    input.documents = documents;
    let mut objects = simulate::read(input, namespace);
    let mut problems = std::mem::take(&mut objects.problems);
    let mut cluster = Cluster::new(Config::default(), Vec::new(), Timestamp(0), Builtins::Counted);
    for given in budgets(&mut objects, pubs, namespace, &mut problems) {
        cluster.add_budget(given);
    }
    for object in decoded(objects) {
        cluster.add(object);
    }
    problems.sort();
    // Each pod of a template repeats its mistakes.
    problems.dedup();
    let mut findings = rules::apply(&cluster, None).into_vec();
    findings.extend(problems.iter().map(unreadable));
    Findings::new(findings)
}

fn budgets(
    objects: &mut Objects,
    pubs: Vec<Document>,
    namespace: &str,
    problems: &mut Vec<Problem>,
) -> Vec<Given> {
    let given = std::mem::take(&mut objects.budgets).into_iter().map(|given| Given {
        budget: given.budget,
        api_version: given.api.to_owned(),
        labels: std::collections::BTreeMap::new(),
        place: Some(given.place),
    });
    let mut budgets: Vec<Given> = given.collect();
    for Document { place, mut value } in pubs {
        if value["metadata"]["namespace"].is_null() {
            value["metadata"]["namespace"] = namespace.into();
        }
        match unavailable_budget(value.to_string().as_bytes()) {
            Ok(budget) => budgets.push(Given {
                budget,
                api_version: value["apiVersion"].as_str().unwrap_or_default().to_owned(),
                labels: std::collections::BTreeMap::new(),
                place: Some(place),
            }),
            Err(error) => problems.push(Problem::new(&place, "", error.to_string())),
        }
    }
    budgets
}

/// Uids are made of names, so that references find what they mean; pods that say nothing else are well.
fn decoded(objects: Objects) -> Vec<Decoded> {
    let uid = |kind: &str, name: &str| format!("{kind}/{name}");
    let refer = |controller: &mut Option<ControllerRef>| {
        if let Some(controller) = controller {
            controller.uid = uid(&controller.group_kind.kind, &controller.name);
        }
    };
    let mut decoded = Vec::new();
    for given in objects.owners {
        let mut owner = given.owner;
        owner.uid = uid(&owner.group_kind.kind, &owner.key.name);
        refer(&mut owner.controller);
        decoded.push(Decoded::Owner(owner));
    }
    decoded.extend(objects.workloads.into_iter().map(Decoded::Workload));
    for mut group in objects.groups {
        refer(&mut group.controller);
        decoded.push(Decoded::PodGroup(group));
    }
    for placed in objects.pods {
        let mut pod = placed.pod;
        refer(&mut pod.controller);
        pod.uid = uid("Pod", &pod.key.name);
        if !placed.has_status {
            (pod.phase, pod.ready) = (Phase::Running, true);
        }
        decoded.push(Decoded::Pod(pod));
    }
    decoded
}

fn unreadable(problem: &Problem) -> Finding {
    let subject = Subject {
        file: Some(problem.place.file.clone()),
        document: Some(problem.place.document).filter(|document| *document > 0),
        ..Subject::default()
    };
    let field =
        if problem.field.is_empty() { String::new() } else { format!("{}: ", problem.field) };
    Finding::new(Code::Unreadable, subject, format!("{field}{}", problem.message))
}
