//! The command from manifests to what it prints.

use super::input::Input;
use super::objects::Objects;
use super::report::{Outcome, Report};
use super::scenario::Settings;
use super::{html, report, scenario, text};

const TWO_REPLICAS: &str = include_str!("../../../../examples/two-replicas.yaml");
const LLM_SERVING: &str = include_str!("../../../../examples/llm-serving.yaml");

pub fn simulate(manifests: &str, drained: &[&str], compare: bool) -> anyhow::Result<Report> {
    let mut input = Input::default();
    input.parse("test.yaml", manifests);
    let drained = drained.iter().map(|node| (*node).to_owned()).collect();
    let scenario = scenario(Objects::read(input, "default"), drained, Settings::DEFAULT)?;
    Ok(report(&scenario, compare))
}

pub fn error(manifests: &str, drained: &[&str]) -> String {
    simulate(manifests, drained, false).expect_err("there are mistakes").to_string()
}

/// A Deployment of so many pods under a budget, on nodes of so much room.
pub fn web(replicas: usize, budget: &str, nodes: &[(&str, usize)]) -> String {
    let nodes: Vec<String> = nodes
        .iter()
        .map(|(name, room)| {
            format!(
                "---\n{{apiVersion: v1, kind: Node, metadata: {{name: {name}}}, \
                 status: {{allocatable: {{pods: {room}}}}}}}\n"
            )
        })
        .collect();
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  replicas: {replicas}\n  \
         template:\n    metadata: {{labels: {{app: web}}}}\n    spec: {{containers: [{{name: web}}]}}\n---\n\
         apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: web}}\nspec:\n  {budget}\n  \
         selector: {{matchLabels: {{app: web}}}}\n{}",
        nodes.concat()
    )
}

#[test]
fn a_drain_as_text() {
    let report = simulate(LLM_SERVING, &["node-1", "node-2"], false).unwrap();
    insta::assert_snapshot!(text::render(&report, false));
}

#[test]
fn a_drain_as_json() {
    let report = simulate(TWO_REPLICAS, &["node-1"], true).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&report).unwrap());
}

#[test]
fn a_drain_as_a_page() {
    let report = simulate(TWO_REPLICAS, &["node-1"], true).unwrap();
    insta::assert_snapshot!(html::render(&report));
}

