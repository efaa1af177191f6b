//! The answer, as `-o json` has it: fields are added, never changed.

use std::collections::BTreeSet;

use holdfast_core::model::ObjectKey;
use holdfast_core::verdict::{AllowReason, Verdict};
use holdfast_core::view::{self, OpinionView};
use serde::Serialize;
use serde_json::Value;

use super::explain;
use crate::ask::{Cluster, controller_kind, kind_name, threshold};

pub const SCHEMA_VERSION: u32 = 1;

#[derive(Debug, Serialize)]
#[serde(tag = "kind")]
pub enum Answer {
    Pod(PodAnswer),
    Node(NodeAnswer),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodAnswer {
    pub schema_version: u32,
    pub namespace: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    pub state: String,
    pub allowed: bool,
    /// Why, as one word of a fixed set.
    pub reason: String,
    /// As the Eviction API would say it.
    pub message: String,
    pub budgets: Vec<BudgetAnswer>,
    /// Names of those that say no. Each of them has to give way, so none can be left out.
    pub blocking: Vec<String>,
    /// Why a built-in budget behind Holdfast would refuse.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub builtin: Option<String>,
    pub unblock: Vec<Unblock>,
    /// A budget that would have a say if it were enforced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeAnswer {
    pub schema_version: u32,
    pub name: String,
    pub allowed: bool,
    pub pods: Vec<PodAnswer>,
    /// Pods that no drain evicts.
    pub ignored: Vec<String>,
}

/// One covering budget, in its unit.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetAnswer {
    pub api_version: String,
    pub kind: &'static str,
    pub name: String,
    pub threshold: String,
    pub unit: &'static str,
    pub desired: i64,
    pub healthy: i64,
    pub expected: i64,
    pub disruptions_allowed: i64,
    pub blocks: bool,
    /// Units that the eviction would cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<i64>,
    pub message: String,
}

