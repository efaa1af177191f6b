//! What is to happen, and when.

use std::collections::BTreeMap;

use holdfast_core::model::{ObjectKey, Timestamp};

/// In the order of their times, and of equals in the order in which they were put down.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    tasks: BTreeMap<(Timestamp, u64), Task>,
    count: u64,
}

/// For one pod, by uid: its successor of the same name is not meant.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub pod: ObjectKey,
    pub uid: String,
    pub what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Its containers run, and are ready.
    Start,
    /// Its containers restart, with a new spec.
    Restart,
    /// Its containers have ended.
    Remove,
}

impl Agenda {
    pub fn put(&mut self, at: Timestamp, task: Task) {
        self.count += 1;
        self.tasks.insert((at, self.count), task);
    }

    pub fn next_due(&self) -> Option<Timestamp> {
        self.tasks.first_key_value().map(|((at, _), _)| *at)
    }

    pub fn pop_due(&mut self, now: Timestamp) -> Option<Task> {
        let first = self.tasks.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(first.remove())
    }
}
