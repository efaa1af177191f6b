//! What goes wrong between an instance and the API server's watches, and within an instance.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use holdfast_core::model::{BudgetKey, ObjectKey};
use holdfast_core::{Change, Config, Input, Kind};

use crate::instance::InstanceMut;
use crate::world::World;

impl World {
    /// The version that was given out last.
    pub fn revision(&self) -> u64 {
        self.truth.counter()
    }

    /// Somebody else writes the budget and changes nothing that we read: the next write of ours
    /// conflicts.
    pub fn touch_budget(&mut self, budget: &BudgetKey) {
        if let Some(budget) = self.truth.budgets.get(budget).cloned() {
            self.store(budget);
            self.settle();
        }
    }

    /// Everything of this kind as it was at this version. Only of a world that is recorded.
    fn list_as_of(&self, kind: &Kind, version: u64) -> Vec<Input> {
        let mut listed: BTreeMap<ObjectKey, &Input> = BTreeMap::new();
        for input in self.history(kind, 0) {
            let Some((_, key, at)) = input.subject() else { continue };
            if holdfast_core::model::ResourceVersion::from(version).is_older_than(at) {
                break;
            }
            if is_deletion(input) {
                listed.remove(key);
            } else {
                listed.insert(key.clone(), input);
            }
        }
        listed.into_values().cloned().collect()
    }
}

impl InstanceMut<'_> {
    /// List this kind as of a version that may be past, and watch from there. The list comes the
    /// way that events come, and may be held up on it like these.
    pub fn list_as_of(&mut self, kind: &Kind, version: u64) {
        if !self.own().config.kinds.contains(kind) {
            return;
        }
        self.own().listed = true;
        let mut coming = VecDeque::from([Input::ListBegan(kind.clone())]);
        coming.extend(self.world.list_as_of(kind, version));
        coming.push_back(Input::ListEnded(kind.clone(), version.into()));
        coming.extend(self.world.history(kind, version).cloned());
        let waiting = &mut self.own().watch.waiting;
        waiting.retain(|(of, _)| of != kind);
        waiting.extend(coming.into_iter().map(|input| (kind.clone(), input)));
    }

    /// A new process in its place, with this configuration and a clock that is wrong by so much. It
    /// lists every kind as of a version that may be past.
    pub fn restart_as_of(&mut self, config: &Config, offset: Duration, version: u64) {
        self.own().config = config.clone();
        self.set_clock(offset);
        self.revive();
        for kind in &config.kinds {
            self.list_as_of(kind, version);
        }
    }

    /// The next event of this kind comes twice. A list does not.
    pub fn duplicate_next(&mut self, kind: &Kind) -> bool {
        let waiting = &mut self.own().watch.waiting;
        let listing = has_list(waiting, kind);
        let Some(next) = waiting.iter().position(|(of, _)| of == kind).filter(|_| !listing) else {
            return false;
        };
        let event = waiting[next].clone();
        waiting.insert(next, event);
        true
    }

    /// Of several waiting events about one object only the last comes, as after a short cut.
    pub fn coalesce(&mut self, kind: &Kind) -> bool {
        let waiting = &mut self.own().watch.waiting;
        if has_list(waiting, kind) {
            return false;
        }
        let before = waiting.len();
        let subjects: Vec<Option<(Kind, ObjectKey)>> = waiting
            .iter()
            .map(|(_, input)| input.subject().map(|(kind, key, _)| (kind, key.clone())))
            .collect();
        let mut index = 0;
        waiting.retain(|(of, _)| {
            let overtaken = of == kind && subjects[index + 1..].contains(&subjects[index]);
            index += 1;
            !overtaken
        });
        waiting.len() < before
    }

    /// Nothing reaches it until it is resumed.
    pub fn pause(&mut self) {
        self.own().paused = true;
    }

    pub fn resume(&mut self) {
        self.own().paused = false;
    }

    pub fn is_paused(&mut self) -> bool {
        self.own().paused
    }

    /// How many calls it has made since it started.
    pub fn calls_made(&mut self) -> u64 {
        self.own().sent
    }

    /// Events of this kind that wait.
    pub fn waiting_of(&mut self, kind: &Kind) -> usize {
        self.own().watch.waiting.iter().filter(|(of, _)| of == kind).count()
    }
}

fn has_list(waiting: &VecDeque<(Kind, Input)>, kind: &Kind) -> bool {
    let is_list = |input: &Input| matches!(input, Input::ListBegan(_) | Input::ListEnded(..));
    waiting.iter().any(|(of, input)| of == kind && is_list(input))
}

fn is_deletion(input: &Input) -> bool {
    matches!(
        input,
        Input::Pod(Change::Deleted(_))
            | Input::Budget(Change::Deleted(_))
            | Input::BuiltinBudget(Change::Deleted(_))
            | Input::PodGroup(Change::Deleted(_))
            | Input::Workload(Change::Deleted(_))
            | Input::Owner(Change::Deleted(_))
    )
}
