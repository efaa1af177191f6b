//! What a grant leaves behind after its pod is gone (semantics 3.2 and 4).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::expected::Source;
use crate::objects::{Budget, BudgetKey, Grant, Labels, Millis, Pod};
use crate::replica::Replica;

/// The size of a group that is disrupted as a whole is kept for ten minutes, on clocks that run at 0.8 to 1.3 times the
/// rate. Until then every process keeps it.
const SIZE_SURE_MS: Millis = 450_000;
/// From then on no process keeps it. A process that restarts may take a size for a minute younger than it is.
pub const SIZE_KEPT_MS: Millis = 3_600_000;
/// Combinations of doubtful memories are tried for so many of one budget: 64 counts.
const DOUBTS_MAX: usize = 6;

#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Sources whose pods this budget granted.
    sources: BTreeMap<BudgetKey, BTreeMap<Source, Emptied>>,
    sizes: BTreeMap<(BudgetKey, Replica), Size>,
}

/// A source of which a budget granted pods.
#[derive(Clone, Debug, Default)]
pub(crate) struct Emptied {
    /// The granted pods, by their uids.
    taken: BTreeMap<String, Taken>,
    /// An allowed operation took one of the pods, and since then no instance can have seen the source back or gone.
    sure: bool,
}

#[derive(Clone, Debug)]
struct Taken {
    labels: Labels,
    /// The write that recorded the grant recorded the source.
    recorded: bool,
}

/// The size of a group that is disrupted as a whole. A writer records how many pods it knows of, so the recorded size is
/// only known to be within bounds.
#[derive(Clone, Debug)]
pub(crate) struct Size {
    /// Uids of the pods whose grants recorded it.
    granted: BTreeSet<String>,
    least: i64,
    most: i64,
    /// `least` before the last grant if the size was certainly on record: then the grant recorded at least this size.
    floor: i64,
    /// Uid of the controller that all the group's pods had at every grant.
    controller: Option<String>,
    since: Moment,
    /// An allowed operation took one of the pods, and since then no instance can have seen the group full.
    sure: bool,
    /// The group has as many pods as its only controller wants by now.
    enough: bool,
}

/// What a grant records about the size of its group.
pub(crate) struct Recorded {
    pub uid: String,
    pub pods: i64,
    /// Uid of the controller that all the group's pods have.
    pub controller: Option<String>,
}

/// What the objects say of a group whose size is remembered.
pub(crate) struct Refill {
    /// Pods that are there and that no grant may take.
    pub pods: i64,
    /// How many pods the group's only controller wants.
    pub wanted: Option<i64>,
    /// A grant that recorded the size is still on record.
    pub granted: bool,
}

impl Size {
    fn new(least: i64, controller: Option<String>, since: Moment) -> Self {
        let granted = BTreeSet::new();
        let most = least;
        Self { granted, least, most, floor: 0, controller, since, sure: false, enough: false }
    }

    pub(crate) fn is_of(&self, uid: &str) -> bool {
        self.granted.contains(uid)
    }

    pub(crate) fn controller(&self) -> Option<&str> {
        self.controller.as_deref()
    }

    fn is_sure(&self, now: Millis) -> bool {
        self.sure && self.is_young(now)
    }

    fn is_young(&self, now: Millis) -> bool {
        now < self.since.0 + SIZE_SURE_MS
    }

    /// Whether the size is certainly on record. `grants`: those that the budget has on record. If none of them recorded
    /// the size and no operation took a pod, an instance that still sees the pod may have refunded the grant.
    fn is_held(&self, now: Millis, grants: &[Grant]) -> bool {
        let is_granted = grants.iter().any(|grant| self.is_of(&grant.uid));
        self.is_young(now) && (self.sure || is_granted)
    }

    /// The group is being looked at. Returns whether the size is still remembered.
    fn is_kept(&mut self, Refill { pods, wanted, granted }: &Refill) -> bool {
        let enough = |size: i64| *pods >= wanted.map_or(size, |wanted| size.min(wanted));
        self.sure &= !enough(self.least);
        self.enough = !granted && enough(self.most);
        *granted || *pods < self.most
    }
}

/// A memory that may count or not.
enum Doubt {
    Source(Source),
    Size(Replica),
    /// The larger of the sizes that the writer may have recorded.
    Most(Replica),
}

/// A point in time by a name that exploration finds in the text of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub Millis);

impl Memory {
    pub fn sources(&self, budget: &BudgetKey) -> impl Iterator<Item = &Source> {
        self.sources.get(budget).into_iter().flat_map(BTreeMap::keys)
    }

    pub fn size(&self, budget: &BudgetKey, replica: &Replica) -> Option<i64> {
        let size = self.sizes.get(&(budget.clone(), replica.clone()));
        size.filter(|size| !size.enough).map(|size| size.most)
    }

    /// Until the pod is lost it is not sure that the source counts: it may be lost otherwise, and the grant refunded.
    pub(crate) fn keep_source(
        &mut self,
        budget: &BudgetKey,
        source: Source,
        (pod, recorded): (&Pod, bool),
    ) {
        let sources = self.sources.entry(budget.clone()).or_default();
        let emptied = sources.entry(source).or_default();
        let labels = pod.labels.clone();
        emptied.taken.insert(pod.uid.clone(), Taken { labels, recorded });
    }

    /// The writer of a grant for this pod may have recorded this source.
    pub(crate) fn learn_source(&mut self, budget: &BudgetKey, source: Source, pod: &Pod) {
        let emptied = self.sources.entry(budget.clone()).or_default().entry(source).or_default();
        let taken = || Taken { labels: pod.labels.clone(), recorded: false };
        emptied.taken.entry(pod.uid.clone()).or_insert_with(taken);
    }

