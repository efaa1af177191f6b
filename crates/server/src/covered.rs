//! The namespaces that have `PodUnavailableBudgets`, out of what the watch tells the engine.

use std::collections::BTreeSet;

use holdfast_core::model::{BudgetKind, ObjectKey};
use holdfast_core::{Change, Input, Kind};

#[derive(Debug, Default)]
pub struct Covered {
    budgets: BTreeSet<ObjectKey>,
    /// While a list comes in: what it has shown so far.
    listed: Option<BTreeSet<ObjectKey>>,
}

impl Covered {
    /// Whether the namespaces may be others now.
    pub fn take(&mut self, input: &Input) -> bool {
        match input {
            Input::Budget(change)
                if change.object().key.kind == BudgetKind::PodUnavailableBudget =>
            {
                let key = &change.object().key.object;
                match change {
                    Change::Applied(_) => self.insert(key),
                    Change::Deleted(_) => self.budgets.remove(key),
                }
            }
            // It is there.
            Input::Unreadable { kind: Kind::UnavailableBudget, key, .. } => self.insert(key),
            Input::ListBegan(Kind::UnavailableBudget) => {
                self.listed = Some(BTreeSet::new());
                false
            }
            Input::ListEnded(Kind::UnavailableBudget, _) => {
                self.budgets = self.listed.take().unwrap_or_default();
                true
            }
            Input::NotServed(Kind::UnavailableBudget) => {
                *self = Self::default();
                true
            }
            _ => false,
        }
    }

    pub fn namespaces(&self) -> BTreeSet<String> {
        self.budgets.iter().map(|key| key.namespace.clone()).collect()
    }

    fn insert(&mut self, key: &ObjectKey) -> bool {
        if let Some(listed) = &mut self.listed {
            listed.insert(key.clone());
        }
        self.budgets.insert(key.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_core::model::{Budget, BudgetKey, BudgetSpec, BudgetStatus, ResourceVersion};

    fn budget(key: BudgetKey) -> Budget {
        Budget {
            key,
            uid: "u".to_owned(),
            version: ResourceVersion::from(1),
            generation: 1,
            spec: BudgetSpec::default(),
            status: BudgetStatus::default(),
        }
    }

    fn applied(namespace: &str, name: &str) -> Input {
        Input::Budget(Change::Applied(budget(BudgetKey::unavailable(namespace, name))))
    }

    #[test]
    fn a_namespace_is_covered_from_its_first_budget_to_its_last() {
        let mut covered = Covered::default();
        assert!(covered.take(&applied("n", "a")));
        assert!(covered.take(&applied("n", "b")));
        assert!(!covered.take(&applied("n", "b")), "nothing new");
        let other = budget(BudgetKey::pdb("other", "a"));
        assert!(!covered.take(&Input::Budget(Change::Applied(other))));
        let gone = |name| Input::Budget(Change::Deleted(budget(BudgetKey::unavailable("n", name))));
        assert!(covered.take(&gone("a")));
        assert_eq!(covered.namespaces(), BTreeSet::from(["n".to_owned()]));
        assert!(covered.take(&gone("b")));
        assert!(covered.namespaces().is_empty());
    }

    #[test]
    fn what_a_list_does_not_show_is_gone_when_it_ends() {
        let mut covered = Covered::default();
        covered.take(&applied("old", "a"));
        covered.take(&Input::ListBegan(Kind::UnavailableBudget));
        covered.take(&applied("new", "a"));
        assert_eq!(covered.namespaces().len(), 2, "not before it is complete");
        let why = "garbled".to_owned();
        let key = ObjectKey::new("garbled", "a");
        covered.take(&Input::Unreadable { kind: Kind::UnavailableBudget, key, why });
        covered.take(&Input::ListEnded(Kind::UnavailableBudget, ResourceVersion::from(2)));
        assert_eq!(covered.namespaces(), BTreeSet::from(["garbled".to_owned(), "new".to_owned()]));
    }
}
