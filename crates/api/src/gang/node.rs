//! Nodes and namespaces.

use holdfast_core::gang::{self, Resources, Taint, TaintEffect};
use serde::Deserialize;

use super::constraints::effect;
use super::requests::amounts;
use crate::lenient::{Text, null_default};
use crate::meta::Meta;

/// The node controller adds this taint to cordoned nodes, slightly after the cordon.
const CORDONED: &str = "node.kubernetes.io/unschedulable";

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Node<'a> {
    metadata: Meta,
    #[serde(borrow, default, deserialize_with = "null_default")]
    spec: Spec<'a>,
    #[serde(default, deserialize_with = "null_default")]
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Spec<'a> {
    #[serde(default, deserialize_with = "null_default")]
    unschedulable: bool,
    #[serde(borrow, default, deserialize_with = "null_default")]
    taints: Vec<WireTaint<'a>>,
}

#[derive(Clone, Debug, Deserialize)]
struct WireTaint<'a> {
    #[serde(default, deserialize_with = "null_default")]
    key: String,
    #[serde(default, deserialize_with = "null_default")]
    value: String,
    #[serde(borrow, default)]
    effect: Text<'a>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Status {
    #[serde(default, deserialize_with = "amounts")]
    allocatable: Resources,
}

impl From<Node<'_>> for gang::Node {
    fn from(node: Node<'_>) -> Self {
        let taints = node.spec.taints.into_iter().filter_map(|taint| {
            Some(Taint { effect: effect(&taint.effect)?, key: taint.key, value: taint.value })
        });
        let mut taints: Vec<_> = taints.collect();
        if node.spec.unschedulable && !taints.iter().any(|taint| taint.key == CORDONED) {
            taints.push(Taint {
                key: CORDONED.to_owned(),
                value: String::new(),
                effect: TaintEffect::NoSchedule,
            });
        }
        Self {
            version: node.metadata.version(),
            terminating: node.metadata.terminating,
            labels: node.metadata.labels,
            taints,
            allocatable: node.status.allocatable,
            name: node.metadata.name,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Namespace {
    metadata: Meta,
}

impl From<Namespace> for gang::Namespace {
    fn from(namespace: Namespace) -> Self {
        let meta = namespace.metadata;
        Self {
            version: meta.version(),
            terminating: meta.terminating,
            asks: meta.annotations.asks.as_deref() == Some("true"),
            name: meta.name,
        }
    }
}
