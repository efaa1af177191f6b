//! Which of the gangs that are ready may go: in order of priority, then of age, and only as long as there is
//! room for every one on its way.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use super::gangs::{State, event, policy, retry_key};
use super::memory::Expected;
use super::room::{Room, Verdict};
use super::{Action, Group, Plan, Pod, World};
use crate::model::{GroupPolicy, ObjectKey, Timestamp};

/// For how long a pod is expected that the scheduler has found no place for, since there seems to be one: by
/// default it tries again within ten seconds. After that it knows better.
const TRIED_AGAIN: Duration = Duration::from_secs(15);

/// A gang whose pods are there, and held back.
struct Ready<'a> {
    group: &'a Group,
    /// Those without gates of others: at least as many as are needed.
    pods: Vec<&'a Pod>,
    needed: usize,
}

enum Step {
    Go {
        /// With pods that it could do without.
        all: bool,
        /// Without room.
        forced: bool,
    },
    Stay(State),
}

impl World {
    pub(super) fn choose(
        &mut self,
        ready: &[ObjectKey],
        let_go: &BTreeSet<ObjectKey>,
        now: Timestamp,
        plan: &mut Plan,
    ) {
        if ready.is_empty() {
            return;
        }
        let mut room = Room::new(self.nodes.values());
        let expected = self.expect_others(&mut room, let_go, now, plan);
        let steps = self.steps(ready, room, now, plan);
        self.memory.expected = expected;
        for (key, step) in steps {
            let state = match step {
                Step::Go { all, forced } => {
                    self.let_go(&key, all, forced, now, plan);
                    State::LetGo
                }
                Step::Stay(state) => {
                    let is_full = matches!(state, State::NoRoom(_));
                    if let Some(group) = self.groups.get(&key) {
                        let gang = self.memory.gang(&key, &group.object.uid);
                        gang.no_room = is_full.then(|| gang.no_room.unwrap_or(now));
                    }
                    state
                }
            };
            self.report(&key, &state, now, plan);
        }
    }

