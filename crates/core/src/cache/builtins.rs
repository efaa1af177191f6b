//! Built-in `policy/v1` budgets. In webhook mode the API server decides by them after us.

use std::collections::BTreeMap;

use super::intern::Interner;
use super::selector::{Labels, Selector};
use super::selector_index::SelectorIndex;
use crate::model::{BuiltinBudget, ResourceVersion};

#[derive(Clone, Debug, Default)]
pub(crate) struct Builtins {
    entries: BTreeMap<String, Entry>,
    index: SelectorIndex<String>,
}

#[derive(Clone, Debug)]
struct Entry {
    object: BuiltinBudget,
    selector: Option<Selector>,
}

impl Builtins {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn apply(&mut self, interner: &mut Interner, builtin: BuiltinBudget) {
        let name = builtin.key.name.clone();
        let old = self.entries.get(&name);
        if old.is_some_and(|old| builtin.version.is_older_than(&old.object.version)) {
            return;
        }
        self.delete(interner, &name);
        // The built-in handler ignores a budget with an invalid selector (upstream 2.1.7).
        let selector = builtin.selector.as_ref();
        let selector = selector.and_then(|s| Selector::compile(interner, s).ok());
        if let Some(selector) = &selector {
            self.index.insert(&name, selector);
        }
        self.entries.insert(name, Entry { object: builtin, selector });
    }

    pub(super) fn delete(&mut self, interner: &mut Interner, name: &str) {
        if let Some(entry) = self.entries.remove(name)
            && let Some(selector) = entry.selector
        {
            self.index.remove(&name.to_owned(), &selector);
            selector.release(interner);
        }
    }

    /// Returns the budgets that select a pod with these labels, in no order to be relied on.
    pub(crate) fn covering<'a>(
        &'a self,
        labels: &'a Labels,
    ) -> impl Iterator<Item = &'a BuiltinBudget> {
        let candidates = self.index.candidates(labels).filter_map(|name| self.entries.get(name));
        let matching = |e: &&Entry| e.selector.as_ref().is_some_and(|s| s.matches(labels));
        candidates.filter(matching).map(|entry| &entry.object)
    }

    pub(super) fn names_where(
        &self,
        holds: impl Fn(&str, &ResourceVersion) -> bool,
    ) -> Vec<String> {
        let such = self.entries.iter().filter(|(name, e)| holds(name, &e.object.version));
        such.map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn set_versions(&mut self, version: &ResourceVersion) {
        self.entries.values_mut().for_each(|entry| entry.object.version.clone_from(version));
    }
}
