//! Input that nobody should write, and what is said to whoever did.

use super::tests::{error, simulate, web};

const NODES: &str = "
---
{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: 9e18, pods: 10}}}
---
{apiVersion: v1, kind: Node, metadata: {name: b}, status: {allocatable: {cpu: 9e18, pods: 10}}}
";

#[test]
fn requests_beyond_all_bounds_are_added_up() {
    let container = "{name: c, resources: {requests: {cpu: 9e18}}}";
    let manifests = format!(
        "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web}}, spec: {{replicas: 3, \
         template: {{spec: {{nodeName: a, containers: [{container}, {container}]}}}}}}}}{NODES}"
    );
    let report = simulate(&manifests, &["a"], false).unwrap();
    assert_eq!(report.runs[0].unplaced_pods.len(), 2);
}

#[test]
fn pods_are_counted_before_they_are_made() {
    for (api, kind, spec) in [
        ("apps/v1", "Deployment", "replicas: 99999999999"),
        ("apps/v1", "StatefulSet", "replicas: 200001"),
        ("batch/v1", "Job", "parallelism: 99999999999"),
        (
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            "replicas: 4294967296, leaderWorkerTemplate: {size: 4294967296}",
        ),
        (
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            "replicatedJobs: [{name: a, replicas: 99999, template: {spec: {parallelism: 99999}}}]",
        ),
        (
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            "replicatedJobs: [{name: a, replicas: 99999999999, template: {spec: {parallelism: 0}}}]",
        ),
    ] {
        let manifests =
            format!("{{apiVersion: {api}, kind: {kind}, metadata: {{name: w}}, spec: {{{spec}}}}}");
        let told = error(&(manifests + NODES), &["a"]);
        let expected = "document 1: spec: makes more than 200000 pods in all";
        assert!(told.contains(expected), "{told}");
    }
}

#[test]
fn pods_are_counted_over_all_workloads() {
    let set = |name: &str, replicas: u32| {
        format!(
            "---\n{{apiVersion: apps/v1, kind: ReplicaSet, metadata: {{name: {name}}}, \
             spec: {{replicas: {replicas}}}}}\n"
        )
    };
    let told = error(&(set("a", 1) + &set("b", 200_000) + NODES), &["a"]);
    assert!(told.contains("document 2: spec: makes more than 200000 pods in all"), "{told}");
}

fn told_of(manifests: &str) -> Vec<String> {
    let told = error(&format!("{manifests}{NODES}"), &["a"]);
    let lines = told.lines().skip(1).map(|line| line.trim().replace("test.yaml: document 1: ", ""));
    lines.collect()
}

#[test]
fn unknown_fields_of_a_budget_are_mistakes() {
    let budget = |api: &str, kind: &str, spec: &str| {
        told_of(&format!("{{apiVersion: {api}, kind: {kind}, metadata: {{name: b}}, {spec}}}"))
    };
    for (api, kind) in [
        ("policy/v1", "PodDisruptionBudget"),
        ("policy.holdfast.dev/v1", "PodDisruptionBudget"),
        ("policy.kruise.io/v1alpha1", "PodUnavailableBudget"),
    ] {
        let told = budget(api, kind, "spec: {minavailable: 1, selector: {app: a}}");
        assert_eq!(
            told,
            [
                "spec.minavailable: unknown field: minAvailable is meant",
                "spec.selector.app: unknown field"
            ]
        );
    }
    let told =
        budget("policy/v1", "PodDisruptionBudget", "spec: {budgetscope: Workload}, sepc: {}");
    assert_eq!(
        told,
        ["sepc: unknown field", "spec.budgetscope: unknown field: budgetScope is meant"]
    );
    let told = budget("policy/v7", "PodDisruptionBudget", "spec: {}");
    assert_eq!(
        told,
        [r#"apiVersion: "v7" is no version of PodDisruptionBudget that can be simulated: use v1"#]
    );
    let told = budget(
        "policy.kruise.io/v1alpha1",
        "PodUnavailableBudget",
        "spec: {minAvailable: 1.5, selector: {}}",
    );
    assert_eq!(told, ["spec.minAvailable: 1.5 is neither a number >= 0 nor a percentage"]);
}

#[test]
fn fields_of_the_wrong_type_are_mistakes() {
    for (object, expected) in [
        ("kind: Pod, metadata: {name: 5}", "metadata.name: must be a string"),
        ("kind: Pod, metadata: {name: p, namespace: [a]}", "metadata.namespace: must be a string"),
        ("kind: Pod, metadata: {name: p}, spec: {nodeName: 5}", "spec.nodeName: must be a string"),
        (
            "kind: Pod, metadata: {name: p}, spec: {containers: {name: c}}",
            "spec.containers: must be a list of objects",
        ),
        (
            "kind: Node, metadata: {name: x}, spec: {taints: {key: k}}",
            "spec.taints: must be a list of objects",
        ),
        (
            "kind: Node, metadata: {name: x}, spec: {unschedulable: 'true'}",
            "spec.unschedulable: must be true or false",
        ),
        (
            "kind: ReplicationController, metadata: {name: x}, spec: {template: {spec: {nodeSelector: a}}}",
            "spec.template.spec.nodeSelector: must be an object of strings",
        ),
    ] {
        assert_eq!(told_of(&format!("{{apiVersion: v1, {object}}}")), [expected], "{object}");
    }
}

#[test]
fn labels_that_no_api_server_takes_are_mistakes() {
    let told = told_of(
        "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b, labels: {-a: x}}, \
         spec: {selector: {matchLabels: {app: a b}, \
         matchExpressions: [{key: a/b/c, operator: In, values: [ok, größe]}]}}}",
    );
    assert_eq!(
        told,
        [
            r#"metadata.labels.-a: "-a" is not the key of a label"#,
            r#"spec.selector.matchExpressions[0].key: "a/b/c" is not the key of a label"#,
            r#"spec.selector.matchExpressions[0].values[1]: "größe" is not the value of a label"#,
            r#"spec.selector.matchLabels.app: "a b" is not the value of a label"#,
        ]
    );
}

#[test]
fn names_are_checked_and_nothing_steers_the_terminal() {
    let told = told_of(
        r#"{apiVersion: v1, kind: Pod, metadata: {name: "p\e[2J", namespace: a.b,
           annotations: {holdfast.dev/pod-group: "g\n"}, labels: {"k\e": v}}}"#,
    );
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(told.iter().all(|line| !line.contains(char::is_control)), "{told:?}");
    let told = error(&format!("{{apiVersion: \"x\\e\", kind: []}}{NODES}"), &["a\u{1b}"]);
    assert!(!told.contains('\u{1b}'), "{told}");
}

