//! A budget's counters, kept up to date pod by pod.
//!
//! Every pod contributes a [`Part`]; every replica contributes a [`Summary`] of its parts. A change
//! takes the old contribution out and puts the new one in, so a pod event costs the same whatever
//! the size of the budget.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use litemap::LiteMap;

use crate::model::{BasicMinCount, ControllerRef, Scope};
use crate::replicas::{GroupFacts, MinCount, ReplicaKey, Resolution, Source};

/// What one selected pod contributes.
#[derive(Debug)]
pub(crate) struct Part<'a> {
    pub(crate) name: &'a Arc<str>,
    /// What its budget counts: replicas are not looked at where pods are counted.
    pub(crate) scope: Scope,
    pub(crate) replica: Option<&'a Arc<ReplicaKey>>,
    pub(crate) controller: Option<&'a Arc<ControllerRef>>,
    /// It should have one, and has none.
    pub(crate) unmanaged: bool,
    /// Several `PodUnavailableBudgets` are about it.
    pub(crate) several: bool,
    pub(crate) group: GroupFacts,
    pub(crate) counted: Counted,
}

/// What is counted of a pod's state, which changes all the time while the pod stays where it is.
#[allow(clippy::struct_excessive_bools, reason = "facts about a pod, each counted on its own")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) healthy: bool,
    /// Neither Succeeded nor Failed.
    pub(crate) unfinished: bool,
    /// Unfinished and not terminating.
    pub(crate) live: bool,
    /// Running and not terminating: such a pod can close a budget (semantics 6.4).
    pub(crate) running: bool,
    /// Live, and nobody may take it.
    pub(crate) intact: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) pods: i64,
    pub(crate) healthy_pods: i64,
    pub(crate) unmanaged_pods: i64,
    /// Pods that several `PodUnavailableBudgets` are about.
    pub(crate) several: i64,
    pub(crate) controllers: LiteMap<Arc<ControllerRef>, OwnPods>,
    pub(crate) live_pods: i64,
    /// Selected pods that name no replica. This and what follows stay empty where pods are counted.
    pub(crate) unreferenced: BTreeSet<Arc<str>>,
    replicas: BTreeMap<Hashed, ReplicaTally>,
    pub(crate) healthy_replicas: i64,
    /// Replicas that have a live pod and are not leaving.
    pub(crate) live_replicas: i64,
    /// Replicas that have an unfinished pod and are leaving, as a whole or in part.
    pub(crate) leaving_replicas: i64,
    /// Replicas that nobody can resolve and that have a running pod.
    pub(crate) closing: BTreeSet<Arc<ReplicaKey>>,
    pub(crate) unresolved: BTreeSet<Arc<ReplicaKey>>,
    /// Known minCounts of replicas that are not leaving.
    pub(crate) min_counts: LiteMap<i64, u32>,
    pub(crate) sources: LiteMap<Source, u32>,
    /// Sources of replicas that have a live pod and are not leaving.
    pub(crate) live_sources: LiteMap<Source, u32>,
    /// Sizes of groups that wait for the replacement of a pod (semantics 3.2): minCount is at least that.
    sizes: BTreeMap<Arc<ReplicaKey>, i64>,
    pub(crate) workloads: LiteMap<String, u32>,
}

/// The pods that a budget counts of one controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnPods {
    all: u32,
    pub(crate) live: u32,
}

/// In the order of hashes, so that to find one among thousands of names takes hardly longer than among ten. That order
/// must not reach any output.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Hashed(u64, Arc<ReplicaKey>);

impl Hashed {
    fn of(key: &Arc<ReplicaKey>) -> Self {
        // Always the same, unlike that of a `HashMap`. Who makes names collide is back to comparing them.
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        Self(hasher.finish(), key.clone())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplicaTally {
    pub(crate) pods: i64,
    pub(crate) healthy_pods: i64,
    pub(crate) unfinished: i64,
    live: i64,
    pub(crate) intact: i64,
    running: i64,
    /// Pods that say so.
    leaving: i64,
    /// What the live ones say.
    wholes: LiteMap<i64, u32>,
    resolution: Arc<Resolution>,
    pub(crate) summary: Summary,
}

/// What a replica contributes to its budget.
#[allow(clippy::struct_excessive_bools, reason = "facts about a replica, each counted on its own")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) healthy: bool,
    pub(crate) min: Option<i64>,
    /// Why there is no minCount.
    pub(crate) unresolved: Option<String>,
    pub(crate) leaving: bool,
    live: bool,
    /// Has an unfinished pod that says that it is leaving.
    leaves: bool,
    closes: bool,
    /// Has a pod.
    present: bool,
    /// Has a pod that has not ended.
    unfinished: bool,
}

impl Tally {
    pub(crate) fn replica(&self, key: &Arc<ReplicaKey>) -> Option<&ReplicaTally> {
        self.replicas.get(&Hashed::of(key))
    }

    /// In no order to be relied on.
    pub(crate) fn replicas(&self) -> impl Iterator<Item = (&Arc<ReplicaKey>, &ReplicaTally)> {
        self.replicas.iter().map(|(hashed, replica)| (&hashed.1, replica))
    }

