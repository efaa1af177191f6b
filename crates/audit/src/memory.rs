//! What a grant leaves behind after its pod is gone (semantics 3.2 and 4).

use std::collections::BTreeMap;

use crate::expected::Source;
use crate::objects::{Budget, BudgetKey, Labels, Millis};
use crate::replica::Replica;

/// A group that is disrupted as a whole is refilled within this time, or its size is forgotten.
pub const SIZE_KEPT_MS: Millis = 10 * 60 * 1000;

#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Sources that lost a pod by a grant of this budget, until a selected pod of theirs is created; with the labels of
    /// that pod.
    sources: BTreeMap<BudgetKey, BTreeMap<Source, Labels>>,
    sizes: BTreeMap<(BudgetKey, Replica), Size>,
}

#[derive(Clone, Debug)]
struct Size {
    pods: i64,
    until: Moment,
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

    pub(crate) fn sizes(&self) -> impl Iterator<Item = (&BudgetKey, &Replica, i64)> {
        self.sizes.iter().map(|((budget, replica), size)| (budget, replica, size.pods))
    }

    pub(crate) fn keep_source(&mut self, budget: &BudgetKey, source: Source, labels: Labels) {
        self.sources.entry(budget.clone()).or_default().insert(source, labels);
    }

    /// An edited selector ends the memory of sources whose pods it does not match.
    pub(crate) fn drop_deselected(&mut self, budget: &Budget) {
        if let Some(sources) = self.sources.get_mut(&budget.key) {
            sources.retain(|_, labels| budget.selects(labels));
        }
    }

    pub(crate) fn drop_source(&mut self, budget: &BudgetKey, source: &Source) {
        if let Some(sources) = self.sources.get_mut(budget) {
            sources.remove(source);
        }
    }

    pub(crate) fn keep_size(&mut self, now: Millis, key: (BudgetKey, Replica), pods: i64) {
        let size =
            self.sizes.entry(key).or_insert(Size { pods, until: Moment(now + SIZE_KEPT_MS) });
        size.pods = size.pods.max(pods);
    }

    pub(crate) fn drop_size(&mut self, key: &(BudgetKey, Replica)) {
        self.sizes.remove(key);
    }

    pub(crate) fn expire(&mut self, now: Millis) {
        self.sizes.retain(|_, size| size.until > Moment(now));
    }

    pub(crate) fn forget(&mut self, budget: &BudgetKey) {
        self.sources.remove(budget);
        self.sizes.retain(|(of, _), _| of != budget);
    }
}
