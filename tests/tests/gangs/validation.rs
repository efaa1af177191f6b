//! Groups as objects: what the API server refuses of Holdfast's own kinds, and with which messages.
//! Kubernetes validates its own kinds itself.

use holdfast_e2e::gang::{basic, gang, workload_of};
use holdfast_e2e::object::name;
use holdfast_e2e::world::World;
use serde_json::{Value, json};

/// In both shapes, for programs that create their own groups.
pub fn both_kinds_are_created_read_changed_and_deleted() {
    let world = World::new("api");
    world.pod_group("a", &gang(2));
    world.set_min_count("a", 3);
    for (path, name_of) in
        [(world.pod_group_path(""), "a".to_owned()), (world.workload_path(""), workload_of("a"))]
    {
        let one = format!("{path}/{name_of}");
        let label = json!({"metadata": {"labels": {"e2e.holdfast.dev/label": "x"}}});
        let _ = world.admin.patch(&one, &label).ok();
        let found = world.admin.list(&format!("{path}?labelSelector=e2e.holdfast.dev/label=x"));
        assert_eq!(found.iter().map(name).collect::<Vec<_>>(), [name_of], "{found:#?}");
        let _ = world.admin.delete(&one).ok();
    }
    world.wait_no_groups();
}

pub fn what_is_refused_is_told_why() {
    let world = World::new("refused");
    let template = |name: &str, policy: Value| json!({"name": name, "schedulingPolicy": policy});
    let templates = |list: &[Value]| json!({"podGroupTemplates": list});
    let nine: Vec<_> = (0..9).map(|i| template(&format!("t{i}"), basic())).collect();
    let t = template("t", gang(2));
    for (spec, told) in [
        (templates(&[]), "spec.podGroupTemplates in body should have at least 1 items"),
        (templates(&nine), "spec.podGroupTemplates: Too many: 9: must have at most 8 items"),
        (templates(&[t.clone(), t.clone()]), "spec.podGroupTemplates[1]: Duplicate value"),
        (
            templates(&[template("T", basic())]),
            "spec.podGroupTemplates[0].name in body should match",
        ),
        (
            templates(&[template("t", gang(0))]),
            "spec.podGroupTemplates[0].schedulingPolicy.gang.minCount in body should be greater than or equal to 1",
        ),
        (
            templates(&[json!({"name": "t"})]),
            "spec.podGroupTemplates[0]: Invalid value: exactly one of schedulingPolicy and policy must be set",
        ),
        (
            templates(&[template("t", json!({}))]),
            "spec.podGroupTemplates[0].schedulingPolicy: Invalid value: exactly one of gang and basic must be set",
        ),
        (
            json!({"podGroupTemplates": [t], "controllerRef":
                {"apiGroup": "scheduling.holdfast.dev", "kind": "Workload", "name": "wrong"}}),
            "spec.controllerRef: Invalid value: controllerRef must not be a reference to itself",
        ),
    ] {
        refused(&world, "Workload", &spec, told);
    }
    for (spec, told) in [
        (json!({}), "schedulingPolicy must be set, or workloadRef and podGroupTemplateName"),
        (
            json!({"workloadRef": {"name": "w"}}),
            "spec.workloadRef: Invalid value: workloadRef and podGroupTemplateName must be set together",
        ),
        (
            json!({"workloadRef": {"name": "w"}, "podGroupTemplateName": "t",
                "podGroupTemplateRef": {"name": "t"}}),
            "podGroupTemplateName and podGroupTemplateRef cannot be both set",
        ),
        (
            json!({"workloadRef": {"name": "W"}, "podGroupTemplateName": "t"}),
            "spec.workloadRef.name in body should match",
        ),
        (
            json!({"workloadRef": {"name": "w"}, "podGroupTemplateName": "t.u"}),
            "spec.podGroupTemplateName in body should match",
        ),
        (
            json!({"workloadRef": {"kind": "PodGroup", "name": "wrong"}, "podGroupTemplateName": "t"}),
            "spec.workloadRef: Invalid value: workloadRef must not be a reference to itself",
        ),
        (
            json!({"schedulingPolicy": gang(0)}),
            "spec.schedulingPolicy.gang.minCount in body should be greater than or equal to 1",
        ),
    ] {
        refused(&world, "PodGroup", &spec, told);
    }
}

pub fn references_stay_and_minimums_change() {
    let world = World::new("immutable");
    world.workload("a", &gang(2));
    world.pod_group_alone("a", &gang(2));
    let inline = json!({"schedulingPolicy": gang(2)});
    let _ = world.admin.post(&world.pod_group_path(""), &manifest("PodGroup", "b", &inline)).ok();

    let (workload, by_reference, by_itself) = (
        world.workload_path(&workload_of("a")),
        world.pod_group_path("a"),
        world.pod_group_path("b"),
    );
    let of_template = "/spec/podGroupTemplates/0";
    for (path, at, value, told) in [
        (
            &workload,
            format!("{of_template}/name"),
            json!("b"),
            "names of podGroupTemplates are immutable",
        ),
        (
            &workload,
            format!("{of_template}/schedulingPolicy"),
            basic(),
            "spec.podGroupTemplates[0].schedulingPolicy: Invalid value: gang cannot become basic",
        ),
        (
            &by_reference,
            "/spec/workloadRef/name".into(),
            json!("b"),
            "spec.workloadRef: Invalid value: workloadRef is immutable",
        ),
        (
            &by_reference,
            "/spec/podGroupTemplateName".into(),
            json!("b"),
            "podGroupTemplateName is immutable",
        ),
        (
            &by_itself,
            "/spec/schedulingPolicy".into(),
            basic(),
            "spec.schedulingPolicy: Invalid value: gang cannot become basic, nor basic gang",
        ),
    ] {
        let patch = json!([{"op": "replace", "path": at, "value": value}]);
        let answer = world.admin.json_patch(path, &patch);
        assert_eq!(answer.code, 422, "{at}");
        assert!(answer.message().contains(told), "{at}: {}", answer.message());
    }
    for (path, at) in [(workload, of_template), (by_itself, "/spec")] {
        let at = format!("{at}/schedulingPolicy/gang/minCount");
        let patch = json!([{"op": "replace", "path": at, "value": 3}]);
        let _ = world.admin.json_patch(&path, &patch).ok();
    }
}

fn manifest(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "scheduling.holdfast.dev/v1alpha1", "kind": kind, "metadata": {"name": name},
        "spec": spec})
}

#[track_caller]
fn refused(world: &World, kind: &str, spec: &Value, told: &str) {
    let path = if kind == "Workload" { world.workload_path("") } else { world.pod_group_path("") };
    let answer = world.admin.post(&path, &manifest(kind, "wrong", spec));
    assert_eq!(answer.code, 422, "{spec}");
    assert!(answer.message().contains(told), "{spec}: {}", answer.message());
}
