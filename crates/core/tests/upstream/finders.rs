//! `TestBasicFinderFunctions`, `TestDeploymentFinderFunction` (upstream 1.5): whose scale a pod counts
//! towards.

use holdfast_core::model::Threshold::Count;
use holdfast_core::model::{ControllerRef, GroupKind, Owner, Pod};

use super::lone::{Lone, max_unavailable, owned, owner, pod, reference_to, replica_set};

/// `TestBasicFinderFunctions` and `TestDeploymentFinderFunction`: which references find a scale.
#[test]
fn test_finders() {
    let refer = |group: &str, kind: &str, name: &str, uid: &str| ControllerRef {
        group_kind: GroupKind::new(group, kind),
        version: "v1".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
    };
    let deployed = |group: &str, kind: &str| {
        let uid = "uid-Deployment-d";
        Owner { controller: Some(refer(group, kind, "d", uid)), ..replica_set("d-1", 5) }
    };
    let lonely = replica_set("rs", 10);
    let d1 = refer("apps", "ReplicaSet", "d-1", "uid-ReplicaSet-d-1");
    let cases: Vec<(&str, ControllerRef, Owner, Option<i64>)> = vec![
        (
            "replicaset apps",
            refer("apps", "ReplicaSet", "rs", "uid-ReplicaSet-rs"),
            lonely.clone(),
            Some(10),
        ),
        (
            "replicaset extensions",
            refer("extensions", "ReplicaSet", "rs", "uid-ReplicaSet-rs"),
            lonely.clone(),
            Some(10),
        ),
        (
            "replicaset invalid group",
            refer("invalid", "ReplicaSet", "rs", "uid-ReplicaSet-rs"),
            lonely.clone(),
            None,
        ),
        ("replicaset invalid uid", refer("apps", "ReplicaSet", "rs", "other"), lonely, None),
        ("happy path", d1.clone(), deployed("apps", "Deployment"), Some(12)),
        ("old deployment group", d1.clone(), deployed("extensions", "Deployment"), Some(12)),
        // The ReplicaSet finder declines whatever the Deployment's group.
        ("invalid deployment group", d1.clone(), deployed("invalid", "Deployment"), None),
        // Not a Deployment at all: the set counts for itself.
        ("invalid deployment kind", d1, deployed("apps", "InvalidKind"), Some(5)),
    ];
    for (name, reference, set, expected) in cases {
        let mut lone = Lone::new();
        lone.budget(max_unavailable("pdb", Count(1)));
        lone.owner(owner("apps", "Deployment", "d", 12));
        lone.owner(set);
        lone.pod(Pod { controller: Some(reference), ..pod("pod") });
        match expected {
            Some(expected) => lone.verify("pdb", (0, 1, expected - 1, expected)),
            None => assert_eq!(
                lone.condition("pdb", "DisruptionAllowed").reason,
                "SyncFailed",
                "{name}"
            ),
        }
    }
}

/// Old and new `ReplicaSet` of one Deployment count once.
#[test]
fn two_sets_of_one_deployment_count_once() {
    let deployment = owner("apps", "Deployment", "d", 4);
    let mut lone = Lone::new();
    lone.budget(max_unavailable("pdb", Count(1)));
    lone.owner(deployment.clone());
    for name in ["d-1", "d-2"] {
        let set = Owner { controller: Some(reference_to(&deployment)), ..replica_set(name, 2) };
        lone.owner(set.clone());
        lone.pod(owned(&format!("{name}-a"), &set));
        lone.pod(owned(&format!("{name}-b"), &set));
    }
    lone.verify("pdb", (1, 4, 3, 4));
}
