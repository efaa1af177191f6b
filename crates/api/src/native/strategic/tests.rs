use proptest::prelude::*;
use serde_json::{Value, json};

use super::merge;

fn budget() -> Value {
    json!({
        "metadata": {
            "name": "web",
            "labels": {"app": "web", "tier": "front"},
            "finalizers": ["a", "b", "c"],
            "ownerReferences": [
                {"uid": "1", "kind": "Deployment", "name": "x", "controller": true},
                {"uid": "2", "kind": "ConfigMap", "name": "y"},
            ],
            "managedFields": [{"manager": "m"}, {"manager": "n"}],
        },
        "spec": {
            "minAvailable": 1,
            "selector": {
                "matchLabels": {"app": "web"},
                "matchExpressions": [{"key": "canary", "operator": "DoesNotExist"}],
            },
        },
        "status": {
            "disruptionsAllowed": 1,
            "conditions": [
                {"type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods"},
                {"type": "Foreign", "status": "True"},
            ],
        },
    })
}

/// Patches of [`budget`], each with a path and the value there afterwards. apimachinery v0.37.1 gives all
/// these values.
#[test]
fn patches() {
    let cases = [
        ("an empty patch", json!({}), "", budget()),
        (
            "objects merge and null deletes",
            json!({"metadata": {"labels": {"tier": null, "zone": "a", "gone": null}}}),
            "/metadata/labels",
            json!({"app": "web", "zone": "a"}),
        ),
        (
            "one threshold for the other",
            json!({"spec": {"minAvailable": null, "maxUnavailable": "30%", "selector": {}}}),
            "/spec",
            json!({"maxUnavailable": "30%", "selector": {}}),
        ),
        (
            "the selector is replaced",
            json!({"spec": {"selector": {"matchLabels": {"tier": "back", "app": null}}}}),
            "/spec/selector",
            json!({"matchLabels": {"tier": "back"}}),
        ),
        (
            "and can be removed",
            json!({"spec": {"selector": null}}),
            "/spec",
            json!({"minAvailable": 1}),
        ),
        (
            "an object replaced by directive",
            json!({"metadata": {"labels": {"$patch": "replace", "only": "this", "not": null}}}),
            "/metadata/labels",
            json!({"only": "this"}),
        ),
        (
            "an object emptied by directive",
            json!({"metadata": {"labels": {"$patch": "delete"}}}),
            "/metadata/labels",
            json!({}),
        ),
        (
            "what is new loses its nulls and directives",
            json!({"metadata": {"annotations": {"a": "b", "c": null, "d": {"$patch": "replace"}}}}),
            "/metadata/annotations",
            json!({"a": "b"}),
        ),
        (
            "another type replaces",
            json!({"spec": {"minAvailable": "50%"}}),
            "/spec/minAvailable",
            json!("50%"),
        ),
        (
            "owners merge by uid",
            json!({"metadata": {"ownerReferences": [
                {"uid": "2", "name": "z", "kind": null}, {"uid": "3", "name": "new"}]}}),
            "/metadata/ownerReferences",
            json!([
                {"uid": "1", "kind": "Deployment", "name": "x", "controller": true},
                {"uid": "2", "name": "z"},
                {"uid": "3", "name": "new"},
            ]),
        ),
        (
            "an owner deleted",
            json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": "1"}]}}),
            "/metadata/ownerReferences",
            json!([{"uid": "2", "kind": "ConfigMap", "name": "y"}]),
        ),
        (
            "the owners replaced",
            json!({"metadata": {"ownerReferences": [{"uid": "3"}, {"$patch": "replace"}]}}),
            "/metadata/ownerReferences",
            json!([{"uid": "3"}]),
        ),
        (
            "owners in a given order, with one that only the server has",
            json!({"metadata": {
                "$setElementOrder/ownerReferences": [{"uid": "3"}, {"uid": "2"}],
                "ownerReferences": [{"uid": "3"}]}}),
            "/metadata/ownerReferences",
            json!([
                {"uid": "3"},
                {"uid": "1", "kind": "Deployment", "name": "x", "controller": true},
                {"uid": "2", "kind": "ConfigMap", "name": "y"},
            ]),
        ),
        (
            "finalizers are a set",
            json!({"metadata": {"finalizers": ["d", "b"]}}),
            "/metadata/finalizers",
            json!(["d", "a", "b", "c"]),
        ),
        (
            "finalizers deleted",
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "x"]}}),
            "/metadata/finalizers",
            json!(["b", "c"]),
        ),
        (
            "finalizers reordered",
            json!({"metadata": {"$setElementOrder/finalizers": ["c", "a"]}}),
            "/metadata/finalizers",
            json!(["b", "c", "a"]),
        ),
        (
            "finalizers deleted and ordered, as kubectl edit does",
            json!({"metadata": {
                "$deleteFromPrimitiveList/finalizers": ["b"],
                "$setElementOrder/finalizers": ["c", "a"]}}),
            "/metadata/finalizers",
            json!(["c", "a"]),
        ),
        (
            "managedFields are one value",
            json!({"metadata": {"managedFields": [{"manager": "n", "operation": "Apply"}]}}),
            "/metadata/managedFields",
            json!([{"manager": "n", "operation": "Apply"}]),
        ),
        (
            "conditions merge by type",
            json!({"status": {"conditions": [
                {"type": "DisruptionAllowed", "status": "False"}, {"type": "New"}]}}),
            "/status/conditions",
            json!([
                {"type": "DisruptionAllowed", "status": "False", "reason": "SufficientPods"},
                {"type": "New"},
                {"type": "Foreign", "status": "True"},
            ]),
        ),
        (
            "what is not retained goes",
            json!({"spec": {"$retainKeys": ["selector", "maxUnavailable"], "maxUnavailable": 1,
                "minAvailable": null, "selector": {}}}),
            "/spec",
            json!({"maxUnavailable": 1, "selector": {}}),
        ),
        ("nothing is left of all", json!({"$patch": "delete"}), "", json!({})),
    ];
    for (name, patch, at, expected) in cases {
        let merged = merge(&budget(), &patch).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(merged.pointer(at), Some(&expected), "{name}");
    }
}

