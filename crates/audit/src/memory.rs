//! What a grant leaves behind after its pod is gone (semantics 3.2 and 4).

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::expected::Source;
use crate::objects::{Budget, BudgetKey, Labels, Millis, Pod};
use crate::replica::Replica;

/// The size of a group that is disrupted as a whole is kept for ten minutes, on clocks that run at 0.8 to 1.3 times the
/// rate. Until then every process keeps it.
const SIZE_SURE_MS: Millis = 450_000;
/// From then on no process keeps it.
pub const SIZE_KEPT_MS: Millis = 780_000;

#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Sources whose pods this budget granted, until a selected pod of theirs is there without a grant.
    sources: BTreeMap<BudgetKey, BTreeMap<Source, Taken>>,
    sizes: BTreeMap<(BudgetKey, Replica), Size>,
}

/// The labels of the granted pods of one source, by their uids.
pub(crate) type Taken = BTreeMap<String, Labels>;

#[derive(Clone, Debug)]
struct Size {
    pods: i64,
    /// Uid of the controller that all the group's pods had at every grant.
    controller: Option<String>,
    since: Moment,
}

/// A point in time by a name that exploration finds in the text of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub Millis);

impl Memory {
    pub fn sources(&self, budget: &BudgetKey) -> impl Iterator<Item = &Source> {
        self.sources.get(budget).into_iter().flat_map(BTreeMap::keys)
    }

    pub fn size(&self, budget: &BudgetKey, replica: &Replica) -> Option<i64> {
        self.sizes.get(&(budget.clone(), replica.clone())).map(|size| size.pods)
    }

    /// Budget, group, size, and the uid of the controller that all the group's pods had.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (&BudgetKey, &Replica, i64, Option<&str>)> {
        self.sizes.iter().map(|((budget, replica), size)| {
            (budget, replica, size.pods, size.controller.as_deref())
        })
    }

    pub(crate) fn keep_source(&mut self, budget: &BudgetKey, source: Source, pod: &Pod) {
        let taken = self.sources.entry(budget.clone()).or_default().entry(source).or_default();
        taken.insert(pod.uid.clone(), pod.labels.clone());
    }

    /// An edited selector ends the memory of pods that it does not match.
    pub(crate) fn drop_deselected(&mut self, budget: &Budget) {
        if let Some(sources) = self.sources.get_mut(&budget.key) {
            sources.retain(|_, taken| {
                taken.retain(|_, labels| budget.selects(labels));
                !taken.is_empty()
            });
        }
    }

    /// Ends the memory of sources that are back.
    pub(crate) fn drop_sources(&mut self, is_back: impl Fn(&BudgetKey, &Source, &Taken) -> bool) {
        for (budget, sources) in &mut self.sources {
            sources.retain(|source, taken| !is_back(budget, source, taken));
        }
        self.sources.retain(|_, sources| !sources.is_empty());
    }

    pub(crate) fn has_sources(&self) -> bool {
        !self.sources.is_empty()
    }

    /// The memory without sizes that some process may have forgotten.
    pub(crate) fn sure(&self, now: Millis) -> Cow<'_, Self> {
        let is_sure = |size: &Size| now < size.since.0 + SIZE_SURE_MS;
        if self.sizes.values().all(is_sure) {
            return Cow::Borrowed(self);
        }
        let mut sure = self.clone();
        sure.sizes.retain(|_, size| is_sure(size));
        Cow::Owned(sure)
    }

    pub(crate) fn keep_size(
        &mut self,
        now: Millis,
        key: (BudgetKey, Replica),
        (pods, controller): (i64, Option<String>),
    ) {
        let new = || Size { pods, controller: controller.clone(), since: Moment(now) };
        let size = self.sizes.entry(key).or_insert_with(new);
        size.pods = size.pods.max(pods);
        if size.controller != controller {
            size.controller = None;
        }
    }

    pub(crate) fn drop_size(&mut self, key: &(BudgetKey, Replica)) {
        self.sizes.remove(key);
    }

    pub(crate) fn expire(&mut self, now: Millis) {
        self.sizes.retain(|_, size| now < size.since.0 + SIZE_KEPT_MS);
    }

    pub(crate) fn forget(&mut self, budget: &BudgetKey) {
        self.sources.remove(budget);
        self.sizes.retain(|(of, _), _| of != budget);
    }
}
