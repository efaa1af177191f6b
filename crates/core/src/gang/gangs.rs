//! Gangs of shape Holdfast: who is let go, who waits and for what, who is taken back.
//!
//! ```text
//!   Waiting --minCount pods, and room for them--> let go --all bound--> whole: no more held back
//!      ^    --no room for a while, and first-->     |
//!      +------- taken back: evicted <---- timeout --+
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use super::memory::Standing;
use super::plan::impossible;
use super::world::slot_of;
use super::{Action, GROUP_API_VERSION, Group, Plan, Pod, SCHEDULED, World};
use crate::io::{Event, Regarding};
use crate::model::{
    Condition, ConditionStatus, GroupPolicy, ObjectKey, PodGroup, TemplateRef, Timestamp, Workload,
};

/// How often a status that only counts along is written.
const REPORT_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, PartialEq, Eq)]
pub(super) enum State {
    /// What its chain lacks, or how many pods.
    Waiting(&'static str, String),
    /// Its pods are there, and held back.
    Ready,
    NoRoom(String),
    LetGo,
    TakenBack,
    /// As many as are needed have a node, or had: whoever comes is let go.
    Whole,
}

impl World {
    /// Sees to one gang, and says whether it is ready or on its way.
    pub(super) fn keep_gang(
        &mut self,
        key: &ObjectKey,
        now: Timestamp,
        plan: &mut Plan,
    ) -> Standing {
        let Some(state) = self.advance(key, now, plan) else { return Standing::Waiting };
        let standing = match state {
            State::Ready => Standing::Ready,
            State::LetGo => Standing::LetGo,
            State::TakenBack => Standing::TakenBack,
            State::Whole => Standing::Whole,
            State::Waiting(..) | State::NoRoom(_) => Standing::Waiting,
        };
        if let Some(group) = self.groups.get(key) {
            self.memory.gang(key, &group.object.uid).standing = standing;
        }
        // What is said of one that is ready depends on others.
        if standing != Standing::Ready {
            self.report(key, &state, now, plan);
        }
        standing
    }

    /// The finalizer: on while pods that have not finished name the group.
    pub(super) fn protection(&self, key: &ObjectKey) -> Option<Action> {
        let group = self.groups.get(key)?;
        let on = match (group.object.terminating, group.protected) {
            (false, false) => true,
            (true, true) if !self.is_used(group) => false,
            _ => return None,
        };
        Some(Action::Protect { group: key.clone(), uid: group.object.uid.clone(), on })
    }

