//! What the watches have shown of one namespace, and reads of what is not watched.
//!
//! ```text
//! pods: labels (interned), state, owner ----\
//! PodGroups, Workloads, owners: Objects -----+--> Cache --> replicas, budgets
//! policy/v1 budgets: Builtins ---------------/
//! /scale of unwatched owners: Scales -------/
//! how far the watches and lists have come: Progress, CatchUp, BudgetLists
//! ```
//!
//! An apply or a delete says what has changed. Nothing here knows of budgets, but that each pod names those that
//! select it.

mod budget_lists;
mod builtins;
mod catch_up;
mod intern;
mod objects;
mod pod;
mod pods;
mod progress;
mod scales;
mod selector;
mod selector_index;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(crate) use budget_lists::BudgetLists;
use builtins::Builtins;
pub(crate) use catch_up::{CatchUp, Claim};
use intern::Interner;
pub(crate) use objects::{Changed, GroupCount, ObjectName, Objects, owner_kind};
pub(crate) use pod::CachedPod;
use pod::Controllers;
pub(crate) use pods::{PodEntry, PodEvent, PodState};
pub(crate) use progress::{Progress, Seen};
pub(crate) use scales::{Answered, ScaleKey, Scales, scale_key};
pub(crate) use selector::{Labels, Selector, display};
pub(crate) use selector_index::SelectorIndex;

use crate::io::{Kind, ScaleOutcome};
use crate::model::{BuiltinBudget, ControllerRef, LabelSelector, ResourceVersion};

#[derive(Clone, Debug, Default)]
pub(crate) struct Cache {
    interner: Interner,
    pods: BTreeMap<Arc<str>, Box<PodEntry>>,
    /// Pods whose newest state cannot be decoded.
    unreadable_pods: BTreeSet<Arc<str>>,
    controllers: Controllers,
    pub(crate) objects: Objects,
    builtins: Builtins,
    pub(crate) scales: Scales,
}

/// What a pod is judged by: its labels as text, and its owners.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    interner: &'a Interner,
    pub(crate) objects: &'a Objects,
}

/// How upstream's finders answer for one controller reference (upstream 1.5).
pub(crate) enum Found<'a> {
    Scale {
        uid: &'a str,
        replicas: i64,
    },
    Nothing,
    Failed(String),
    /// The scale has not been read yet.
    Pending,
}

impl<'a> Known<'a> {
    /// Returns the value of a label.
    pub(crate) fn value(self, labels: &Labels, key: &str) -> Option<&'a Arc<str>> {
        labels.value(self.interner, key)
    }

    /// Returns the value of a label of a pod.
    pub(crate) fn label(self, pod: &PodEntry, key: &str) -> Option<&'a Arc<str>> {
        self.value(&pod.labels, key)
    }
}

impl Cache {
    pub(crate) fn known(&self) -> Known<'_> {
        Known { interner: &self.interner, objects: &self.objects }
    }

    /// Returns whether no object is in the cache.
    pub(crate) fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.builtins.is_empty() && self.objects.is_empty()
    }

    pub(crate) fn compile(&mut self, selector: &LabelSelector) -> Result<Selector, String> {
        Selector::compile(&mut self.interner, selector)
    }

    pub(crate) fn forget(&mut self, selector: &Selector) {
        selector.release(&mut self.interner);
    }

    /// Returns labels as text.
    pub(crate) fn texts(&self, labels: &Labels) -> BTreeMap<String, String> {
        labels.texts(&self.interner)
    }

    pub(crate) fn apply_builtin(&mut self, builtin: BuiltinBudget) {
        self.builtins.apply(&mut self.interner, builtin);
    }

    pub(crate) fn delete_builtin(&mut self, name: &str) {
        self.builtins.delete(&mut self.interner, name);
    }

    pub(crate) fn builtins_of<'a>(
        &'a self,
        pod: &'a PodEntry,
    ) -> impl Iterator<Item = &'a BuiltinBudget> {
        self.builtins.covering(&pod.labels)
    }

    /// Asks the finders in upstream's order; the first that finds something wins.
    pub(crate) fn find_scale(&self, reference: &ControllerRef) -> Found<'_> {
        if let Some(owner) = self.objects.scaled_owner(reference) {
            return Found::Scale { uid: &owner.uid, replicas: owner.replicas.unwrap_or(0) };
        }
        match self.scales.outcome(reference) {
            None => Found::Pending,
            // A targetRef has no uid.
            Some(ScaleOutcome::Found { uid, replicas })
                if *uid == reference.uid || reference.uid.is_empty() =>
            {
                Found::Scale { uid, replicas: *replicas }
            }
            Some(ScaleOutcome::Found { .. } | ScaleOutcome::NotFound) => Found::Nothing,
            Some(ScaleOutcome::NotImplemented(resource)) => {
                Found::Failed(format!("{resource} does not implement the scale subresource"))
            }
            Some(ScaleOutcome::Failed(why)) => Found::Failed(why.clone()),
        }
    }

    /// Returns the names of objects of this kind, which is none of budgets with a ledger, for which that holds.
    pub(crate) fn names_where(
        &self,
        kind: &Kind,
        holds: impl Fn(&str, &ResourceVersion) -> bool,
    ) -> Vec<String> {
        match kind {
            Kind::Pod => {
                let such = self.pods().filter(|entry| holds(&entry.name, &entry.pod.version));
                such.map(|entry| entry.name.to_string()).collect()
            }
            Kind::BuiltinBudget => self.builtins.names_where(holds),
            _ => self.objects.names_where(kind, holds),
        }
    }

    /// Every object of this kind has this version from now on.
    pub(crate) fn set_versions(&mut self, kind: &Kind, version: &ResourceVersion) {
        match kind {
            Kind::Pod => {
                self.pods.values_mut().for_each(|entry| entry.pod.version.clone_from(version));
            }
            Kind::BuiltinBudget => self.builtins.set_versions(version),
            _ => self.objects.set_versions(kind, version),
        }
    }
}
