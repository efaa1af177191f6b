//! What is to be done about groups, in either shape: exactly one that lives for each slot, of the right size.

use std::collections::BTreeSet;
use std::time::Duration;

use super::memory::Standing;
use super::slot::Slot;
use super::world::slot_of;
use super::{
    Action, GANG_IMPOSSIBLE, Group, GroupApi, NewGroup, Owner, OwnerSpec, Plan, Pod, World,
};
use crate::io::{Event, Regarding};
use crate::model::{Condition, ConditionStatus, GroupPolicy, ObjectKey, TemplateRef, Timestamp};

/// A group is made before its first pod, which may not have been seen yet.
const YOUNG: Duration = Duration::from_secs(10);

impl World {
    /// What the leader is to do, all of it. What has been begun and not yet seen to be done is in it again.
    pub fn plan(&mut self, now: Timestamp) -> Plan {
        let mut plan = Plan::default();
        let holdfast = self.settings.api == GroupApi::Holdfast;
        let (mut ready, mut let_go) = (Vec::new(), BTreeSet::new());
        for key in std::mem::take(&mut self.open) {
            let before = plan.actions.len();
            let mut is_under_way = false;
            if self.groups.contains_key(&key) {
                let stays = self.keep_slot(&key, now, &mut plan);
                if holdfast {
                    plan.actions.extend(self.protection(&key));
                }
                if holdfast && stays {
                    let standing = self.keep_gang(&key, now, &mut plan);
                    is_under_way = !matches!(standing, Standing::Waiting | Standing::Whole);
                    match standing {
                        Standing::Ready => ready.push(key.clone()),
                        Standing::LetGo => drop(let_go.insert(key.clone())),
                        _ => {}
                    }
                }
            } else {
                self.memory.forget_group(&key);
                plan.actions.extend(self.remake(&key));
            }
            if is_under_way || plan.actions.len() > before {
                self.open.insert(key);
            }
        }
        self.choose(&ready, &let_go, now, &mut plan);
        plan.counts = holdfast.then(|| self.memory.counts());
        plan
    }

    /// Whether the group is here to stay.
    fn keep_slot(&mut self, key: &ObjectKey, now: Timestamp, plan: &mut Plan) -> bool {
        let Some(group) = self.groups.get(key) else { return false };
        if group.object.terminating {
            return true;
        }
        let Some((owner, slot)) = self.workload(group) else { return true };
        let is_needed = slot.is_some() && self.asks(owner);
        if self.is_superseded(group) || (!is_needed && !self.is_used(group)) {
            // Its pods, if there are any, end with the slot.
            let due = group.created + YOUNG;
            if now < due {
                plan.wake(due);
                self.open.insert(key.clone());
                return true;
            }
            plan.actions.push(delete(group));
            return false;
        }
        let Some(slot) = slot else { return true };
        if let Some(TemplateRef { workload, .. }) = &group.object.template
            && !self.workloads.contains_key(&ObjectKey::new(&*key.namespace, &**workload))
            && let Some(pod) = self.members(key).find(|pod| pod.is_lasting())
        {
            // Somebody has deleted its Workload.
            let again = NewGroup { key: key.clone(), ..slot.new_group(pod) };
            plan.actions.push(Action::Remake(Box::new(again)));
        }
        if let Some(min_count) = resized(group, &slot) {
            let Group { object, .. } = group;
            let template = object.template.clone();
            let (group, uid) = (object.key.clone(), object.uid.clone());
            plan.actions.push(Action::Resize { group, uid, min_count, template });
        }
        let Some(reason) = &slot.impossible else { return true };
        let message = reason.message(owner);
        if self.settings.api == GroupApi::Kubernetes
            && let Some(condition) = impossible(group, &reason.field, message.clone(), now)
        {
            let (group, uid) = (group.object.key.clone(), group.object.uid.clone());
            plan.actions.push(Action::Mark { group, uid, condition });
        }
        let fact = (owner.uid.clone(), reason.field.clone());
        let event =
            Event { regarding: regarding(owner), warning: true, reason: GANG_IMPOSSIBLE, message };
        if self.memory.told.insert(fact) {
            plan.events.push(event);
        }
        true
    }

