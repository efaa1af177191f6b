//! The constraints of a pod on its node.

use holdfast_core::gang::{
    Constraints, HostPort, NodeTerm, Requirement, TaintEffect, Test, Toleration, TolerationTest,
};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::pod::Spec;
use super::requests::{Container, Port};
use crate::admission;
use crate::lenient::{Text, null_default};

pub(super) fn of(spec: Spec<'_>) -> Constraints {
    let staying = spec.init_containers.iter().filter(|container| container.stays());
    Constraints {
        ports: spec.containers.iter().chain(staying).flat_map(host_ports).collect(),
        unknown: unknown(&spec),
        node_selector: spec.node_selector,
        affinity: (spec.affinity.node.required)
            .map(|required| required.node_selector_terms.into_iter().map(Into::into).collect()),
        tolerations: spec.tolerations.into_iter().map(Into::into).collect(),
    }
}

/// Returns the constraints that Holdfast does not evaluate. Preferences are no constraints.
fn unknown(spec: &Spec<'_>) -> Vec<&'static str> {
    let affinity = &spec.affinity;
    let spread = &spec.topology_spread_constraints;
    let known = [
        ("pod affinity", affinity.pod.is_required()),
        ("pod anti-affinity", affinity.pod_anti.is_required()),
        ("topology spread", spread.iter().any(|s| &*s.when_unsatisfiable != "ScheduleAnyway")),
        ("volumes", spec.volumes.iter().any(Volume::is_claimed)),
        ("resource claims", !spec.resource_claims.is_empty()),
    ];
    known.into_iter().filter(|(_, found)| *found).map(|(name, _)| name).collect()
}

fn host_ports<'a>(container: &'a Container<'_>) -> impl Iterator<Item = HostPort> + use<'a> {
    let or = |text: &str, default: &str| if text.is_empty() { default } else { text }.to_owned();
    let ports = container.ports.iter().filter(|port| port.number > 0);
    ports.map(move |Port { number, ip, protocol }| HostPort {
        protocol: or(protocol, "TCP"),
        ip: or(ip, "0.0.0.0"),
        port: *number,
    })
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Affinity {
    #[serde(rename = "nodeAffinity", default, deserialize_with = "null_default")]
    node: NodeAffinity,
    #[serde(rename = "podAffinity", default, deserialize_with = "null_default")]
    pod: PodAffinity,
    #[serde(rename = "podAntiAffinity", default, deserialize_with = "null_default")]
    pod_anti: PodAffinity,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<NodeSelector>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeSelector {
    #[serde(default, deserialize_with = "null_default")]
    node_selector_terms: Vec<Term>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Term {
    #[serde(default, deserialize_with = "null_default")]
    match_expressions: Vec<Expression>,
    #[serde(default, deserialize_with = "null_default")]
    match_fields: Vec<Expression>,
}

impl From<Term> for NodeTerm {
    fn from(term: Term) -> Self {
        let requirements =
            |list: Vec<Expression>| list.into_iter().map(Requirement::from).collect();
        Self {
            expressions: requirements(term.match_expressions),
            fields: requirements(term.match_fields),
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Expression {
    #[serde(default, deserialize_with = "null_default")]
    key: String,
    #[serde(default, deserialize_with = "null_default")]
    operator: String,
    #[serde(default, deserialize_with = "null_default")]
    values: Vec<String>,
}

impl From<Expression> for Requirement {
    fn from(Expression { key, operator, values }: Expression) -> Self {
        let number = || match values.as_slice() {
            [one] => one.parse().ok(),
            _ => None,
        };
        let test = match operator.as_str() {
            "Exists" => Test::Exists,
            "DoesNotExist" => Test::DoesNotExist,
            "Gt" => number().map_or(Test::Unreadable, Test::Gt),
            "Lt" => number().map_or(Test::Unreadable, Test::Lt),
            "In" => Test::In(values),
            "NotIn" => Test::NotIn(values),
            _ => Test::Unreadable,
        };
        Self { key, test }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
struct PodAffinity {
    #[serde(
        rename = "requiredDuringSchedulingIgnoredDuringExecution",
        default,
        deserialize_with = "null_default"
    )]
    required: Vec<IgnoredAny>,
}

impl PodAffinity {
    fn is_required(&self) -> bool {
        !self.required.is_empty()
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spread<'a> {
    #[serde(borrow, default)]
    when_unsatisfiable: Text<'a>,
}

/// A volume that may bind a pod to certain nodes. Volumes of other kinds exist on every node.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Volume {
    persistent_volume_claim: Option<IgnoredAny>,
    ephemeral: Option<IgnoredAny>,
}

impl Volume {
    fn is_claimed(&self) -> bool {
        self.persistent_volume_claim.is_some() || self.ephemeral.is_some()
    }
}

/// Returns None for an effect of a later release.
pub(super) fn effect(text: &str) -> Option<TaintEffect> {
    match text {
        "NoSchedule" => Some(TaintEffect::NoSchedule),
        "NoExecute" => Some(TaintEffect::NoExecute),
        "PreferNoSchedule" => Some(TaintEffect::PreferNoSchedule),
        _ => None,
    }
}

impl From<admission::Toleration> for Toleration {
    fn from(toleration: admission::Toleration) -> Self {
        let effect = effect(&toleration.effect);
        let test = match toleration.operator.as_str() {
            _ if effect.is_none() && !toleration.effect.is_empty() => TolerationTest::Unreadable,
            "" | "Equal" => TolerationTest::Equal(toleration.value),
            "Exists" => TolerationTest::Exists,
            _ => TolerationTest::Unreadable,
        };
        Self { key: toleration.key, test, effect }
    }
}
