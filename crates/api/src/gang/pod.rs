//! Pods, with the fields that only gangs need.

use std::collections::BTreeMap;

use holdfast_core::gang::{self, GATE, LwsPlace, Priority};
use holdfast_core::model::GroupApi;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::constraints::{self, Affinity, Spread, Volume};
use super::requests::{self, Container, ResourceList};
use crate::admission::Toleration;
use crate::lenient::{Text, non_empty, null_default};
use crate::meta::{Annotations, Meta, positive};
use crate::pod::{LWS_GROUP_INDEX, LWS_NAME, SchedulingGroup};

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Pod<'a> {
    metadata: Meta,
    #[serde(borrow, default, deserialize_with = "null_default")]
    spec: Spec<'a>,
    #[serde(borrow, default, deserialize_with = "null_default")]
    status: Status<'a>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spec<'a> {
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub containers: Vec<Container<'a>>,
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub init_containers: Vec<Container<'a>>,
    /// The resources of the pod as a whole.
    #[serde(default, deserialize_with = "null_default")]
    pub resources: ResourceList,
    #[serde(default, deserialize_with = "requests::amounts")]
    pub overhead: gang::Resources,
    scheduling_group: Option<SchedulingGroup>,
    /// The reference of Kubernetes 1.35.
    workload_ref: Option<IgnoredAny>,
    node_name: Option<String>,
    #[serde(borrow, default, deserialize_with = "null_default")]
    scheduling_gates: Vec<Gate<'a>>,
    #[serde(default, deserialize_with = "null_default")]
    priority: i64,
    priority_class_name: Option<String>,
    preemption_policy: Option<String>,
    #[serde(default, deserialize_with = "null_default")]
    pub node_selector: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "null_default")]
    pub affinity: Affinity,
    #[serde(default, deserialize_with = "null_default")]
    pub tolerations: Vec<Toleration>,
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub topology_spread_constraints: Vec<Spread<'a>>,
    #[serde(default, deserialize_with = "null_default")]
    pub volumes: Vec<Volume>,
    #[serde(default, deserialize_with = "null_default")]
    pub resource_claims: Vec<IgnoredAny>,
}

#[derive(Clone, Debug, Deserialize)]
struct Gate<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Status<'a> {
    #[serde(borrow, default)]
    phase: Text<'a>,
    #[serde(borrow, default, deserialize_with = "null_default")]
    conditions: Vec<Condition<'a>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Condition<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Text<'a>,
    #[serde(borrow, default)]
    status: Text<'a>,
    #[serde(borrow, default)]
    reason: Text<'a>,
}

impl Pod<'_> {
    pub(crate) fn into_model(self, api: GroupApi) -> gang::Pod {
        let (meta, spec) = (self.metadata, self.spec);
        let is_gate = |gate: &Gate<'_>| *gate.name == *GATE;
        let scheduling_group = spec.scheduling_group.clone().and_then(|group| group.pod_group_name);
        let (native, annotated) =
            (non_empty(scheduling_group), non_empty(meta.annotations.pod_group.clone()));
        let (group, other) = match api {
            GroupApi::Kubernetes => (native, annotated),
            GroupApi::Holdfast => (annotated, native),
        };
        gang::Pod {
            key: meta.key(),
            version: meta.version(),
            created: meta.created.into(),
            lws: lws_place(&meta.labels, &meta.annotations),
            group,
            foreign: other.is_some()
                || spec.workload_ref.is_some()
                || meta.annotations.volcano_group.is_some()
                || meta.labels.contains_key(COSCHEDULING_GROUP),
            mirror: meta.annotations.mirror.is_some(),
            node: non_empty(spec.node_name.clone()),
            finished: matches!(&*self.status.phase, "Succeeded" | "Failed"),
            terminating: meta.terminating,
            gated: spec.scheduling_gates.iter().any(is_gate),
            held: !spec.scheduling_gates.iter().all(is_gate),
            unschedulable: self.status.conditions.iter().any(|condition| {
                &*condition.kind == "PodScheduled"
                    && &*condition.status == "False"
                    && &*condition.reason == "Unschedulable"
            }),
            priority: Priority {
                value: spec.priority,
                class: non_empty(spec.priority_class_name.clone()),
                preemption: non_empty(spec.preemption_policy.clone()),
            },
            requests: requests::of(&spec),
            constraints: constraints::of(spec),
            uid: meta.uid,
            controller: meta.controller,
        }
    }
}

/// A label of the scheduler plugin Coscheduling.
const COSCHEDULING_GROUP: &str = "scheduling.x-k8s.io/pod-group";
const LWS_WORKER_INDEX: &str = "leaderworkerset.sigs.k8s.io/worker-index";

/// Returns None without a name and two numbers, because the pod then has no known place in a group.
fn lws_place(labels: &BTreeMap<String, String>, annotations: &Annotations) -> Option<LwsPlace> {
    let index = |label: &str| labels.get(label)?.parse().ok().filter(|n: &i64| *n >= 0);
    Some(LwsPlace {
        name: labels.get(LWS_NAME)?.clone(),
        group_index: index(LWS_GROUP_INDEX)?,
        worker_index: index(LWS_WORKER_INDEX)?,
        size: annotations.lws_size.as_deref().and_then(positive),
        leader: non_empty(annotations.lws_leader.clone()),
    })
}
