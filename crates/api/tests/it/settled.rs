//! Whether the status of a pod agrees with its spec. `PodUnavailableBudget`s need this, because they also
//! protect from updates in place.

use holdfast_api::decode;
use holdfast_core::model::Pod;
use serde_json::{Value, json};

const WANTED: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";
const OTHER: &str = "sha256:2222222222222222222222222222222222222222222222222222222222222222";

fn pod(metadata: &Value, spec: &Value, status: &Value) -> Pod {
    let mut json = json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec,
        "status": status});
    for (key, value) in metadata.as_object().into_iter().flatten() {
        json["metadata"][key] = value.clone();
    }
    decode::pod(json.to_string().as_bytes()).unwrap_or_else(|error| panic!("{error}\n{json}"))
}

/// Returns a pod with one container: the image of the spec, the image of the status, and its id.
fn running(annotations: &Value, image: &str, runs: &str, id: &str) -> Pod {
    pod(
        &json!({"annotations": annotations}),
        &json!({"containers": [{"name": "main", "image": image}]}),
        &json!({"containerStatuses": [{"name": "main", "image": runs, "imageID": id}]}),
    )
}

#[test]
fn a_pod_without_anything_special_is_settled() {
    let pod = running(&json!({}), "web:2", "web:1", "");
    assert!(pod.settled, "only Kruise's books say that an update is under way");
    assert!(!pod.applied && !pod.no_protect);
}

#[test]
fn labels_make_a_pod_unavailable() {
    for (label, settled) in [
        ("unavailable-pod.kruise.io/maintenance", false),
        ("unavailable-pod.kruise.io/", false),
        ("unavailable-pod.kruise.iox", true),
        ("unavailable-pod", true),
        ("zz", true),
    ] {
        let pod = pod(&json!({"labels": {"app": "web", label: ""}}), &Value::Null, &Value::Null);
        assert_eq!(pod.settled, settled, "{label}");
    }
}

#[test]
fn no_protect() {
    for (value, expected) in [
        (json!("true"), true),
        (json!("True"), true),
        (json!("1"), true),
        (json!("t"), true),
        (json!("tRUE"), false),
        (json!("yes"), false),
        (json!("false"), false),
        (json!(""), false),
        (Value::Null, false),
    ] {
        let annotations = json!({"pub.kruise.io/no-protect": value});
        assert_eq!(running(&annotations, "i", "i", "").no_protect, expected, "{value}");
    }
}

#[test]
fn digests_are_compared_where_they_can_be() {
    let image = format!("registry.example.com/web@{WANTED}");
    for (id, settled, applied) in [
        (format!("registry.example.com/web@{WANTED}"), true, true),
        (format!("docker-pullable://registry.example.com/web@{WANTED}"), true, true),
        (format!("mirror.example.com/web@{WANTED}"), true, true),
        (format!("registry.example.com/web@{OTHER}"), false, false),
        // The id is that of the image's configuration, as in containerd: Kruise never counts such a pod as
        // available, so it never protects the pod (openkruise/kruise#2570).
        (OTHER.to_owned(), true, false),
        (String::new(), true, false),
    ] {
        let pod = running(&json!({}), &image, "whatever", &id);
        assert_eq!((pod.settled, pod.applied), (settled, applied), "{id}");
    }
    let spec = json!({"containers": [{"name": "main", "image": image}]});
    let absent = pod(&Value::Null, &spec, &json!({"containerStatuses": null}));
    assert!(!absent.settled && !absent.applied, "nothing runs");
}

#[test]
fn updates_in_place_by_kruise() {
    let state = |state: Value| state.to_string();
    let last = json!({"lastContainerStatuses": {"main": {"imageID": "id-1"}}});
    for key in ["apps.kruise.io/inplace-update-state", "inplace-update-state"] {
        for (books, image, runs, id, settled, why) in [
            (state(last.clone()), "web:2", "web:1", "id-1", false, "the old container runs"),
            (state(last.clone()), "web:2", "web:2", "id-2", true, "the new container runs"),
            (state(last.clone()), "web:2", "web:2", "id-1", true, "both tags are one image"),
            (state(last.clone()), "web", "docker.io/library/web:latest", "id-1", true, "one name"),
            (state(last.clone()), "web:2", "web:1", "id-2", true, "it is another container"),
            (
                state(json!({"lastContainerStatuses": {"gone": {"imageID": "id"}}})),
                "web:2",
                "web:2",
                "id-2",
                false,
                "a container is not there yet",
            ),
            (
                state(json!({"nextContainerImages": {"main": "web:3"}})),
                "web:2",
                "web:2",
                "id-2",
                false,
                "more is to come",
            ),
            (
                state(json!({"nextContainerRefMetadata": {"main": {}}})),
                "web:2",
                "web:2",
                "id-2",
                false,
                "more is to come",
            ),
            (
                state(json!({"nextContainerResources": {"main": {}}})),
                "web:2",
                "web:2",
                "id-2",
                false,
                "more is to come",
            ),
            (state(json!({"nextContainerImages": null})), "web:2", "web:2", "id-2", true, "done"),
            ("{".to_owned(), "web:2", "web:2", "id-2", false, "nobody knows"),
        ] {
            let pod = running(&json!({key: books}), image, runs, id);
            assert_eq!(pod.settled, settled, "{key} {books}: {why}");
        }
    }
    for key in ["apps.kruise.io/inplace-update-grace", "inplace-update-grace"] {
        let pod = running(&json!({key: "{}"}), "web:2", "web:2", "id-2");
        assert!(!pod.settled, "{key}: the update is about to start");
    }
}