    /// Everything about one gang that does not depend on others, and the state that it is in.
    fn advance(&mut self, key: &ObjectKey, now: Timestamp, plan: &mut Plan) -> Option<State> {
        let Self { groups, pods, members, memory, settings, workloads, .. } = self;
        let group = groups.get(key)?;
        let keys = members.get(key).into_iter().flatten();
        let live: Vec<&Pod> =
            keys.filter_map(|key| pods.get(key)).filter(|pod| pod.is_lasting()).collect();
        let memory_of = memory.gang(key, &group.object.uid);
        let lift = |plan: &mut Plan, most: usize| {
            let gated = live.iter().filter(|pod| pod.gated);
            plan.actions.extend(gated.take(most).map(|pod| Action::lift(pod)));
        };
        let (min, is_basic) = match policy(group, workloads) {
            Ok(GroupPolicy::Gang { min_count }) => {
                (usize::try_from(min_count).unwrap_or(usize::MAX), false)
            }
            Ok(_) => (1, true),
            Err((reason, why)) => return Some(State::Waiting(reason, why)),
        };
        let bound = live.iter().filter(|pod| pod.node.is_some()).count();
        // Until the last of them is gone; the status may lag behind that.
        memory_of.over |= live.is_empty();
        let is_true = |known: &Condition| known.status == ConditionStatus::True;
        let was_whole = group.condition(SCHEDULED).is_some_and(is_true) && !memory_of.over;
        if bound >= min || was_whole || is_basic {
            lift(plan, usize::MAX);
            memory_of.forget();
            memory.whole(&retry_key(group));
            if bound >= min || was_whole {
                return Some(State::Whole);
            }
            let why = format!("{bound} of its {} pods have a node", live.len());
            return Some(State::Waiting("Scheduling", why));
        }
        memory_of.taking.retain(|uid| live.iter().any(|pod| pod.uid == *uid));
        // A budget may be in the way for good, and those that are back already would wait in vain.
        if memory_of.given_up <= now {
            memory_of.taking.clear();
        }
        if !memory_of.taking.is_empty() {
            plan.wake(memory_of.given_up);
            let taken = live.iter().filter(|pod| memory_of.taking.contains(&pod.uid));
            plan.actions.extend(taken.map(|pod| Action::evict(pod)));
            return Some(State::TakenBack);
        }
        let free = live.iter().filter(|pod| !pod.gated).count();
        if free == 0 && memory_of.let_go.is_none() {
            let exist = live.iter().filter(|pod| !pod.held).count();
            if exist < min {
                memory_of.no_room = None;
                let why = match live.len() - exist {
                    0 => format!("{exist} of the {min} pods that it needs exist"),
                    held => format!(
                        "{exist} of the {min} pods that it needs exist, and {held} that have scheduling gates \
                         of others"
                    ),
                };
                return Some(State::Waiting("WaitingForPods", why));
            }
            return Some(State::Ready);
        }
        // Let go: by us, or before our time.
        let since = *memory_of.let_go.get_or_insert(now);
        if live.is_empty() {
            memory_of.let_go = None;
            let why = format!("0 of the {min} pods that it needs exist");
            return Some(State::Waiting("WaitingForPods", why));
        }
        let due = since + settings.timeout;
        if now < due {
            plan.wake(due);
            let most = if memory_of.all { usize::MAX } else { min.saturating_sub(free) };
            lift(plan, most);
            return Some(State::LetGo);
        }
        if live.iter().any(|pod| pod.controller.is_none()) {
            // They would be gone for good. Who waits for the same room need not wait for them.
            lift(plan, usize::MAX);
            let why = format!(
                "{bound} of the {min} pods that it needs found a node in time; pods without a controller are not \
                 taken back"
            );
            return Some(State::NoRoom(why));
        }
        memory_of.forget();
        memory_of.given_up = now + settings.timeout;
        plan.wake(memory_of.given_up);
        for pod in live.iter().filter(|pod| !pod.gated) {
            memory_of.taking.insert(pod.uid.clone());
            plan.actions.push(Action::evict(pod));
        }
        memory.taken_back(retry_key(group), now, settings.timeout);
        let after = settings.timeout.as_secs();
        plan.events.push(event(
            group,
            "GangTakenBack",
            format!(
                "{bound} of the {min} pods that it needs had a node {after} s after they were let go: all are \
                 evicted, to wait together for room"
            ),
        ));
        Some(State::TakenBack)
    }