    /// A group of ours that somebody has deleted while pods wait for it.
    fn remake(&self, key: &ObjectKey) -> Option<Action> {
        let made = self.members(key).find(|pod| pod.is_lasting()).and_then(|pod| self.remade(pod));
        made.map(|group| Action::Remake(Box::new(group)))
    }

    /// The workload that it was made for, and its slot as it is now.
    pub(super) fn workload<'a>(
        &'a self,
        group: &'a Group,
    ) -> Option<(&'a Owner, Option<Slot<'a>>)> {
        let slot = group.slot.as_ref()?;
        let controller = group.object.controller.as_ref()?;
        let owner = self.owner(&group.object.key.namespace, controller)?;
        Some((owner, self.slot_now(owner, slot)))
    }

    /// Whether another group of its slot is the one that lives.
    fn is_superseded(&self, group: &Group) -> bool {
        let groups = slot_of(group).and_then(|slot| self.slots.get(&slot));
        let others = groups.into_iter().flatten().filter_map(|key| self.groups.get(key));
        let living = others.filter(|other| !other.object.terminating);
        let best =
            living.max_by_key(|group| (self.has_lasting(group), group.created, &group.object.key));
        best.is_some_and(|best| best.object.key != group.object.key)
    }

    /// Whether pods are in it that are not on their way out.
    fn has_lasting(&self, group: &Group) -> bool {
        self.members(&group.object.key).any(Pod::is_lasting)
    }

    pub(super) fn is_used(&self, group: &Group) -> bool {
        self.members(&group.object.key).any(|pod| !pod.finished)
    }
}

impl Plan {
    pub(super) fn wake(&mut self, at: Timestamp) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }
}

/// The minCount that it should have and has not. The pods of a `LeaderWorkerSet` say how many they are
/// themselves, and a rollout may change that from group to group.
fn resized(group: &Group, slot: &Slot<'_>) -> Option<i64> {
    let is_lws = matches!(slot.owner.spec, OwnerSpec::LeaderWorkerSet { .. });
    match group.object.policy {
        GroupPolicy::Gang { min_count } if !is_lws && min_count != slot.min_count => {
            Some(slot.min_count)
        }
        _ => None,
    }
}

/// The condition, if it is yet to be written.
pub(super) fn impossible(
    group: &Group,
    field: &str,
    message: String,
    now: Timestamp,
) -> Option<Condition> {
    let known = group.condition(GANG_IMPOSSIBLE);
    if known.is_some_and(|known| known.message == message) {
        return None;
    }
    let last_part = field.rsplit(['.', '/']).next().unwrap_or(field).trim_end_matches(']');
    let mut letters = last_part.chars().filter(char::is_ascii_alphanumeric);
    // As reasons are written: `StartupPolicy`.
    let reason = letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters);
    let since = known.filter(|known| known.status == ConditionStatus::True);
    Some(Condition {
        kind: GANG_IMPOSSIBLE.to_owned(),
        status: ConditionStatus::True,
        reason: reason.collect(),
        message,
        observed_generation: group.generation,
        last_transition: since.map_or(now.truncated(), |known| known.last_transition),
    })
}

fn delete(group: &Group) -> Action {
    Action::Delete { group: group.object.key.clone(), uid: group.object.uid.clone() }
}

fn regarding(owner: &Owner) -> Regarding {
    let Owner { group_kind, api_version, key, uid, .. } = owner;
    Regarding::Object {
        api_version: format!("{}/{api_version}", group_kind.group),
        kind: group_kind.kind.clone(),
        key: key.clone(),
        uid: uid.clone(),
    }
}