    /// An allowed operation takes the pod.
    pub(crate) fn lose(&mut self, budget: &BudgetKey, uid: &str) {
        for emptied in self.sources.get_mut(budget).into_iter().flat_map(BTreeMap::values_mut) {
            emptied.sure |= emptied.taken.get(uid).is_some_and(|taken| taken.recorded);
        }
        for (_, size) in self.sizes.iter_mut().filter(|((of, _), _)| of == budget) {
            size.sure |= size.is_of(uid);
        }
    }

    /// An edited selector ends the memory of pods that it does not match.
    pub(crate) fn drop_deselected(&mut self, budget: &Budget) {
        if let Some(sources) = self.sources.get_mut(&budget.key) {
            sources.retain(|_, emptied| {
                emptied.taken.retain(|_, taken| budget.selects(&taken.labels));
                !emptied.taken.is_empty()
            });
        }
    }

    /// Sources whose record some instance may have ended. Nothing shows when it did.
    pub(crate) fn doubt_sources(&mut self, is_doubtful: impl Fn(&BudgetKey, &Source) -> bool) {
        for (budget, sources) in &mut self.sources {
            for (source, emptied) in sources.iter_mut().filter(|(_, emptied)| emptied.sure) {
                emptied.sure = !is_doubtful(budget, source);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sources.is_empty() && self.sizes.is_empty()
    }

    /// The memory without what some process may have forgotten, or never recorded.
    pub(crate) fn sure(&self, now: Millis) -> Cow<'_, Self> {
        let all = self.sources.values().flat_map(BTreeMap::values).all(|emptied| emptied.sure);
        if all && self.sizes.values().all(|size| size.is_sure(now) && size.least == size.most) {
            return Cow::Borrowed(self);
        }
        let mut sure = self.clone();
        for sources in sure.sources.values_mut() {
            sources.retain(|_, emptied| emptied.sure);
        }
        sure.sizes.retain(|_, size| size.is_sure(now));
        for size in sure.sizes.values_mut() {
            size.most = size.least;
        }
        Cow::Owned(sure)
    }

    /// Everything that a process may remember for this budget: each doubtful memory counts or does not.
    pub(crate) fn variants(&self, budget: &BudgetKey, now: Millis) -> Vec<Self> {
        let sure = self.sure(now).into_owned();
        let mut doubts: Vec<Doubt> = Vec::new();
        let sources = self.sources.get(budget).into_iter().flatten();
        for (source, _) in sources.filter(|(_, emptied)| !emptied.sure) {
            doubts.push(Doubt::Source(source.clone()));
        }
        for (key, size) in self.sizes.iter().filter(|((of, _), _)| of == budget) {
            if !size.is_sure(now) {
                doubts.push(Doubt::Size(key.1.clone()));
            }
            if size.least != size.most {
                doubts.push(Doubt::Most(key.1.clone()));
            }
        }
        if doubts.len() > DOUBTS_MAX {
            return vec![self.clone(), sure];
        }
        let mut variants = vec![self.clone()];
        for doubt in doubts {
            let mut without = variants.clone();
            for memory in &mut without {
                memory.forget_doubt(budget, &doubt);
            }
            variants.extend(without);
        }
        variants
    }

    fn forget_doubt(&mut self, budget: &BudgetKey, doubt: &Doubt) {
        let key = |replica: &Replica| (budget.clone(), replica.clone());
        match doubt {
            Doubt::Source(source) => {
                self.sources.get_mut(budget).map(|own| own.remove(source));
            }
            Doubt::Size(replica) => {
                self.sizes.remove(&key(replica));
            }
            Doubt::Most(replica) => {
                if let Some(size) = self.sizes.get_mut(&key(replica)) {
                    size.most = size.least;
                }
            }
        }
    }

    /// A grant for a pod of this group is stored. `before`: the grants that the budget had on record until then.
    pub(crate) fn keep_size(
        &mut self,
        now: Millis,
        key: (BudgetKey, Replica),
        new: Recorded,
        (before, recorded): (&[Grant], bool),
    ) {
        let since = Moment(now);
        let empty = || Size::new(0, new.controller.clone(), since);
        let size = self.sizes.entry(key).or_insert_with(empty);
        size.floor = if size.is_held(now, before) { size.least } else { 0 };
        size.least = size.floor.max(new.pods);
        size.most = size.most.max(new.pods);
        if size.controller != new.controller {
            size.controller = None;
        }
        if recorded && size.granted.insert(new.uid) {
            size.since = since;
        }
    }

    /// The writer of the last grant knew of so many pods.
    pub(crate) fn learn_size(&mut self, now: Millis, key: (BudgetKey, Replica), known: Recorded) {
        let empty = || Size::new(known.pods, known.controller.clone(), Moment(now));
        let size = self.sizes.entry(key).or_insert_with(empty);
        if !size.granted.insert(known.uid) {
            size.least = size.least.min(known.pods).max(size.floor);
        }
        size.most = size.most.max(known.pods);
    }

    /// Ends the memory of groups that are full again.
    pub(crate) fn drop_sizes(&mut self, look: impl Fn(&BudgetKey, &Replica, &Size) -> Refill) {
        self.sizes.retain(|(budget, replica), size| {
            let refill = look(budget, replica, size);
            size.is_kept(&refill)
        });
    }

    pub(crate) fn expire(&mut self, now: Millis) {
        self.sizes.retain(|_, size| now < size.since.0 + SIZE_KEPT_MS);
    }

    pub(crate) fn forget(&mut self, budget: &BudgetKey) {
        self.sources.remove(budget);
        self.sizes.retain(|(of, _), _| of != budget);
    }
}
