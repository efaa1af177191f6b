//! The rights of users on budgets without a role of their own.

use holdfast_e2e::fixture::{Mode, fixture};
use holdfast_e2e::wait::until;
use holdfast_e2e::world::World;
use serde_json::{Value, json};

const WRITE: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];

pub fn who_may_edit_a_namespace_may_edit_its_budgets() {
    let world = World::new("people");
    let roles = ["view", "edit", "admin"];
    for role in roles {
        let path = world.path("apis/rbac.authorization.k8s.io/v1", "rolebindings", "");
        let binding = json!({
            "metadata": {"name": role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": role}],
        });
        let _ = world.admin.post(&path, &binding).ok();
    }
    // In native mode they are the storage of policy/v1, and no user may write them.
    let ours = fixture().mode == Mode::Webhook;
    let resources = [
        ("policy.holdfast.dev", "poddisruptionbudgets", ours),
        ("policy.kruise.io", "podunavailablebudgets", true),
        ("scheduling.holdfast.dev", "podgroups", true),
    ];
    for (group, resource, given) in resources {
        for role in roles {
            let may = |verb: &str, sub: &str| may(&world, role, verb, (group, resource, sub));
            // kube-controller-manager aggregates the roles.
            until(&format!("{role} reads {resource}: {given}"), || {
                if may("list", "") == given { Ok(()) } else { Err(resource.to_owned()) }
            });
            for verb in WRITE {
                let expected = given && role != "view";
                assert_eq!(may(verb, ""), expected, "{role} {verb} {resource}");
                assert!(!may(verb, "status"), "{role} {verb} {resource}/status");
            }
        }
    }
}

fn may(world: &World, user: &str, verb: &str, (group, resource, sub): (&str, &str, &str)) -> bool {
    let review = json!({"spec": {"user": user, "resourceAttributes": {
        "namespace": world.namespace, "verb": verb, "group": group, "resource": resource, "subresource": sub,
    }}});
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    world.admin.post(path, &review).ok().body["status"]["allowed"] == Value::Bool(true)
}
