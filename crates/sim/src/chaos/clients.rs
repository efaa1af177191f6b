//! Those who evict: drains that go on until their node is empty, and others who ask for any pod.

use std::time::Duration;

use holdfast_audit::Allow;
use holdfast_core::Command;
use holdfast_core::model::{ObjectKey, Operation, Phase, Pod, ResourceVersion, Timestamp};
use holdfast_core::verdict::{AllowReason, CANNOT_EVICT, Verdict};

use super::fault::Fault;
use super::invariants;
use super::params::Profile;
use super::run::Run;
use crate::audited;

/// How long an allowed eviction may take until it is executed, or never is: other webhooks, and
/// the API server's own timeout.
pub(super) const EXECUTED_WITHIN: Duration = Duration::from_secs(34);

/// So long the API server waits for a webhook. What is allowed later is not.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub instance: usize,
    pub pod: ObjectKey,
    pub uid: Option<String>,
    pub operation: Operation,
    /// Of the pod when an update is stored.
    pub generation: i64,
    /// Of the pod that it changes: should it be another by then, the API server asks anew.
    pub version: ResourceVersion,
    pub dry_run: bool,
    /// On the clock of the instance.
    pub deadline: Timestamp,
    /// On the world's.
    pub at: Timestamp,
    pub outcome: Outcome,
    /// When it was allowed by a grant, and for which pod, by uid.
    pub granted: Option<(Timestamp, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Waiting,
    Allowed,
    Denied,
    /// Whoever was asked died, or stood still until nobody waited any more.
    Lost,
}

#[derive(Clone, Debug)]
pub(super) struct Allowed {
    pub eviction: String,
    pub pod: ObjectKey,
    /// The pod that the decision was about; empty for none.
    pub uid: String,
    /// The eviction takes whatever has the name. Otherwise the webhook has pinned it to that pod.
    pub by_name: bool,
    pub operation: Operation,
    pub version: ResourceVersion,
    pub until: Timestamp,
    /// By grants, and not because no budget covers the pod.
    pub recorded: bool,
}

impl Allowed {
    /// Whether this eviction, if it is executed now, takes this pod.
    pub fn hits(&self, pod: &Pod) -> bool {
        let exact = self.operation == Operation::Evict || self.version == pod.version;
        self.pod == pod.key && (self.by_name || self.uid == pod.uid) && exact
    }

    fn audited(&self) -> Allow {
        Allow {
            id: self.eviction.clone(),
            pod: audited::name(&self.pod),
            uid: self.uid.clone(),
            by_name: self.by_name,
            operation: audited::operation(self.operation),
            version: audited::version(&self.version),
            recorded: self.recorded,
            budgets: [].into(),
        }
    }
}

impl Run {
    pub fn ask(&mut self) {
        let awake = self.awake();
        let Some(&instance) = self.random.pick(&awake) else { return };
        let drained = self.random.chance(50);
        let repeated = self.random.chance(self.params.repeats);
        let mut pods = match (drained, repeated) {
            (_, true) => {
                let asked = self.unanswered.iter().map(|id| self.requests[id].pod.clone());
                asked.chain(self.allowed.iter().map(|a| a.pod.clone())).collect()
            }
            (true, false) => self.pods_to_drain(),
            (false, false) => self.pod_keys(),
        };
        if pods.is_empty() {
            pods = self.pod_keys();
        }
        let Some(mut pod) = self.random.pick(&pods).cloned() else { return };
        if let Some(refused) = self.refused.clone().filter(|_| self.random.chance(30)) {
            pod = refused;
        }
        let pinned = self.random.chance(self.params.preconditions);
        let dry_run = self.random.chance(self.params.dry_runs);
        let operation = match self.params.profile {
            Profile::Unavailable => match self.random.below(10) {
                0..=4 => Operation::Evict,
                5..=7 => Operation::Delete,
                _ => Operation::Update,
            },
            _ => Operation::Evict,
        };
        self.submit(instance, &pod, operation, pinned, dry_run);
    }

