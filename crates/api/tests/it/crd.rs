use std::collections::BTreeSet;

use holdfast_api::budget::{
    Condition, GROUP, Grant, IntOrString, KIND, LabelSelector, PLURAL, PendingReplacement,
    PodDisruptionBudgetSpec, PodDisruptionBudgetStatus, Requirement, VERSION,
};
use holdfast_api::crd::{self, crd};
use holdfast_api::time::Time;
use holdfast_api::unavailable::{
    self, PodGroupPolicy, PodUnavailableBudgetSpec, PodUnavailableBudgetStatus, TargetReference,
};
use serde::Serialize;
use serde_json::{Value, json};

const ROOT: &str = "/spec/versions/0/schema/openAPIV3Schema/properties";

fn at<'a>(value: &'a Value, pointer: &str) -> &'a Value {
    value.pointer(pointer).unwrap_or_else(|| panic!("the manifest has no {pointer}"))
}

#[test]
fn it_is_named_as_the_code_names_it() {
    let crd = crd();
    assert_eq!(crd["metadata"]["name"], format!("{PLURAL}.{GROUP}"));
    assert_eq!(crd["spec"]["group"], GROUP);
    assert_eq!(crd["spec"]["names"]["kind"], KIND);
    assert_eq!(crd["spec"]["names"]["plural"], PLURAL);
    assert_eq!(crd["spec"]["scope"], "Namespaced");
    assert_eq!(*at(&crd, "/spec/versions/0/name"), VERSION);
    assert!(at(&crd, "/spec/versions/0/subresources/status").is_object());
}

#[test]
fn unavailable_budgets_are_named_as_kruise_names_them() {
    let crd = crd::unavailable();
    assert_eq!(crd["metadata"]["name"], format!("{}.{}", unavailable::PLURAL, unavailable::GROUP));
    assert_eq!(crd["spec"]["group"], unavailable::GROUP);
    assert_eq!(
        crd["spec"]["names"],
        json!({
            "kind": unavailable::KIND, "listKind": "PodUnavailableBudgetList",
            "plural": unavailable::PLURAL, "singular": "podunavailablebudget",
            "shortNames": ["pub"],
        })
    );
    let columns = json!([
        ["Allowed", "integer", ".status.unavailableAllowed"],
        ["Current", "integer", ".status.currentAvailable"],
        ["Desired", "integer", ".status.desiredAvailable"],
        ["Total", "integer", ".status.totalReplicas"],
    ]);
    for (index, name, storage) in [(0, unavailable::VERSION, true), (1, "v1alpha1", false)] {
        let version = &crd["spec"]["versions"][index];
        assert_eq!((&version["name"], &version["storage"]), (&json!(name), &json!(storage)));
        assert_eq!(
            (&version["served"], &version["subresources"]),
            (&json!(true), &json!({"status": {}}))
        );
        let shown = version["additionalPrinterColumns"].as_array().into_iter().flatten();
        let shown: Vec<_> = shown.map(|c| json!([c["name"], c["type"], c["jsonPath"]])).collect();
        assert_eq!(json!(shown), columns, "{name}");
    }
}

#[test]
fn the_conversion_webhook_is_filled_in() {
    let client = json!({"url": "https://10.0.0.1:8443/convert", "caBundle": "Q0E="});
    let crd = unavailable::crd::with_conversion(client.clone());
    assert_eq!(
        crd["spec"]["conversion"],
        json!({"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": client,
        }})
    );
}

/// Returns an entry with every field set. The API server drops fields that the schema does not have.
fn replacement() -> PendingReplacement {
    PendingReplacement {
        pod: "p".into(),
        uid: "u".into(),
        replica: "podgroup/g".into(),
        size: 2,
        controller: "c".into(),
        sources: vec!["LeaderWorkerSet/x".into()],
        labels: [("app".to_owned(), "x".to_owned())].into(),
        age_seconds: 60,
    }
}

#[test]
fn the_schema_has_the_fields_of_the_structs() {
    let (requirement, selector, condition, grant) = shared();
    let spec = PodDisruptionBudgetSpec {
        min_available: Some(IntOrString::Int(1)),
        max_unavailable: Some(IntOrString::Int(1)),
        selector: Some(selector.clone()),
        unhealthy_pod_eviction_policy: Some("AlwaysAllow".into()),
        budget_scope: Some("Pod".into()),
    };
    let status = PodDisruptionBudgetStatus {
        observed_generation: 1,
        disrupted_pods: [("p".to_owned(), Time::default())].into(),
        conditions: vec![condition.clone()],
        grants: vec![grant.clone()],
        watermarks: [("pods".to_owned(), "7".to_owned())].into(),
        pending_replacements: vec![replacement()],
        ..PodDisruptionBudgetStatus::default()
    };
    let crd = crd();
    for (path, fields) in [
        ("/spec/properties", keys(&spec)),
        ("/spec/properties/selector/properties", keys(&selector)),
        (
            "/spec/properties/selector/properties/matchExpressions/items/properties",
            keys(&requirement),
        ),
        ("/status/properties", keys(&status)),
        ("/status/properties/conditions/items/properties", keys(&condition)),
        ("/status/properties/grants/items/properties", keys(&grant)),
        ("/status/properties/pendingReplacements/items/properties", keys(&replacement())),
    ] {
        assert_eq!(keys(at(&crd, &format!("{ROOT}{path}"))), fields, "{path}");
    }
}

