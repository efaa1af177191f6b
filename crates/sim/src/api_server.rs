//! How the API server answers the engine's calls.

use std::sync::Arc;

use holdfast_core::io::{PodReadOutcome, ScaleOutcome, SnapshotOutcome, WriteOutcome};
use holdfast_core::model::{
    Budget, BudgetKey, BudgetStatus, ControllerRef, GroupKind, ObjectKey, ResourceVersion,
};
use holdfast_core::{Command, Input};

use crate::instance::Call;
use crate::view::View;
use crate::world::{World, Written};

impl World {
    /// Answer a call that no instance has made, for whoever wants to see what this API server says.
    pub fn call(&mut self, command: Command) -> Option<Input> {
        self.execute(Call { by: 0, command, view: Arc::default() })
    }

    pub(crate) fn execute(&mut self, call: Call) -> Option<Input> {
        let Call { by, command, view } = call;
        match command {
            Command::WriteStatus { budget, uid, version, status } => {
                let outcome = self.write_status(
                    (by, view),
                    &budget,
                    (&uid, &version),
                    Arc::unwrap_or_clone(status),
                );
                Some(Input::StatusWritten { budget, uid, outcome })
            }
            Command::ReadBudget { budget, uid } => {
                let outcome = current(self.truth.budgets.get(&budget));
                Some(Input::StatusWritten { budget, uid, outcome })
            }
            Command::ReadPod { token, pod } => {
                let outcome = match self.truth.pods.get(&pod) {
                    Some(pod) => PodReadOutcome::Found(Box::new(pod.clone())),
                    None => PodReadOutcome::NotFound,
                };
                Some(Input::PodRead { token, outcome })
            }
            Command::ReadScale { namespace, owner } => {
                let outcome = self.read_scale(&namespace, &owner);
                Some(Input::ScaleRead { namespace, owner, outcome })
            }
            Command::ListNamespace { kind, namespace } => {
                let of_namespace = |input: &Input| input.namespace() == Some(namespace.as_str());
                let objects = self.truth.list(&kind).into_iter().filter(of_namespace).collect();
                let outcome = SnapshotOutcome::Listed { version: self.truth.version(), objects };
                Some(Input::Snapshot { kind, namespace, outcome })
            }
            // In these worlds every pod has it.
            Command::Relate { .. } => None,
            Command::ClearDisruptionTarget { pod, uid } => {
                let stored = self.truth.pods.get(&pod).filter(|stored| stored.uid == uid).cloned();
                if let Some(mut pod) = stored {
                    pod.disruption_target = None;
                    self.store(pod);
                }
                None
            }
            Command::Reply { .. } | Command::Event(_) | Command::WakeAt(_) => {
                unreachable!("not a call to the API server: {command:?}")
            }
        }
    }

    /// Compare and swap. A conflict is answered with the object as it stands, because that is what
    /// the shell reads before it answers.
    fn write_status(
        &mut self,
        (by, view): (usize, Arc<View>),
        key: &BudgetKey,
        (uid, version): (&str, &ResourceVersion),
        status: BudgetStatus,
    ) -> WriteOutcome {
        let stored = self.truth.budgets.get(key);
        if let Some(budget) = stored.filter(|b| b.uid == uid && b.version == *version) {
            let written = Budget { status, ..budget.clone() };
            // A write that changes nothing leaves the version alone, and no watch hears of it.
            if written != *budget {
                let before = budget.clone();
                let after = self.store(written);
                self.note_write(Written { by, before, after, view });
            }
        }
        current(self.truth.budgets.get(key))
    }

    fn read_scale(&self, namespace: &str, owner: &ControllerRef) -> ScaleOutcome {
        if !has_scale(&owner.group_kind) {
            return ScaleOutcome::NotImplemented(resource_name(&owner.group_kind));
        }
        let key = (owner.group_kind.clone(), ObjectKey::new(namespace, owner.name.clone()));
        match self.truth.owners.get(&key) {
            Some(stored) => ScaleOutcome::Found {
                uid: stored.uid.clone(),
                replicas: stored.replicas.unwrap_or_default(),
            },
            None => ScaleOutcome::NotFound,
        }
    }
}

fn current(budget: Option<&Budget>) -> WriteOutcome {
    match budget {
        Some(budget) => WriteOutcome::Current(Box::new(budget.clone())),
        None => WriteOutcome::Gone,
    }
}