#[test]
fn the_page_refers_to_nothing_outside_and_has_no_script() {
    let page = html::render(&simulate(LLM_SERVING, &["node-1"], true).unwrap());
    for outside in ["http:", "https:", "<script", "<link", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn a_name_with_markup_stays_text() {
    // As from a live cluster: in a manifest it would be a mistake.
    let mut report = simulate(TWO_REPLICAS, &["node-1"], false).unwrap();
    report.runs[0].budgets[0].name = "<b>&\"".to_owned();
    let page = html::render(&report);
    assert!(page.contains("&lt;b&gt;&amp;&quot;") && !page.contains("<b>&"));
}

#[test]
fn all_mistakes_are_reported_with_file_document_and_field() {
    insta::assert_snapshot!(error(include_str!("testdata/mistakes.yaml"), &["node-1"]));
}

#[test]
fn an_unknown_node_is_an_error_that_names_some_that_are_known() {
    insta::assert_snapshot!(error(TWO_REPLICAS, &["node-9"]), @"there is no node node-9; there are node-1, node-2");
}

#[test]
fn a_budget_that_never_allows_blocks_for_ever_and_says_what_would_help() {
    let manifests = web(3, "minAvailable: 3", &[("a", 10), ("b", 10)]);
    let report = simulate(&manifests, &["a"], false).unwrap();
    assert!(matches!(report.runs[0].outcome, Outcome::Blocked { .. }));
    insta::assert_snapshot!(text::render(&report, false));
}

#[test]
fn a_drain_without_room_for_what_it_moves_blocks_and_says_so() {
    let manifests = web(4, "maxUnavailable: 1", &[("a", 2), ("b", 2)]);
    let report = simulate(&manifests, &["a"], false).unwrap();
    let run = &report.runs[0];
    assert!(matches!(run.outcome, Outcome::Blocked { .. }));
    assert_eq!(run.unplaced_pods.len(), 1);
    assert!(text::render(&report, false).contains("1 pod fits on no node"));
}

#[test]
fn percentages_stay_when_counted_in_pods_and_numbers_become_pods() {
    let report = simulate(LLM_SERVING, &["node-1"], true).unwrap();
    let denials = |run: usize| text::denials(&report.runs[run])[0].1.to_owned();
    assert!(denials(0).contains("needs 9 healthy replicas"), "{}", denials(0));
    assert!(denials(1).contains("needs 72 healthy pods"), "{}", denials(1));
    let percent = LLM_SERVING.replace("minAvailable: 9", "minAvailable: 90%");
    let report = simulate(&percent, &["node-1"], true).unwrap();
    let denied = text::denials(&report.runs[1])[0].1.to_owned();
    assert!(denied.contains("needs 72 healthy pods"), "{denied}");
}

#[test]
fn nodes_may_be_drained_at_the_same_time() {
    let manifests = web(20, "maxUnavailable: 10", &[("a", 20), ("b", 20), ("c", 20)]);
    let mut input = Input::default();
    input.parse("test.yaml", &manifests);
    let settings = Settings { parallel: true, ..Settings::DEFAULT };
    let drained = vec!["a".to_owned(), "b".to_owned()];
    let scenario = scenario(Objects::read(input, "default"), drained, settings).unwrap();
    let run = &report(&scenario, false).runs[0];
    assert_eq!(run.timeline[0].nodes, ["a", "b"]);
    assert_eq!(run.timeline[0].granted.len(), 10);
    assert!(run.outcome.is_finished());
}

#[test]
fn kruise_budgets_are_counted_or_reported() {
    let budget = |policy: &str| {
        format!(
            "{}\n---\napiVersion: policy.kruise.io/v1alpha1\nkind: PodUnavailableBudget\nmetadata: \
             {{name: llm-pub}}\nspec:\n  maxUnavailable: 1\n  targetRef: {{apiVersion: \
             leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, name: llm}}\n{policy}",
            LLM_SERVING.replace("PodDisruptionBudget", "Irrelevant")
        )
    };
    let label = "leaderworkerset.sigs.k8s.io/group-index";
    let policy = |key: &str, min: usize| {
        format!("  podGroupPolicy: {{groupLabelKey: {key}, minReadyReplicas: {min}}}\n")
    };
    let counts = |manifests: &str| {
        let report = simulate(manifests, &["node-1"], false).unwrap();
        let budget =
            report.runs[0].budgets.first().map(|budget| (budget.counts, budget.needed.unwrap()));
        (budget, report.notes.iter().any(|note| note.contains("not simulated yet")))
    };
    assert_eq!(counts(&budget("")), (Some(("Pods", 79)), false));
    assert_eq!(counts(&budget(&policy(label, 8))), (Some(("Replicas", 9)), false));
    assert_eq!(counts(&budget(&policy(label, 4))), (None, true));
    assert_eq!(counts(&budget(&policy("shard", 8))), (None, true));
}

#[test]
fn a_list_of_a_live_cluster_is_taken_as_it_is() {
    let list = r#"{"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "x", "uid": "1",
            "labels": {"app": "a"}}, "spec": {"nodeName": "n1"},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "log", "namespace": "x",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "log",
            "controller": true}]}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}},
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "a",
            "namespace": "x"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
            "status": {"disruptionsAllowed": 5}}]}"#;
    let report = simulate(list, &["n1"], false).unwrap();
    let run = &report.runs[0];
    // Not ready, and too few are: upstream's rule for unhealthy pods denies, and so do we.
    assert!(!run.outcome.is_finished());
    assert_eq!(run.evictions.len(), 1, "the DaemonSet's pod is left alone");
    assert!(report.notes.iter().any(|note| note.contains("named elsewhere")), "{:?}", report.notes);
}

