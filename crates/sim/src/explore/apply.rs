//! What each step does.

use std::sync::Arc;
use std::time::Duration;

use holdfast_core::model::{Budget, DisruptionTarget, Operation, Pod, Timestamp};
use holdfast_core::verdict::{AllowReason, Verdict};
use holdfast_core::{Command, Engine, Eviction, Input, Kind};

use super::fingerprint::Digest;
use super::possible::CALL_SECS_MAX;
use super::start::{config, index_of, kind_of, new_budget, new_pod};
use super::state::{Allow, HeldGrant, Late, Loss, Open, Process, State};
use super::step::{Step, Watched};
use crate::instance::no_answer;

/// One second less than the ten that an admission webhook may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(9);

/// How long an allowed eviction may take until it is carried out, or never is: other webhooks, and
/// the API server's own timeout.
const CARRIED_OUT_WITHIN: Duration = Duration::from_secs(34);

impl State {
    pub(super) fn apply(&mut self, step: Step) {
        self.replies.clear();
        let at = usize::from;
        match step {
            Step::Ask(n) => self.ask(at(n)),
            Step::Call(i, n) => self.call(at(i), at(n)),
            Step::Answer(i, n) => {
                let (_, answer) = self.process(at(i)).answers.remove(at(n));
                self.feed(at(i), answer);
            }
            Step::Lose(i, n) => {
                self.clients.used.losses += 1;
                let (command, _) = self.process(at(i)).answers.remove(at(n));
                self.feed(at(i), no_answer(&command).expect("every call is answered"));
            }
            Step::GiveUp(i, n) => {
                self.clients.used.losses += 1;
                let command = self.process(at(i)).calls.remove(at(n));
                let nothing = no_answer(&command).expect("every call is answered");
                self.leave_behind(command);
                self.feed(at(i), nothing);
            }
            Step::Late(n) => {
                let late = self.late.remove(at(n));
                self.execute(&late.command);
            }
            Step::Event(i, kind) => self.deliver(at(i), kind),
            Step::Crash(i) => self.crash(at(i)),
            Step::Restart(i) => self.restart(at(i)),
            Step::Delete(n) => self.delete(at(n)),
            Step::Create(n) => {
                self.clients.used.creations += 1;
                self.store(new_pod(self.scope, at(n)));
            }
            Step::Ready(n) => self.ready(at(n)),
            Step::Unready(n) => self.unready(at(n)),
            Step::Edit(n) => self.edit(at(n)),
            Step::Recreate(n) => self.recreate(at(n)),
            Step::Advance(n) => {
                self.clients.used.spans[at(n)] += 1;
                self.advance(self.scope.spans[at(n)].secs);
            }
            Step::CarryOut(n) => self.carry_out(at(n)),
            Step::Refuse(n) => {
                self.clients.used.refusals += 1;
                self.clients.allows.remove(at(n));
            }
        }
        self.settle();
        self.after_step();
    }

    /// Executes calls and delivers events that are no steps of this scope.
    fn settle(&mut self) {
        while self.settle_one() {}
    }

    fn settle_one(&mut self) -> bool {
        for n in 0..self.instances.len() {
            let mut calls = self.instances[n].process.calls.iter();
            if let Some(call) = calls.position(|call| !self.is_slow(n, call)) {
                self.call_and_answer(n, call);
                return true;
            }
        }
        for n in 0..self.instances.len() {
            for kind in Watched::ALL {
                let lags = self.scope.lagging.contains(&(n, kind));
                if !lags && !self.instances[n].watch[kind as usize].is_empty() {
                    self.deliver(n, kind);
                    return true;
                }
            }
        }
        false
    }

    /// Whether the call is a step of its own.
    fn is_slow(&self, n: usize, call: &Command) -> bool {
        let lists_budgets = matches!(call, Command::ListNamespace { kind: Kind::Budget, .. });
        self.scope.slow_calls.contains(&n) && (self.scope.slow_budget_lists || !lists_budgets)
    }

    /// Lets everything happen that is on its way, in any scope, and this much time pass.
    pub(super) fn settle_all(&mut self, secs: u32) {
        for _ in 0..secs {
            self.advance(1);
            loop {
                let busy = (0..self.instances.len())
                    .find(|n| !self.instances[*n].process.calls.is_empty());
                if let Some(n) = busy {
                    self.call_and_answer(n, 0);
                    continue;
                }
                let all =
                    (0..self.instances.len()).flat_map(|n| Watched::ALL.map(|kind| (n, kind)));
                let mut waiting =
                    all.filter(|(n, kind)| !self.instances[*n].watch[*kind as usize].is_empty());
                let Some((n, kind)) = waiting.next() else { break };
                self.deliver(n, kind);
            }
        }
    }