/// The workload kinds of Kubernetes and its subprojects that do not serve `/scale`; custom kinds of
/// a test are taken to serve it.
fn has_scale(kind: &GroupKind) -> bool {
    !matches!(kind.kind.as_str(), "DaemonSet" | "Job" | "CronJob" | "JobSet" | "Node")
}

fn resource_name(kind: &GroupKind) -> String {
    let plural = format!("{}s", kind.kind.to_lowercase());
    if kind.group.is_empty() { plural } else { format!("{plural}.{}", kind.group) }
}

#[cfg(test)]
mod tests {
    use holdfast_core::Config;

    use super::*;
    use crate::{budget, owner};

    fn world_with_budget() -> (World, Budget) {
        let mut world = World::new(Config::default());
        world.apply_budget(budget("b").min_available(1));
        let stored = world.budget("b").expect("just applied").clone();
        (world, stored)
    }

    fn write(world: &mut World, read: &Budget, current_healthy: i64) -> WriteOutcome {
        let status = BudgetStatus { current_healthy, ..BudgetStatus::default() };
        let command = Command::WriteStatus {
            budget: read.key.clone(),
            uid: read.uid.clone(),
            version: read.version.clone(),
            status: Arc::new(status),
        };
        let answer = world.execute(Call { by: 0, command, view: Arc::default() });
        match answer {
            Some(Input::StatusWritten { outcome, .. }) => outcome,
            other => panic!("not the answer to a write: {other:?}"),
        }
    }

    fn expect_current(outcome: WriteOutcome) -> Budget {
        match outcome {
            WriteOutcome::Current(budget) => *budget,
            other => panic!("not a current object: {other:?}"),
        }
    }

    #[test]
    fn a_write_from_the_stored_version_succeeds() {
        let (mut world, read) = world_with_budget();
        let written = expect_current(write(&mut world, &read, 7));
        assert_eq!(written.status.current_healthy, 7);
        assert!(read.version.is_older_than(&written.version));
        assert_eq!(world.budget("b"), Some(&written));
    }

    #[test]
    fn the_second_of_two_writes_from_one_version_conflicts() {
        let (mut world, read) = world_with_budget();
        let first = expect_current(write(&mut world, &read, 7));
        let shown = expect_current(write(&mut world, &read, 8));
        assert_eq!(shown, first, "a conflict shows the object as it stands");
    }

    #[test]
    fn a_spec_change_makes_an_earlier_read_conflict() {
        let (mut world, read) = world_with_budget();
        world.edit_budget("b", |spec| spec.min_available = None);
        let shown = expect_current(write(&mut world, &read, 7));
        assert_eq!((shown.generation, shown.status.current_healthy), (2, 0));
    }

    #[test]
    fn a_write_meant_for_a_deleted_namesake_conflicts() {
        let (mut world, read) = world_with_budget();
        world.delete_budget("b");
        assert!(matches!(write(&mut world, &read, 7), WriteOutcome::Gone));
        world.apply_budget(budget("b"));
        let shown = expect_current(write(&mut world, &read, 7));
        assert_ne!(shown.uid, read.uid);
        assert_eq!(shown.status.current_healthy, 0);
    }

    #[test]
    fn a_write_that_changes_nothing_keeps_the_version() {
        let (mut world, read) = world_with_budget();
        let first = expect_current(write(&mut world, &read, 7));
        let second = expect_current(write(&mut world, &first, 7));
        assert_eq!(first.version, second.version);
    }

    #[test]
    fn scale_is_served_where_the_kind_has_it() {
        let mut world = World::new(Config::default());
        world.apply_owner(owner("apps", "StatefulSet", "web").replicas(4));
        let reference = |group: &str, kind: &str, name: &str| ControllerRef {
            group_kind: GroupKind::new(group, kind),
            version: "v1".to_owned(),
            name: name.to_owned(),
            uid: String::new(),
        };
        let read = |owner| world.read_scale("default", &owner);
        assert!(matches!(
            read(reference("apps", "StatefulSet", "web")),
            ScaleOutcome::Found { replicas: 4, .. }
        ));
        assert_eq!(read(reference("apps", "StatefulSet", "api")), ScaleOutcome::NotFound);
        assert_eq!(
            read(reference("batch", "Job", "once")),
            ScaleOutcome::NotImplemented("jobs.batch".to_owned())
        );
    }
}
