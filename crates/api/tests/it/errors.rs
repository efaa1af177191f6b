use holdfast_api::decode::{Decoded, decode};
use holdfast_core::io::{Change, Input, Kind};
use holdfast_core::model::GroupApi;

#[test]
fn an_error_names_the_object_and_the_field() {
    let cases: [(Kind, &str, &str); 7] = [
        (
            Kind::Pod,
            r#"{"metadata":{"name":"p","namespace":"ns","labels":{"a":1}}}"#,
            "cannot read Pod ns/p: metadata.labels.a: invalid type: integer `1`, expected a string",
        ),
        (
            Kind::Pod,
            r#"{"metadata":{"namespace":"ns"}}"#,
            "cannot read Pod in namespace ns: metadata: missing field `name`",
        ),
        (
            Kind::Budget,
            r#"{"metadata":{"name":"b","namespace":"ns"},"status":{"disruptedPods":{"p":"now"}}}"#,
            r#"cannot read PodDisruptionBudget ns/b: status.disruptedPods.p: "now" is not an RFC 3339 time"#,
        ),
        (
            Kind::BuiltinBudget,
            r#"{"metadata":{"name":"b","namespace":"ns"},"spec":{"selector":"all"}}"#,
            "cannot read policy/v1 PodDisruptionBudget ns/b: spec.selector",
        ),
        (
            Kind::PodGroup(GroupApi::Kubernetes),
            r#"{"metadata":{"name":"g","namespace":"ns"},"spec":{"schedulingPolicy":{"gang":{"minCount":"8"}}}}"#,
            "cannot read PodGroup ns/g: spec.schedulingPolicy.gang.minCount: invalid type: string",
        ),
        (
            Kind::Workload(GroupApi::Holdfast),
            r#"{"metadata":{"name":"w"},"spec":{"podGroups":[{"name":"a"},{"name":7}]}}"#,
            "cannot read Workload w: spec.podGroups[1].name: invalid type: integer `7`",
        ),
        (Kind::Pod, "not JSON", "cannot read Pod: expected ident at line 1"),
    ];
    for (kind, json, expected) in cases {
        let error = decode(&kind, json.as_bytes()).expect_err(json);
        assert!(error.to_string().starts_with(expected), "{error}\n{expected}");
    }
}

#[test]
fn nothing_that_comes_in_makes_it_panic() {
    let kinds = [
        Kind::Pod,
        Kind::Budget,
        Kind::BuiltinBudget,
        Kind::PodGroup(GroupApi::Kubernetes),
        Kind::Workload(GroupApi::Kubernetes),
    ];
    let bodies: [&[u8]; 9] =
        [b"", b"{}", b"[]", b"null", b"0", b"\"\"", b"\xff\xfe", b"{\"metadata\":null}", b"{} {}"];
    for kind in kinds {
        for body in bodies {
            assert!(decode(&kind, body).is_err(), "{kind:?} {body:?}");
        }
    }
}

#[test]
fn decoded_objects_become_inputs() {
    let json = br#"{"metadata":{"name":"p","namespace":"ns"}}"#;
    let read = |kind: &Kind| decode(kind, json).expect("it has a name");
    assert!(matches!(read(&Kind::Pod).applied(), Input::Pod(Change::Applied(_))));
    assert!(matches!(read(&Kind::Pod).deleted(), Input::Pod(Change::Deleted(_))));
    assert!(matches!(read(&Kind::Budget), Decoded::Budget(_)));
    assert!(matches!(read(&Kind::BuiltinBudget).deleted(), Input::BuiltinBudget(_)));
}
