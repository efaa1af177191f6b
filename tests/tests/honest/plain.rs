//! Makes answers and events of both API servers comparable: it numbers uids and versions in the order of
//! their appearance, and leaves out times of the server.

use std::collections::BTreeMap;

use holdfast_core::io::{PodReadOutcome, ScaleOutcome, SnapshotOutcome, WriteOutcome};
use holdfast_core::model::{Budget, Pod, ResourceVersion, Timestamp};
use holdfast_core::{Change, Input};

#[derive(Debug, Default)]
pub struct Numbered {
    uids: BTreeMap<String, usize>,
    versions: BTreeMap<String, usize>,
}

impl Numbered {
    /// Returns one line that is equal for both servers if their answers are equal.
    pub fn show(&mut self, answer: Option<Input>) -> String {
        match answer {
            None => "nothing".to_owned(),
            Some(Input::StatusWritten { outcome, .. }) => match outcome {
                WriteOutcome::Current(budget) => format!("current {:?}", self.budget(*budget)),
                WriteOutcome::Gone => "gone".to_owned(),
                other => format!("{other:?}"),
            },
            Some(Input::PodRead { outcome, .. }) => match outcome {
                PodReadOutcome::Found(pod) => format!("found {:?}", self.pod(*pod)),
                other => format!("{other:?}"),
            },
            Some(Input::ScaleRead { outcome, .. }) => match outcome {
                ScaleOutcome::Found { uid, replicas } => {
                    format!("found {} with {replicas}", self.uid(uid))
                }
                other => format!("{other:?}"),
            },
            Some(Input::Snapshot { outcome, .. }) => self.snapshot(outcome),
            Some(event) => self.event(event),
        }
    }

    fn snapshot(&mut self, outcome: SnapshotOutcome) -> String {
        let SnapshotOutcome::Listed { version, objects } = outcome else {
            return format!("{outcome:?}");
        };
        let mut lines = vec!["list".to_owned()];
        for object in objects.into_iter().filter(is_ours) {
            let own = match &object {
                Input::Pod(change) => &change.object().version,
                Input::Budget(change) => &change.object().version,
                other => panic!("not asked for: {other:?}"),
            };
            assert!(!version.is_older_than(own), "a list of {version} holds {own}");
            lines.push(self.event(object));
        }
        lines.join("\n  ")
    }

    fn event(&mut self, event: Input) -> String {
        match event {
            Input::Pod(change) => {
                format!("{}pod {:?}", verb(&change), self.pod(change.object().clone()))
            }
            Input::Budget(change) => {
                format!("{}budget {:?}", verb(&change), self.budget(change.object().clone()))
            }
            other => panic!("not asked for: {other:?}"),
        }
    }

    fn budget(&mut self, budget: Budget) -> Budget {
        let uid = self.uid(budget.uid);
        let version = self.version(&budget.version);
        Budget { uid, version, ..budget }
    }

    fn pod(&mut self, mut pod: Pod) -> Pod {
        pod.uid = self.uid(pod.uid);
        pod.version = self.version(&pod.version);
        if let Some(target) = &mut pod.disruption_target {
            target.since = Timestamp::default();
        }
        // Kubelets and an annotation of Holdfast set these. Neither exists here.
        (pod.applied, pod.settled, pod.related) = (false, false, false);
        // A deletion counts as a change of the spec. Waiting for that change ends with the pod anyway.
        if pod.terminating {
            pod.generation = 0;
        }
        pod
    }

    fn uid(&mut self, uid: String) -> String {
        let next = self.uids.len();
        format!("uid {}", self.uids.entry(uid).or_insert(next))
    }

    fn version(&mut self, version: &ResourceVersion) -> ResourceVersion {
        let next = self.versions.len();
        let number = *self.versions.entry(version.to_string()).or_insert(next);
        ResourceVersion::from(format!("version {number}").as_str())
    }
}

/// Returns false for pods of a `StatefulSet`, which the real controller creates and deletes by itself.
pub fn is_ours(input: &Input) -> bool {
    !matches!(input, Input::Pod(change) if !change.object().key.name.starts_with('p'))
}

fn verb<T>(change: &Change<T>) -> &'static str {
    match change {
        Change::Applied(_) => "",
        Change::Deleted(_) => "deleted ",
    }
}
