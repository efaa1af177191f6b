//! What a pod asks of its node, as kube-scheduler counts it.

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
    /// Of an init container: `Always` makes it run on beside the others.
    #[serde(borrow, default)]
    restart_policy: Text<'a>,
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub ports: Vec<Port<'a>>,
}

impl Container<'_> {
    /// Of an init container.
    pub fn stays(&self) -> bool {
        &*self.restart_policy == "Always"
    }
}

/// Zero: none of the node's.
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

/// In thousandths. What is no quantity, and so was never accepted by an API server, is left out.
pub(super) fn amounts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Resources, D::Error> {
    let amounts = Option::<BTreeMap<String, Text<'de>>>::deserialize(deserializer)?;
    let amounts = amounts.unwrap_or_default().into_iter();
    Ok(amounts.filter_map(|(name, text)| Some((name, quantity::thousandths(&text)?))).collect())
}

/// The most that is needed at any time: while an init container runs, or afterwards. And one pod.
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
    // Stated for the pod as a whole, a request stands for those of its containers.
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