    fn steps<'a>(
        &'a self,
        ready: &[ObjectKey],
        mut room: Room<'a>,
        now: Timestamp,
        plan: &mut Plan,
    ) -> Vec<(ObjectKey, Step)> {
        let mut gangs: Vec<Ready<'_>> = ready.iter().filter_map(|key| self.ready(key)).collect();
        gangs.sort_by_cached_key(|gang| {
            let priority = gang.pods.iter().map(|pod| pod.priority.value).max();
            (Reverse(priority), gang.group.created, gang.group.object.key.clone())
        });
        let mut steps = Vec::new();
        for gang in gangs {
            let step = self.step(&gang, &mut room, now, plan);
            steps.push((gang.group.object.key.clone(), step));
        }
        steps
    }

    fn step<'a>(
        &'a self,
        gang: &Ready<'a>,
        room: &mut Room<'a>,
        now: Timestamp,
        plan: &mut Plan,
    ) -> Step {
        let Ready { group, pods, needed } = gang;
        if let Some(retry) = self.memory.retry(&retry_key(group))
            && retry.not_before > now
        {
            plan.wake(retry.not_before);
            let why = format!("taken back {} times; it will be tried again", retry.attempts);
            return Step::Stay(State::NoRoom(why));
        }
        let waits = |why: &str| Step::Stay(State::Waiting("WaitingForRoom", why.to_owned()));
        if room.is_kept_from(pods) {
            return waits("a gang that comes first waits for the same room");
        }
        let (all, verdict) = match room.verdict(pods) {
            Verdict::Fits => (true, Verdict::Fits),
            other if *needed == pods.len() => (true, other),
            _ => (false, room.verdict(&pods[..*needed])),
        };
        let going = if all { &pods[..] } else { &pods[..*needed] };
        let fitting = match verdict {
            Verdict::Fits => {
                room.expect_all(going);
                return Step::Go { all, forced: false };
            }
            Verdict::Contended => return waits("others are on their way to the same room"),
            Verdict::NoRoom(fitting) => fitting,
        };
        let why = no_room(fitting, *needed, pods);
        let patience = self.settings.room_wait;
        let since =
            self.memory.known(&group.object.key).and_then(|gang| gang.no_room).unwrap_or(now);
        if patience.is_zero() || now < since + patience || room.has_head() {
            if !patience.is_zero() {
                plan.wake(since + patience);
            }
            return Step::Stay(State::NoRoom(why));
        }
        room.keep_for(pods);
        if room.is_contended(pods) {
            return Step::Stay(State::NoRoom(why));
        }
        room.expect_all(going);
        Step::Go { all, forced: true }
    }

    fn let_go(
        &mut self,
        key: &ObjectKey,
        all: bool,
        forced: bool,
        now: Timestamp,
        plan: &mut Plan,
    ) {
        let Some(Ready { group, pods, needed }) = self.ready(key) else { return };
        let going = if all { &pods[..] } else { &pods[..needed] };
        plan.actions.extend(going.iter().map(|pod| Action::lift(pod)));
        if forced {
            let message = format!(
                "there was no room for {needed} pods for {} s: let go all the same, so that whoever adds nodes \
                 sees them",
                self.settings.room_wait.as_secs()
            );
            plan.events.push(event(group, "GangWithoutRoom", message));
        }
        plan.wake(now + self.settings.timeout);
        let uid = group.object.uid.clone();
        let gang = self.memory.gang(key, &uid);
        gang.let_go = Some(now);
        gang.all = all;
    }

    fn ready(&self, key: &ObjectKey) -> Option<Ready<'_>> {
        let group = self.groups.get(key)?;
        let Ok(GroupPolicy::Gang { min_count }) = policy(group, &self.workloads) else {
            return None;
        };
        let here = |pod: &&Pod| pod.is_lasting() && !pod.held;
        let pods: Vec<&Pod> = self.members(key).filter(here).collect();
        let needed = usize::try_from(min_count).ok().filter(|needed| *needed <= pods.len())?;
        Some(Ready { group, pods, needed })
    }

    /// Pods of gangs that were let go, and others that the scheduler may find a place for any moment. Since when
    /// each of these is waited for: it may never come to one whose scheduler is not there.
    fn expect_others<'a>(
        &'a self,
        room: &mut Room<'a>,
        let_go: &BTreeSet<ObjectKey>,
        now: Timestamp,
        plan: &mut Plan,
    ) -> Expected {
        let going = let_go.iter().flat_map(|key| self.members(key));
        for pod in going.filter(|pod| pod.node.is_none() && pod.is_lasting()) {
            room.expect(pod);
        }
        let is_going = |pod: &Pod| pod.group_key().is_some_and(|group| let_go.contains(&group));
        let alone = self.pending.iter().filter_map(|key| self.pods.get(key));
        let mut expected = Expected::new();
        for pod in alone.filter(|pod| !is_going(pod)) {
            let limit = match pod.unschedulable {
                true if !room.has_place(pod) => continue,
                true => TRIED_AGAIN,
                false => self.settings.timeout,
            };
            let key = (pod.uid.clone(), pod.unschedulable);
            let since = self.memory.expected.get(&key).copied().unwrap_or(now);
            expected.insert(key, since);
            if now < since + limit {
                plan.wake(since + limit);
                room.expect(pod);
            }
        }
        expected
    }
}

fn no_room(fitting: i64, needed: usize, pods: &[&Pod]) -> String {
    let mut unknown: Vec<&str> =
        pods.iter().flat_map(|pod| pod.constraints.unknown.iter().copied()).collect();
    unknown.sort_unstable();
    unknown.dedup();
    let estimate = if unknown.is_empty() {
        String::new()
    } else {
        format!(" (an estimate, which leaves out {})", unknown.join(", "))
    };
    format!("the cluster has room for {fitting} of the {needed} pods that it needs{estimate}")
}
