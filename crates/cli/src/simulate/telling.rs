//! That the report says what happened, no less and no more.

use std::fmt::Write as _;
use std::time::Duration;

use super::input::Input;
use super::objects::Objects;
use super::report::{Report, Time};
use super::scenario::Settings;
use super::tests::{simulate, web};
use super::{html, report, scenario, text};

const NODES: &str = "---\n{apiVersion: v1, kind: Node, metadata: {name: n1}}\n\
                     ---\n{apiVersion: v1, kind: Node, metadata: {name: n2}}\n";

/// The owner is its API version, kind and name.
fn pod(name: &str, owner: Option<(&str, &str, &str)>, spec: &str) -> String {
    let owner = owner.map_or_else(String::new, |(api, kind, name)| {
        format!("{{apiVersion: {api}, kind: {kind}, name: {name}, controller: true}}")
    });
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, labels: {{app: a}}, \
         ownerReferences: [{owner}]}}, spec: {{{spec}}}}}\n"
    )
}

fn budget(spec: &str) -> String {
    format!(
        "---\n{{apiVersion: policy.holdfast.dev/v1, kind: PodDisruptionBudget, metadata: {{name: b}}, \
         spec: {{selector: {{matchLabels: {{app: a}}}}, {spec}}}}}\n"
    )
}

fn told(report: &Report) -> String {
    text::render(report, false)
}

