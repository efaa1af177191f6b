//! What an instance has been told, kept by the world: what it may be blamed for having known.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use holdfast_audit::State;
use holdfast_audit::objects::{Kind as OwnerKind, Name, Object};
use holdfast_core::io::{SnapshotOutcome, WriteOutcome};
use holdfast_core::model::{GroupApi, ResourceVersion};
use holdfast_core::{Input, Kind};

use crate::audited::{self, budget_key, version};

/// Objects as the watches, lists and snapshots have shown them to one instance, in the auditor's types.
/// A plain copy of what went over the wire; the engine's own cache plays no part.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub state: State,
    /// Lists under way, and what they have held so far.
    lists: BTreeMap<Kind, BTreeSet<Name>>,
    /// A list showed everything up to here: older events say nothing new. By kind alone, so worlds
    /// that are checked by views keep to one namespace.
    floors: BTreeMap<Kind, u64>,
    /// How far the watch has come.
    reached: BTreeMap<Kind, u64>,
}

impl View {
    pub(crate) fn take_in(&mut self, input: &Input) {
        match input {
            // The answer to a write or read of its own. Of one that is gone it says nothing.
            Input::StatusWritten { outcome: WriteOutcome::Current(budget), .. }
                if self.state.budgets.contains_key(&budget_key(&budget.key)) =>
            {
                self.apply(Object::Budget(audited::budget(budget)), false);
            }
            Input::ListBegan(kind) => {
                self.lists.insert(kind.clone(), BTreeSet::new());
            }
            Input::ListEnded(kind, listed) => {
                let list = self.lists.remove(kind).unwrap_or_default();
                self.retain(kind, version(listed), &list);
            }
            Input::Snapshot {
                kind,
                outcome: SnapshotOutcome::Listed { version: listed, objects },
                ..
            } => {
                // Overtaken by the watch: it says nothing new.
                let listed = version(listed);
                if self.reached.get(kind).is_some_and(|reached| listed < *reached) {
                    return;
                }
                let under_way = self.lists.insert(kind.clone(), BTreeSet::new());
                for object in objects {
                    self.take_in(object);
                }
                let list = self.lists.remove(kind).unwrap_or_default();
                self.retain(kind, listed, &list);
                self.lists.extend(under_way.map(|list| (kind.clone(), list)));
            }
            _ => {
                let Some((kind, ..)) = input.subject() else { return };
                let Some((object, gone)) = audited::change(input) else { return };
                if self.is_new(&kind, object.name(), object.version()) {
                    self.apply(object, gone);
                }
            }
        }
    }

    /// Everything that the view depends on, with versions as versions. Exploration compares it as text.
    pub(crate) fn told(&self) -> impl fmt::Debug + '_ {
        let versions = |of: &BTreeMap<Kind, u64>| {
            of.iter().map(|(kind, n)| (kind.clone(), ResourceVersion::from(*n))).collect::<Vec<_>>()
        };
        (&self.state, &self.lists, versions(&self.floors), versions(&self.reached))
    }

    /// Whether all of this kind up to this version has been shown.
    pub fn has_seen(&self, kind: &Kind, wanted: &ResourceVersion) -> bool {
        self.has_reached(kind, version(wanted))
    }

    pub(crate) fn has_reached(&self, kind: &Kind, wanted: u64) -> bool {
        let shown = [self.reached.get(kind), self.floors.get(kind)];
        shown.into_iter().flatten().any(|shown| *shown >= wanted)
    }

    fn is_new(&mut self, kind: &Kind, name: &Name, version: u64) -> bool {
        if let Some(list) = self.lists.get_mut(kind) {
            list.insert(name.clone());
        } else {
            let reached = self.reached.entry(kind.clone()).or_default();
            *reached = version.max(*reached);
        }
        self.floors.get(kind).is_none_or(|floor| *floor < version)
    }

    fn retain(&mut self, kind: &Kind, listed: u64, list: &BTreeSet<Name>) {
        let stays = |name: &Name, own: u64| list.contains(name) || listed < own;
        let State { pods, budgets, groups, workloads, owners } = &mut self.state;
        match kind {
            Kind::Pod => pods.retain(|name, pod| stays(name, pod.version)),
            Kind::Budget | Kind::UnavailableBudget => {
                let unavailable = *kind == Kind::UnavailableBudget;
                budgets.retain(|key, budget| {
                    key.unavailable != unavailable || stays(&key.key, budget.version)
                });
            }
            Kind::PodGroup(api) => {
                groups.retain(|(of, name), g| !is(*of, *api) || stays(name, g.version));
            }
            Kind::Workload(api) => {
                workloads.retain(|(of, name), w| !is(*of, *api) || stays(name, w.version));
            }
            Kind::Owner(kind) => {
                let kind = OwnerKind::new(&kind.group, &kind.kind);
                owners.retain(|(of, name), o| *of != kind || stays(name, o.version));
            }
            Kind::BuiltinBudget => {}
        }
        let floor = self.floors.entry(kind.clone()).or_default();
        *floor = listed.max(*floor);
    }

    fn apply(&mut self, object: Object, gone: bool) {
        if self.state.version_of(&object).is_some_and(|stored| object.version() < stored) {
            return;
        }
        if gone {
            self.state.delete(&object);
        } else {
            self.state.store(object);
        }
    }
}

fn is(of: holdfast_audit::objects::Api, api: GroupApi) -> bool {
    (of == holdfast_audit::objects::Api::Kubernetes) == (api == GroupApi::Kubernetes)
}