    pub fn evict(&mut self, instance: usize, pod: &ObjectKey) {
        self.submit(instance, pod, Operation::Evict, false, false);
    }

    fn submit(
        &mut self,
        instance: usize,
        pod: &ObjectKey,
        operation: Operation,
        pinned: bool,
        dry_run: bool,
    ) {
        let by_name = self.params.profile == Profile::Native;
        // The eviction handler asks about pods that run, and deletes others without.
        let runs = |pod: &Pod| pod.phase == Phase::Running && !pod.terminating;
        if by_name && !self.world.pod(pod).is_some_and(runs) {
            return;
        }
        let mut eviction = self.world.instance(instance).eviction(pod);
        eviction.by_name = by_name;
        if pinned && !by_name {
            eviction.uid = self.world.pod(pod).map(|pod| pod.uid.clone());
        }
        eviction.dry_run = dry_run;
        eviction.operation = operation;
        let mut version = ResourceVersion::default();
        if operation != Operation::Evict {
            // The API server sends it along, and answers by itself if there is none.
            let Some(object) = self.world.pod(pod).filter(|pod| !pod.terminating) else { return };
            eviction.uid = Some(object.uid.clone());
            version = object.version.clone();
            let changes = i64::from(operation.keeps_pod());
            eviction.generation = if changes > 0 { object.generation + 1 } else { 0 };
            eviction.object = Some(Box::new(object.clone()));
        }
        let id = eviction.id.clone();
        self.log(|| {
            let uid = eviction.uid.as_deref().unwrap_or("");
            let dry = if dry_run { " dry" } else { "" };
            format!("{id} asks {instance} for {operation:?} of {} {uid}{dry}", pod.name)
        });
        let asked = Asked {
            instance,
            pod: pod.clone(),
            uid: eviction.uid.clone(),
            operation,
            generation: eviction.generation,
            version,
            dry_run,
            deadline: eviction.deadline,
            at: self.world.now(),
            outcome: Outcome::Waiting,
            granted: None,
        };
        self.requests.insert(id.clone(), asked);
        self.unanswered.insert(id);
        self.world.instance(instance).submit(eviction);
        self.observe();
    }

    /// Pods on the nodes that are being drained. A drain begins now and then.
    fn pods_to_drain(&mut self) -> Vec<ObjectKey> {
        let begins = self.random.chance(10) || self.drains.is_empty();
        let node = format!("n{}", self.random.below(self.params.nodes));
        let most = self.params.nodes.saturating_sub(1);
        if begins && self.drains.len() < most.clamp(1, 2) && self.drains.insert(node.clone()) {
            self.log(|| format!("{node} is drained"));
            self.world.cordon(&node);
        }
        let done = |world: &crate::World, node: &str| world.pods_on(node).is_empty();
        let finished: Vec<String> =
            self.drains.iter().filter(|node| done(&self.world, node)).cloned().collect();
        for node in finished {
            self.log(|| format!("{node} is empty and used again"));
            self.drains.remove(&node);
            if !self.dead_nodes.contains(&node) {
                self.world.uncordon(&node);
            }
        }
        self.drains.iter().flat_map(|node| self.world.pods_on(node)).collect()
    }

    /// Collect the answers.
    pub fn observe(&mut self) {
        invariants::look_at_writes(self);
        for id in self.unanswered.clone() {
            let Some((verdict, version)) = self.world.take_reply_as_of(&id) else { continue };
            self.unanswered.remove(&id);
            self.log(|| format!("{id} {}", summary(&verdict)));
            let asked = self.requests.get_mut(&id).expect("it was asked");
            let waits = self.frozen.contains(&asked.instance);
            let in_time = waits || self.world.now() <= asked.at + WEBHOOK_TIMEOUT;
            asked.outcome = match &verdict {
                Verdict::Allow(_) if in_time => Outcome::Allowed,
                Verdict::Allow(_) => Outcome::Lost,
                Verdict::Deny(_) => Outcome::Denied,
            };
            let asked = asked.clone();
            match verdict {
                // By what it knew then, if nothing has happened since.
                Verdict::Deny(denial) if version == self.world.revision() => {
                    invariants::after_denial(self, &asked, &denial);
                }
                Verdict::Allow(allowed) if in_time && !asked.dry_run => {
                    self.take_allow(&id, &asked, allowed.reason, allowed.uid);
                }
                _ => {}
            }
        }
    }

