//! What is remembered of gangs that objects do not say. Only by the leader, and only as long as it runs:
//! losing it makes a gang wait once more, and nothing worse.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::model::{ObjectKey, Timestamp};

#[derive(Debug, Default)]
pub(super) struct Memory {
    gangs: BTreeMap<ObjectKey, Gang>,
    /// By slot: groups come and go with each attempt.
    retries: BTreeMap<(String, String), Retry>,
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
    pub(super) reported: Option<Timestamp>,
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

    /// Forgets what is no more.
    pub(super) fn retain(
        &mut self,
        is_group: impl Fn(&ObjectKey) -> bool,
        is_owner: impl Fn(&str) -> bool,
    ) {
        self.gangs.retain(|key, _| is_group(key));
        self.retries.retain(|(owner, slot), _| slot.is_empty() || is_owner(owner));
        self.told.retain(|(owner, _)| is_owner(owner));
    }
}
