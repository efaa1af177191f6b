//! Finds the selectors that may match a pod without looking at the others.

use std::collections::BTreeMap;

use super::intern::Symbol;
use super::selector::{Labels, Requirement, Selector};

/// Finds the selectors that may match, by one requirement of each: its anchor.
#[derive(Clone, Debug)]
pub(crate) struct SelectorIndex<Id> {
    by_pair: BTreeMap<(Symbol, Symbol), Vec<Id>>,
    by_key: BTreeMap<Symbol, Vec<Id>>,
    /// Selectors without a positive requirement: they match nearly everything anyway.
    everywhere: Vec<Id>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Anchor {
    Pairs(Symbol, Vec<Symbol>),
    Key(Symbol),
    Everywhere,
}

impl<Id> Default for SelectorIndex<Id> {
    fn default() -> Self {
        Self { by_pair: BTreeMap::new(), by_key: BTreeMap::new(), everywhere: Vec::new() }
    }
}

impl<Id: Clone + PartialEq> SelectorIndex<Id> {
    pub(crate) fn insert(&mut self, id: &Id, selector: &Selector) {
        self.at(&Self::anchor(selector), |bucket| bucket.push(id.clone()));
    }

    pub(crate) fn remove(&mut self, id: &Id, selector: &Selector) {
        let anchor = Self::anchor(selector);
        self.at(&anchor, |bucket| bucket.retain(|other| other != id));
        match anchor {
            Anchor::Pairs(key, values) => {
                for value in values {
                    if self.by_pair.get(&(key, value)).is_some_and(Vec::is_empty) {
                        self.by_pair.remove(&(key, value));
                    }
                }
            }
            Anchor::Key(key) => {
                if self.by_key.get(&key).is_some_and(Vec::is_empty) {
                    self.by_key.remove(&key);
                }
            }
            Anchor::Everywhere => {}
        }
    }

    /// Every id whose selector may match these labels, each once, in no particular order.
    pub(crate) fn candidates<'a>(&'a self, labels: &'a Labels) -> impl Iterator<Item = &'a Id> {
        let by_label = labels.0.iter().flat_map(|(key, value)| {
            let pairs = self.by_pair.get(&(*key, *value));
            let keys = self.by_key.get(key);
            pairs.into_iter().chain(keys).flatten()
        });
        by_label.chain(&self.everywhere)
    }

    /// The most telling requirement: one value, else the fewest values, else a key.
    fn anchor(selector: &Selector) -> Anchor {
        let fewest = selector.requirements.iter().filter_map(|r| match r {
            Requirement::In(key, values) => Some((values.len(), key, values)),
            _ => None,
        });
        if let Some((_, key, values)) = fewest.min_by_key(|(n, ..)| *n) {
            let mut values = values.clone();
            values.sort_unstable();
            values.dedup();
            return Anchor::Pairs(*key, values);
        }
        let key = selector.requirements.iter().find_map(|r| match r {
            Requirement::Exists(key) => Some(*key),
            _ => None,
        });
        key.map_or(Anchor::Everywhere, Anchor::Key)
    }

    fn at(&mut self, anchor: &Anchor, mut f: impl FnMut(&mut Vec<Id>)) {
        match anchor {
            Anchor::Pairs(key, values) => {
                for value in values {
                    f(self.by_pair.entry((*key, *value)).or_default());
                }
            }
            Anchor::Key(key) => f(self.by_key.entry(*key).or_default()),
            Anchor::Everywhere => f(&mut self.everywhere),
        }
    }
}
