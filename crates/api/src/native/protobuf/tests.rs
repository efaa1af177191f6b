use proptest::prelude::*;
use prost::Message;
use serde_json::json;

use super::messages::{
    Budget, Condition, DeleteOptions, FieldsV1, IntOrString, LabelSelector, ManagedFields,
    ObjectMeta, Spec, Status, Time, TypeMeta, Unknown,
};
use super::{GatePut, MAGIC, MEDIA_TYPE, gate_put, to_json};

/// Written by client-go's own serializers (k8s.io/api v0.37.1): the protobuf, and the JSON of the
/// same object.
macro_rules! from_go {
    ($name:literal) => {
        (
            include_bytes!(concat!("../../../tests/fixtures/protobuf/", $name, ".pb")).as_slice(),
            include_str!(concat!("../../../tests/fixtures/protobuf/", $name, ".json")),
        )
    };
}

fn envelope(kind: &str, message: &impl Message) -> Vec<u8> {
    sealed(&Unknown {
        type_meta: Some(TypeMeta { api_version: "policy/v1".into(), kind: kind.into() }),
        raw: message.encode_to_vec(),
        ..Unknown::default()
    })
}

fn sealed(unknown: &Unknown) -> Vec<u8> {
    [MAGIC, &unknown.encode_to_vec()].concat()
}

#[test]
fn what_go_writes_is_read_as_go_writes_it_in_json() {
    for (protobuf, expected) in
        [from_go!("budget"), from_go!("empty-budget"), from_go!("delete-options")]
    {
        let expected: serde_json::Value = serde_json::from_str(expected).expect("JSON");
        assert_eq!(to_json(protobuf).expect("protobuf"), expected);
    }
}

#[test]
fn the_gate_sees_the_uid_and_the_pods() {
    assert_eq!(
        gate_put(from_go!("budget").0).expect("protobuf"),
        GatePut {
            uid: "0f6b2b1e-6b7e-4c57-9d3c-111111111111".into(),
            pods: vec!["web-0".into(), "web-1".into(), "web-2".into()],
        }
    );
    assert_eq!(
        gate_put(from_go!("empty-budget").0).expect("protobuf"),
        GatePut { uid: String::new(), pods: vec![] }
    );
}

#[test]
fn fields_that_only_holdfast_knows_are_read_if_present() {
    let budget = Budget {
        spec: Some(Spec { budget_scope: Some("Workload".into()), ..Spec::default() }),
        status: Some(Status {
            disruptions_allowed_replicas: Some(0),
            expected_replicas: Some(4),
            ..Status::default()
        }),
        ..Budget::default()
    };
    assert_eq!(
        to_json(&envelope("PodDisruptionBudget", &budget)).expect("protobuf"),
        json!({
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {},
            "spec": {"budgetScope": "Workload"},
            "status": {
                "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0,
                "disruptionsAllowedReplicas": 0, "expectedReplicas": 4,
            },
        })
    );
}

#[test]
fn set_and_empty_is_not_unset() {
    let zero = Time::default();
    let epoch = Time { seconds: Some(0), nanos: Some(0) };
    let budget = Budget {
        metadata: Some(ObjectMeta {
            creation_timestamp: Some(zero),
            deletion_timestamp: Some(zero),
            deletion_grace_period_seconds: Some(0),
            managed_fields: vec![ManagedFields {
                time: Some(epoch),
                fields_v1: Some(FieldsV1::default()),
                ..ManagedFields::default()
            }],
            ..ObjectMeta::default()
        }),
        spec: Some(Spec {
            min_available: Some(IntOrString::default()),
            selector: Some(LabelSelector::default()),
            unhealthy_pod_eviction_policy: Some(String::new()),
            ..Spec::default()
        }),
        status: Some(Status {
            disrupted_pods: [("a".to_owned(), zero), ("b".to_owned(), epoch)].into(),
            conditions: vec![Condition {
                last_transition_time: Some(Time { seconds: Some(-62_135_596_800), nanos: None }),
                ..Condition::default()
            }],
            ..Status::default()
        }),
    };
    let read = to_json(&envelope("PodDisruptionBudget", &budget)).expect("protobuf");
    assert_eq!(
        read["metadata"],
        json!({
            "deletionTimestamp": null,
            "deletionGracePeriodSeconds": 0,
            "managedFields": [{"time": "1970-01-01T00:00:00Z", "fieldsV1": null}],
        })
    );
    assert_eq!(
        read["spec"],
        json!({"minAvailable": 0, "selector": {}, "unhealthyPodEvictionPolicy": ""})
    );
    assert_eq!(read["status"]["disruptedPods"], json!({"a": null, "b": "1970-01-01T00:00:00Z"}));
    assert_eq!(
        read["status"]["conditions"],
        json!([{"type": "", "status": "", "lastTransitionTime": null, "reason": "", "message": ""}])
    );
}

