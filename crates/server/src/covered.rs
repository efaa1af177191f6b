//! The `PodUnavailableBudgets` that are there, out of what the watch tells the engine.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_core::model::{Budget, BudgetKind, ObjectKey};
use holdfast_core::{Change, Input, Kind};

/// What a budget that counts groups says of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    pub total: i64,
    pub available: i64,
}

#[derive(Debug, Default)]
pub struct Covered {
    budgets: BTreeMap<ObjectKey, Option<Groups>>,
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
                    Change::Applied(budget) => self.insert(key, Groups::of(budget)),
                    Change::Deleted(_) => self.budgets.remove(key).is_some(),
                }
            }
            // It is there.
            Input::Unreadable { kind: Kind::UnavailableBudget, key, .. } => {
                let known = self.budgets.get(key).copied().flatten();
                self.insert(key, known)
            }
            Input::ListBegan(Kind::UnavailableBudget) => {
                self.listed = Some(BTreeSet::new());
                false
            }
            Input::ListEnded(Kind::UnavailableBudget, _) => {
                let listed = self.listed.take().unwrap_or_default();
                self.budgets.retain(|key, _| listed.contains(key));
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
        self.budgets.keys().map(|key| key.namespace.clone()).collect()
    }

    /// Of every budget that counts groups.
    pub fn groups(&self) -> impl Iterator<Item = (&ObjectKey, Groups)> {
        self.budgets.iter().filter_map(|(key, groups)| groups.map(|groups| (key, groups)))
    }

    /// Whether it is new.
    fn insert(&mut self, key: &ObjectKey, groups: Option<Groups>) -> bool {
        if let Some(listed) = &mut self.listed {
            listed.insert(key.clone());
        }
        self.budgets.insert(key.clone(), groups).is_none()
    }
}

impl Groups {
    fn of(budget: &Budget) -> Option<Self> {
        budget.spec.unavailable.as_ref()?.groups.as_ref()?;
        let status = &budget.status;
        let (total, available) = (status.expected_replicas, status.current_healthy_replicas);
        Some(Self { total, available })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_core::model::{
        BudgetKey, BudgetSpec, BudgetStatus, LabelGroups, ResourceVersion, UnavailableSpec,
    };

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
        covered.take(&Input::Unreadable {
            kind: Kind::UnavailableBudget,
            key,
            why,
            salvaged: None,
        });
        covered.take(&Input::ListEnded(Kind::UnavailableBudget, ResourceVersion::from(2)));
        assert_eq!(covered.namespaces(), BTreeSet::from(["garbled".to_owned(), "new".to_owned()]));
    }
    #[test]
    fn only_budgets_in_group_mode_tell_of_groups() {
        let mut covered = Covered::default();
        covered.take(&applied("n", "pods"));
        let mut grouped = budget(BudgetKey::unavailable("n", "groups"));
        let groups = Some(LabelGroups { label: "group".to_owned(), min_ready: 1 });
        let spec = UnavailableSpec { groups, ..UnavailableSpec::default() };
        grouped.spec.unavailable = Some(Box::new(spec));
        grouped.status.expected_replicas = 3;
        grouped.status.current_healthy_replicas = 2;
        covered.take(&Input::Budget(Change::Applied(grouped)));
        let told: Vec<_> =
            covered.groups().map(|(key, groups)| (key.to_string(), groups)).collect();
        assert_eq!(told, [("n/groups".to_owned(), Groups { total: 3, available: 2 })]);
    }
}
