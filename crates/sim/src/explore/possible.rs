//! Which steps are possible in a state.

use super::scope::Shape;
use super::state::State;
use super::step::{Step, Watched};

/// No call and no answer is on its way for longer: the client gives up before. Longer spans pass only
/// when no call is under way, and nothing that was given up before them arrives after them.
pub(super) const CALL_SECS_MAX: u32 = 10;

impl State {
    /// Every step that is possible now.
    pub(super) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        self.client_steps(&mut steps);
        for index in 0..self.instances.len() {
            self.instance_steps(index, &mut steps);
        }
        self.cluster_steps(&mut steps);
        let idle = self.instances.iter().all(|i| i.calls.is_empty() && i.answers.is_empty());
        for (n, span) in self.scope.spans.iter().enumerate() {
            if self.clients.used.spans[n] < span.uses && (idle || span.secs <= CALL_SECS_MAX) {
                steps.push(Step::Advance(index(n)));
            }
        }
        steps
    }

    fn client_steps(&self, steps: &mut Vec<Step>) {
        for (n, request) in self.scope.requests.iter().enumerate() {
            let asked = &self.clients.requests[n];
            let up = self.instances[request.instance].process.is_some();
            // By name the API server asks only about a pod that it has just seen.
            let is_there = self.objects().pods.contains_key(&self.layout.pods[request.pod]);
            let up = up && (is_there || !self.scope.by_name);
            if up && !asked.open && asked.attempts < request.attempts {
                steps.push(Step::Ask(index(n)));
            }
        }
        for n in 0..self.clients.allows.len() {
            steps.push(Step::CarryOut(index(n)));
            if self.clients.used.refusals < self.scope.refusals {
                steps.push(Step::Refuse(index(n)));
            }
        }
    }

    fn instance_steps(&self, n: usize, steps: &mut Vec<Step>) {
        let (i, instance) = (index(n), &self.instances[n]);
        let used = &self.clients.used;
        let may_lose = used.losses < self.scope.losses;
        if instance.process.is_none() {
            steps.push(Step::Restart(i));
            return;
        }
        for call in 0..instance.calls.len() {
            steps.push(Step::Call(i, index(call)));
            if may_lose {
                steps.push(Step::GiveUp(i, index(call)));
            }
        }
        for answer in 0..instance.answers.len() {
            steps.push(Step::Answer(i, index(answer)));
            if may_lose {
                steps.push(Step::Lose(i, index(answer)));
            }
        }
        for kind in Watched::ALL {
            if !instance.watch[kind as usize].is_empty() {
                steps.push(Step::Event(i, kind));
            }
        }
        if self.scope.crashing.contains(&n) && used.crashes < self.scope.crashes {
            steps.push(Step::Crash(i));
        }
    }

    fn cluster_steps(&self, steps: &mut Vec<Step>) {
        let (scope, used) = (self.scope, &self.clients.used);
        for n in 0..self.late.len() {
            steps.push(Step::Late(index(n)));
        }
        for (n, key) in self.layout.pods.iter().enumerate() {
            let n = index(n);
            match self.objects().pods.get(key) {
                None if used.creations < scope.creations => steps.push(Step::Create(n)),
                None => {}
                Some(pod) => {
                    if !pod.ready {
                        steps.push(Step::Ready(n));
                    } else if used.flaps < scope.flaps {
                        steps.push(Step::Unready(n));
                    }
                    if used.deletions < scope.deletions {
                        steps.push(Step::Delete(n));
                    }
                }
            }
        }
        for (n, replica) in scope.replicas.iter().enumerate() {
            if matches!(replica.shape, Shape::Scaled) && used.scale_ups < scope.scale_ups {
                steps.push(Step::ScaleUp(index(n)));
            }
        }
        for (n, budget) in scope.budgets.iter().enumerate() {
            if budget.other.is_some() && used.edits < scope.edits {
                steps.push(Step::Edit(index(n)));
            }
            if used.recreations < scope.recreations {
                steps.push(Step::Recreate(index(n)));
            }
        }
    }
}

fn index(n: usize) -> u8 {
    u8::try_from(n).expect("small worlds have few of everything")
}