/// One way out, for one budget.
#[derive(Debug, Serialize)]
#[serde(tag = "way", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Unblock {
    /// So many of these units have to become healthy.
    Recover { budget: String, unit: &'static str, missing: i64, units: Vec<Broken> },
    /// The grant ends by itself if the pod stays, and when the pod goes.
    Grant { budget: String, pod: String, by: String, granted_at: String, expires_in_seconds: u64 },
    /// Tried on the engine: this threshold would allow it now.
    Threshold { budget: String, now: String, instead: String },
    /// It cannot be counted until this is mended.
    Mend { budget: String, what: String },
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Broken {
    pub name: String,
    /// Healthy pods that it needs and has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs: Option<i64>,
    pub healthy: i64,
    pub pods: Vec<BrokenPod>,
}

#[derive(Debug, Serialize)]
pub struct BrokenPod {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    pub state: String,
}

impl Answer {
    pub fn is_allowed(&self) -> bool {
        match self {
            Self::Pod(pod) => pod.allowed,
            Self::Node(node) => node.allowed,
        }
    }

    /// The budgets that block, each once.
    pub fn blocking(&self) -> Vec<String> {
        let pods: &[PodAnswer] = match self {
            Self::Pod(pod) => std::slice::from_ref(pod),
            Self::Node(node) => &node.pods,
        };
        let blocking = pods.iter().flat_map(|pod| pod.budgets.iter().filter(|b| b.blocks));
        let names = blocking.map(|b| format!("{}/{}", b.kind.to_ascii_lowercase(), b.name));
        names.collect::<BTreeSet<_>>().into_iter().collect()
    }
}

pub fn of_pod(cluster: &mut Cluster, pod: &ObjectKey) -> PodAnswer {
    let facts = cluster.facts(pod);
    let verdict = cluster.verdict(pod);
    let (opinions, builtin) = cluster.opinions(pod);
    let (allowed, reason, mut message) = match &verdict {
        Verdict::Allow(allow) => {
            (true, format!("{:?}", allow.reason), in_words(allow.reason).to_owned())
        }
        Verdict::Deny(denial) => (false, format!("{:?}", denial.reason), denial.message.clone()),
    };
    let not_running = allowed.then_some("lets it pass, because it is not running");
    let mut budgets: Vec<BudgetAnswer> =
        opinions.iter().filter_map(|opinion| budget(cluster, opinion, not_running)).collect();
    let mut unblock = Vec::new();
    if !allowed {
        for opinion in &opinions {
            unblock.extend(explain::ways_out(cluster, pod, opinion));
        }
    }
    if let Some((behind, opinions)) = cluster.builtins(pod) {
        // Its gate goes by the numbers in its status, whatever we count.
        let passes = match &builtin {
            Some(_) => not_running,
            None => Some("allows it by the numbers in its status"),
        };
        let mut rows: Vec<BudgetAnswer> =
            opinions.iter().filter_map(|opinion| budget(behind, opinion, passes)).collect();
        if let Some(why) = builtin.as_ref().filter(|_| !allowed) {
            for opinion in &opinions {
                unblock.extend(explain::ways_out(behind, pod, opinion));
            }
            // Two on one pod, or a status that is not up to date: none of them objects by its numbers.
            if rows.iter().all(|row| !row.blocks) {
                for row in &mut rows {
                    (row.blocks, row.cost, row.message) = (true, None, why.clone());
                    let (budget, what) = (row.name.clone(), why.clone());
                    unblock.push(Unblock::Mend { budget, what });
                }
            }
        }
        budgets.extend(rows);
    }
    if matches!(&verdict, Verdict::Allow(a) if a.reason == AllowReason::NotCovered)
        && !budgets.is_empty()
    {
        // The engine does not count built-in ones among those that cover a pod.
        in_words(AllowReason::Exempt).clone_into(&mut message);
    }
    let blocking = budgets.iter().filter(|b| b.blocks).map(|b| b.name.clone()).collect();
    PodAnswer {
        note: cluster.unenforced(&pod.namespace).map(str::to_owned),
        schema_version: SCHEMA_VERSION,
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        node: facts.node,
        state: facts.state,
        allowed,
        reason,
        message,
        budgets,
        blocking,
        builtin: builtin.filter(|_| !allowed),
        unblock,
    }
}

pub fn of_node(cluster: &mut Cluster, node: &str) -> NodeAnswer {
    let (mut evicted, mut ignored) = (Vec::new(), Vec::new());
    for (key, pod) in cluster.pods_on(node) {
        if is_drained(pod) {
            evicted.push(key.clone());
        } else {
            ignored.push(key.to_string());
        }
    }
    let pods: Vec<PodAnswer> = evicted.iter().map(|key| of_pod(cluster, key)).collect();
    NodeAnswer {
        schema_version: SCHEMA_VERSION,
        name: node.to_owned(),
        allowed: pods.iter().all(|pod| pod.allowed),
        pods,
        ignored,
    }
}

/// As kubectl drain chooses: neither pods of `DaemonSets`, which come back at once, nor those that the
/// kubelet runs by itself.
fn is_drained(pod: &Value) -> bool {
    let mirror = &pod["metadata"]["annotations"]["kubernetes.io/config.mirror"];
    mirror.is_null() && controller_kind(pod) != Some("DaemonSet")
}

/// `passes`: why it does not matter if it objects.
fn budget(cluster: &Cluster, opinion: &OpinionView, passes: Option<&str>) -> Option<BudgetAnswer> {
    let view = cluster.view(&opinion.budget)?;
    let (blocks, cost, message) = match &opinion.answer {
        view::Answer::Allow { cost: 0 } => (false, Some(0), "allows it, at no cost".to_owned()),
        view::Answer::Allow { cost } => {
            (false, Some(*cost), format!("allows it, at the cost of 1 {}", view.unit.name()))
        }
        view::Answer::Granted { cost } => (false, Some(*cost), "has granted it already".to_owned()),
        view::Answer::Pass => (false, None, "does not protect this pod".to_owned()),
        view::Answer::Deny { message, .. } => match passes {
            Some(why) => (false, Some(0), why.to_owned()),
            None => (true, None, message.clone()),
        },
    };
    Some(BudgetAnswer {
        api_version: cluster.given(&opinion.budget)?.api_version.clone(),
        kind: kind_name(&opinion.budget),
        name: opinion.budget.object.name.clone(),
        threshold: threshold(&view.spec),
        unit: view.unit.name(),
        desired: view.desired,
        healthy: view.healthy,
        expected: view.expected,
        disruptions_allowed: view.allowed,
        blocks,
        cost,
        message,
    })
}

fn in_words(reason: AllowReason) -> &'static str {
    match reason {
        AllowReason::NotCovered => "No budget covers it.",
        AllowReason::PodGone => "It does not exist.",
        AllowReason::PodEnded => "It has ended, or is on its way out.",
        AllowReason::Exempt => "No budget stands in the way.",
        AllowReason::UidMismatch => "It is not the pod that was asked about.",
        AllowReason::Granted => "Every budget that covers it allows it.",
    }
}
