//! What came of a simulated drain. Serialized, this is the output of `-o json`; docs/simulate.md
//! describes it, and `schemaVersion` grows when a field changes its meaning or goes away.

use std::time::Duration;

use serde::{Serialize, Serializer};

pub const SCHEMA_VERSION: u32 = 1;

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub schema_version: u32,
    pub drained: Vec<String>,
    pub assumptions: Assumptions,
    pub notes: Vec<String>,
    /// The drain with the budgets as they are written, and then what it is compared with.
    pub runs: Vec<Run>,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Assumptions {
    pub startup_seconds: Time,
    pub grace_period_seconds: Time,
    pub retry_seconds: Time,
    pub parallel: bool,
}

/// Since the drain began; in JSON, a number of seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Duration);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0.as_secs_f64())
    }
}

/// Minutes and seconds, or hours too.
impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = self.0.as_secs();
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let text = if hours > 0 {
            format!("{hours}:{minutes:02}:{seconds:02}")
        } else {
            format!("{minutes}:{seconds:02}")
        };
        f.pad(&text)
    }
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// `AsWritten` or `Pods`.
    pub counting: &'static str,
    #[serde(flatten)]
    pub outcome: Outcome,
    /// When the last thing happened that the record holds: pods start after a drain has finished.
    pub end_seconds: Time,
    pub evictions_granted: usize,
    pub evictions_denied: usize,
    pub budgets: Vec<BudgetRun>,
    pub nodes: Vec<NodeRun>,
    pub replicas: Vec<Lane>,
    /// Pods that belong to no replica, by workload.
    pub pod_sets: Vec<Lane>,
    pub timeline: Vec<Moment>,
    pub evictions: Vec<EvictionRun>,
    /// Pods that fit on no node when the drain had ended.
    pub unplaced_pods: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "result", rename_all_fields = "camelCase")]
pub enum Outcome {
    Finished {
        at_seconds: Time,
    },
    /// Nothing can change any more: every pod that is left is denied for ever.
    Blocked {
        at_seconds: Time,
    },
}

impl Outcome {
    /// When the last node was empty, or nothing moved any more.
    pub fn at(&self) -> Time {
        match self {
            Self::Finished { at_seconds } | Self::Blocked { at_seconds } => *at_seconds,
        }
    }

    pub fn is_finished(&self) -> bool {
        matches!(self, Self::Finished { .. })
    }
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetRun {
    pub namespace: String,
    pub name: String,
    pub api: &'static str,
    /// What it counts as written: `Replicas` or `Pods`.
    pub counts: &'static str,
    /// As written, such as `minAvailable: 9`.
    pub threshold: String,
    /// Pods that it covered before the drain.
    pub pods: usize,
    /// How many of how many it wants, as written; null if that cannot be told.
    pub needed: Option<i64>,
    pub expected: Option<i64>,
    /// The fewest that were healthy at any time.
    pub lowest_healthy: i64,
    /// For how long fewer than needed were healthy.
    pub below_needed_seconds: Time,
    /// Evictions that it denied.
    pub denials: usize,
    pub states: Vec<Level>,
}

/// How many were healthy from one time to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Level {
    pub from_seconds: Time,
    pub to_seconds: Time,
    pub healthy: i64,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRun {
    pub name: String,
    pub began_seconds: Option<Time>,
    pub empty_seconds: Option<Time>,
    pub pods_evicted: usize,
    pub pods_left: usize,
}

/// One replica, or the pods of one workload that belong to no replica, over time.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Lane {
    pub namespace: String,
    pub name: String,
    /// Pods before the drain.
    pub pods: usize,
    /// How many working pods it needs to be healthy; null if that cannot be told.
    pub needed: Option<usize>,
    /// Null if that cannot be told.
    pub healthy_before: Option<bool>,
    pub down_seconds: Time,
    /// It is down at the end of the record, and nothing will bring it back.
    pub stays_down: bool,
    /// How often it went down.
    pub interruptions: usize,
    pub states: Vec<LaneState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LaneState {
    pub from_seconds: Time,
    pub to_seconds: Time,
    /// Pods that are Running, Ready and not terminating.
    pub working: usize,
    /// Null if that cannot be told.
    pub healthy: Option<bool>,
}

/// A moment in which something was evicted, and what followed until the next.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Moment {
    pub at_seconds: Time,
    pub nodes: Vec<String>,
    pub granted: Vec<String>,
    /// The replicas that the granted pods belong to.
    pub replicas: Vec<String>,
    /// Requests that were denied from then on, until the next moment.
    pub denied: usize,
    /// The fewest healthy replicas from then on; pods, if there are no replicas.
    pub lowest_healthy: usize,
}

/// One pod that the drain wanted gone.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EvictionRun {
    pub namespace: String,
    pub pod: String,
    pub node: String,
    pub replica: Option<String>,
    pub granted_seconds: Option<Time>,
    /// `Granted` by budgets, `NotCovered` by any, `PodEnded`, `NotFound`; null if it was never.
    pub reason: Option<&'static str>,
    /// Units of budgets that the grant spent.
    pub cost: i64,
    pub denials: usize,
    pub first_denied_seconds: Option<Time>,
    pub last_denied_seconds: Option<Time>,
    /// In the engine's words.
    pub first_denial: Option<String>,
    pub last_denial: Option<String>,
    /// The budgets that the last denial names.
    pub blocked_by: Vec<String>,
}
