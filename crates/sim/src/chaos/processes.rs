//! Processes that die, stand still, start again, and disagree about the time and the release.

use std::collections::BTreeSet;
use std::time::Duration;

use holdfast_core::lease::LEASE_DURATION;
use holdfast_core::model::{GroupApi, GroupKind, Owner};
use holdfast_core::{Config, Kind};

use super::clients::Outcome;
use super::fault::Fault;
use super::run::Run;

impl Run {
    /// Instances start, each with its own clock.
    pub fn start_instances(&mut self) {
        let older = self.random.below(self.params.instances);
        if self.params.has(Fault::OlderRelease) && self.params.instances > 1 {
            self.count(Fault::OlderRelease);
            self.older = Some(older);
            self.once_older.insert(older);
        }
        for index in 0..self.params.instances {
            let offset = self.random.between(0, 600_000).unsigned_abs();
            let rate = self.random.between(800, 1300);
            if self.params.has(Fault::ClockSkew) {
                self.count(Fault::ClockSkew);
                self.offsets[index] = Duration::from_millis(offset);
                self.world.instance(index).skew(self.offsets[index], rate);
            }
            let config = self.config_of(index);
            let mut instance = self.world.instance(index);
            instance.hold_watch();
            instance.hold_calls_and_lists();
            instance.own().config = config.clone();
            instance.revive();
            instance.sync();
        }
        self.elect();
    }

    /// What an instance was released with. An older release reads fewer kinds, so it knows and
    /// writes fewer watermarks, and must keep those that it does not know.
    pub fn config_of(&self, index: usize) -> Config {
        let mut config = Config::default();
        if self.older == Some(index) {
            let unknown = newer_kinds();
            config.kinds.retain(|kind| !unknown.contains(kind));
        }
        config
    }

    pub fn disturb_process(&mut self, fault: Fault) {
        let index = self.random.below(self.params.instances);
        let down = !self.world.instance(index).is_up();
        let up = !down && !self.paused.contains_key(&index);
        let now = self.world.revision();
        match fault {
            Fault::Crash | Fault::OldList | Fault::ClockJump if up => self.crash(index),
            Fault::OldList if down => {
                self.count(fault);
                let oldest = now.saturating_sub(200).max(self.began);
                let span = usize::try_from(now - oldest + 1).expect("small");
                let behind = self.random.below(span) as u64;
                self.start(index, now - behind);
            }
            Fault::ClockJump if down => {
                let offset = self.random.between(0, 7_200_000).unsigned_abs();
                self.offsets[index] = Duration::from_millis(offset);
                self.count(fault);
                self.start(index, now);
            }
            Fault::Crash if down => {
                self.count(fault);
                self.start(index, now);
            }
            Fault::CrashAtCall if up => {
                let calls = 1 + self.random.below(6) as u64;
                let at = self.world.instance(index).calls_made() + calls;
                self.doomed.insert(index, at);
            }
            Fault::Pause if up => {
                let longer = Duration::from_millis(self.random.between(1, 60_000).unsigned_abs());
                let until = self.world.now() + LEASE_DURATION + longer;
                self.count(fault);
                self.log(|| format!("{index} stands still"));
                self.world.instance(index).pause();
                self.paused.insert(index, until);
            }
            Fault::OlderRelease if up && self.older == Some(index) => {
                self.log(|| format!("{index} is updated"));
                self.crash(index);
                self.older = None;
                self.start(index, now);
            }
            Fault::OlderRelease if up && self.older.is_none() && self.params.instances > 1 => {
                self.log(|| format!("{index} is set back to an older release"));
                self.crash(index);
                self.count(fault);
                self.older = Some(index);
                self.once_older.insert(index);
                self.start(index, now);
            }
            Fault::LeaseTrouble => self.delete_lease(),
            _ => {}
        }
    }

    /// What time and calls bring about: processes end their pause, or die; the Lease is looked at.
    pub fn mind_processes(&mut self) {
        let now = self.world.now();
        let over: Vec<usize> =
            self.paused.iter().filter(|(_, until)| **until <= now).map(|(i, _)| *i).collect();
        for index in over {
            self.resume(index);
        }
        let doomed: Vec<(usize, u64)> = self.doomed.iter().map(|(i, at)| (*i, *at)).collect();
        for (index, at) in doomed {
            let mut instance = self.world.instance(index);
            if instance.is_up() && instance.calls_made() >= at {
                self.count(Fault::CrashAtCall);
                self.crash(index);
            }
        }
        self.elect();
    }

    /// Whoever waited for it has given up; what waits for it comes in any order.
    pub fn resume(&mut self, index: usize) {
        self.paused.remove(&index);
        self.log(|| format!("{index} goes on"));
        self.world.instance(index).resume();
        let now = self.world.now();
        self.world.advance_to(now);
        self.observe();
    }

    pub fn crash(&mut self, index: usize) {
        self.log(|| format!("{index} crashes"));
        self.world.instance(index).crash();
        self.doomed.remove(&index);
        for asked in self.requests.values_mut() {
            // What it was about to take back is nobody's concern but time's.
            if asked.instance == index && asked.outcome != Outcome::Allowed {
                asked.outcome = Outcome::Lost;
            }
        }
        let requests = &self.requests;
        self.unanswered.retain(|id| requests[id].instance != index);
    }

    /// A new process with empty memory, which lists as of this version.
    pub fn start(&mut self, index: usize, version: u64) {
        let behind = self.world.revision() - version;
        self.log(|| format!("{index} starts again, {behind} versions behind"));
        let (config, offset) = (self.config_of(index), self.offsets[index]);
        self.candidates[index].restart(index);
        self.world.instance(index).restart_as_of(&config, offset, version);
        self.positions.retain(|(of, _), _| *of != index);
        self.elect();
    }
}

/// Kinds that an older release does not read.
pub(super) fn newer_kinds() -> BTreeSet<Kind> {
    BTreeSet::from([
        Kind::Owner(GroupKind::new(Owner::LWS_GROUP, "LeaderWorkerSet")),
        Kind::Owner(GroupKind::new(Owner::JOBSET_GROUP, "JobSet")),
        Kind::Workload(GroupApi::Holdfast),
        Kind::PodGroup(GroupApi::Holdfast),
    ])
}