/// If all images have digests, Kruise checks nothing else (openkruise/kruise#2563).
#[test]
fn updates_in_place_to_a_digest() {
    let image = format!("web@{WANTED}");
    let books = |id: &str| {
        let state = json!({"lastContainerStatuses": {"main": {"imageID": id}}}).to_string();
        json!({"apps.kruise.io/inplace-update-state": state})
    };
    for (last, id, settled) in [
        (OTHER, OTHER, false),
        (OTHER, "sha256:3333", true),
        (&format!("web@{OTHER}"), &format!("web@{WANTED}"), true),
        (&format!("web@{WANTED}"), &format!("web@{WANTED}"), true),
    ] {
        assert_eq!(running(&books(last), &image, "x", id).settled, settled, "{last} {id}");
    }
    let next = json!({"nextContainerImages": {"main": "x"}}).to_string();
    let pod = running(&json!({"inplace-update-state": next}), &image, "x", &image);
    assert!(!pod.settled);
}

#[test]
fn updates_in_place_of_sidecars() {
    let books = |container: &str| {
        let states = json!({"mesh": {"lastContainerStatuses": {container: {"imageID": "id-1"}}}});
        json!({"kruise.io/sidecarset-inplace-update-state": states.to_string()})
    };
    assert!(!running(&books("main"), "web:2", "web:1", "id-1").settled);
    assert!(running(&books("main"), "web:2", "web:2", "id-2").settled);
    assert!(running(&books("gone"), "web:2", "web:1", "id-1").settled, "it was taken out");
}

#[test]
fn a_status_shows_the_images_of_the_spec() {
    for (image, runs, applied) in [
        ("web:2", "web:2", true),
        ("web", "docker.io/library/web:latest", true),
        ("web:2", "web:1", false),
        ("web:2", "", false),
    ] {
        assert_eq!(running(&json!({}), image, runs, "x").applied, applied, "{image} {runs}");
    }
    let spec = json!({"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]});
    let only_one = json!({"containerStatuses": [{"name": "a", "image": "i"}]});
    assert!(!pod(&Value::Null, &spec, &only_one).applied);
}

#[test]
fn a_status_is_of_the_generation_that_it_names() {
    for (generation, seen, applied) in [
        (Value::Null, Value::Null, true),
        (json!(3), Value::Null, true),
        (json!(3), json!(3), true),
        (json!(3), json!(2), false),
    ] {
        let metadata = json!({"generation": generation});
        let pod = pod(&metadata, &Value::Null, &json!({"observedGeneration": seen}));
        assert_eq!(pod.applied, applied, "{generation} {seen}");
    }
}

#[test]
fn a_status_shows_the_resources_of_the_spec() {
    let spec = json!({"containers": [{"name": "c", "image": "i",
        "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": 1}}}]});
    for (shown, applied) in [
        (json!({}), true),
        (json!({"resources": {"requests": {"cpu": "0.5", "memory": "1024Mi"}}}), true),
        (json!({"resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "1000m"}}}), true),
        (json!({"resources": {"limits": {"memory": "9Gi"}}}), true),
        (json!({"resources": {"requests": {"cpu": "250m"}}}), false),
        (json!({"resources": {"limits": {"cpu": "2"}}}), false),
        (json!({"allocatedResources": {"cpu": "500m", "memory": "1Gi"}}), true),
        (json!({"allocatedResources": {"cpu": "500m", "memory": "2Gi"}}), false),
    ] {
        let mut status = shown.clone();
        status["name"] = json!("c");
        status["image"] = json!("i");
        let pod = pod(&Value::Null, &spec, &json!({"containerStatuses": [status]}));
        assert_eq!(pod.applied, applied, "{shown}");
    }
}

#[test]
fn a_resize_that_waits_is_not_applied() {
    for (kind, status, applied) in [
        ("PodResizePending", "True", false),
        ("PodResizeInProgress", "True", false),
        ("PodResizePending", "False", true),
    ] {
        let conditions = json!({"conditions": [{"type": kind, "status": status}]});
        assert_eq!(
            pod(&Value::Null, &Value::Null, &conditions).applied,
            applied,
            "{kind} {status}"
        );
    }
}

#[test]
fn escaped_text_reads_as_any_other() {
    let json = r#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"a\/b:1"}]},
        "status":{"containerStatuses":[{"name":"c","image":"a/b:1","imageID":null}]}}"#;
    assert!(decode::pod(json.as_bytes()).expect(json).applied);
}
