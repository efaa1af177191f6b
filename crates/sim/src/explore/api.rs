//! The API server of a small world. It answers as the one of the simulator does (`api_server.rs`),
//! and keeps watch events per instance and kind.

use std::sync::Arc;

use holdfast_core::io::{PodReadOutcome, SnapshotOutcome, WriteOutcome};
use holdfast_core::model::{Budget, BudgetKey, BudgetStatus, ResourceVersion};
use holdfast_core::{Change, Command, Input};

use super::process::Call;
use super::start::watched;
use super::state::{Event, State};
use crate::audited;
use crate::truth::{Resource, Truth};

impl State {
    pub(super) fn objects(&self) -> &Truth {
        &self.truth.truth
    }

    pub(super) fn store<T: Resource>(&mut self, object: T) -> T {
        let stored = Arc::make_mut(&mut self.truth).truth.put(object);
        self.notify(T::input(Change::Applied(stored.clone())));
        stored
    }

    pub(super) fn discard<T: Resource>(&mut self, key: &T::Key) {
        if let Some(last) = Arc::make_mut(&mut self.truth).truth.remove::<T>(key) {
            self.notify(T::input(Change::Deleted(last)));
        }
    }

    /// Executes a call and returns its answer.
    pub(super) fn execute(&mut self, call: &Call) -> Input {
        match call.command.clone() {
            Command::WriteStatus { budget, uid, version, status } => {
                self.write_status(call, (&budget, &uid, &version), Arc::unwrap_or_clone(status));
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
        call: &Call,
        (key, uid, version): (&BudgetKey, &str, &ResourceVersion),
        status: BudgetStatus,
    ) {
        let stored = self.objects().budgets.get(key);
        let stored = stored.filter(|b| b.uid == uid && b.version == *version);
        // A write that changes nothing leaves the version alone, and makes no watch event.
        let Some(before) = stored.filter(|b| b.status != status).cloned() else { return };
        let after = self.store(Budget { status, ..before.clone() });
        self.judge_write(&before, &after, &call.view);
    }

    fn current(&self, key: &BudgetKey) -> WriteOutcome {
        match self.objects().budgets.get(key) {
            Some(budget) => WriteOutcome::Current(Box::new(budget.clone())),
            None => WriteOutcome::Gone,
        }
    }

    /// Puts the event on its way to every instance that is up, and shows it to the auditor.
    fn notify(&mut self, input: Input) {
        let Some((kind, key, _)) = input.subject() else { return };
        let (queue, name) = (watched(&kind), key.name.clone());
        let event = Event::new(input);
        match audited::change(&event.input) {
            Some((object, false)) => {
                self.auditor().stored(object);
                Arc::make_mut(&mut self.truth).told.insert((queue, name), event.clone());
            }
            Some((object, true)) => {
                self.auditor().deleted(&object);
                Arc::make_mut(&mut self.truth).told.remove(&(queue, name));
            }
            None => {}
        }
        for instance in self.instances.iter_mut().filter(|instance| instance.process.is_some()) {
            instance.watch[queue as usize].push_back(event.clone());
        }
    }
}
