//! Which grants are alive, by semantics 5 ("how a grant ends"), worked out from nothing but what the
//! engine was told. Cases are shorter than two minutes, so nothing expires here; `vectors.rs` has that.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use holdfast_core::io::{Change, Input, Kind, WriteOutcome};
use holdfast_core::model::{
    Budget, BudgetKey, BudgetStatus, DisruptionTarget, Grant, ObjectKey, Pod, ResourceVersion,
    Timestamp,
};

use crate::reference::LiveGrant;

#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own, as in the status")]
#[derive(Clone, Debug)]
pub struct Held {
    pub budget: BudgetKey,
    pub pod: ObjectKey,
    /// Every pod that has borne it: the one that it was given for, then its successors. Empty for
    /// somebody else's `disruptedPods` entry that no pod matched yet.
    pub bearers: Vec<String>,
    /// The pod that it makes unhealthy; None while the pod is gone and has no successor.
    pub bearer: Option<String>,
    pub cost: i64,
    pub eviction: String,
    pub is_anonymous: bool,
    /// Renewed by a later request; whatever becomes of that one, this grant is not its to refund.
    pub is_firm: bool,
    /// The eviction names the pod's uid: the grant ends with the pod and passes to no successor.
    pub is_pinned: bool,
    /// Other evictions by name rest on it too: when one has taken the pod, another may take the next of that name.
    pub is_shared: bool,
    pub granted_at: Timestamp,
}

impl Held {
    /// An eviction by name takes no pod later than a minute after its grant was recorded (semantics 5.3).
    pub fn is_over(&self, now: Timestamp) -> bool {
        let is_by_name = !self.is_pinned && !self.is_anonymous;
        is_by_name && self.granted_at + Duration::from_mins(1) <= now
    }

    pub fn is(&self, grant: &Grant) -> bool {
        self.bearers.contains(&grant.uid)
            || (self.is_anonymous && grant.uid.is_empty() && self.pod.name == grant.pod)
    }

    pub fn is_kept_by(&self, status: &BudgetStatus) -> bool {
        status.grants.iter().any(|grant| self.is(grant))
            || (self.is_anonymous && status.disrupted_pods.contains_key(&self.pod.name))
    }
}

#[derive(Clone, Debug, Default)]
pub struct Ledger {
    held: Vec<Held>,
    /// Grants that ended, by budget and uid, so that an object that still shows one does not revive it. An entry that
    /// somebody else wrote has no uid: its name and time stand for it.
    ended: BTreeSet<(BudgetKey, String)>,
    versions: BTreeMap<BudgetKey, ResourceVersion>,
    pods: BTreeMap<ObjectKey, Pod>,
    listed: Option<BTreeSet<ObjectKey>>,
    /// Budgets that are gone, for the moment.
    orphaned: BTreeSet<BudgetKey>,
    listed_budgets: Option<BTreeSet<BudgetKey>>,
}

impl Ledger {
    pub fn of<'a>(&'a self, budget: &'a BudgetKey) -> impl Iterator<Item = &'a Held> {
        self.held.iter().filter(move |held| held.budget == *budget)
    }

    /// Before a write that renews grants: those which `is_final` says were given for good.
    pub fn confirm(
        &mut self,
        budget: &BudgetKey,
        status: &BudgetStatus,
        is_final: impl Fn(&str) -> bool,
    ) {
        for held in self.held.iter_mut().filter(|held| held.budget == *budget) {
            let renewed = status.grants.iter().find(|grant| held.is(grant));
            let is_renewed = renewed.is_some_and(|grant| grant.eviction != held.eviction);
            held.is_firm |= is_renewed && is_final(&held.eviction);
        }
    }

    pub fn holds(&self, budget: &BudgetKey, grant: &Grant) -> bool {
        self.of(budget).any(|held| held.is(grant))
    }

    pub fn remove(&mut self, budget: &BudgetKey, eviction: &str) {
        self.held.retain(|held| held.budget != *budget || held.eviction != eviction);
    }

    pub fn live(&self, exists: impl Fn(&BudgetKey) -> bool) -> Vec<LiveGrant> {
        self.held
            .iter()
            .filter(|held| exists(&held.budget))
            .filter_map(|held| {
                let uid = held.bearer.clone()?;
                Some(LiveGrant { budget: held.budget.clone(), uid, cost: held.cost })
            })
            .collect()
    }

