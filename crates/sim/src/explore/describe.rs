//! Steps in words.

use holdfast_core::{Command, Input};

use super::state::State;
use super::step::Step;

impl State {
    /// What the step is about, before it happens.
    pub(super) fn describe(&self, step: Step) -> String {
        let pod = |n: u8| &self.layout.pods[usize::from(n)].name;
        let budget = |n: u8| self.scope.budgets[usize::from(n)].name;
        let instance = |i: u8| &self.instances[usize::from(i)];
        let call = |i: u8, n: u8| name_of(&instance(i).calls[usize::from(n)].command);
        let answer = |i: u8, n: u8| name_of(&instance(i).answers[usize::from(n)].call.command);
        let allow = |n: u8| &self.layout.pods[self.clients.allows[usize::from(n)].pod].name;
        match step {
            Step::Ask(n) => {
                let request = self.scope.requests[usize::from(n)];
                let pod = &self.layout.pods[request.pod].name;
                format!("a client asks instance {} to evict {pod}", request.instance)
            }
            Step::Call(i, n) => format!("the API server executes {} of instance {i}", call(i, n)),
            Step::Answer(i, n) => format!("instance {i} gets the answer to {}", answer(i, n)),
            Step::Lose(i, n) => format!("instance {i} loses the answer to {}", answer(i, n)),
            Step::GiveUp(i, n) => format!("instance {i} gives up {}", call(i, n)),
            Step::Late(n) => {
                let late = &self.late[usize::from(n)];
                format!("{} reaches the API server late", name_of(&late.command))
            }
            Step::Event(i, kind) => {
                let event = self.instances[usize::from(i)].watch[kind as usize].front();
                let event = event.map(|event| subject_of(&event.input)).unwrap_or_default();
                format!("instance {i} gets the next {kind} event: {event}")
            }
            Step::Crash(i) => format!("instance {i} crashes"),
            Step::Restart(i) => format!("instance {i} starts and lists everything"),
            Step::Delete(n) => format!("pod {} is deleted, by no eviction", pod(n)),
            Step::Create(n) => format!("pod {} is created again, not ready", pod(n)),
            Step::Ready(n) => format!("pod {} becomes ready", pod(n)),
            Step::Unready(n) => format!("pod {} stops being ready", pod(n)),
            Step::Edit(n) => format!("budget {} gets its other threshold", budget(n)),
            Step::Recreate(n) => format!("budget {} is deleted and created again", budget(n)),
            Step::ScaleUp(n) => {
                format!("{} is scaled up", self.scope.replicas[usize::from(n)].name)
            }
            Step::Advance(n) => {
                format!("{} s pass", self.scope.spans[usize::from(n)].secs)
            }
            Step::CarryOut(n) => format!("the API server evicts {}", allow(n)),
            Step::Refuse(n) => format!("the API server refuses the eviction of {}", allow(n)),
        }
    }
}

fn name_of(command: &Command) -> String {
    match command {
        Command::WriteStatus { budget, status, .. } => {
            let granted: Vec<&str> = status.grants.iter().map(|g| g.pod.as_str()).collect();
            format!("write of {} (grants: {})", budget.object.name, granted.join(", "))
        }
        Command::ReadBudget { budget, .. } => format!("read of budget {}", budget.object.name),
        Command::ReadPod { pod, .. } => format!("read of pod {}", pod.name),
        Command::ListNamespace { kind, .. } => format!("list of {kind}"),
        command => format!("{command:?}"),
    }
}

fn subject_of(input: &Input) -> String {
    use holdfast_core::Change;
    match input {
        Input::Pod(Change::Applied(pod)) if pod.terminating => {
            format!("{} terminates", pod.key.name)
        }
        Input::Pod(Change::Applied(pod)) if pod.ready => format!("{} is ready", pod.key.name),
        Input::Pod(Change::Applied(pod)) => format!("{} is not ready", pod.key.name),
        Input::Pod(Change::Deleted(pod)) => format!("{} is gone", pod.key.name),
        Input::Budget(Change::Deleted(budget)) => format!("{} is gone", budget.key.object.name),
        input => input.subject().map(|(_, key, _)| key.name.clone()).unwrap_or_default(),
    }
}
