//! Which replica a pod belongs to, and what that replica needs (semantics 3 and 4).
//!
//! ```text
//! pod --lws labels--------------------------------> LeaderWorkerSet group
//! pod --schedulingGroup / annotation--> PodGroup --template--> Workload entry
//! pod --workloadRef--------------------------------------------> Workload entry
//! pod --controller--> owner --controller--> ... root owner (how many replicas are expected)
//! ```
//!
//! A replica is resolved again when its pods change what they say of it, or when an object changes that its resolution
//! has looked at.

mod key;
mod labelled;
mod resolution;
mod resolver;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use litemap::LiteMap;

pub(crate) use key::ReplicaKey;
pub(crate) use labelled::{
    GroupFacts, LWS, LWS_NAME, LabelGroup, UNKNOWN_SIZE, label_group, source_of_groups,
};
pub(crate) use resolution::{Member, MinCount, Resolution};
pub(crate) use resolver::{HOLDFAST_FIRST, KUBERNETES_FIRST, resolve, unreadable_size};
pub(crate) use source::Source;

use crate::cache::{ObjectName, Objects};
use crate::model::BudgetId;

/// The replica that a pod names, and what the pod says of it.
pub(crate) type Place = (Arc<ReplicaKey>, Arc<Member>);

/// The replicas of one namespace that pods name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replicas {
    entries: BTreeMap<Arc<ReplicaKey>, Box<Replica>>,
    /// Object to the replicas whose resolution has looked at it.
    dependents: BTreeMap<ObjectName, BTreeSet<Arc<ReplicaKey>>>,
}

/// A replica, whichever budgets select its pods.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    members: LiteMap<Arc<Member>, u32>,
    names: BTreeSet<Arc<str>>,
    resolution: Arc<Resolution>,
    dependencies: Box<[ObjectName]>,
    /// Budgets that select at least one of its pods, and how many.
    budgets: LiteMap<BudgetId, u32>,
}

impl Replica {
    pub(crate) fn members(&self) -> &LiteMap<Arc<Member>, u32> {
        &self.members
    }

    /// Returns the names of its pods.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.names.iter()
    }

    pub(crate) fn resolution(&self) -> &Arc<Resolution> {
        &self.resolution
    }

    /// Returns the budgets that select at least one of its pods.
    pub(crate) fn budgets(&self) -> impl Iterator<Item = &BudgetId> {
        self.budgets.keys()
    }
}

impl Replicas {
    pub(crate) fn get(&self, key: &ReplicaKey) -> Option<&Replica> {
        self.entries.get(key).map(|replica| &**replica)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<ReplicaKey>, &Replica)> {
        self.entries.iter().map(|(key, replica)| (key, &**replica))
    }

    /// Moves a pod. Returns its new place, shared with the other pods of the replica, and the replicas to resolve.
    pub(crate) fn move_pod(
        &mut self,
        name: &Arc<str>,
        old: Option<Place>,
        new: Option<Place>,
    ) -> (Option<Place>, BTreeSet<Arc<ReplicaKey>>) {
        let mut changed = BTreeSet::new();
        if let Some((key, member)) = old
            && let Some(replica) = self.entries.get_mut(&key)
        {
            replica.names.remove(name);
            if let Some(n) = replica.members.get_mut(&member) {
                *n -= 1;
                if *n == 0 {
                    replica.members.remove(&member);
                }
            }
            changed.insert(key);
        }
        let new = new.map(|(key, member)| {
            let key = self.entries.get_key_value(&key).map_or(key, |(shared, _)| shared.clone());
            let replica = self.entries.entry(key.clone()).or_default();
            replica.names.insert(name.clone());
            let shared = replica.members.find_index(&member).ok();
            let shared = shared.and_then(|i| replica.members.get_indexed(i));
            let member = shared.map_or(member, |(shared, _)| shared.clone());
            *replica.members.entry(member.clone()).or_insert(0) += 1;
            changed.insert(key.clone());
            (key, member)
        });
        (new, changed)
    }

    /// Resolves a replica again. Returns it if its resolution is another now.
    pub(crate) fn resolve(&mut self, key: &Arc<ReplicaKey>, objects: &Objects) -> Option<&Replica> {
        let replica = self.entries.get_mut(key)?;
        let (resolution, dependencies) = resolve(objects, key, &replica.members);
        let gone = replica.members.is_empty();
        if gone || dependencies != replica.dependencies {
            for dependency in &replica.dependencies {
                if let Some(keys) = self.dependents.get_mut(dependency) {
                    keys.remove(key);
                    if keys.is_empty() {
                        self.dependents.remove(dependency);
                    }
                }
            }
            if !gone {
                for dependency in &dependencies {
                    self.dependents.entry(dependency.clone()).or_default().insert(key.clone());
                }
            }
        }
        if gone {
            self.entries.remove(key);
            return None;
        }
        replica.dependencies = dependencies;
        if *replica.resolution == resolution {
            return None;
        }
        replica.resolution = Arc::new(resolution);
        self.get(key)
    }

    /// Returns the replicas whose resolution has looked at this object.
    pub(crate) fn dependents(&self, object: &ObjectName) -> BTreeSet<Arc<ReplicaKey>> {
        self.dependents.get(object).cloned().unwrap_or_default()
    }

    /// These budgets select one more pod of the replica, or one less.
    pub(crate) fn count_budgets(&mut self, key: &ReplicaKey, budgets: &[BudgetId], adds: bool) {
        let Some(replica) = self.entries.get_mut(key) else { return };
        for id in budgets {
            let n = replica.budgets.entry(id.clone()).or_insert(0);
            *n = if adds { *n + 1 } else { n.saturating_sub(1) };
            if *n == 0 {
                replica.budgets.remove(id);
            }
        }
    }
}

impl Default for Replica {
    fn default() -> Self {
        Self {
            members: LiteMap::new(),
            names: BTreeSet::new(),
            resolution: Arc::default(),
            dependencies: Box::default(),
            budgets: LiteMap::new(),
        }
    }
}
