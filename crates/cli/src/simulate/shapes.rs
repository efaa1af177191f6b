//! Replicas are recognised however they are written down.

use super::input::Input;
use super::objects::Objects;
use super::{report, scenario, scenario::Settings};

/// Two replicas of two pods on n1, each pod with this reference and these annotations.
fn pods(spec: impl Fn(usize) -> String, annotations: impl Fn(usize) -> String) -> String {
    let pod = |n: usize| {
        let (spec, annotations) = (spec(n / 2), annotations(n / 2));
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: p{n}, labels: {{app: a}}, annotations: \
             {{{annotations}}}, ownerReferences: [{{apiVersion: apps/v1, kind: StatefulSet, name: s, \
             controller: true}}]}}, spec: {{nodeName: n1, {spec}}}}}\n"
        )
    };
    (0..4).map(pod).collect::<Vec<_>>().concat()
}

fn group(n: usize, api: &str, spec: &str) -> String {
    format!("---\n{{apiVersion: {api}, kind: PodGroup, metadata: {{name: g{n}}}, spec: {spec}}}\n")
}

fn workload(api: &str, spec: &str) -> String {
    format!("---\n{{apiVersion: {api}, kind: Workload, metadata: {{name: w}}, spec: {spec}}}\n")
}

/// Name and minCount of each replica, and whether the drain finishes.
fn replicas(objects: &str) -> (Vec<(String, Option<usize>)>, bool) {
    let budget = "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b}, spec: \
                  {minAvailable: 1, budgetScope: Workload, selector: {matchLabels: {app: a}}}}\n";
    let mut input = Input::default();
    input.parse("test.yaml", &format!("{budget}{objects}"));
    let scenario =
        scenario(Objects::read(input, "default"), vec!["n1".to_owned()], Settings::DEFAULT)
            .unwrap();
    let report = report(&scenario, false);
    let run = &report.runs[0];
    let of = run.replicas.iter().map(|lane| (lane.name.clone(), lane.needed)).collect();
    (of, run.outcome.is_finished())
}

fn expect(names: [&str; 2], objects: &str) {
    let wanted = names.map(|name| (name.to_owned(), Some(2))).to_vec();
    assert_eq!(replicas(objects), (wanted, true), "{objects}");
}

#[test]
fn a_workload_of_1_35_with_replica_keys() {
    let reference =
        |n| format!("workloadRef: {{name: w, podGroup: e, podGroupReplicaKey: \"{n}\"}}");
    let spec = "{podGroups: [{name: e, policy: {gang: {minCount: 2}}}]}";
    let objects =
        pods(reference, |_| String::new()) + &workload("scheduling.k8s.io/v1alpha1", spec);
    expect(["Workload w pod group e replica 0", "Workload w pod group e replica 1"], &objects);
}

#[test]
fn pod_groups_of_1_36_and_later() {
    let reference = |n| format!("schedulingGroup: {{podGroupName: g{n}}}");
    let inline = "{schedulingPolicy: {gang: {minCount: 2}}}";
    for version in ["v1alpha2", "v1alpha3", "v1beta1"] {
        let api = format!("scheduling.k8s.io/{version}");
        let groups = group(0, &api, inline) + &group(1, &api, inline);
        expect(["PodGroup g0", "PodGroup g1"], &(pods(reference, |_| String::new()) + &groups));
    }
}

#[test]
fn pod_groups_of_the_draft_that_leave_the_policy_to_the_template() {
    let reference = |n| format!("workloadRef: {{podGroupName: g{n}}}");
    let of = |n| {
        let spec = "{workloadRef: {name: w}, podGroupTemplateName: t}";
        group(n, "scheduling.holdfast.dev/v1alpha1", spec)
    };
    let template = "{podGroupTemplates: [{name: t, policy: {gang: {minCount: 2}}}]}";
    let objects = pods(reference, |_| String::new())
        + &of(0)
        + &of(1)
        + &workload("scheduling.holdfast.dev/v1alpha1", template);
    expect(["PodGroup g0", "PodGroup g1"], &objects);
}

#[test]
fn pods_that_name_their_group_by_annotation() {
    let annotation = |n| format!("holdfast.dev/pod-group: g{n}");
    let inline = "{schedulingPolicy: {gang: {minCount: 2}}}";
    let api = "scheduling.holdfast.dev/v1alpha1";
    let groups = group(0, api, inline) + &group(1, api, inline);
    expect(["PodGroup g0", "PodGroup g1"], &(pods(|_| String::new(), annotation) + &groups));
}

#[test]
fn the_draft_whose_pods_do_not_say_which_replica_they_are_of_is_blocked() {
    let spec = "{podGroups: [{name: e, replicas: 2, policy: {gang: {minCount: 2}}}]}";
    let reference = |_| "workload: {name: w, podGroup: e}".to_owned();
    let objects =
        pods(reference, |_| String::new()) + &workload("scheduling.k8s.io/v1alpha1", spec);
    let one = vec![("Workload w pod group e".to_owned(), None)];
    assert_eq!(replicas(&objects), (one, false));
}

#[test]
fn a_group_that_does_not_exist_blocks() {
    let reference = |n| format!("schedulingGroup: {{podGroupName: g{n}}}");
    let (of, finishes) = replicas(&pods(reference, |_| String::new()));
    assert_eq!((of.len(), of[0].1, finishes), (2, None, false));
}