/// In one line, however the page breaks them.
fn flat(report: &Report) -> String {
    told(report).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Two groups of four pods, whose Jobs are of a `JobSet` that is not there.
fn groups(policy: &str, spec: &str) -> String {
    let mut manifests = String::from(NODES) + &budget(spec);
    for group in 0..2 {
        let _ = write!(
            manifests,
            "---\n{{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {{name: g{group}}}, \
             spec: {{schedulingPolicy: {policy}}}}}\n---\n{{apiVersion: batch/v1, kind: Job, metadata: \
             {{name: j{group}, ownerReferences: [{{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, \
             name: t, controller: true}}]}}, spec: {{parallelism: 4}}}}\n"
        );
        for index in 0..4 {
            let node = index % 2 + 1;
            manifests += &pod(
                &format!("p{group}-{index}"),
                Some(("batch/v1", "Job", &format!("j{group}"))),
                &format!("nodeName: n{node}, schedulingGroup: {{podGroupName: g{group}}}"),
            );
        }
    }
    manifests
}

#[test]
fn a_controller_that_is_not_in_the_input_is_taken_to_want_its_pods() {
    for kind in ["ReplicaSet", "StatefulSet"] {
        let owner = Some(("apps/v1", kind, "w"));
        let pods: String = (0..3).map(|n| pod(&format!("w-{n}"), owner, "nodeName: n1")).collect();
        let manifests = format!("{NODES}{pods}{}", budget("maxUnavailable: 1"));
        let report = simulate(&manifests, &["n1"], false).unwrap();
        let note = format!("{kind} default/w is not in the input: taken to want its 3 pods");
        assert!(report.notes.contains(&note), "{:?}", report.notes);
        assert!(report.runs[0].outcome.is_finished());
        assert!(told(&report).contains("Budget b needs 2 of 3 pods"));
    }
}

#[test]
fn a_deployment_and_a_leaderworkerset_are_taken_to_want_what_they_have() {
    let set = "---\n{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: w, ownerReferences: [{apiVersion: \
               apps/v1, kind: Deployment, name: d, controller: true}]}, spec: {replicas: 2}}\n";
    let owner = Some(("apps/v1", "ReplicaSet", "w"));
    let pods = pod("a", owner, "nodeName: n1") + &pod("b", owner, "nodeName: n2");
    let manifests = format!("{NODES}{set}{pods}{}", budget("maxUnavailable: 1"));
    let report = simulate(&manifests, &["n1"], false).unwrap();
    assert!(
        flat(&report).contains("Deployment default/d is not in the input: taken to want its 2")
    );
    assert!(report.runs[0].outcome.is_finished());
    let group = |index: usize| {
        let labels = format!(
            "labels: {{leaderworkerset.sigs.k8s.io/name: l, leaderworkerset.sigs.k8s.io/group-index: \
             '{index}', leaderworkerset.sigs.k8s.io/group-key: k{index}, \
             leaderworkerset.sigs.k8s.io/worker-index: '0', app: a}}, annotations: \
             {{leaderworkerset.sigs.k8s.io/size: '1'}}"
        );
        pod(&format!("l-{index}"), Some(("apps/v1", "StatefulSet", "l")), "nodeName: n1")
            .replace("labels: {app: a}", &labels)
    };
    let budget = budget("maxUnavailable: 1, budgetScope: Workload");
    let manifests = format!("{NODES}{}{}{budget}", group(0), group(1));
    let report = simulate(&manifests, &["n1"], false).unwrap();
    let note = "LeaderWorkerSet default/l is not in the input: taken to want its 2 groups";
    assert!(report.notes.iter().any(|n| n == note), "{:?}", report.notes);
    assert!(report.runs[0].outcome.is_finished(), "{}", told(&report));
}

/// Without its `StatefulSet` a worker would look like one that is about to be collected, and no group like a whole one.
#[test]
fn groups_whose_statefulsets_are_not_in_the_input_are_whole() {
    let member = |group: usize, worker: usize| {
        let labels = format!(
            "labels: {{leaderworkerset.sigs.k8s.io/name: l, leaderworkerset.sigs.k8s.io/group-index: \
             '{group}', leaderworkerset.sigs.k8s.io/group-key: k{group}, app: a}}, annotations: \
             {{leaderworkerset.sigs.k8s.io/size: '2'}}"
        );
        let (name, set) = match worker {
            0 => (format!("l-{group}"), "l".to_owned()),
            _ => (format!("l-{group}-{worker}"), format!("l-{group}")),
        };
        pod(&name, Some(("apps/v1", "StatefulSet", &set)), "nodeName: n1")
            .replace("labels: {app: a}", &labels)
    };
    let pods: String =
        [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(group, worker)| member(group, worker)).concat();
    for threshold in ["maxUnavailable: 1", "minAvailable: 1"] {
        let budget = budget(&format!("{threshold}, budgetScope: Workload"));
        let report = simulate(&format!("{NODES}{pods}{budget}"), &["n1"], false).unwrap();
        assert!(report.runs[0].outcome.is_finished(), "{threshold}: {}", told(&report));
    }
}

#[test]
fn a_jobset_that_is_not_in_the_input_is_taken_to_want_its_jobs() {
    let manifests = groups("{gang: {minCount: 4}}", "maxUnavailable: 1, budgetScope: Workload");
    let report = simulate(&manifests, &["n1"], false).unwrap();
    let note = "JobSet default/t is not in the input: taken to want its 2 Jobs";
    assert!(report.notes.iter().any(|n| n == note), "{:?}", report.notes);
    assert!(report.runs[0].outcome.is_finished());
}

#[test]
fn a_number_that_is_unknown_is_not_shown_as_none() {
    let foreign = Some(("example.com/v1", "Thing", "w"));
    for owner in [None, foreign] {
        let pods = pod("a", owner, "nodeName: n1") + &pod("b", owner, "nodeName: n2");
        let manifests = format!("{NODES}{pods}{}", budget("maxUnavailable: 1"));
        let report = simulate(&manifests, &["n1"], true).unwrap();
        let run = &report.runs[0];
        assert_eq!((run.budgets[0].needed, run.budgets[0].expected), (None, None));
        assert!(told(&report).contains("how many it needs cannot be told"), "{}", told(&report));
        assert!(!html::render(&report).contains("0 of 0"));
        assert_eq!(flat(&report).contains("pods of budget b have no controller"), owner.is_none());
        assert_eq!(flat(&report).contains("controller of kind Thing wants"), owner.is_some());
    }
}

#[test]
fn pods_that_find_no_room_are_named_when_the_drain_finishes() {
    let manifests = web(4, "minAvailable: 1", &[("a", 2), ("b", 2)]);
    let report = simulate(&manifests, &["a"], false).unwrap();
    let run = &report.runs[0];
    assert!(run.outcome.is_finished() && run.pod_sets[0].stays_down);
    assert!(flat(&report).contains("2 pods fit on no node"), "{}", told(&report));
    let page = html::render(&report);
    assert!(page.contains("2 pods fit on no node") && page.contains("0:00, does not come back"));
}

/// A `LeaderWorkerSet` of two groups of two, of which one fits beside the drained node.
#[test]
fn a_replica_that_stays_down_has_no_end() {
    let node = |name: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Node, metadata: {{name: {name}}}, status: {{allocatable: {{pods: 2}}}}}}\n"
        )
    };
    let manifests = format!(
        "{{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {{name: w}}, spec: \
         {{replicas: 2, leaderWorkerTemplate: {{size: 2, workerTemplate: {{metadata: {{labels: {{app: \
         a}}}}, spec: {{containers: [{{name: c}}]}}}}}}}}}}\n{}{}{}",
        node("n1"),
        node("n2"),
        budget("minAvailable: 1, budgetScope: Workload")
    );
    let report = simulate(&manifests, &["n1"], false).unwrap();
    let lost: Vec<_> = report.runs[0].replicas.iter().filter(|lane| lane.stays_down).collect();
    assert!(!lost.is_empty(), "{}", told(&report));
    assert!(told(&report).contains(", does not come back"), "{}", told(&report));
    assert!(html::render(&report).contains(", does not come back"));
}