    fn call_and_answer(&mut self, n: usize, call: usize) {
        let command = self.process(n).calls.remove(call);
        let answer = self.execute(&command);
        self.feed(n, answer);
    }

    fn call(&mut self, i: usize, n: usize) {
        let command = self.process(i).calls.remove(n);
        let answer = self.execute(&command);
        self.process(i).answers.push((command, answer));
    }

    fn deliver(&mut self, n: usize, kind: Watched) {
        if let Some(event) = self.instances[n].watch[kind as usize].pop_front() {
            self.feed(n, event.input.clone());
        }
    }

    fn feed(&mut self, n: usize, input: Input) {
        let now = self.now;
        for (id, verdict) in self.process(n).handle(now, input) {
            self.answered(n, &id, &verdict);
        }
    }

    fn process(&mut self, n: usize) -> &mut Process {
        let process = Arc::make_mut(&mut self.instances[n].process);
        process.digest = None;
        process
    }

    fn ask(&mut self, n: usize) {
        let request = self.scope.requests[n];
        let pod = self.layout.pods[request.pod].clone();
        let known_lost = self.known_lost(request.instance);
        let desired = (0..self.scope.budgets.len()).map(|b| self.desired(b)).collect();
        let asked = &mut self.clients.requests[n];
        asked.attempts += 1;
        asked.open = Some(Open { known_lost, desired });
        let eviction = Eviction {
            id: format!("{n}.{}", asked.attempts),
            pod,
            uid: None,
            requester: "client".to_owned(),
            dry_run: false,
            operation: Operation::Evict,
            object: None,
            generation: 0,
            exempt: false,
            by_name: self.scope.by_name,
            deadline: self.now + ANSWER_WITHIN,
        };
        self.feed(request.instance, Input::Evict(eviction));
    }

    fn answered(&mut self, instance: usize, id: &str, verdict: &Verdict) {
        let request = id.split('.').next().and_then(|n| n.parse::<usize>().ok());
        let request = request.expect("the id of a request of the scope");
        let open = self.clients.requests[request].open.take();
        let Some(open) = open else { return };
        let pod = self.scope.requests[request].pod;
        let name = &self.layout.pods[pod].name;
        match verdict {
            Verdict::Deny(denial) => {
                let why = &denial.message;
                self.replies.push(format!("instance {instance} denies {name}: {why}"));
            }
            Verdict::Allow(allowed) => {
                self.replies.push(format!("instance {instance} allows {name}"));
                let takes =
                    matches!(allowed.reason, AllowReason::NotCovered | AllowReason::Granted);
                if let Some(uid) = allowed.uid.clone().filter(|_| takes) {
                    let uncovered =
                        allowed.reason == AllowReason::NotCovered && open.desired.contains(&0);
                    let until = self.now + CARRIED_OUT_WITHIN;
                    self.allowed(Allow { pod, uid, until, uncovered }, &open);
                }
            }
        }
    }

    /// The API server marks the pod and deletes it.
    fn carry_out(&mut self, n: usize) {
        let allow = self.clients.allows.remove(n);
        let key = self.layout.pods[allow.pod].clone();
        let Some(pod) = self.objects().pods.get(&key).cloned() else { return };
        let target = DisruptionTarget {
            reason: DisruptionTarget::EVICTION_API.to_owned(),
            since: self.now.truncated(),
        };
        self.store(Pod { disruption_target: Some(target), terminating: true, ..pod });
        self.discard::<Pod>(&key);
        self.clients.lost[allow.pod] =
            if allow.uncovered { Loss::Otherwise } else { Loss::ByGrant };
    }

    fn delete(&mut self, n: usize) {
        self.clients.used.deletions += 1;
        let key = self.layout.pods[n].clone();
        let Some(pod) = self.objects().pods.get(&key).cloned() else { return };
        self.store(Pod { terminating: true, ..pod });
        self.discard::<Pod>(&key);
        if self.clients.lost[n] == Loss::Healthy {
            self.clients.lost[n] = Loss::Otherwise;
        }
    }

    fn ready(&mut self, n: usize) {
        let key = &self.layout.pods[n];
        let Some(pod) = self.objects().pods.get(key).cloned() else { return };
        self.store(Pod { ready: true, ..pod });
        self.clients.lost[n] = Loss::Healthy;
        for asked in &mut self.clients.requests {
            // If it is lost again, the instance has not been told of that.
            if let Some(open) = &mut asked.open {
                open.known_lost &= !(1 << n);
            }
        }
    }

    fn unready(&mut self, n: usize) {
        self.clients.used.flaps += 1;
        let key = &self.layout.pods[n];
        let Some(pod) = self.objects().pods.get(key).cloned() else { return };
        self.store(Pod { ready: false, ..pod });
        self.clients.lost[n] = Loss::Otherwise;
    }

