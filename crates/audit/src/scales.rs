//! The scales that a process is judged by (semantics 4).
//!
//! An owner is scaled up before it makes more pods. So whoever knows of pods beyond a scale knows that the scale may be
//! old, and is judged by the scale as of the newest of these pods.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::objects::{Budget, JOBSET_GROUP, Kind, Name, Owner, Pod};
use crate::state::State;

/// States of an owner that are kept. Who judges by one looks at the moments before a write.
const STATES_MAX: usize = 32;

/// The states of every owner in which its scale, its uid or its controller was new, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scales(BTreeMap<(Kind, Name), Vec<Arc<Owner>>>);

impl Scales {
    pub(crate) fn stored(&mut self, owner: &Owner) {
        let states = self.0.entry((owner.kind.clone(), owner.key.clone())).or_default();
        let bears = |o: &Owner| (o.replicas, o.uid.clone(), o.controller.clone());
        if states.last().is_none_or(|last| bears(last) != bears(owner)) {
            states.push(Arc::new(owner.clone()));
        }
        if states.len() > STATES_MAX {
            states.remove(0);
        }
    }

    /// Returns what a process knew, with newer owners: if the budget's pods exceed the scale of an owner, the owner is
    /// as it was when the newest of these pods was stored.
    pub(crate) fn complete<'a>(&self, budget: &Budget, known: &'a State) -> Cow<'a, State> {
        let Some(newest) = known.selected(budget).map(|pod| pod.version).max() else {
            return Cow::Borrowed(known);
        };
        let mut completed = Cow::Borrowed(known);
        for (key, owner) in &known.owners {
            if !is_exceeded(budget, known, owner) {
                continue;
            }
            for (key, states) in self.0.iter().filter(|(of, _)| *of == key || is_above(owner, of)) {
                let as_of = states.iter().rev().find(|state| state.version <= newest);
                let newer = as_of.filter(|state| {
                    known.owners.get(key).is_none_or(|owner| owner.version < state.version)
                });
                if let Some(owner) = newer {
                    completed.to_mut().owners.insert(key.clone(), owner.clone());
                }
            }
        }
        completed
    }
}

/// Whether the budget's pods are more than the owner is scaled to.
fn is_exceeded(budget: &Budget, known: &State, owner: &Owner) -> bool {
    // A JobSet has a number of Jobs.
    let Some(replicas) = owner.replicas.filter(|_| !owner.kind.is(JOBSET_GROUP, "JobSet")) else {
        return false;
    };
    let namespace = &owner.key.namespace;
    let live = || known.selected(budget).filter(|pod| !pod.is_finished() && !pod.terminating);
    let of_set = |pod: &Pod| owner.kind == Kind::lws() && pod.key.namespace == *namespace;
    let is_beyond = |pod: &Pod| {
        let lws = pod.lws.as_ref().filter(|lws| of_set(pod) && lws.set == owner.key.name);
        lws.and_then(|lws| lws.group_index).is_some_and(|index| index >= replicas)
    };
    let owns = |pod: &&Pod| {
        let mut link = pod.controller.as_ref().filter(|_| pod.key.namespace == *namespace);
        // A ReplicaSet and its Deployment.
        for _ in 0..2 {
            let Some(controller) = link else { return false };
            if controller.uid == owner.uid {
                return true;
            }
            let above = known.owner(&controller.kind, namespace, &controller.name);
            link = above.and_then(|above| above.controller.as_ref());
        }
        false
    };
    live().any(is_beyond)
        || i64::try_from(live().filter(owns).count()).unwrap_or(i64::MAX) > replicas
}

/// Whether this is the Deployment of a `ReplicaSet`.
fn is_above(set: &Owner, (kind, name): &(Kind, Name)) -> bool {
    let above = set.controller.as_ref().filter(|_| name.namespace == set.key.namespace);
    above.is_some_and(|above| above.kind == *kind && above.name == name.name)
}