#[test]
fn an_object_without_status_gets_one_only_if_the_patch_has_it() {
    let bare = json!({"metadata": {"name": "web"}});
    assert_eq!(merge(&bare, &json!({})), Ok(bare.clone()));
    let patch = json!({"status": {
        "$setElementOrder/conditions": [{"type": "A"}],
        "conditions": [{"type": "A", "message": null}]}});
    assert_eq!(
        merge(&bare, &patch),
        Ok(json!({"metadata": {"name": "web"}, "status": {"conditions": [{"type": "A"}]}}))
    );
}

#[test]
fn errors_name_the_field() {
    let owners = |list: Value| json!({"metadata": {"ownerReferences": list}});
    let cases = [
        (json!([]), "patch: expected an object, found a list"),
        (json!({"$patch": "merge"}), "patch: unknown patch type \"merge\""),
        (
            json!({"metadata": {"labels": {"$patch": "x"}}}),
            "metadata.labels: unknown patch type \"x\"",
        ),
        (json!({"spec": {"$patch": 3}}), "spec: unknown patch type 3"),
        (
            owners(json!([{"uid": "1", "$patch": "merge"}])),
            "metadata.ownerReferences: unknown patch type \"merge\"",
        ),
        (
            owners(json!([{"name": "x"}])),
            "metadata.ownerReferences: an element does not contain the merge key uid",
        ),
        (
            owners(json!([{"$patch": "delete"}])),
            "metadata.ownerReferences: an element does not contain the merge key uid",
        ),
        (
            owners(json!(["x"])),
            "metadata.ownerReferences: the elements of the list are not of one type",
        ),
        (json!({"metadata": {"finalizers": [["x"]]}}), "metadata.finalizers: the elements"),
        (
            json!({"metadata": {"$setElementOrder/ownerReferences": 1}}),
            "metadata.$setElementOrder/ownerReferences: expected a list, found a number",
        ),
        (
            json!({"metadata": {"$setElementOrder/labels": []}}),
            "metadata.labels: expected a list, found an object",
        ),
        (
            json!({"metadata": {"$setElementOrder": []}}),
            "metadata: the directive $setElementOrder names no field",
        ),
        (
            json!({"metadata": {"$deleteFromPrimitiveList": []}}),
            "metadata: the directive $deleteFromPrimitiveList names no field",
        ),
        (
            json!({"metadata": {"finalizers": ["b", "a"], "$setElementOrder/finalizers": ["a", "b"]}}),
            "metadata.finalizers: the order in the patch does not match its $setElementOrder",
        ),
        (
            json!({"spec": {"$retainKeys": ["selector"], "minAvailable": 2}}),
            "spec.minAvailable: set by the patch but not in its $retainKeys",
        ),
        (
            json!({"spec": {"$retainKeys": "selector"}}),
            "spec.$retainKeys: expected a list, found a string",
        ),
    ];
    for (patch, expected) in cases {
        let error = merge(&budget(), &patch).expect_err(expected).to_string();
        assert!(error.starts_with(expected), "{error}\n{expected}");
    }
    assert!(merge(&json!(1), &json!({})).is_err());
}

/// Returns patches that consist of meaningful words.
fn patch() -> impl Strategy<Value = Value> {
    let word = || {
        prop::sample::select(vec![
            "metadata",
            "spec",
            "status",
            "labels",
            "finalizers",
            "ownerReferences",
            "conditions",
            "selector",
            "matchLabels",
            "uid",
            "type",
            "$patch",
            "replace",
            "delete",
            "merge",
            "a",
            "$retainKeys",
            "$setElementOrder/finalizers",
            "$setElementOrder/conditions",
            "$setElementOrder/ownerReferences",
            "$deleteFromPrimitiveList/finalizers",
            "",
        ])
        .prop_map(str::to_owned)
    };
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(word(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn never_panics(current in patch(), patch in patch()) {
        let _ = merge(&current, &patch);
        let _ = merge(&budget(), &patch);
        let _ = merge(&budget(), &json!({"metadata": patch, "spec": patch, "status": patch}));
    }
}