    fn take_allow(&mut self, id: &str, asked: &Asked, reason: AllowReason, uid: Option<String>) {
        let pod = asked.pod.clone();
        let uid = asked.uid.clone().or(uid).unwrap_or_default();
        let until = self.world.now() + EXECUTED_WITHIN;
        let by_name = self.params.profile == Profile::Native;
        let (operation, version) = (asked.operation, asked.version.clone());
        let (eviction, recorded) = (id.to_owned(), reason == AllowReason::Granted);
        let allowed = Allowed { eviction, pod, uid, by_name, operation, version, until, recorded };
        self.auditor.allow(allowed.audited());
        if recorded {
            let granted = Some((self.world.now(), allowed.uid.clone()));
            self.requests.get_mut(id).expect("it was asked").granted = granted;
            invariants::after_allow(self, asked, &allowed);
        } else if reason == AllowReason::NotCovered {
            invariants::after_pass(self, asked);
        }
        self.allowed.push(allowed);
    }

    /// From now on something behind us refuses every eviction of this pod, and its client asks again.
    pub fn begin_to_refuse(&mut self) {
        let pods = self.pod_keys();
        self.refused = self.random.pick(&pods).cloned();
    }

    pub fn execute_some(&mut self) {
        if !self.allowed.is_empty() {
            let n = self.random.below(self.allowed.len());
            self.execute_or_refuse(n);
        }
    }

    pub fn execute_or_refuse(&mut self, n: usize) {
        let allowed = self.allowed.remove(n);
        let always = self.refused.as_ref() == Some(&allowed.pod);
        if self.strikes(Fault::RefusedLater, 20) || always {
            self.count(if always { Fault::RefusedAlways } else { Fault::RefusedLater });
            self.log(|| format!("{} comes to nothing", allowed.eviction));
            self.auditor.end(&allowed.eviction);
        } else {
            self.execute(&allowed);
        }
    }

    /// The API server does what was allowed.
    fn execute(&mut self, allowed: &Allowed) {
        self.sync_auditor();
        let Some(audited) = self.auditor.end(&allowed.eviction) else { return };
        let Some(pod) = self.world.pod(&allowed.pod).cloned() else { return };
        if !allowed.hits(&pod) || pod.terminating {
            return;
        }
        self.log(|| format!("{} executed on {} {}", allowed.eviction, pod.key.name, pod.uid));
        self.auditor.take(&audited, &audited.pod);
        match allowed.operation {
            Operation::Evict => self.world.begin_eviction(&allowed.pod),
            Operation::Delete => self.world.request_delete(&allowed.pod),
            Operation::Update | Operation::Resize => self.world.update_in_place(&allowed.pod),
        }
    }
}

fn summary(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Allow(allowed) => format!("allowed: {:?}", allowed.reason),
        Verdict::Deny(denial) => {
            let why = denial.message.strip_prefix(CANNOT_EVICT).unwrap_or(&denial.message);
            format!("denied: {:?}:{why}", denial.reason)
        }
    }
}

pub(super) fn describe(command: &Command) -> String {
    match command {
        Command::WriteStatus { budget, status, .. } => {
            let granted: Vec<_> =
                status.grants.iter().map(|g| (&g.pod, &g.uid, &g.eviction, g.cost)).collect();
            let pending: Vec<_> =
                status.pending_replacements.iter().map(|p| (&p.pod, p.size, &p.sources)).collect();
            format!("WriteStatus {budget} {granted:?} waits for {pending:?}")
        }
        Command::ReadBudget { budget, .. } => format!("ReadBudget {budget}"),
        Command::ReadPod { pod, .. } => format!("ReadPod {pod}"),
        Command::ListNamespace { kind, .. } => format!("ListNamespace {kind}"),
        other => format!("{other:?}"),
    }
}
