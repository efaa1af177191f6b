//! The auditor's part: it follows the stored objects and the evictions, and says which rule was broken.

use std::collections::BTreeSet;

use holdfast_audit::objects::{Budget, Grant, Name, Object, Operation};
use holdfast_audit::{Allow, Auditor, Finding, json};
use serde_json::Value;

use crate::api::Call;
use crate::world::{Process, World};

/// Which budgets cover a pod is known as of five seconds before the decision, which may be nine seconds before the
/// answer. The rest is for delays on the way.
const FRESH_MS: i64 = 20_000;

/// A decision and its write are this close together.
const DECIDED_MS: u64 = 100;

#[derive(Debug)]
pub struct Judge {
    pub auditor: Auditor,
    exact: bool,
    pub allowed: u64,
    pub denied: u64,
    pub failed: u64,
    pub carried_out: u64,
}

/// An answer to an eviction.
#[derive(Debug)]
pub struct Allowed {
    pub id: String,
    pub pod: Name,
    /// The uid that the eviction is pinned to, or that the pod had when the answer came.
    pub uid: String,
    pub by_name: bool,
    /// When the request was sent.
    pub asked: i64,
}

impl Judge {
    pub fn new(exact: bool) -> Self {
        let auditor = Auditor::default();
        Self { auditor, exact, allowed: 0, denied: 0, failed: 0, carried_out: 0 }
    }

    pub fn stored(&mut self, wall: i64, gone: bool, object: &Value) {
        self.auditor.pass_time(wall);
        // The built-in kind of the same name is not a budget of ours.
        if object["apiVersion"] == "policy/v1" {
            return;
        }
        match (json::object(object), gone) {
            (Some(object), true) => self.auditor.deleted(&object),
            (Some(object), false) => self.auditor.stored(object),
            (None, _) => {}
        }
    }

    /// S1, exact, where nothing but evictions takes pods.
    pub fn look(&mut self, told: &dyn Fn(u64) -> bool) -> Vec<String> {
        if !self.exact {
            return Vec::new();
        }
        let findings = self.auditor.look(told, &|_| true);
        findings.iter().map(Finding::to_string).collect()
    }

    /// S3: every covering budget has a record.
    pub fn allow(&mut self, allowed: Allowed) -> Vec<String> {
        self.allowed += 1;
        let Allowed { id, pod, uid, by_name, asked } = allowed;
        let stored = self.auditor.state().pods.get(&pod).cloned();
        let live = stored.filter(|p| p.uid == uid && !p.terminating && !p.is_finished());
        let mut missing = Vec::new();
        let mut granted = None;
        for budget in live.iter().flat_map(|pod| self.auditor.covering(pod)) {
            // A grant by name may be for the pod that had the name before: it passes on when that is seen to be gone.
            let is_of = |grant: &&Grant| grant.uid == uid || (by_name && grant.pod == pod.name);
            let grant = budget.status.grants.iter().find(is_of);
            granted = granted.or_else(|| grant.map(|grant| grant.uid.clone()));
            let since = self.auditor.created_at(&budget.key);
            if grant.is_none() && since.is_some_and(|since| since + FRESH_MS <= asked) {
                let budget = &budget.key;
                missing.push(format!("S3: {budget}: {pod} ({uid}) was allowed without a record"));
            }
        }
        let (recorded, uid) = (granted.is_some(), granted.unwrap_or(uid));
        self.auditor.allow(Allow {
            id,
            pod,
            uid,
            by_name,
            operation: Operation::Evict,
            version: 0,
            recorded,
            budgets: BTreeSet::new(),
        });
        missing
    }

    /// The eviction has come to its end. `pod` is the pod that it takes, if it takes one.
    pub fn end(&mut self, id: &str, pod: Option<&Name>) {
        let Some(allow) = self.auditor.end(id) else { return };
        if let Some(pod) = pod {
            self.carried_out += 1;
            self.auditor.take(&allow, pod);
        }
    }

    /// L1: the budgets whose statuses are wrong, or that have grants left over.
    pub fn unsettled(&self) -> Vec<String> {
        let budgets = self.auditor.state().budgets.values();
        let wrong = |budget: &std::sync::Arc<Budget>| {
            if budget.status.grants.is_empty() {
                return self.auditor.judge_status(budget).map(|finding| finding.to_string());
            }
            Some(format!("L5: {}: grants are left: {:?}", budget.key, budget.status.grants))
        };
        budgets.filter_map(wrong).collect()
    }
}

impl World {
    /// S1 and S7, by what the writer had been told when it decided.
    pub fn judge_write(&mut self, process: Process, call: &Call, object: &Value) {
        let Some(Object::Budget(after)) = json::object(object) else { return };
        let before = self.judge.auditor.state().budgets.get(&after.key).cloned();
        let before = before.map(|budget| budget.status.grants.clone()).unwrap_or_default();
        // A grant of an eviction by name passes to the next pod of the name.
        let native = self.params.native;
        let is_old = |grant: &Grant| {
            let same = |old: &Grant| old.uid == grant.uid || (native && old.pod == grant.pod);
            before.iter().any(same)
        };
        let (old, new): (Vec<Grant>, Vec<Grant>) =
            after.status.grants.iter().cloned().partition(is_old);
        if new.is_empty() {
            return;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let version = text(&call.body["metadata"]["resourceVersion"]);
        let now = self.now();
        let seat = &self.seats[process.instance];
        let sent = seat.writes.get(&(after.key.key.name.clone(), version)).copied();
        let decided = sent.unwrap_or(now).saturating_sub(DECIDED_MS);
        let mut findings = seat
            .view
            .since(decided)
            .into_iter()
            .map(|known| self.judge.auditor.judge_grants(&after, (&old, &new), known));
        // Every state that the writer may have decided by would have to forbid it.
        let first = findings.next().flatten();
        if let Some(finding) = first.filter(|_| findings.all(|finding| finding.is_some())) {
            let by = process.instance;
            self.violate(&format!("{finding} (by what instance {by} had been told)"));
        }
    }
}
