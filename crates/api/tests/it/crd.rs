use std::collections::BTreeSet;

use holdfast_api::budget::{
    Condition, GROUP, Grant, IntOrString, KIND, LabelSelector, PLURAL, PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus, Requirement, VERSION,
};
use holdfast_api::crd::crd;
use holdfast_api::time::Time;
use serde::Serialize;
use serde_json::Value;

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

/// The API server prunes what the schema does not know, so a field missing there is lost.
#[test]
fn the_schema_has_the_fields_of_the_structs() {
    let requirement = Requirement { values: vec!["v".into()], ..Requirement::default() };
    let selector = LabelSelector {
        match_labels: [("k".to_owned(), "v".to_owned())].into(),
        match_expressions: vec![requirement.clone()],
    };
    let spec = PodDisruptionBudgetSpec {
        min_available: Some(IntOrString::Int(1)),
        max_unavailable: Some(IntOrString::Int(1)),
        selector: Some(selector.clone()),
        unhealthy_pod_eviction_policy: Some("AlwaysAllow".into()),
        budget_scope: Some("Pod".into()),
    };
    let condition = Condition { observed_generation: 1, ..Condition::default() };
    let grant = Grant {
        shared: true,
        uid: "u".into(),
        replica: "r".into(),
        requester: "q".into(),
        eviction: "e".into(),
        budgets: vec!["b".into()],
        ..Grant::default()
    };
    let status = PodDisruptionBudgetStatus {
        observed_generation: 1,
        disrupted_pods: [("p".to_owned(), Time::default())].into(),
        conditions: vec![condition.clone()],
        grants: vec![grant.clone()],
        watermarks: [("pods".to_owned(), "7".to_owned())].into(),
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
    ] {
        assert_eq!(keys(at(&crd, &format!("{ROOT}{path}"))), fields, "{path}");
    }
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
    check("", at(&crd(), "/spec/versions/0/schema/openAPIV3Schema"));
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
