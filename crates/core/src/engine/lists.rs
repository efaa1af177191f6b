//! Answers to [`Command::ListNamespace`], and an etcd that was restored from a backup.

use std::collections::BTreeSet;

use super::Engine;
use crate::io::{Change, Command, Input, Kind, SnapshotOutcome};
use crate::model::{ResourceVersion, Timestamp};
use crate::namespace::Namespace;

/// A list of one namespace that is under way.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    at: Timestamp,
    /// The newest version of the kind that the watch had delivered by then.
    seen: Option<ResourceVersion>,
    /// The list may have been answered before etcd was restored.
    void: bool,
}

const RESTORED: &str = "the API server lists a state that is older than the one that Holdfast has seen before, so etcd was \
     restored from a backup; Holdfast reads the cluster again";

impl Engine {
    /// Remembers what was known when a list left: the answer is compared with that, and not with what the watch
    /// delivers while the list is in transit.
    pub(super) fn note_sent(&mut self, command: &Command) {
        if let Command::ListNamespace { kind, namespace } = command {
            let seen = self.progress.reached(kind).cloned();
            let asked = Asked { at: self.now, seen, void: false };
            self.asked.insert((kind.clone(), namespace.clone()), asked);
        }
    }

    /// One namespace of one kind, as of a version that the watch may not have reached yet.
    pub(super) fn snapshot(
        &mut self,
        now: Timestamp,
        kind: &Kind,
        namespace: &str,
        outcome: SnapshotOutcome,
    ) {
        let name = self.shared_name(namespace);
        let asked = self.asked.remove(&(kind.clone(), namespace.to_owned()));
        let sent = asked.as_ref().map_or(Timestamp::default(), |asked| asked.at);
        let (version, objects) = match outcome {
            SnapshotOutcome::Listed { version, .. } if is_of_the_past(asked.as_ref(), &version) => {
                let why = RESTORED.to_owned();
                return self.snapshot(now, kind, namespace, SnapshotOutcome::Failed(why));
            }
            SnapshotOutcome::Listed { version, objects } => (version, objects),
            SnapshotOutcome::NotServed if is_budget(kind) => {
                return self.within(now, &name, |ns, cx| ns.budgets_listed(cx, kind, sent, None));
            }
            SnapshotOutcome::NotServed if self.progress.reached(kind).is_none() => {
                return self.within(now, &name, |ns, cx| ns.nothing_to_list(cx, kind));
            }
            SnapshotOutcome::NotServed => {
                let why = SnapshotOutcome::Failed(format!("{kind} are not served"));
                return self.snapshot(now, kind, namespace, why);
            }
            SnapshotOutcome::Failed(why) => {
                return self.within(now, &name, |ns, cx| {
                    if is_budget(kind) {
                        ns.budgets_not_listed(cx, kind, &why);
                    } else {
                        ns.snapshot_failed(cx, kind, &why);
                    }
                });
            }
        };
        // The watch may have come further meanwhile. Then the list must not bring back deleted objects.
        let is_ahead = !self.progress.has_reached(kind, &version);
        let mut held = BTreeSet::new();
        for object in objects.into_iter().filter(|_| is_ahead) {
            if let Input::Unreadable { key, .. } = &object {
                held.insert(key.name.as_str().into());
            } else if let Some((_, key, _)) = object.subject() {
                held.insert(key.name.as_str().into());
            }
            // The list is ahead of the watch, so it is no progress of the watch.
            match object {
                Input::Budget(Change::Applied(budget)) => {
                    self.within(now, &name, |ns, cx| ns.apply_listed_budget(cx, budget));
                }
                Input::Unreadable { kind, key, why, salvaged } => {
                    self.within(now, &name, |ns, cx| {
                        ns.unreadable(cx, &kind, key, why, salvaged, true);
                    });
                }
                object => self.take_in(now, object),
            }
        }
        self.within(now, &name, |ns, cx| {
            if is_budget(kind) {
                // Only the watch ends a budget: it also shows which grants the budget had last.
                ns.budgets_listed(cx, kind, sent, Some(version));
                return;
            }
            if is_ahead {
                ns.retain(cx, kind, Some(&version), &held);
            }
            ns.caught_up(cx, kind, version);
        });
    }

    /// The watch of this kind has found that etcd was restored to an older state. Versions from before prove nothing:
    /// the list that follows replaces the whole cache of the kind.
    pub(super) fn restored(&mut self, now: Timestamp, kind: &Kind) {
        self.unsynced.insert(kind.clone());
        self.progress.forget(kind);
        self.asked.iter_mut().filter(|((of, _), _)| of == kind).for_each(|(_, a)| a.void = true);
        self.everywhere(now, |ns, _| ns.forget_versions(kind));
    }

    /// The cache of this kind is about to change without a list of a namespace's budgets saying so.
    pub(super) fn forget_budget_lists(&mut self, kind: &Kind) {
        self.namespaces.values_mut().for_each(|ns: &mut Namespace| ns.forget_budget_lists(kind));
    }
}

/// Whether a consistent list is older than what was known before the list was sent.
fn is_of_the_past(asked: Option<&Asked>, version: &ResourceVersion) -> bool {
    let Some(Asked { seen, void, .. }) = asked else { return false };
    *void || seen.as_ref().is_some_and(|seen| version.is_older_than(seen))
}

fn is_budget(kind: &Kind) -> bool {
    matches!(kind, Kind::Budget | Kind::UnavailableBudget)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::model::{GroupApi, GroupPolicy, ObjectKey, PodGroup};

    /// Found by seed 1361 of crates/server-sim: the groups were ignored for ever.
    #[test]
    fn objects_of_a_kind_that_is_served_again_are_taken_in() {
        let kind = Kind::PodGroup(GroupApi::Kubernetes);
        let group = PodGroup {
            api: GroupApi::Kubernetes,
            key: ObjectKey::new("n", "g"),
            uid: "u".to_owned(),
            version: ResourceVersion::from(5),
            terminating: false,
            controller: None,
            policy: GroupPolicy::Gang { min_count: 1 },
            template: None,
            disrupt_whole: false,
            composite_parent: None,
        };
        let objects = vec![Input::PodGroup(Change::Applied(group))];
        let outcome = SnapshotOutcome::Listed { version: 9.into(), objects };
        let is_ignored = |engine: &Engine| {
            let version = ResourceVersion::from(5);
            engine.namespaces.get("n").is_some_and(|ns| ns.is_superseded(&kind, &version))
        };
        let mut engine = Engine::new(Config::default());
        let listed = Input::Snapshot { kind: kind.clone(), namespace: "n".to_owned(), outcome };
        engine.handle(Timestamp(1000), listed);
        assert!(is_ignored(&engine), "the list showed it");
        engine.handle(Timestamp(1000), Input::NotServed(kind.clone()));
        assert!(!is_ignored(&engine), "it is not in the cache any more");
    }
}
