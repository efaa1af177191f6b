//! Scales of controllers that are not watched, read through their `/scale` subresource.
//!
//! At most one read of a scale is under way, so an answer is never older than the answer before it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::io::ScaleOutcome;
use crate::model::{ControllerRef, GroupKind, ResourceVersion, Timestamp};

/// Nothing tells when such a scale changes, so it is read again now and then.
const REFRESH: Duration = Duration::from_secs(30);
/// Upstream forgets a failed sync until the next event (upstream 7.1.4). Holdfast tries again.
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
    reading: Reading,
    /// Decisions wait for the answer.
    is_awaited: bool,
    /// The scale is as new as the pods of this version.
    as_of: Option<ResourceVersion>,
    /// When it is read again.
    due: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reading {
    No,
    /// The version of pods that were known when the read was sent, if a decision needed that.
    Once(Option<ResourceVersion>),
    /// The read that is under way may be too old. Another one follows.
    Again(Option<ResourceVersion>),
}

/// What to do after an answer to a read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// The answer may be too old: read again.
    ReadAgain(ControllerRef),
    /// Read it again at this time.
    Taken { has_changed: bool, due: Timestamp },
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

    /// A pod names an owner that was not read before. Returns whether the caller is to read the scale now.
    pub(crate) fn begin(&mut self, reference: &ControllerRef) -> bool {
        let entry = self.0.entry(scale_key(reference)).or_insert_with(|| Entry::new(reference));
        // What was read of another owner of the name says nothing of this one.
        entry.outcome = None;
        entry.as_of = None;
        entry.named.insert(reference.uid.clone());
        entry.reference = reference.clone();
        entry.read(None)
    }

    /// A decision needs the scale as of these pods. Returns whether the caller is to read it now; None if it is that
    /// new.
    pub(crate) fn demand(
        &mut self,
        reference: &ControllerRef,
        pods: &ResourceVersion,
    ) -> Option<bool> {
        let entry = self.0.get_mut(&scale_key(reference))?;
        if entry.as_of.as_ref().is_some_and(|as_of| !as_of.is_older_than(pods)) {
            return None;
        }
        let is_first = !std::mem::replace(&mut entry.is_awaited, true);
        Some(is_first && entry.read(Some(pods.clone())))
    }

    /// Returns whether a decision waits for a scale.
    pub(crate) fn is_awaited(&self) -> bool {
        self.0.values().any(|entry| entry.is_awaited)
    }

    /// None: nothing needs the scale any more.
    pub(crate) fn answer(
        &mut self,
        reference: &ControllerRef,
        outcome: ScaleOutcome,
        now: Timestamp,
    ) -> Option<Answered> {
        let entry = self.0.get_mut(&scale_key(reference))?;
        match std::mem::replace(&mut entry.reading, Reading::No) {
            Reading::No => return None,
            Reading::Again(as_of) => {
                entry.reading = Reading::Once(as_of);
                return Some(Answered::ReadAgain(entry.reference.clone()));
            }
            Reading::Once(as_of) => entry.as_of = as_of.or(entry.as_of.take()),
        }
        entry.is_awaited = false;
        let has_failed = matches!(outcome, ScaleOutcome::Failed(_));
        let has_changed = entry.outcome.as_ref() != Some(&outcome);
        entry.outcome = Some(outcome);
        let due = now + if has_failed { RETRY } else { REFRESH };
        entry.due = Some(due);
        Some(Answered::Taken { has_changed, due })
    }

    /// Returns the owner that was read last, if its scale is to be read again now.
    pub(crate) fn due(&self, key: &ScaleKey, now: Timestamp) -> Option<&ControllerRef> {
        let entry = self.0.get(key)?;
        entry.due.is_some_and(|due| due <= now).then_some(&entry.reference)
    }

    /// It is time to read the scale again. `reference` is the owner that has the name now. Returns whether the caller
    /// is to read it now.
    pub(crate) fn refresh(&mut self, key: &ScaleKey, reference: &ControllerRef) -> bool {
        self.0.get_mut(key).is_some_and(|entry| {
            entry.reference = reference.clone();
            entry.read(None)
        })
    }

    /// Versions start over: etcd was restored. What was read, or is being read, is as new as nothing.
    pub(crate) fn forget_versions(&mut self) {
        for entry in self.0.values_mut() {
            entry.as_of = None;
            if entry.reading != Reading::No {
                entry.reading = Reading::Again(None);
            }
        }
    }

    /// Nothing needs the scale any more.
    pub(crate) fn forget(&mut self, key: &ScaleKey) {
        self.0.remove(key);
    }
}

