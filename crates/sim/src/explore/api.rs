//! The API server of a small world. It answers as the one of the simulator does (`api_server.rs`),
//! and keeps watch events per instance and kind.

use std::sync::Arc;

use holdfast_core::io::{PodReadOutcome, SnapshotOutcome, WriteOutcome};
use holdfast_core::model::{Budget, BudgetKey, BudgetStatus, ResourceVersion};
use holdfast_core::{Change, Command, Input};

use super::fingerprint::Digest;
use super::start::watched;
use super::state::{Event, State, Stored};
use crate::truth::{Resource, Truth};

impl State {
    pub(super) fn objects(&self) -> &Truth {
        &self.truth.truth
    }

    pub(super) fn store<T: Resource>(&mut self, object: T) -> T {
        let stored = self.stored().put(object);
        self.notify(T::input(Change::Applied(stored.clone())));
        stored
    }

    pub(super) fn discard<T: Resource>(&mut self, key: &T::Key) {
        if let Some(last) = self.stored().remove::<T>(key) {
            self.notify(T::input(Change::Deleted(last)));
        }
    }

    /// Executes a call and returns its answer.
    pub(super) fn execute(&mut self, command: &Command) -> Input {
        match command.clone() {
            Command::WriteStatus { budget, uid, version, status } => {
                self.write_status(&budget, &uid, &version, Arc::unwrap_or_clone(status));
                Input::StatusWritten { outcome: self.current(&budget), budget, uid }
            }
            Command::ReadBudget { budget, uid } => {
                Input::StatusWritten { outcome: self.current(&budget), budget, uid }
            }
            Command::ReadPod { token, pod } => {
                let outcome = match self.objects().pods.get(&pod) {
                    Some(pod) => PodReadOutcome::Found(Box::new(pod.clone())),
                    None => PodReadOutcome::NotFound,
                };
                Input::PodRead { token, outcome }
            }
            Command::ListNamespace { kind, namespace } => {
                let outcome = SnapshotOutcome::Listed {
                    version: self.objects().version(),
                    objects: self.objects().list(&kind),
                };
                Input::Snapshot { kind, namespace, outcome }
            }
            command => unreachable!("no scope leads to {command:?}"),
        }
    }

    /// Compare and swap, as a status update with a resource version is.
    fn write_status(
        &mut self,
        key: &BudgetKey,
        uid: &str,
        version: &ResourceVersion,
        status: BudgetStatus,
    ) {
        let stored = self.objects().budgets.get(key);
        let Some(budget) = stored.filter(|b| b.uid == uid && b.version == *version) else { return };
        // A write that changes nothing leaves the version alone, and makes no watch event.
        if budget.status != status {
            let written = Budget { status, ..budget.clone() };
            self.store(written);
        }
    }

    fn current(&self, key: &BudgetKey) -> WriteOutcome {
        match self.objects().budgets.get(key) {
            Some(budget) => WriteOutcome::Current(Box::new(budget.clone())),
            None => WriteOutcome::Gone,
        }
    }

    fn stored(&mut self) -> &mut Truth {
        let stored: &mut Stored = Arc::make_mut(&mut self.truth);
        stored.digest = None;
        &mut stored.truth
    }

    /// Puts the event on its way to every instance that is up.
    fn notify(&mut self, input: Input) {
        let Some((kind, ..)) = input.subject() else { return };
        let queue = watched(&kind) as usize;
        let event = Arc::new(Event { digest: Digest::of(&input), input });
        for instance in &mut self.instances {
            if instance.process.engine.is_some() {
                instance.watch[queue].push_back(event.clone());
            }
        }
    }
}