#[test]
fn errors_say_what_was_found() {
    let typed = |kind: &str, api_version: &str| {
        let types = TypeMeta { api_version: api_version.into(), kind: kind.into() };
        sealed(&Unknown { type_meta: Some(types), ..Unknown::default() })
    };
    let spec = |spec: Spec| {
        envelope("PodDisruptionBudget", &Budget { spec: Some(spec), ..Budget::default() })
    };
    let budget = from_go!("budget").0;
    let cases = [
        (vec![], r#"begins with "" instead of "k8s\x00""#),
        (b"{\"kind\":1}".to_vec(), r#"begins with "{\"ki" instead of"#),
        (MAGIC.to_vec(), r#"kind "" of apiVersion """#),
        (typed("Pod", "v1"), r#"kind "Pod" of apiVersion "v1""#),
        (
            typed("PodDisruptionBudget", "policy/v1beta1"),
            r#"kind "PodDisruptionBudget" of apiVersion "policy/v1beta1""#,
        ),
        (
            sealed(&Unknown { content_encoding: "gzip".into(), ..Unknown::default() }),
            r#"holds "gzip""#,
        ),
        (
            sealed(&Unknown { content_type: "application/json".into(), ..Unknown::default() }),
            r#"holds "application/json""#,
        ),
        (budget[..budget.len() - 3].to_vec(), "protobuf of the envelope is malformed"),
        (
            spec(Spec {
                min_available: Some(IntOrString { kind: 2, ..IntOrString::default() }),
                ..Spec::default()
            }),
            "PodDisruptionBudget has no form in JSON: 2 is no type of an IntOrString",
        ),
    ];
    for (body, expected) in cases {
        let error = to_json(&body).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
    let truncated = sealed(&Unknown {
        type_meta: Some(TypeMeta {
            api_version: "policy/v1".into(),
            kind: "PodDisruptionBudget".into(),
        }),
        raw: vec![0x0a, 0x7f],
        ..Unknown::default()
    });
    for error in [to_json(&truncated).map(drop), gate_put(&truncated).map(drop)] {
        let error = error.expect_err("truncated").to_string();
        assert!(error.contains("protobuf of PodDisruptionBudget is malformed"), "{error}");
    }
    let delete = envelope("DeleteOptions", &DeleteOptions::default());
    let error = gate_put(&delete).expect_err("no budget").to_string();
    assert!(error.contains("kind \"DeleteOptions\""), "{error}");
}

#[test]
fn the_envelope_may_name_its_media_type() {
    let body = sealed(&Unknown {
        type_meta: Some(TypeMeta { api_version: "v1".into(), kind: "DeleteOptions".into() }),
        content_type: MEDIA_TYPE.into(),
        ..Unknown::default()
    });
    assert_eq!(
        to_json(&body).expect("protobuf"),
        json!({"apiVersion": "v1", "kind": "DeleteOptions"})
    );
}

/// Reads with both readers. If both succeed, their results must be equal.
fn read(body: &[u8]) {
    if let (Ok(json), Ok(gate)) = (to_json(body), gate_put(body)) {
        assert_eq!(json["metadata"]["uid"].as_str().unwrap_or_default(), gate.uid);
        let pods = json["status"]["disruptedPods"].as_object();
        let mut pods: Vec<_> = pods.into_iter().flatten().map(|(name, _)| name.clone()).collect();
        pods.sort_unstable();
        assert_eq!(pods, gate.pods);
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(raw: Vec<u8>, bare: bool, kind in 0..2) {
        let body = if bare {
            [MAGIC, &raw].concat()
        } else {
            let kind = ["PodDisruptionBudget", "DeleteOptions"][usize::from(kind == 1)];
            let types = TypeMeta { api_version: "policy/v1".into(), kind: kind.into() };
            sealed(&Unknown { type_meta: Some(types), raw, ..Unknown::default() })
        };
        read(&body);
        read(body.strip_prefix(MAGIC).unwrap_or(&body));
    }

    #[test]
    fn mutated_bytes_never_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut: prop::sample::Index,
        truncate: bool,
    ) {
        let mut body = from_go!("budget").0.to_vec();
        for (at, byte) in edits {
            let at = at.index(body.len());
            body[at] = byte;
        }
        if truncate {
            body.truncate(cut.index(body.len()));
        }
        read(&body);
    }
}