    /// Put a pod in. `resolution` is that of its replica, if it names one.
    pub(crate) fn add(
        &mut self,
        part: &Part<'_>,
        resolution: Option<&Arc<Resolution>>,
        basic: &BasicMinCount,
    ) {
        self.count(part, 1);
        match (part.replica, resolution) {
            _ if part.scope == Scope::Pod => {}
            (Some(key), Some(resolution)) => {
                self.change(key, Some(resolution), basic, |r| r.count(part, part.counted, 1));
            }
            _ => {
                self.unreferenced.insert(part.name.clone());
            }
        }
    }

    /// Take a pod out, as it was put in.
    pub(crate) fn remove(&mut self, part: &Part<'_>, basic: &BasicMinCount) {
        self.count(part, -1);
        match part.replica {
            _ if part.scope == Scope::Pod => {}
            Some(key) => self.change(key, None, basic, |r| r.count(part, part.counted, -1)),
            None => {
                self.unreferenced.remove(part.name);
            }
        }
    }

    /// A pod that was counted like this stays where it was put in, and its part is now this.
    pub(crate) fn recount(&mut self, was: Counted, part: &Part<'_>, basic: &BasicMinCount) {
        if was == part.counted {
            return;
        }
        self.healthy_pods += i64::from(part.counted.healthy) - i64::from(was.healthy);
        let live = i64::from(part.counted.live) - i64::from(was.live);
        if live != 0 {
            self.live_pods += live;
            self.count_controller(part, 0, live);
        }
        if let Some(key) = part.replica.filter(|_| part.scope == Scope::Workload) {
            self.change(key, None, basic, |r| {
                r.count(part, was, -1);
                r.count(part, part.counted, 1);
            });
        }
    }

    /// A replica's resolution changed.
    pub(crate) fn resolve(
        &mut self,
        key: &Arc<ReplicaKey>,
        resolution: &Arc<Resolution>,
        basic: &BasicMinCount,
    ) {
        if self.replica(key).is_some() {
            self.change(key, Some(resolution), basic, |_| {});
        }
    }

    /// These groups wait for replacements, and no others. Returns whether that is new.
    pub(crate) fn set_sizes(
        &mut self,
        sizes: BTreeMap<Arc<ReplicaKey>, i64>,
        basic: &BasicMinCount,
    ) -> bool {
        if sizes == self.sizes {
            return false;
        }
        let before = std::mem::replace(&mut self.sizes, sizes);
        let keys: BTreeSet<_> = before.into_keys().chain(self.sizes.keys().cloned()).collect();
        for key in keys {
            if self.replica(&key).is_some() {
                self.change(&key, None, basic, |_| {});
            }
        }
        true
    }

    fn count(&mut self, part: &Part<'_>, n: i64) {
        self.pods += n;
        self.healthy_pods += n * i64::from(part.counted.healthy);
        self.several += n * i64::from(part.several);
        self.unmanaged_pods += n * i64::from(part.unmanaged);
        let live = n * i64::from(part.counted.live);
        self.live_pods += live;
        self.count_controller(part, n, live);
    }

    fn count_controller(&mut self, part: &Part<'_>, all: i64, live: i64) {
        let Some(controller) = part.controller else { return };
        let pods = match self.controllers.get_mut(controller) {
            Some(pods) => pods,
            None => self.controllers.entry(controller.clone()).or_default(),
        };
        pods.all = add(pods.all, all);
        pods.live = add(pods.live, live);
        if pods.all == 0 {
            self.controllers.remove(controller);
        }
    }

    /// `resolution`: if it may be another now.
    fn change(
        &mut self,
        key: &Arc<ReplicaKey>,
        resolution: Option<&Arc<Resolution>>,
        basic: &BasicMinCount,
        f: impl FnOnce(&mut ReplicaTally),
    ) {
        let hashed = Hashed::of(key);
        let replica = self.replicas.entry(hashed.clone()).or_default();
        f(replica);
        let was = replica.resolution.clone();
        if let Some(resolution) = resolution {
            replica.resolution = resolution.clone();
        }
        let now = replica.resolution.clone();
        let is_gone = replica.pods == 0;
        let size = if self.sizes.is_empty() { None } else { self.sizes.get(key).copied() };
        let after = if is_gone { Summary::default() } else { replica.summarise(&now, basic, size) };
        if replica.summary != after || was != now {
            let before = std::mem::replace(&mut replica.summary, after.clone());
            self.contribute(key, &before, -1);
            self.contribute(key, &after, 1);
            // Most changes are of health, and sources are maps of names.
            let presence = |s: &Summary| (s.present, s.unfinished, s.live);
            if was != now || presence(&before) != presence(&after) {
                self.contribute_sources((&before, &was), -1);
                self.contribute_sources((&after, &now), 1);
            }
        }
        if is_gone {
            self.replicas.remove(&hashed);
        }
    }