#[test]
fn every_kind_of_workload_gets_its_pods_and_brings_them_back() {
    let template = "template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c}]}}";
    let job = format!("{{parallelism: 3, {template}}}");
    let jobs = format!("[{{name: r, replicas: 2, template: {{spec: {job}}}}}]");
    let worker = template.replacen("template", "workerTemplate", 1);
    let of = |kind: &str, spec: String| (kind.to_owned(), spec);
    let kinds = [
        (of("apps/v1, kind: Deployment", format!("{{replicas: 3, {template}}}")), 3, "w-"),
        (of("apps/v1, kind: ReplicaSet", format!("{{replicas: 3, {template}}}")), 3, "w-"),
        (of("v1, kind: ReplicationController", format!("{{{template}}}")), 1, "w-"),
        (of("apps/v1, kind: StatefulSet", format!("{{replicas: 3, {template}}}")), 3, "w-0"),
        (of("batch/v1, kind: Job", job), 3, "w-0-"),
        (
            of("jobset.x-k8s.io/v1alpha2, kind: JobSet", format!("{{replicatedJobs: {jobs}}}")),
            6,
            "w-r-0-0-",
        ),
        (
            of(
                "leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet",
                format!("{{replicas: 2, leaderWorkerTemplate: {{size: 3, {worker}}}}}"),
            ),
            6,
            "w-0",
        ),
    ];
    for ((kind, spec), pods, prefix) in kinds {
        let manifests = format!(
            "{{apiVersion: {kind}, metadata: {{name: w}}, spec: {spec}}}\n---\n\
             {{apiVersion: v1, kind: Node, metadata: {{name: n1}}, status: {{allocatable: {{pods: 9}}}}}}\n---\n\
             {{apiVersion: v1, kind: Node, metadata: {{name: n2}}, spec: {{unschedulable: true}}}}\n---\n\
             {{apiVersion: v1, kind: Node, metadata: {{name: n3}}, status: {{allocatable: {{pods: 9}}}}}}\n"
        );
        let run = &simulate(&manifests, &["n1"], false).unwrap().runs[0];
        let lanes = run.replicas.iter().chain(&run.pod_sets);
        assert_eq!(lanes.clone().map(|lane| lane.pods).sum::<usize>(), pods, "{kind}");
        assert!(run.outcome.is_finished() && run.unplaced_pods.is_empty(), "{kind}");
        let last = |lane: &super::report::Lane| {
            lane.states.last().is_some_and(|state| state.healthy == Some(true))
        };
        assert!(lanes.clone().all(last), "{kind}");
        assert!(
            run.evictions.iter().any(|e| e.pod.starts_with(prefix)),
            "{kind}: {:?}",
            run.evictions
        );
    }
}

/// Of a live cluster: a leader is controlled by the set's own StatefulSet, and workers by one that the leader controls.
#[test]
fn a_live_group_of_a_leader_and_its_worker_is_whole_and_comes_back() {
    let owned = |kind: &str, name: &str| {
        format!(
            "ownerReferences: [{{apiVersion: {kind}, name: {name}, uid: u-{name}, controller: true}}]"
        )
    };
    let set = |name: &str, owner: &str| {
        format!(
            "---\napiVersion: apps/v1\nkind: StatefulSet\nmetadata: {{name: {name}, uid: u-{name}, {owner}}}\n\
             spec: {{replicas: 1, selector: {{}}, template: {{}}}}\n"
        )
    };
    let pod = |name: &str, group: usize, owner: &str| {
        let lws = "leaderworkerset.sigs.k8s.io";
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, uid: u-{name}, labels: {{app: llm, {lws}/name: llm, \
             {lws}/group-index: \"{group}\", {lws}/group-key: k{group}}}, annotations: {{{lws}/size: \"2\"}}, {owner}}}\n\
             spec: {{nodeName: node-1, containers: [{{name: c, image: i}}]}}\n"
        )
    };
    let mut manifests = "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: llm, uid: u-llm}\n\
         spec: {replicas: 2, leaderWorkerTemplate: {size: 2, workerTemplate: {}}}\n---\n\
         apiVersion: policy.holdfast.dev/v1\nkind: PodDisruptionBudget\nmetadata: {name: llm}\n\
         spec: {maxUnavailable: 1, budgetScope: Workload, selector: {matchLabels: {app: llm}}}\n---\n\
         apiVersion: v1\nkind: Node\nmetadata: {name: node-1}\n---\napiVersion: v1\nkind: Node\nmetadata: {name: node-2}\n"
        .to_owned();
    manifests += &set("llm", &owned("leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet", "llm"));
    for group in 0..2 {
        let leader = format!("llm-{group}");
        manifests += &pod(&leader, group, &owned("apps/v1, kind: StatefulSet", "llm"));
        manifests += &set(&leader, &owned("v1, kind: Pod", &leader));
        let worker = format!("llm-{group}-1");
        manifests += &pod(&worker, group, &owned("apps/v1, kind: StatefulSet", &leader));
    }
    let report = simulate(&manifests, &["node-1"], false).unwrap();
    assert!(report.runs[0].outcome.is_finished(), "{:#?}", report.runs[0]);
}