    /// What the status should say, if it does not.
    pub(super) fn report(
        &mut self,
        key: &ObjectKey,
        state: &State,
        now: Timestamp,
        plan: &mut Plan,
    ) {
        let Some(group) = self.groups.get(key) else { return };
        if group.object.terminating && !self.is_used(group) {
            return;
        }
        let bound = |pod: &&Pod| pod.node.is_some() && pod.is_lasting();
        let scheduled_pods =
            i64::try_from(self.members(key).filter(bound).count()).unwrap_or(i64::MAX);
        let (status, reason, message) = match state {
            State::Whole => {
                let min = match policy(group, &self.workloads) {
                    Ok(GroupPolicy::Gang { min_count }) => min_count,
                    _ => 1,
                };
                let message = format!(
                    "All required pods ({}/{min}) have been assigned to nodes",
                    scheduled_pods.min(min)
                );
                (ConditionStatus::True, "MinCountSatisfied", message)
            }
            State::Waiting(reason, why) => (ConditionStatus::Unknown, *reason, why.clone()),
            State::NoRoom(why) => (ConditionStatus::False, "Unschedulable", why.clone()),
            State::TakenBack => {
                let why = "taken back, because too few of its pods found a node in time".to_owned();
                (ConditionStatus::False, "Unschedulable", why)
            }
            State::Ready | State::LetGo => {
                (ConditionStatus::Unknown, "Scheduling", "its pods are being scheduled".to_owned())
            }
        };
        let known = group.condition(SCHEDULED);
        let turned = known.is_none_or(|known| known.status != status);
        // Once whole, how many there were is history; how many there are is in scheduledPods.
        let same_text = known.is_some_and(|known| {
            known.reason == reason && (known.message == message || status == ConditionStatus::True)
        });
        let mut conditions = Vec::new();
        if turned || !same_text {
            let since = known.filter(|_| !turned).map(|known| known.last_transition);
            conditions.push(Condition {
                kind: SCHEDULED.to_owned(),
                status,
                reason: reason.to_owned(),
                message,
                observed_generation: group.generation,
                last_transition: since.unwrap_or_else(|| now.truncated()),
            });
        }
        let slot = self.workload(group).and_then(|(owner, slot)| Some((owner, slot?.impossible?)));
        if let Some((owner, reason)) = slot {
            conditions.extend(impossible(group, &reason.field, reason.message(owner), now));
        }
        if conditions.is_empty() && scheduled_pods == group.status.scheduled_pods {
            return;
        }
        let (uid, created) = (group.object.uid.clone(), group.created);
        let memory = self.memory.gang(key, &uid);
        let decided = turned && (known.is_some() || status != ConditionStatus::Unknown);
        let due = memory.reported.unwrap_or(created) + REPORT_EVERY;
        self.open.insert(key.clone());
        if !decided && now < due {
            plan.wake(due);
            return;
        }
        memory.reported = Some(now);
        plan.actions.push(Action::Report { group: key.clone(), uid, scheduled_pods, conditions });
    }
}

/// The whole chain has to be there: a template that is named, though the policy is inline.
pub(super) fn policy(
    group: &Group,
    workloads: &BTreeMap<ObjectKey, Workload>,
) -> Result<GroupPolicy, (&'static str, String)> {
    let PodGroup { key, policy, template, .. } = &group.object;
    let mut policy = *policy;
    if let Some(TemplateRef { workload, template }) = template {
        let Some(found) = workloads.get(&ObjectKey::new(&*key.namespace, &**workload)) else {
            let why = format!("Workload {workload} does not exist");
            return Err(("WaitingForWorkload", why));
        };
        let Some(entry) = found.entries.iter().find(|entry| entry.name == *template) else {
            let why = format!("Workload {workload} has no pod group template named {template}");
            return Err(("WaitingForWorkload", why));
        };
        if policy == GroupPolicy::Absent {
            policy = entry.policy;
        }
    }
    match policy {
        GroupPolicy::Absent => Err((
            "WaitingForPolicy",
            "it has neither a scheduling policy nor a template".to_owned(),
        )),
        GroupPolicy::Gang { min_count } if min_count < 1 => {
            Err(("WaitingForPolicy", format!("its gang.minCount is {min_count}, which is below 1")))
        }
        policy => Ok(policy),
    }
}

/// Attempts are counted by slot where there is one: its groups come and go.
pub(super) fn retry_key(group: &Group) -> (String, String) {
    slot_of(group).unwrap_or_else(|| (group.object.uid.clone(), String::new()))
}

pub(super) fn event(group: &Group, reason: &'static str, message: String) -> Event {
    Event {
        regarding: Regarding::Object {
            api_version: GROUP_API_VERSION.to_owned(),
            kind: "PodGroup".to_owned(),
            key: group.object.key.clone(),
            uid: group.object.uid.clone(),
        },
        warning: true,
        reason,
        message,
    }
}