impl Entry {
    fn new(reference: &ControllerRef) -> Self {
        Self {
            reference: reference.clone(),
            outcome: None,
            named: BTreeSet::new(),
            reading: Reading::No,
            is_awaited: false,
            as_of: None,
            due: None,
        }
    }

    /// Returns whether the caller is to read the scale now.
    fn read(&mut self, as_of: Option<ResourceVersion>) -> bool {
        self.due = None;
        match std::mem::replace(&mut self.reading, Reading::No) {
            Reading::No => {
                self.reading = Reading::Once(as_of);
                true
            }
            Reading::Once(earlier) | Reading::Again(earlier) => {
                self.reading = Reading::Again(as_of.or(earlier));
                false
            }
        }
    }
}

pub(crate) fn scale_key(reference: &ControllerRef) -> ScaleKey {
    (reference.group_kind.clone(), reference.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1000);

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
    fn an_answer_to_an_earlier_read_is_not_taken() {
        let mut scales = Scales::default();
        assert!(!scales.is_known(&reference("u1")));
        assert!(scales.begin(&reference("u1")));
        assert!(scales.is_known(&reference("u1")) && !scales.is_known(&reference("u2")));
        assert!(!scales.begin(&reference("u2")), "one at a time");
        let again = scales.answer(&reference("u1"), found("u1", 3), NOW);
        assert_eq!(again, Some(Answered::ReadAgain(reference("u2"))));
        assert_eq!(scales.outcome(&reference("u2")), None);
        let answered = scales.answer(&reference("u2"), found("u2", 4), NOW);
        assert_eq!(answered, Some(Answered::Taken { has_changed: true, due: NOW + REFRESH }));
        assert_eq!(scales.outcome(&reference("u2")), Some(&found("u2", 4)));
    }

    #[test]
    fn a_failed_read_is_tried_again_sooner() {
        let mut scales = Scales::default();
        scales.begin(&reference("u"));
        let failed = || ScaleOutcome::Failed("timeout".to_owned());
        let answered = scales.answer(&reference("u"), failed(), NOW);
        assert_eq!(answered, Some(Answered::Taken { has_changed: true, due: NOW + RETRY }));
        let key = scale_key(&reference("u"));
        assert_eq!(scales.due(&key, NOW), None);
        assert_eq!(scales.due(&key, NOW + RETRY), Some(&reference("u")));
        assert!(scales.refresh(&key, &reference("u")));
        assert_eq!(scales.due(&key, NOW + RETRY), None, "it is being read");
        let answered = scales.answer(&reference("u"), failed(), NOW);
        assert_eq!(answered, Some(Answered::Taken { has_changed: false, due: NOW + RETRY }));
        scales.forget(&key);
        assert_eq!(scales.answer(&reference("u"), found("u", 1), NOW), None);
    }

    #[test]
    fn a_demand_is_met_by_a_read_that_was_sent_after_it() {
        let (mut scales, of) = (Scales::default(), reference("u"));
        scales.begin(&of);
        assert_eq!(scales.demand(&of, &7.into()), Some(false), "the first read is under way");
        assert!(scales.is_awaited());
        assert_eq!(scales.demand(&of, &8.into()), Some(false), "and one follows it");
        let again = scales.answer(&of, found("u", 1), NOW);
        assert_eq!(again, Some(Answered::ReadAgain(of.clone())));
        assert!(scales.is_awaited());
        scales.answer(&of, found("u", 3), NOW);
        assert!(!scales.is_awaited());
        assert_eq!(scales.demand(&of, &7.into()), None);
        assert_eq!(scales.demand(&of, &8.into()), Some(true));
        scales.refresh(&scale_key(&of), &of);
        scales.answer(&of, found("u", 3), NOW);
        scales.answer(&of, found("u", 4), NOW);
        assert_eq!(scales.demand(&of, &8.into()), None, "a later read is as new");
    }
}
