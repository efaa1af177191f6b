//! The part of `metadata` that the engine reads.

use std::collections::BTreeMap;

use holdfast_core::model::{ControllerRef, GroupKind, ObjectKey, ResourceVersion};
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::lenient::null_default;
use crate::time::Time;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Meta {
    /// The only required field: it identifies the object.
    pub name: String,
    #[serde(default, deserialize_with = "null_default")]
    pub namespace: String,
    #[serde(default, deserialize_with = "null_default")]
    pub uid: String,
    #[serde(default, deserialize_with = "null_default")]
    pub resource_version: String,
    #[serde(default, deserialize_with = "null_default")]
    pub generation: i64,
    #[serde(default, deserialize_with = "null_default")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "null_default")]
    pub annotations: Annotations,
    #[serde(default, rename = "deletionTimestamp", deserialize_with = "is_set")]
    pub terminating: bool,
    #[serde(default, rename = "creationTimestamp")]
    pub created: Time,
    #[serde(default, deserialize_with = "null_default")]
    pub finalizers: Vec<String>,
    #[serde(default, rename = "ownerReferences", deserialize_with = "controller")]
    pub controller: Option<ControllerRef>,
}

impl Meta {
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(self.namespace.clone(), self.name.clone())
    }

    pub fn version(&self) -> ResourceVersion {
        self.resource_version.as_str().into()
    }
}

/// The annotations that Holdfast reads, of all kinds. The parser skips other annotations, which can be large
/// (for example kubectl's last applied configuration).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Annotations {
    /// On a pod: the `PodGroup` that it belongs to.
    #[serde(rename = "holdfast.dev/pod-group")]
    pub pod_group: Option<String>,
    /// On a budget: the minCount of groups with a `basic` policy.
    #[serde(rename = "holdfast.dev/basic-group-min-count")]
    pub basic_group_min_count: Option<String>,
    /// On a workload or a namespace: `"true"` asks for pod groups.
    #[serde(rename = "holdfast.dev/pod-groups")]
    pub asks: Option<String>,
    /// On a `PodGroup` that Holdfast has created: the group of the workload.
    #[serde(rename = "holdfast.dev/slot")]
    pub slot: Option<String>,
    /// On a `PodGroup` with policy basic: the minCount for budgets.
    #[serde(rename = "holdfast.dev/min-count")]
    pub min_count: Option<String>,
    /// On a `StatefulSet`: the number of pods of a replica.
    #[serde(rename = "holdfast.dev/group-size")]
    pub group_size: Option<String>,
    /// On a pod of a `LeaderWorkerSet`: the number of pods of a group.
    #[serde(rename = "leaderworkerset.sigs.k8s.io/size")]
    pub lws_size: Option<String>,
    /// On a worker of a `LeaderWorkerSet`: the pod that leads it.
    #[serde(rename = "leaderworkerset.sigs.k8s.io/leader-name")]
    pub lws_leader: Option<String>,
    /// On a `LeaderWorkerSet` or a `JobSet`: workers are placed on the domain of their leader, after the
    /// leader.
    #[serde(rename = "leaderworkerset.sigs.k8s.io/exclusive-topology")]
    pub lws_exclusive: Option<String>,
    #[serde(rename = "alpha.jobset.sigs.k8s.io/exclusive-topology")]
    pub jobset_exclusive: Option<String>,
    /// On a pod: its group in Volcano.
    #[serde(rename = "scheduling.k8s.io/group-name")]
    pub volcano_group: Option<String>,
    /// On a static pod, which the API server only mirrors.
    #[serde(rename = "kubernetes.io/config.mirror")]
    pub mirror: Option<String>,
    /// On a `PodUnavailableBudget`: the operations that it protects from, separated by commas.
    #[serde(rename = "kruise.io/pub-protect-operations")]
    pub protect_operations: Option<String>,
    /// On a `PodUnavailableBudget`: the number of units that should exist.
    #[serde(rename = "pub.kruise.io/protect-total-replicas")]
    pub protect_total_replicas: Option<String>,
    /// On a `PodUnavailableBudget`: the fields that `v1alpha1` lacks. In the stored version it exists only if
    /// it could not be read.
    #[serde(rename = "pub.kruise.io/v1beta1-fields")]
    pub beta_fields: Option<String>,
    /// On a pod: no `PodUnavailableBudget` protects it.
    #[serde(rename = "pub.kruise.io/no-protect")]
    pub no_protect: Option<String>,
    /// On a pod: its `PodUnavailableBudget`. The second is the older name.
    #[serde(rename = "pub.kruise.io/related-pub")]
    pub related_pub: Option<String>,
    #[serde(rename = "kruise.io/related-pub")]
    pub related_pub_old: Option<String>,
    /// On a pod: the state of an update in place by Kruise. The short names are older.
    #[serde(rename = "apps.kruise.io/inplace-update-state")]
    pub in_place_state: Option<String>,
    #[serde(rename = "inplace-update-state")]
    pub in_place_state_old: Option<String>,
    #[serde(rename = "apps.kruise.io/inplace-update-grace")]
    pub in_place_grace: Option<String>,
    #[serde(rename = "inplace-update-grace")]
    pub in_place_grace_old: Option<String>,
    /// The same for the containers that a `SidecarSet` put into the pod.
    #[serde(rename = "kruise.io/sidecarset-inplace-update-state")]
    pub sidecars_state: Option<String>,
}