    pub fn observe(&mut self, input: &Input) {
        match input {
            Input::Pod(Change::Applied(pod)) => self.pod_is(pod),
            Input::Pod(Change::Deleted(pod)) => {
                self.pods.remove(&pod.key);
                self.pod_went(pod);
            }
            Input::ListBegan(Kind::Pod) => self.listed = Some(BTreeSet::new()),
            Input::ListEnded(Kind::Pod, _) => {
                let listed = self.listed.take().unwrap_or_default();
                let gone: Vec<Pod> =
                    self.pods.values().filter(|pod| !listed.contains(&pod.key)).cloned().collect();
                for pod in gone {
                    self.pods.remove(&pod.key);
                    self.pod_went(&pod);
                }
            }
            Input::Budget(Change::Applied(budget)) => {
                self.orphaned.remove(&budget.key);
                if let Some(listed) = &mut self.listed_budgets {
                    listed.insert(budget.key.clone());
                }
                self.budget_is(budget);
            }
            Input::Budget(Change::Deleted(budget)) => {
                self.orphaned.insert(budget.key.clone());
            }
            Input::ListBegan(Kind::Budget) => self.listed_budgets = Some(BTreeSet::new()),
            Input::ListEnded(Kind::Budget, _) => {
                let listed = self.listed_budgets.take().unwrap_or_default();
                let held = self.held.iter().map(|held| held.budget.clone());
                self.orphaned.extend(held.filter(|budget| !listed.contains(budget)));
            }
            Input::StatusWritten { outcome: WriteOutcome::Current(budget), .. } => {
                self.budget_is(budget);
            }
            _ => {}
        }
    }

    fn pod_is(&mut self, pod: &Pod) {
        if let Some(listed) = &mut self.listed {
            listed.insert(pod.key.clone());
        }
        if let Some(before) = self.pods.insert(pod.key.clone(), pod.clone())
            && before.uid != pod.uid
        {
            self.pod_went(&before);
        }
        for held in self.held.iter_mut().filter(|held| held.pod == pod.key) {
            if held.bearer.is_none() {
                held.bearer = Some(pod.uid.clone());
                held.bearers.push(pod.uid.clone());
            }
        }
        if pod.terminating && carries_evidence(pod) {
            self.end_if(&pod.uid, |held| held.is_pinned || !held.is_shared);
        }
    }

    fn pod_went(&mut self, last: &Pod) {
        self.end_if(&last.uid, |held| {
            held.is_pinned || (carries_evidence(last) && !held.is_shared)
        });
        for held in self.held.iter_mut().filter(|h| h.bearer.as_ref() == Some(&last.uid)) {
            held.bearer = None;
        }
        // A new budget of that name takes over grants by uid, so only those of pods that are there.
        let orphaned = &self.orphaned;
        self.held.retain(|held| held.bearer.is_some() || !orphaned.contains(&held.budget));
    }

    fn end_if(&mut self, uid: &str, ends: impl Fn(&Held) -> bool) {
        let (ended, alive) = std::mem::take(&mut self.held)
            .into_iter()
            .partition(|h| h.bearer.as_deref() == Some(uid) && ends(h));
        self.held = alive;
        for held in Vec::<Held>::into_iter(ended) {
            for bearer in held.bearers {
                self.ended.insert((held.budget.clone(), bearer));
            }
            if held.is_anonymous {
                self.ended.insert((held.budget, entry(&held.pod.name, held.granted_at)));
            }
        }
    }

    pub fn budget_is(&mut self, budget: &Budget) {
        let key = &budget.key;
        // The watch may show a write later than its answer, and then it is old news.
        let newest = self.versions.entry(key.clone()).or_default();
        if budget.version.is_older_than(newest) {
            return;
        }
        newest.clone_from(&budget.version);
        for grant in &budget.status.grants {
            if let Some(held) = self.held.iter_mut().find(|h| h.budget == *key && h.is(grant)) {
                held.cost = grant.cost;
                held.eviction.clone_from(&grant.eviction);
                held.is_pinned = grant.pinned;
                held.is_shared = grant.shared;
                held.granted_at = grant.granted_at;
            } else if !self.ended.contains(&(key.clone(), grant.uid.clone())) {
                let pod = ObjectKey::new(&key.object.namespace, &grant.pod);
                self.held.push(Held {
                    budget: key.clone(),
                    pod,
                    bearers: vec![grant.uid.clone()],
                    bearer: Some(grant.uid.clone()),
                    cost: grant.cost,
                    eviction: grant.eviction.clone(),
                    is_anonymous: false,
                    is_firm: false,
                    is_pinned: grant.pinned,
                    is_shared: grant.shared,
                    granted_at: grant.granted_at,
                });
            }
        }
        for (name, at) in &budget.status.disrupted_pods {
            let pod = ObjectKey::new(&key.object.namespace, name);
            let is_explained = budget.status.grants.iter().any(|grant| grant.pod == *name)
                || self.of(key).any(|held| held.pod == pod)
                || self.ended.contains(&(key.clone(), entry(name, *at)));
            if !is_explained {
                let bearer = self.pods.get(&pod).map(|pod| pod.uid.clone());
                self.held.push(Held {
                    budget: key.clone(),
                    pod,
                    bearers: bearer.iter().cloned().collect(),
                    bearer,
                    cost: 1,
                    eviction: String::new(),
                    is_anonymous: true,
                    is_firm: false,
                    is_pinned: false,
                    is_shared: false,
                    granted_at: *at,
                });
            }
        }
    }
}

fn entry(name: &str, at: Timestamp) -> String {
    format!("name/{name} at {at:?}")
}

fn carries_evidence(pod: &Pod) -> bool {
    pod.disruption_target.as_ref().is_some_and(|t| t.reason == DisruptionTarget::EVICTION_API)
}
