//! What is remembered of gangs that objects do not say. Only by the leader, and only as long as it runs:
//! losing it makes a gang wait once more, and nothing worse.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Counts;
use crate::model::{ObjectKey, Timestamp};

/// UIDs of pods outside of gangs, and whether the scheduler has found no place for them: since when they are
/// expected to take room.
pub(super) type Expected = BTreeMap<(String, bool), Timestamp>;

#[derive(Debug, Default)]
pub(super) struct Memory {
    gangs: BTreeMap<ObjectKey, Gang>,
    /// By slot: groups come and go with each attempt.
    retries: BTreeMap<(String, String), Retry>,
    pub(super) expected: Expected,
    /// Workloads and what was said of them.
    pub(super) told: BTreeSet<(String, String)>,
}

#[derive(Debug, Default)]
pub(super) struct Gang {
    uid: String,
    /// When its gates were lifted, or were seen to be.
    pub(super) let_go: Option<Timestamp>,
    /// With all of its pods, and not only as many as it needs.
    pub(super) all: bool,
    /// All of its pods were gone since it was whole.
    pub(super) over: bool,
    /// Since when there is no room for it.
    pub(super) no_room: Option<Timestamp>,
    /// UIDs of the pods that are being taken back.
    pub(super) taking: BTreeSet<String>,
    /// When that ends, done or not.
    pub(super) given_up: Timestamp,
    pub(super) reported: Option<Timestamp>,
    pub(super) standing: Standing,
}

impl Gang {
    /// What there was to remember of one attempt.
    pub(super) fn forget(&mut self) {
        *self =
            Self { uid: std::mem::take(&mut self.uid), reported: self.reported, ..Self::default() };
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Retry {
    pub(super) attempts: u32,
    pub(super) not_before: Timestamp,
}

impl Memory {
    /// Of this very object.
    pub(super) fn gang(&mut self, key: &ObjectKey, uid: &str) -> &mut Gang {
        let gang = self.gangs.entry(key.clone()).or_default();
        if gang.uid != uid {
            *gang = Gang { uid: uid.to_owned(), ..Gang::default() };
        }
        gang
    }

    pub(super) fn known(&self, key: &ObjectKey) -> Option<&Gang> {
        self.gangs.get(key)
    }

    pub(super) fn retry(&self, slot: &(String, String)) -> Option<Retry> {
        self.retries.get(slot).copied()
    }

    /// Each time twice as long, up to a few timeouts.
    pub(super) fn taken_back(&mut self, slot: (String, String), now: Timestamp, timeout: Duration) {
        let attempts = self.retries.get(&slot).map_or(0, |retry| retry.attempts);
        let wait = (timeout / 5).saturating_mul(1 << attempts.min(16)).min(timeout * 6);
        self.retries.insert(slot, Retry { attempts: attempts + 1, not_before: now + wait });
    }

    pub(super) fn whole(&mut self, slot: &(String, String)) {
        self.retries.remove(slot);
    }

    pub(super) fn forget_group(&mut self, key: &ObjectKey) {
        if let Some(gang) = self.gangs.remove(key) {
            self.retries.remove(&(gang.uid, String::new()));
        }
    }

    pub(super) fn forget_owner(&mut self, uid: &str) {
        self.retries.retain(|(owner, _), _| owner != uid);
        self.told.retain(|(owner, _)| owner != uid);
    }

    pub(super) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for gang in self.gangs.values() {
            match gang.standing {
                Standing::Waiting | Standing::Ready | Standing::TakenBack => counts.waiting += 1,
                Standing::LetGo => counts.let_go += 1,
                Standing::Whole => counts.whole += 1,
            }
        }
        counts
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Standing {
    #[default]
    Waiting,
    Ready,
    LetGo,
    TakenBack,
    Whole,
}