/// Parses a whole number from 1 to the largest int32, such as a group size.
pub(crate) fn positive(text: &str) -> Option<i64> {
    text.parse::<i32>().ok().filter(|n| *n >= 1).map(i64::from)
}

fn is_set<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Option::<IgnoredAny>::deserialize(deserializer)?.is_some())
}

/// Keeps only the reference with `controller: true`.
fn controller<'de, D>(deserializer: D) -> Result<Option<ControllerRef>, D::Error>
where
    D: Deserializer<'de>,
{
    struct Controller;

    impl<'de> Visitor<'de> for Controller {
        type Value = Option<ControllerRef>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a list of owner references")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut found = None;
            while let Some(owner) = seq.next_element::<OwnerReference>()? {
                if owner.controller == Some(true) && found.is_none() {
                    found = Some(owner.into());
                }
            }
            Ok(found)
        }
    }

    deserializer.deserialize_any(Controller)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnerReference {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    uid: String,
    controller: Option<bool>,
}

impl From<OwnerReference> for ControllerRef {
    fn from(owner: OwnerReference) -> Self {
        // The apiVersion of the core group is `v1`, without a slash.
        let (group, version) =
            owner.api_version.split_once('/').unwrap_or(("", &owner.api_version));
        Self {
            group_kind: GroupKind::new(group, owner.kind),
            version: version.to_owned(),
            name: owner.name,
            uid: owner.uid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Meta;

    fn meta(json: &str) -> Meta {
        serde_json::from_str(json).expect(json)
    }

    #[test]
    fn the_controller_is_the_owner_that_controls() {
        let cases = [
            (r#"{"name":"a"}"#, None),
            (r#"{"name":"a","ownerReferences":null}"#, None),
            (r#"{"name":"a","ownerReferences":[{"kind":"Workload","name":"w","uid":"1"}]}"#, None),
            (
                r#"{"name":"a","ownerReferences":[
                    {"apiVersion":"scheduling.k8s.io/v1beta1","kind":"Workload","name":"w","uid":"1"},
                    {"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"2","controller":true,"blockOwnerDeletion":true}]}"#,
                Some(("ReplicaSet.apps", "v1", "r", "2")),
            ),
            (
                r#"{"name":"a","ownerReferences":[{"apiVersion":"v1","kind":"ReplicationController","name":"r","uid":"2","controller":true}]}"#,
                Some(("ReplicationController", "v1", "r", "2")),
            ),
        ];
        for (json, expected) in cases {
            let found = meta(json).controller;
            let found = found.as_ref().map(|c| {
                (c.group_kind.to_string(), c.version.as_str(), c.name.as_str(), c.uid.as_str())
            });
            let expected = expected.map(|(gk, v, n, u)| (gk.to_owned(), v, n, u));
            assert_eq!(found, expected, "{json}");
        }
    }

    #[test]
    fn null_is_absent() {
        let meta = meta(
            r#"{"name":"a","namespace":null,"uid":null,"labels":null,"annotations":null,
                "generation":null,"deletionTimestamp":null,"creationTimestamp":null}"#,
        );
        assert!(!meta.terminating);
        assert!(meta.labels.is_empty());
        assert_eq!(meta.key().to_string(), "/a");
    }
}