#[test]
fn pods_that_take_hours_to_start_are_waited_for_and_shown_in_columns() {
    let mut input = Input::default();
    input.parse("test.yaml", include_str!("../../../../examples/two-replicas.yaml"));
    let settings = Settings { startup: Duration::from_hours(20), ..Settings::DEFAULT };
    let drained = vec!["node-1".to_owned()];
    let scenario = scenario(Objects::read(input, "default"), drained, settings).unwrap();
    let report = report(&scenario, false);
    let run = &report.runs[0];
    assert!(run.replicas.iter().all(|lane| !lane.stays_down), "{}", told(&report));
    assert!(run.replicas.iter().any(|lane| lane.down_seconds > Time(settings.startup)));
    assert!(told(&report).contains("\n  20:00:30  node-1"), "{}", told(&report));
}

#[test]
fn groups_without_a_minimum_are_not_called_down() {
    let manifests = groups("{basic: {}}", "minAvailable: 1");
    let report = simulate(&manifests, &["n1"], false).unwrap();
    let lane = &report.runs[0].replicas[0];
    assert_eq!((lane.healthy_before, lane.interruptions), (None, 0));
    assert!(lane.down_seconds.0.is_zero() && !lane.stays_down);
    assert!(flat(&report).contains("Cannot be told"), "{}", told(&report));
    assert!(!html::render(&report).contains(": down,"));
    let manifests = groups("{basic: {}}", "minAvailable: 1, budgetScope: Workload");
    let run = &simulate(&manifests, &["n1"], false).unwrap().runs[0];
    assert!(run.budgets[0].needed.is_none() && run.budgets[0].below_needed_seconds.0.is_zero());
    let annotated = manifests
        .replace("{name: b}", "{name: b, annotations: {holdfast.dev/basic-group-min-count: '4'}}");
    let run = &simulate(&annotated, &["n1"], false).unwrap().runs[0];
    assert_eq!((run.replicas[0].needed, run.budgets[0].needed), (Some(4), Some(1)));
    assert!(run.outcome.is_finished() && run.budgets[0].below_needed_seconds.0.is_zero());
}

#[test]
fn budgets_and_nodes_that_nothing_comes_of_are_named() {
    let manifests = format!("{NODES}{}", budget("maxUnavailable: 0"));
    let report = simulate(&manifests, &["n1"], false).unwrap();
    assert!(report.notes.iter().any(|note| note == "budget b covers no pod of the input"));
    assert!(
        told(&report).contains("Nothing to evict on n1 when its turn came."),
        "{}",
        told(&report)
    );
    assert!(html::render(&report).contains("Nothing to evict on n1 when its turn came."));
    let elsewhere = pod("a", None, "nodeName: n1").replace("name: a,", "name: a, namespace: x,");
    let report = simulate(&(manifests + &elsewhere), &["n1"], false).unwrap();
    assert!(flat(&report).contains("pods that it selects are in x"), "{}", told(&report));
}