    fn contribute(&mut self, key: &Arc<ReplicaKey>, summary: &Summary, n: i64) {
        let toggle = |set: &mut BTreeSet<Arc<ReplicaKey>>, member: bool| {
            if member && n > 0 {
                set.insert(key.clone());
            } else if member {
                set.remove(key);
            }
        };
        self.healthy_replicas += n * i64::from(summary.healthy);
        self.live_replicas += n * i64::from(summary.live);
        self.leaving_replicas += n * i64::from(summary.leaves);
        toggle(&mut self.closing, summary.closes);
        toggle(&mut self.unresolved, summary.unresolved.is_some());
        if let Some(min) = summary.min.filter(|_| !summary.leaving) {
            adjust(&mut self.min_counts, &min, n);
        }
    }

    fn contribute_sources(&mut self, (summary, resolution): (&Summary, &Resolution), n: i64) {
        if summary.unfinished {
            for source in &*resolution.sources {
                adjust(&mut self.sources, source, n);
            }
        }
        if summary.live {
            for source in &*resolution.sources {
                adjust(&mut self.live_sources, source, n);
            }
        }
        if let Some(workload) = resolution.workload.as_ref().filter(|_| summary.present) {
            adjust(&mut self.workloads, workload, n);
        }
    }
}

impl ReplicaTally {
    pub(crate) fn resolution(&self) -> &Resolution {
        &self.resolution
    }

    pub(crate) fn has_source(&self, test: impl Fn(&Source) -> bool) -> bool {
        self.summary.unfinished && self.resolution.sources.iter().any(test)
    }

    /// How many have to be there and stay, by the most that a live pod of the group says.
    pub(crate) fn whole(&self) -> i64 {
        self.wholes.last().map_or(0, |(whole, _)| *whole)
    }

    fn count(&mut self, part: &Part<'_>, counted: Counted, n: i64) {
        self.pods += n;
        self.leaving += n * i64::from(part.group.is_surplus);
        if counted.live && part.group.whole_size > 0 {
            adjust(&mut self.wholes, &part.group.whole_size, n);
        }
        self.healthy_pods += n * i64::from(counted.healthy);
        self.unfinished += n * i64::from(counted.unfinished);
        self.live += n * i64::from(counted.live);
        self.intact += n * i64::from(counted.intact);
        self.running += n * i64::from(counted.running);
    }

    /// `size`: at least so many pods it needs, because it waits for the replacement of one.
    fn summarise(
        &self,
        resolution: &Resolution,
        basic: &BasicMinCount,
        size: Option<i64>,
    ) -> Summary {
        let size = size.filter(|_| resolution.whole).unwrap_or(0);
        let min = min_count(&resolution.min, basic).map(|min| min.max(size));
        let leaving = resolution.leaving || self.leaving == self.pods;
        Summary {
            healthy: !leaving
                && self.intact >= self.whole()
                && min.as_ref().is_ok_and(|min| {
                    self.healthy_pods >= if planted!(AnyPodWillDo) { 1 } else { *min }
                }),
            closes: min.is_err() && self.running > 0,
            leaving,
            live: !leaving && self.live > 0,
            leaves: (resolution.leaving || self.leaving > 0) && self.unfinished > 0,
            present: true,
            unfinished: self.unfinished > 0,
            unresolved: min.as_ref().err().cloned(),
            min: min.ok(),
        }
    }
}

/// The minCount as this budget sees it: its annotation answers for groups that have none.
fn min_count(min: &MinCount, basic: &BasicMinCount) -> Result<i64, String> {
    match (min, basic) {
        (MinCount::Known(n), _) => Ok(*n),
        (MinCount::Basic { at_least, .. }, BasicMinCount::Count(n)) if *n >= 1 => {
            Ok(*n.max(at_least))
        }
        (MinCount::Basic { group, .. }, BasicMinCount::Absent) => Err(format!(
            "{group} has the basic policy, which has no minCount; set annotation \
             holdfast.dev/basic-group-min-count on the budget to say how many pods a replica needs"
        )),
        (MinCount::Basic { group, .. }, BasicMinCount::Count(n)) => Err(format!(
            "{group} has the basic policy, and annotation holdfast.dev/basic-group-min-count is {n}, \
             which is below 1"
        )),
        (MinCount::Basic { group, .. }, BasicMinCount::Unreadable(text)) => Err(format!(
            "{group} has the basic policy, and annotation holdfast.dev/basic-group-min-count is \
             \"{text}\", which is not a whole number >= 1"
        )),
        (MinCount::Unresolved(why), _) => Err(why.clone()),
    }
}

fn adjust<K: Ord + Clone>(counts: &mut LiteMap<K, u32>, key: &K, n: i64) {
    let count = match counts.get_mut(key) {
        Some(count) => count,
        None => counts.entry(key.clone()).or_insert(0),
    };
    *count = add(*count, n);
    if *count == 0 {
        counts.remove(key);
    }
}

fn add(count: u32, n: i64) -> u32 {
    count
        .checked_add_signed(i32::try_from(n).expect("n is between -1 and 1"))
        .expect("what was put in is taken out once")
}
