//! Scales of controllers that are not watched, read through their `/scale` subresource.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::io::ScaleOutcome;
use crate::model::{ControllerRef, GroupKind};

/// Nothing tells when such a scale changes, so it is read again now and then.
const REFRESH: Duration = Duration::from_secs(30);
/// Upstream forgets a failed sync until the next event (upstream 7.1.4); this is the mending.
const RETRY: Duration = Duration::from_secs(5);

/// Kind and name of the controller.
pub(crate) type ScaleKey = (GroupKind, String);

#[derive(Clone, Debug, Default)]
pub(crate) struct Scales(BTreeMap<ScaleKey, Entry>);

#[derive(Clone, Debug)]
struct Entry {
    reference: ControllerRef,
    /// None until the owner of the reference was read.
    outcome: Option<ScaleOutcome>,
    /// Uids of the owners of this name that pods have named.
    named: BTreeSet<String>,
    /// Reads under way. Only the answer to the last one shows the newest owner of the name.
    under_way: usize,
}

/// What a read has brought.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) has_changed: bool,
    /// Read it again after this time.
    pub(crate) again_after: Duration,
}

impl Scales {
    /// None: not read yet.
    pub(super) fn outcome(&self, reference: &ControllerRef) -> Option<&ScaleOutcome> {
        self.0.get(&scale_key(reference))?.outcome.as_ref()
    }

    /// Returns whether the scale was read, or is being read, since a pod named this very owner.
    pub(crate) fn is_known(&self, reference: &ControllerRef) -> bool {
        let entry = self.0.get(&scale_key(reference));
        entry.is_some_and(|entry| entry.named.contains(&reference.uid))
    }

    /// The scale is being read, because a pod names an owner that was not read before.
    pub(crate) fn begin(&mut self, reference: &ControllerRef) {
        let entry = self.0.entry(scale_key(reference)).or_insert_with(|| Entry {
            reference: reference.clone(),
            outcome: None,
            named: BTreeSet::new(),
            under_way: 0,
        });
        // What was read of another owner of the name says nothing of this one.
        entry.outcome = None;
        entry.named.insert(reference.uid.clone());
        entry.under_way += 1;
        entry.reference = reference.clone();
    }

    /// None: a later read is under way, or nothing needs the scale any more.
    pub(crate) fn answer(
        &mut self,
        reference: &ControllerRef,
        outcome: ScaleOutcome,
    ) -> Option<Answered> {
        let entry = self.0.get_mut(&scale_key(reference))?;
        entry.under_way = entry.under_way.saturating_sub(1);
        if entry.under_way > 0 {
            return None;
        }
        let failed = matches!(outcome, ScaleOutcome::Failed(_));
        let has_changed = entry.outcome.as_ref() != Some(&outcome);
        entry.outcome = Some(outcome);
        Some(Answered { has_changed, again_after: if failed { RETRY } else { REFRESH } })
    }

    /// Returns the owner that was read last.
    pub(crate) fn reference(&self, key: &ScaleKey) -> Option<&ControllerRef> {
        self.0.get(key).map(|entry| &entry.reference)
    }

    /// The scale is being read again. `reference` is the owner that has the name now.
    pub(crate) fn refresh(&mut self, key: &ScaleKey, reference: &ControllerRef) {
        if let Some(entry) = self.0.get_mut(key) {
            entry.reference = reference.clone();
            entry.under_way += 1;
        }
    }

    /// Nothing needs the scale any more.
    pub(crate) fn forget(&mut self, key: &ScaleKey) {
        self.0.remove(key);
    }
}

pub(crate) fn scale_key(reference: &ControllerRef) -> ScaleKey {
    (reference.group_kind.clone(), reference.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(uid: &str) -> ControllerRef {
        ControllerRef {
            group_kind: GroupKind::new("example.com", "Game"),
            version: "v1".to_owned(),
            name: "g".to_owned(),
            uid: uid.to_owned(),
        }
    }

    fn found(uid: &str, replicas: i64) -> ScaleOutcome {
        ScaleOutcome::Found { uid: uid.to_owned(), replicas }
    }

    #[test]
    fn the_answer_to_the_last_read_counts() {
        let mut scales = Scales::default();
        assert!(!scales.is_known(&reference("u1")));
        scales.begin(&reference("u1"));
        assert!(scales.is_known(&reference("u1")) && !scales.is_known(&reference("u2")));
        scales.begin(&reference("u2"));
        assert_eq!(scales.answer(&reference("u1"), found("u1", 3)), None);
        assert_eq!(scales.outcome(&reference("u2")), None);
        let answered = scales.answer(&reference("u2"), found("u2", 4));
        assert_eq!(answered, Some(Answered { has_changed: true, again_after: REFRESH }));
        assert_eq!(scales.outcome(&reference("u2")), Some(&found("u2", 4)));
    }

    #[test]
    fn a_failed_read_is_tried_again_sooner() {
        let mut scales = Scales::default();
        scales.begin(&reference("u"));
        let answered = scales.answer(&reference("u"), ScaleOutcome::Failed("timeout".to_owned()));
        assert_eq!(answered, Some(Answered { has_changed: true, again_after: RETRY }));
        let key = scale_key(&reference("u"));
        scales.refresh(&key, &reference("u"));
        let answered = scales.answer(&reference("u"), ScaleOutcome::Failed("timeout".to_owned()));
        assert_eq!(answered, Some(Answered { has_changed: false, again_after: RETRY }));
        scales.forget(&key);
        assert_eq!(scales.answer(&reference("u"), found("u", 1)), None);
    }
}
