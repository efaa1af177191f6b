//! Objects that cannot be decoded.

use holdfast_e2e::fixture::fixture;
use holdfast_e2e::pod::Pod;
use holdfast_e2e::server::{self, Server};
use holdfast_e2e::wait::until;
use holdfast_e2e::world::{World, is_condition};
use serde_json::{Value, json};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GROUP: &str = "scheduling.holdfast.dev";

/// A foreign definition of a kind that Holdfast reads, whose schema accepts any content.
struct LooseKind;

impl LooseKind {
    fn install() -> Self {
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("podgroups.{GROUP}")},
            "spec": {
                "group": GROUP,
                "scope": "Namespaced",
                "names": {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup"},
                "versions": [{
                    "name": "v1alpha1",
                    "served": true,
                    "storage": true,
                    "schema": {"openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": true,
                    }},
                }],
            },
        });
        // Remove Holdfast's own definition, which earlier tests may have left.
        let _ = server::uninstall().expect("it can be uninstalled");
        let _ = fixture().admin.post(CRDS, &crd).ok();
        until("the kind is served", || {
            let answer = fixture().admin.get(&format!("/apis/{GROUP}/v1alpha1/podgroups"));
            if answer.is_success() { Ok(()) } else { Err(answer.message().to_owned()) }
        });
        Self
    }
}

fn create(world: &World, name: &str, min_count: &Value) {
    let group = json!({
        "apiVersion": format!("{GROUP}/v1alpha1"),
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}},
    });
    let path = world.path(&format!("apis/{GROUP}/v1alpha1"), "podgroups", "");
    let _ = world.admin.post(&path, &group).ok();
}

impl Drop for LooseKind {
    fn drop(&mut self) {
        fixture().admin.delete(&format!("{CRDS}/podgroups.{GROUP}"));
    }
}

pub fn an_undecodable_object_is_reported_once_and_does_not_stop_the_watch() {
    let _kind = LooseKind::install();
    let world = World::new("undecodable");
    let node = world.node("n");
    create(&world, "listed", &json!("abc"));
    // Otherwise it would replace the definition by its own.
    let mut server = Server::start_with("undecodable", &["--pod-groups", "off"])
        .expect("one bad object does not keep it from starting");
    create(&world, "watched", &json!(["abc"]));
    create(&world, "good", &json!(1));

    // This pod is delivered after the unreadable ones, and it counts.
    let pod = |name: &str, group: &str| {
        Pod::new(name).on(&node).annotation("holdfast.dev/pod-group", group)
    };
    world.pod(&pod("good-0", "good"));
    world.wait_ready("good-0");
    world.budget("job", json!({"minAvailable": 0, "budgetScope": "Workload"}));
    world.wait_status("job", "has room", |s| s["disruptionsAllowedReplicas"] == 1);
    // Unreadable budgets still protect.
    world.pod(&pod("bad-0", "watched"));
    world.wait_ready("bad-0");
    world.wait_status("job", "is closed", |s| {
        is_condition(s, "DisruptionAllowed", "False", "WorkloadResolutionFailed")
    });
    world.evict("bad-0").assert_denied(&["job", "bad-0"]);
    world.evict("good-0").assert_denied(&["job", "bad-0"]);

    let log = server.log();
    for name in ["listed", "watched"] {
        let object = format!("{}/{name}", world.namespace);
        let reports: Vec<&str> = log
            .lines()
            .filter(|line| line.contains("\"WARN\"") && line.contains(&object))
            .collect();
        assert_eq!(reports.len(), 1, "one line for {object}: {reports:#?}");
        assert!(reports[0].contains("spec.schedulingPolicy.gang.minCount"), "{}", reports[0]);
    }
    let counted =
        server.metric(&format!("holdfast_undecodable_objects_total{{kind=\"PodGroup.{GROUP}\"}}"));
    assert_eq!(counted, Some(2.0), "{}", server.page("/metrics"));
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
}
