//! What each step does.

use std::sync::Arc;
use std::time::Duration;

use holdfast_core::model::{Budget, DisruptionTarget, Operation, Pod, Timestamp};
use holdfast_core::verdict::{AllowReason, Verdict};
use holdfast_core::{Command, Eviction, Input, Kind};

use super::fingerprint::Digest;
use super::possible::CALL_SECS_MAX;
use super::process::{Call, Process};
use super::start::{config, kind_of, new_budget, new_pod, scaled};
use super::state::{Allowed, Answer, HeldGrant, Instance, State};
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
                let answer = self.instances[at(i)].answers.remove(at(n));
                self.feed(at(i), &answer.input, &answer.digest);
            }
            Step::Lose(i, n) => {
                self.clients.used.losses += 1;
                let answer = self.instances[at(i)].answers.remove(at(n));
                self.fail(at(i), &answer.call);
            }
            Step::GiveUp(i, n) => {
                self.clients.used.losses += 1;
                let call = self.instances[at(i)].calls.remove(at(n));
                self.leave_behind(&call);
                self.fail(at(i), &call);
            }
            Step::Late(n) => {
                let late = self.late.remove(at(n));
                self.execute(&late);
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
            Step::ScaleUp(n) => self.scale_up(at(n)),
            Step::Advance(n) => {
                self.clients.used.spans[at(n)] += 1;
                self.advance(self.scope.spans[at(n)].secs);
            }
            Step::CarryOut(n) => self.carry_out(at(n)),
            Step::Refuse(n) => {
                self.clients.used.refusals += 1;
                let refused = self.clients.allows.remove(at(n));
                self.auditor().end(&refused.eviction);
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
            let mut calls = self.instances[n].calls.iter();
            if let Some(call) = calls.position(|call| !self.is_slow(n, &call.command)) {
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
                let busy = self.instances.iter().position(|instance| !instance.calls.is_empty());
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
        let answer = self.execute_call(n, call);
        self.feed(n, &answer.input, &answer.digest);
    }

    fn call(&mut self, i: usize, n: usize) {
        let answer = self.execute_call(i, n);
        self.instances[i].answers.push(answer);
    }

    fn execute_call(&mut self, i: usize, n: usize) -> Arc<Answer> {
        let call = self.instances[i].calls.remove(n);
        let input = self.execute(&call);
        Answer::new(call, input)
    }

    /// The instance learns that its call has no answer.
    fn fail(&mut self, n: usize, call: &Call) {
        let nothing = no_answer(&call.command).expect("every call is answered");
        self.feed_new(n, &nothing);
    }

    fn deliver(&mut self, n: usize, kind: Watched) {
        if let Some(event) = self.instances[n].watch[kind as usize].pop_front() {
            self.feed(n, &event.input, &event.digest);
        }
    }

    fn feed_new(&mut self, n: usize, input: &Input) {
        self.feed(n, input, &Digest::of(input));
    }

    fn feed(&mut self, n: usize, input: &Input, digest: &Digest) {
        let instance = &mut self.instances[n];
        let Some(process) = &mut instance.process else { return };
        let handled = self.memo.handle(process, self.now, (input, digest));
        *process = handled.process.clone();
        instance.calls.extend(handled.calls.iter().cloned());
        for (id, verdict) in &handled.replies {
            self.answered(n, id, verdict);
        }
    }

    fn ask(&mut self, n: usize) {
        let request = self.scope.requests[n];
        let pod = self.layout.pods[request.pod].clone();
        let asked = &mut self.clients.requests[n];
        asked.attempts += 1;
        asked.open = true;
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
        self.feed_new(request.instance, &Input::Evict(eviction));
    }

    fn answered(&mut self, instance: usize, id: &str, verdict: &Verdict) {
        let request = id.split('.').next().and_then(|n| n.parse::<usize>().ok());
        let request = request.expect("the id of a request of the scope");
        // A client that crashed with its instance hears nothing.
        if !std::mem::take(&mut self.clients.requests[request].open) {
            return;
        }
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
                    let (eviction, until) = (id.to_owned(), self.now + CARRIED_OUT_WITHIN);
                    let recorded = allowed.reason == AllowReason::Granted;
                    self.allowed(Allowed { eviction, pod, uid, until }, recorded);
                }
            }
        }
    }

    /// The API server marks the pod and deletes it.
    fn carry_out(&mut self, n: usize) {
        let allowed = self.clients.allows.remove(n);
        let key = self.layout.pods[allowed.pod].clone();
        if let Some(allow) = self.auditor().end(&allowed.eviction) {
            self.auditor().take(&allow, &allow.pod);
        }
        let Some(pod) = self.objects().pods.get(&key).cloned() else { return };
        let target = DisruptionTarget {
            reason: DisruptionTarget::EVICTION_API.to_owned(),
            since: self.now.truncated(),
        };
        self.store(Pod { disruption_target: Some(target), terminating: true, ..pod });
        self.discard::<Pod>(&key);
    }

    fn delete(&mut self, n: usize) {
        self.clients.used.deletions += 1;
        let key = self.layout.pods[n].clone();
        let Some(pod) = self.objects().pods.get(&key).cloned() else { return };
        self.store(Pod { terminating: true, ..pod });
        self.discard::<Pod>(&key);
    }

    fn ready(&mut self, n: usize) {
        let key = &self.layout.pods[n];
        let Some(pod) = self.objects().pods.get(key).cloned() else { return };
        self.store(Pod { ready: true, ..pod });
    }

    fn unready(&mut self, n: usize) {
        self.clients.used.flaps += 1;
        let key = &self.layout.pods[n];
        let Some(pod) = self.objects().pods.get(key).cloned() else { return };
        self.store(Pod { ready: false, ..pod });
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
    }

    fn recreate(&mut self, n: usize) {
        self.clients.used.recreations += 1;
        let key = self.layout.budgets[n].clone();
        self.discard::<Budget>(&key);
        self.store(new_budget(self.scope, n).into_budget());
    }

    fn scale_up(&mut self, n: usize) {
        self.clients.used.scale_ups += 1;
        let replica = self.scope.replicas[n];
        self.store(scaled(&replica, replica.pods));
        for (index, (of, _)) in self.scope.pods().enumerate() {
            let is_there = self.objects().pods.contains_key(&self.layout.pods[index]);
            if of == n && !is_there {
                self.store(Pod { ready: true, ..new_pod(self.scope, index) });
            }
        }
    }

    fn crash(&mut self, n: usize) {
        self.clients.used.crashes += 1;
        let died = std::mem::replace(&mut self.instances[n], Instance::down());
        died.calls.iter().for_each(|call| self.leave_behind(call));
        for (request, asked) in self.scope.requests.iter().zip(&mut self.clients.requests) {
            if request.instance == n {
                asked.open = false;
            }
        }
    }

    /// Reads that no instance waits for change nothing.
    fn leave_behind(&mut self, call: &Arc<Call>) {
        if matches!(call.command, Command::WriteStatus { .. }) {
            self.late.push(call.clone());
        }
    }

    /// Instance 0 leads, whichever others are up: the housekeeping of one is enough for these worlds.
    pub(super) fn restart(&mut self, n: usize) {
        self.instances[n].process = Some(Process::new(config()));
        self.feed_new(n, &Input::Lead(n == 0));
        for kind in Watched::ALL.map(kind_of) {
            self.feed_new(n, &Input::ListBegan(kind.clone()));
            for object in self.objects().list(&kind) {
                self.feed_new(n, &object);
            }
            let version = self.objects().version();
            self.feed_new(n, &Input::ListEnded(kind, version));
        }
    }

    /// Instances are woken at their own times on the way.
    fn advance(&mut self, secs: u32) {
        let end = self.now + Duration::from_secs(secs.into());
        while let Some(due) = self.next_due().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            for n in 0..self.instances.len() {
                if self.instances[n].wake().is_some_and(|wake| wake <= self.now) {
                    self.feed_new(n, &Input::Tick);
                }
            }
            self.settle();
        }
        self.now = end;
        self.end_allows(|allowed| allowed.until < end);
        self.auditor().pass_time(end.0);
        if secs > CALL_SECS_MAX {
            self.late.clear();
        }
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.instances.iter().filter_map(Instance::wake).min()
    }

    fn after_step(&mut self) {
        // The API server refuses an eviction whose pod is gone, unless it evicts by name.
        if !self.scope.by_name {
            let (layout, truth) = (self.layout.clone(), self.truth.clone());
            self.end_allows(|allowed| {
                let pod = truth.truth.pods.get(&layout.pods[allowed.pod]);
                pod.is_none_or(|pod| pod.uid != allowed.uid)
            });
        }
        if let Some(secs) = self.scope.grant_secs_max {
            self.note_grants();
            self.check_grants(secs);
        }
    }

    fn end_allows(&mut self, is_over: impl Fn(&Allowed) -> bool) {
        while let Some(n) = self.clients.allows.iter().position(&is_over) {
            let over = self.clients.allows.remove(n);
            self.auditor().end(&over.eviction);
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
}