    fn edit(&mut self, n: usize) {
        self.clients.used.edits += 1;
        let key = &self.layout.budgets[n];
        let Some(mut budget) = self.objects().budgets.get(key).cloned() else { return };
        let shape = &self.scope.budgets[n];
        let (first, other) = (shape.threshold, shape.other.expect("it has another threshold"));
        let next = if first.is_in(&budget.spec) { other } else { first };
        next.write_into(&mut budget.spec);
        budget.generation += 1;
        self.store(budget);
        self.lower_desired(n);
    }

    fn recreate(&mut self, n: usize) {
        self.clients.used.recreations += 1;
        let key = self.layout.budgets[n].clone();
        self.discard::<Budget>(&key);
        self.lower_desired(n);
        self.store(new_budget(self.scope, n).into_budget());
    }

    fn crash(&mut self, n: usize) {
        self.clients.used.crashes += 1;
        let died = std::mem::replace(&mut self.instances[n].process, Arc::new(Process::down()));
        died.calls.iter().for_each(|call| self.leave_behind(call.clone()));
        self.instances[n].watch.iter_mut().for_each(std::collections::VecDeque::clear);
        for (request, asked) in self.scope.requests.iter().zip(&mut self.clients.requests) {
            if request.instance == n {
                asked.open = None;
            }
        }
    }

    /// Reads that nobody waits for change nothing.
    fn leave_behind(&mut self, command: Command) {
        if matches!(command, Command::WriteStatus { .. }) {
            let digest = Digest::of(&command);
            self.late.push(Arc::new(Late { command, digest }));
        }
    }

    /// Instance 0 leads, whoever else is up: the housekeeping of one is enough for these worlds.
    pub(super) fn restart(&mut self, n: usize) {
        self.process(n).engine = Some(Engine::new(config()));
        self.feed(n, Input::Lead(n == 0));
        for kind in Watched::ALL.map(kind_of) {
            self.feed(n, Input::ListBegan(kind.clone()));
            for object in self.objects().list(&kind) {
                self.feed(n, object);
            }
            let version = self.objects().version();
            self.feed(n, Input::ListEnded(kind, version));
        }
    }

    /// Instances are woken at their own times on the way.
    fn advance(&mut self, secs: u32) {
        let end = self.now + Duration::from_secs(secs.into());
        while let Some(due) = self.next_due().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            for n in 0..self.instances.len() {
                let wake = self.instances[n].process.wake;
                if wake.is_some_and(|wake| wake <= self.now) {
                    self.process(n).wake = None;
                    self.feed(n, Input::Tick);
                }
            }
            self.settle();
        }
        self.now = end;
        self.clients.allows.retain(|allow| allow.until >= end);
        if secs > CALL_SECS_MAX {
            self.late.clear();
        }
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.instances.iter().filter_map(|instance| instance.process.wake).min()
    }

    fn after_step(&mut self) {
        // The API server refuses an eviction whose pod is gone, unless it evicts by name.
        let (layout, pods) = (&self.layout, &self.truth.truth.pods);
        let by_name = self.scope.by_name;
        self.clients.allows.retain(|allow| {
            let pod = pods.get(&layout.pods[allow.pod]);
            by_name || pod.is_some_and(|pod| pod.uid == allow.uid)
        });
        if let Some(secs) = self.scope.grant_secs_max {
            self.note_grants();
            self.check_grants(secs);
        }
    }

    /// Grants of live pods as the statuses show them, with the time when each was first seen.
    fn note_grants(&mut self) {
        let mut held = Vec::new();
        for (n, key) in self.layout.budgets.iter().enumerate() {
            let Some(budget) = self.objects().budgets.get(key) else { continue };
            for grant in &budget.status.grants {
                let uid = &grant.uid;
                if !self.objects().pods.values().any(|pod| pod.uid == *uid) {
                    continue;
                }
                let known = self.clients.grants.iter().find(|g| g.budget == n && g.uid == *uid);
                let new = || HeldGrant { budget: n, uid: uid.clone(), since: self.now };
                held.push(known.cloned().unwrap_or_else(new));
            }
        }
        self.clients.grants = held;
    }

    /// Pods that were lost otherwise than by a grant, and of which no event is on its way.
    fn known_lost(&self, instance: usize) -> u32 {
        let mut known = 0;
        for (n, loss) in self.clients.lost.iter().enumerate() {
            known |= u32::from(*loss == Loss::Otherwise) << n;
        }
        for event in &self.instances[instance].watch[Watched::Pod as usize] {
            let subject = event.input.subject();
            let pod = subject.and_then(|(_, key, _)| index_of(&self.layout.pods, key));
            known &= !pod.map_or(0, |n| 1 << n);
        }
        known
    }
}