#[test]
fn two_builtin_budgets_on_a_pod_are_a_mistake_that_names_both() {
    let second = |api: &str| {
        web(2, "minAvailable: 1", &[("a", 10), ("b", 10)])
            + &format!(
                "---\n{{apiVersion: {api}, kind: PodDisruptionBudget, metadata: {{name: all}}, \
                 spec: {{maxUnavailable: 1, selector: {{}}}}}}\n"
            )
    };
    let told = error(&second("policy/v1"), &["a"]);
    assert!(
        told.contains("document 5: spec.selector: 2 pods are covered by budget web too"),
        "{told}"
    );
    assert!(simulate(&second("policy.holdfast.dev/v1"), &["a"], false).is_ok());
}

#[test]
fn a_kruise_budget_that_does_not_protect_from_evictions_is_left_out() {
    let report = |meta: &str, spec: &str| {
        let manifests = format!(
            "{{apiVersion: policy.kruise.io/v1beta1, kind: PodUnavailableBudget, \
             metadata: {{name: pub{meta}}}, spec: {{maxUnavailable: 0, selector: {{}}{spec}}}}}{NODES}"
        );
        simulate(&manifests, &["a"], false).unwrap()
    };
    for (meta, spec, is_there) in [
        ("", "", true),
        ("", ", protectOperations: []", true),
        ("", ", protectOperations: [DELETE, EVICT]", true),
        ("", ", protectOperations: [DELETE]", false),
        (", annotations: {kruise.io/pub-protect-operations: 'DELETE, EVICT'}", "", true),
        (", annotations: {kruise.io/pub-protect-operations: 'DELETE,UPDATE'}", "", false),
    ] {
        let report = report(meta, spec);
        assert_eq!(report.runs[0].budgets.len(), usize::from(is_there), "{meta}{spec}");
        let is_noted = report.notes.iter().any(|note| note.contains("does not protect from EVICT"));
        assert_eq!(is_noted, !is_there, "{meta}{spec}");
    }
    for (meta, spec) in [
        ("", ", protectTotalReplicas: 10"),
        (", annotations: {pub.kruise.io/protect-total-replicas: '10'}", ""),
    ] {
        let notes = report(meta, spec).notes;
        assert!(notes.iter().any(|note| note.contains("total replicas")), "{notes:?}");
    }
}

#[test]
fn constraints_that_are_not_modelled_are_noted() {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let spec = format!(
        "spec: {{affinity: {{nodeAffinity: {{{required}: {{nodeSelectorTerms: []}}}}, podAntiAffinity: \
         {{{required}: []}}}}, topologySpreadConstraints: [{{whenUnsatisfiable: DoNotSchedule}}], containers"
    );
    let manifests = web(2, "minAvailable: 1", &[("a", 10), ("b", 10)]);
    let report = simulate(&manifests.replace("spec: {containers", &spec), &["a"], false).unwrap();
    let expected = "2 pods have required node affinity, 2 pods have topology spread constraints, which \
                    is not modelled: they may be placed where they could not run";
    assert!(report.notes.iter().any(|note| note == expected), "{:?}", report.notes);
}