/// `v1alpha1` has annotations for the fields that it lacks.
#[test]
fn the_schemas_of_unavailable_budgets_have_the_fields_of_the_structs() {
    let (requirement, selector, condition, grant) = shared();
    let target = TargetReference::default();
    let groups = PodGroupPolicy { min_ready_replicas: Some(1), ..PodGroupPolicy::default() };
    let alpha = PodUnavailableBudgetSpec {
        selector: Some(selector.clone()),
        target_ref: Some(target.clone()),
        max_unavailable: Some(IntOrString::Int(1)),
        min_available: Some(IntOrString::Int(1)),
        pod_group_policy: Some(groups.clone()),
        ..PodUnavailableBudgetSpec::default()
    };
    let beta = PodUnavailableBudgetSpec {
        protect_operations: vec!["DELETE".into()],
        protect_total_replicas: Some(1),
        ignored_pod_selector: Some(selector.clone()),
        ..alpha.clone()
    };
    let status = PodUnavailableBudgetStatus {
        observed_generation: 1,
        disrupted_pods: [("p".to_owned(), Time::default())].into(),
        unavailable_pods: [("p".to_owned(), Time::default())].into(),
        conditions: vec![condition.clone()],
        grants: vec![grant.clone()],
        watermarks: [("pods".to_owned(), "7".to_owned())].into(),
        pending_replacements: vec![replacement()],
        ..PodUnavailableBudgetStatus::default()
    };
    let crd = crd::unavailable();
    for (version, spec) in [(0, keys(&beta)), (1, keys(&alpha))] {
        let has_ignored = spec.contains("ignoredPodSelector");
        let root = format!("/spec/versions/{version}/schema/openAPIV3Schema/properties");
        let check = |path: &str, fields| {
            assert_eq!(keys(at(&crd, &format!("{root}{path}"))), fields, "{version} {path}");
        };
        check("/spec/properties", spec);
        check("/spec/properties/targetRef/properties", keys(&target));
        check("/spec/properties/podGroupPolicy/properties", keys(&groups));
        check("/status/properties", keys(&status));
        check("/status/properties/conditions/items/properties", keys(&condition));
        check("/status/properties/grants/items/properties", keys(&grant));
        check("/status/properties/pendingReplacements/items/properties", keys(&replacement()));
        let selectors: &[&str] =
            if has_ignored { &["selector", "ignoredPodSelector"] } else { &["selector"] };
        for field in selectors {
            let properties = format!("/spec/properties/{field}/properties");
            check(&properties, keys(&selector));
            check(&format!("{properties}/matchExpressions/items/properties"), keys(&requirement));
        }
    }
}

/// Returns objects with every field set.
fn shared() -> (Requirement, LabelSelector, Condition, Grant) {
    let requirement = Requirement { values: vec!["v".into()], ..Requirement::default() };
    let selector = LabelSelector {
        match_labels: [("k".to_owned(), "v".to_owned())].into(),
        match_expressions: vec![requirement.clone()],
    };
    let condition = Condition { observed_generation: 1, ..Condition::default() };
    let grant = Grant {
        shared: true,
        age_seconds: 1,
        pinned: true,
        targeted_before: true,
        uid: "u".into(),
        replica: "r".into(),
        requester: "q".into(),
        eviction: "e".into(),
        budgets: vec!["b".into()],
        operation: "DELETE".into(),
        generation: 1,
        ..Grant::default()
    };
    (requirement, selector, condition, grant)
}

fn keys(value: &impl Serialize) -> BTreeSet<String> {
    let value = serde_json::to_value(value).expect("it is JSON");
    value.as_object().expect("it is an object").keys().cloned().collect()
}

#[test]
fn kubectl_explain_has_something_to_say_about_every_field() {
    fn check(path: &str, schema: &Value) {
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            let described = field["description"].as_str().is_some_and(|text| text.ends_with('.'));
            assert!(described || path == ".metadata", "{path} has no description");
            check(&path, field);
            check(&path, &field["items"]);
        }
    }
    for crd in [crd(), crd::unavailable(), crd::workloads(), crd::pod_groups()] {
        for version in crd["spec"]["versions"].as_array().into_iter().flatten() {
            check("", at(version, "/schema/openAPIV3Schema"));
        }
    }
}

#[test]
fn lists_and_maps_are_replaced_whole_where_one_writer_owns_them() {
    let crd = crd();
    for (path, key, value) in [
        ("/spec/properties/selector", "x-kubernetes-map-type", "atomic"),
        ("/status/properties/disruptedPods", "x-kubernetes-map-type", "atomic"),
        ("/status/properties/grants", "x-kubernetes-list-type", "atomic"),
        ("/status/properties/conditions", "x-kubernetes-list-type", "map"),
    ] {
        assert_eq!(at(&crd, &format!("{ROOT}{path}"))[key], value, "{path}");
    }
}

#[test]
fn the_columns() {
    let crd = crd();
    let columns = at(&crd, "/spec/versions/0/additionalPrinterColumns").as_array();
    let shown: Vec<_> = columns
        .into_iter()
        .flatten()
        .map(|column| {
            let wide = column["priority"].as_i64().unwrap_or(0) > 0;
            format!("{}{}", if wide { "wide: " } else { "" }, column["name"].as_str().unwrap_or(""))
        })
        .collect();
    assert_eq!(
        shown,
        [
            "Min Available",
            "Max Unavailable",
            "Allowed Disruptions",
            "Scope",
            "wide: Healthy Replicas",
            "wide: Desired Replicas",
            "wide: Expected Replicas",
            "wide: Reason",
            "Age",
        ]
    );
}
