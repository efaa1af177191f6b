//! Grants as a budget's status records them.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{BudgetStatus, Grant, Operation};

/// What tells grants apart in a status. The order of the fields finds the records of one eviction together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RecordKey {
    pod: String,
    /// The eviction that wrote the record. Empty for entries that another program wrote.
    eviction: String,
    /// The pod's uid; for entries that another program wrote, their time.
    uid: String,
}

impl RecordKey {
    pub(super) fn of(grant: &Grant) -> Self {
        // Not the uid of the pod that this instance has bound the entry to: the API server does not have that.
        let is_foreign = grant.eviction.is_empty();
        let uid = if is_foreign { grant.granted_at.0.to_string() } else { grant.uid.clone() };
        Self { pod: grant.pod.clone(), eviction: grant.eviction.clone(), uid }
    }

    pub(super) fn is_for(&self, pod: &str, uid: &str) -> bool {
        self.pod == pod && self.uid == uid
    }

    pub(super) fn into_pod(self) -> (String, String) {
        (self.pod, self.uid)
    }
}

/// The grants that a status records.
#[derive(Debug)]
pub(super) struct Records(BTreeMap<RecordKey, Grant>);

impl Records {
    /// Includes entries of `disruptedPods` that no grant explains: another program wrote them.
    pub(super) fn of(status: &BudgetStatus) -> Self {
        let named: BTreeSet<&str> = status.grants.iter().map(|g| g.pod.as_str()).collect();
        let others = status.disrupted_pods.iter().filter(|(pod, _)| !named.contains(pod.as_str()));
        let foreign = others.map(|(pod, at)| Grant {
            pod: pod.clone(),
            uid: String::new(),
            replica: String::new(),
            cost: 1,
            requester: String::new(),
            // As it will be on the wire when we have written it.
            granted_at: at.truncated(),
            eviction: String::new(),
            budgets: Vec::new(),
            operation: Operation::Evict,
            generation: 0,
            shared: false,
            age_seconds: 0,
            pinned: false,
            targeted_before: false,
        });
        let all = status.grants.iter().cloned().chain(foreign);
        Self(all.map(|grant| (RecordKey::of(&grant), grant)).collect())
    }

    pub(super) fn contains(&self, key: &RecordKey) -> bool {
        self.0.contains_key(key)
    }

    pub(super) fn forget(&mut self, ended: &BTreeSet<RecordKey>) {
        self.0.retain(|key, _| !ended.contains(key));
    }

    /// Takes out the record of this grant, if there is one. By eviction and not by uid: a grant that was rebound to
    /// the next pod of the name has another uid on the API server until that is written.
    pub(super) fn take(&mut self, grant: &Grant) -> Option<Grant> {
        let own = RecordKey::of(grant);
        self.0.remove(&own).or_else(|| {
            let any = RecordKey { uid: String::new(), ..own.clone() };
            let (found, _) = self.0.range(any..).next()?;
            let is_same = found.pod == own.pod && found.eviction == own.eviction;
            let found = is_same.then(|| found.clone())?;
            self.0.remove(&found)
        })
    }

    pub(super) fn into_grants(self) -> Vec<Grant> {
        self.0.into_values().collect()
    }
}

/// Returns whether the status records this grant. A record of the same eviction for another pod of the name, or one
/// that names other budgets, was written before the eviction began again: the former may end with its pod, and the
/// latter look incomplete for ever.
pub(crate) fn has_recorded(status: &BudgetStatus, grant: &Grant) -> bool {
    let own = RecordKey::of(grant);
    status.grants.iter().any(|r| RecordKey::of(r) == own && r.budgets == grant.budgets)
}

/// Returns about how many bytes a grant takes up as JSON.
pub(super) fn size(grant: &Grant) -> usize {
    const KEYS_AND_QUOTES: usize = 160;
    let texts = [&grant.pod, &grant.uid, &grant.replica, &grant.requester, &grant.eviction];
    let budgets: usize = grant.budgets.iter().map(|b| b.len() + 3).sum();
    KEYS_AND_QUOTES + texts.iter().map(|t| t.len()).sum::<usize>() + budgets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grants::testing::{START, foreign, grant, status};

    #[test]
    fn a_record_is_found_by_its_eviction() {
        for (own, recorded, found) in [
            (grant("p", "u", "e"), grant("p", "u", "e"), true),
            // Rebound to u2, which is not written yet.
            (grant("p", "u2", "e"), grant("p", "u", "e"), true),
            (grant("p", "u", "e"), grant("p", "u", "other"), false),
            (grant("p", "u", "e"), grant("p2", "u", "e"), false),
        ] {
            let mut records = Records::of(&status(&[recorded]));
            assert_eq!(records.take(&own).is_some(), found, "{own:?}");
            assert_eq!(records.into_grants().is_empty(), found);
        }
    }

    #[test]
    fn entries_of_disrupted_pods_that_no_grant_explains_are_grants() {
        let mut status = status(&[grant("a", "u", "e")]);
        status.disrupted_pods.insert("a".to_owned(), START);
        status.disrupted_pods.insert("b".to_owned(), START);
        let all = Records::of(&status).into_grants();
        assert_eq!(all, [grant("a", "u", "e"), foreign("b")]);
        // Bound to a pod of that name, it is still the same record.
        let bound = Grant { uid: "u".to_owned(), ..foreign("b") };
        assert!(Records::of(&status).take(&bound).is_some());
    }

    #[test]
    fn a_record_that_names_other_budgets_is_another() {
        let own = grant("p", "u", "e");
        let others = Grant { budgets: vec!["b1".to_owned(), "b2".to_owned()], ..own.clone() };
        assert!(has_recorded(&status(std::slice::from_ref(&own)), &own));
        assert!(!has_recorded(&status(&[others]), &own));
        assert!(!has_recorded(&status(&[grant("p", "u2", "e")]), &own));
    }
}
