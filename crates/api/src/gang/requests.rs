//! Computes the resources that a pod requests, as kube-scheduler does.

use std::collections::BTreeMap;

use holdfast_core::gang::Resources;
use serde::{Deserialize, Deserializer};

use super::pod::Spec;
use crate::lenient::{Text, null_default};
use crate::quantity;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Container<'a> {
    #[serde(default, deserialize_with = "null_default")]
    resources: ResourceList,
    /// For an init container, `Always` means that it keeps running beside the other containers.
    #[serde(borrow, default)]
    restart_policy: Text<'a>,
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub ports: Vec<Port<'a>>,
}

impl Container<'_> {
    /// Returns true if an init container keeps running.
    pub fn stays(&self) -> bool {
        &*self.restart_policy == "Always"
    }
}

/// A port. Zero means no port of the node.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Port<'a> {
    #[serde(rename = "hostPort", default, deserialize_with = "null_default")]
    pub number: i64,
    #[serde(rename = "hostIP", borrow, default)]
    pub ip: Text<'a>,
    #[serde(borrow, default)]
    pub protocol: Text<'a>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct ResourceList {
    #[serde(default, deserialize_with = "amounts")]
    requests: Resources,
}

/// Reads amounts in thousandths. It leaves out invalid quantities, which no API server accepts.
pub(super) fn amounts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Resources, D::Error> {
    let amounts = Option::<BTreeMap<String, Text<'de>>>::deserialize(deserializer)?;
    let amounts = amounts.unwrap_or_default().into_iter();
    Ok(amounts.filter_map(|(name, text)| Some((name, quantity::thousandths(&text)?))).collect())
}

/// Returns the largest amount that the pod needs at any time, during an init container or afterwards, and one
/// pod.
pub(super) fn of(spec: &Spec<'_>) -> Resources {
    let mut staying = Resources::new();
    let mut starting = Resources::new();
    for container in &spec.init_containers {
        let mut step = staying.clone();
        add(&mut step, &container.resources.requests);
        if container.stays() {
            staying.clone_from(&step);
        }
        raise(&mut starting, &step);
    }
    let mut all = staying;
    for container in &spec.containers {
        add(&mut all, &container.resources.requests);
    }
    raise(&mut all, &starting);
    // A request of the pod as a whole replaces the requests of its containers.
    for (name, amount) in &spec.resources.requests {
        if is_of_pods(name) {
            all.insert(name.clone(), *amount);
        }
    }
    add(&mut all, &spec.overhead);
    all.insert("pods".to_owned(), 1000);
    all
}

fn is_of_pods(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

fn add(to: &mut Resources, more: &Resources) {
    for (name, amount) in more {
        let sum = to.entry(name.clone()).or_default();
        *sum = sum.saturating_add(*amount);
    }
}

fn raise(to: &mut Resources, least: &Resources) {
    for (name, amount) in least {
        let max = to.entry(name.clone()).or_default();
        *max = (*max).max(*amount);
    }
}
