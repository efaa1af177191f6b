//! One random thing that happens.

use std::time::Duration;

use holdfast_core::Command;
use holdfast_core::model::{ObjectKey, Phase, Threshold};
use holdfast_sim::{Fate, group, owner};

use crate::driver::{Asked, Driver, Member, budget_key, half};
use crate::params::Params;

impl Driver {
    pub fn act(&mut self) {
        match self.random.below(100) {
            0..=14 => self.evict(),
            15..=39 => self.call(),
            40..=54 => self.answer(),
            55..=69 => self.deliver(),
            70..=74 => self.execute_some(),
            75..=82 => self.progress_pods(),
            83..=90 => self.pass_time(),
            91..=94 => self.disturb_instance(),
            95 => self.land(),
            _ if self.params.involuntary => self.meddle(),
            _ => self.deliver(),
        }
    }

    fn evict(&mut self) {
        let up = self.instances_up();
        let Some(&instance) = self.random.pick(&up) else { return };
        let pods: Vec<ObjectKey> = self.world.pods().map(|pod| pod.key.clone()).collect();
        let mut busy: Vec<ObjectKey> = self.asked.values().map(|a| a.pod.clone()).collect();
        busy.extend(self.allowed.iter().map(|a| a.pod.clone()));
        let repeat = self.random.chance(self.params.repeats) && !busy.is_empty();
        let Some(key) = self.random.pick(if repeat { &busy } else { &pods }).cloned() else {
            return;
        };
        let mut eviction = self.world.instance(instance).eviction(&key);
        if self.random.chance(self.params.preconditions) {
            eviction.uid = self.world.pod(&key).map(|pod| pod.uid.clone());
        }
        eviction.dry_run = self.random.chance(self.params.dry_runs);
        let id = eviction.id.clone();
        if eviction.dry_run {
            self.dry_runs.insert(id.clone());
        }
        self.log(&format!("{id} asks {instance} for {} {}", key.name, note(&eviction)));
        let (uid, deadline) = (eviction.uid.clone(), eviction.deadline);
        self.asked.insert(id, Asked { instance, pod: key, uid, deadline });
        self.world.instance(instance).submit(eviction);
    }

    fn call(&mut self) {
        let up = self.instances_up();
        let Some(&index) = self.random.pick(&up) else { return };
        let calls = self.world.instance(index).calls_waiting();
        if calls.is_empty() {
            return;
        }
        let n = self.random.below(calls.len());
        let name = call_name(&calls[n]);
        if !self.random.chance(self.params.lost_answers) {
            self.log(&format!("{index} {name} executed"));
            return self.world.instance(index).execute_call(n);
        }
        let fates = [Fate::AnswerLost, Fate::NotApplied, Fate::AppliedLate];
        let fate = *self.random.pick(&fates).expect("there are some");
        self.log(&format!("{index} {name} {fate:?}"));
        self.world.instance(index).end_call(n, fate);
    }

    fn answer(&mut self) {
        let up = self.instances_up();
        let Some(&index) = self.random.pick(&up) else { return };
        let answers = self.world.instance(index).answers_waiting();
        if answers == 0 {
            return;
        }
        let n = self.random.below(answers);
        let lost = self.random.chance(self.params.lost_answers / 2);
        self.log(&format!("{index} answer {}", if lost { "lost" } else { "delivered" }));
        let mut instance = self.world.instance(index);
        if lost { instance.lose_answer(n) } else { instance.deliver_answer(n) }
    }

    fn deliver(&mut self) {
        let up = self.instances_up();
        let Some(&index) = self.random.pick(&up) else { return };
        let one_by_one = self.random.chance(self.params.lag);
        let mut kinds: Vec<_> = self.world.instance(index).kinds_waiting().into_iter().collect();
        if one_by_one && let Some(kind) = self.random.pick(&kinds).cloned() {
            kinds = vec![kind];
        }
        for kind in kinds {
            self.log(&format!("{index} hears of {kind}"));
            self.world.instance(index).deliver(&kind);
            while !one_by_one && self.world.instance(index).kinds_waiting().contains(&kind) {
                self.world.instance(index).deliver(&kind);
            }
        }
    }

    fn execute_some(&mut self) {
        if self.allowed.is_empty() {
            return;
        }
        let n = self.random.below(self.allowed.len());
        let allowed = self.allowed.remove(n);
        if self.random.chance(85) {
            self.execute(&allowed);
        } else {
            self.log(&format!("{} comes to nothing", allowed.eviction));
        }
    }

    /// The kubelet and the controllers go on with their work.
    fn progress_pods(&mut self) {
        let pods: Vec<_> = self.world.pods().cloned().collect();
        let unfinished: Vec<_> = pods.iter().filter(|p| p.terminating || !p.ready).collect();
        let n = self.random.below(unfinished.len() + self.missing.len() + 1);
        if let Some(pod) = unfinished.get(n) {
            let key = pod.key.clone();
            if pod.terminating {
                self.log(&format!("{} is gone", key.name));
                self.lose_pod(&key);
            } else if pod.phase == Phase::Pending {
                self.log(&format!("{} runs", key.name));
                self.world.edit_pod(&key, |pod| pod.phase = Phase::Running);
            } else {
                self.log(&format!("{} is ready", key.name));
                self.world.edit_pod(&key, |pod| pod.ready = true);
            }
        } else if let Some(member) = self.missing.get(n - unfinished.len()).cloned() {
            self.missing.remove(n - unfinished.len());
            self.log(&format!("{} is created", member.name));
            self.create_pod(&member, false);
        }
    }

    pub fn lose_pod(&mut self, key: &ObjectKey) {
        let pod = self.world.pod(key).expect("it is there").clone();
        self.world.delete_pod(key);
        let group = crate::count::group_of(&pod)[1..].parse().expect("as it was named");
        self.names += 1;
        let name =
            if self.params.same_name { key.name.clone() } else { format!("r{}", self.names) };
        self.missing.push(Member { name, group });
    }

    fn pass_time(&mut self) {
        let ms = match self.random.below(20) {
            0..=9 => self.random.between(1, 100),
            10..=15 => self.random.between(100, 3_000),
            16..=17 => self.random.between(3_000, 20_000),
            18 => self.random.between(20_000, 60_000),
            _ => self.random.between(110_000, 200_000),
        };
        self.log(&format!("{ms} ms pass"));
        self.advance(Duration::from_millis(ms.unsigned_abs()));
    }

    /// Nothing that was allowed is executed later than it can be.
    pub fn advance(&mut self, by: Duration) {
        let to = self.world.now() + by;
        loop {
            let due = self.allowed.iter().map(|a| a.until).min().filter(|until| *until <= to);
            let Some(due) = due else { break };
            self.world.advance_to(due);
            self.observe();
            let n = self.allowed.iter().position(|a| a.until <= due).expect("one is due");
            let allowed = self.allowed.remove(n);
            if self.random.chance(85) {
                self.execute(&allowed);
            }
            self.check_step();
        }
        self.world.advance_to(to);
    }

    fn disturb_instance(&mut self) {
        let index = self.random.below(self.params.instances);
        match self.random.below(3) {
            0 if self.params.crashes => {
                if self.world.instance(index).is_up() {
                    self.log(&format!("{index} crashes"));
                    self.world.instance(index).crash();
                    self.asked.retain(|_, asked| asked.instance != index);
                    self.denied.retain(|_, by| *by != index);
                } else {
                    self.restart(index);
                }
            }
            1 if self.params.relists && self.world.instance(index).is_up() => {
                let kinds: Vec<_> =
                    self.world.instance(index).kinds_waiting().into_iter().collect();
                let Some(kind) = self.random.pick(&kinds).cloned() else { return };
                self.log(&format!("{index} lists {kind} again"));
                self.world.instance(index).relist(&kind);
            }
            _ if self.params.leaders => {
                let leads = self.random.chance(50);
                self.log(&format!("{index} leads: {leads}"));
                self.world.instance(index).lead(leads);
            }
            _ => {}
        }
    }

    pub fn restart(&mut self, index: usize) {
        self.log(&format!("{index} starts again"));
        self.world.instance(index).restart();
    }

    fn land(&mut self) {
        let late = self.world.late_calls();
        if late > 0 {
            let n = self.random.below(late);
            let lands = self.random.chance(70);
            self.log(&format!("a late call {}", if lands { "lands" } else { "is lost" }));
            if lands { self.world.land_late(n) } else { self.world.drop_late(n) }
        }
    }

    /// What nobody asked us about.
    fn meddle(&mut self) {
        let Params { groups, size, .. } = self.params;
        let pods: Vec<ObjectKey> = self.world.pods().map(|pod| pod.key.clone()).collect();
        let pod = self.random.pick(&pods).cloned();
        let budget = budget_key(self.random.below(3));
        let exists = self.world.budget(&budget).is_some();
        match (self.random.below(10), pod) {
            (0..=2, Some(pod)) => {
                self.log(&format!("{} is not ready", pod.name));
                self.world.edit_pod(&pod, |pod| pod.ready = false);
            }
            (3..=4, Some(pod)) => {
                self.log(&format!("{} is deleted", pod.name));
                self.lose_pod(&pod);
            }
            (5, _) => {
                let index = self.random.below(groups);
                let min = self.random.between(1, i64::try_from(size).expect("small"));
                self.log(&format!("g{index} needs {min}"));
                let name = format!("g{index}");
                let made = group(&name).gang(min).owned_by("example.com", "Train", half(index));
                self.world.apply_pod_group(made);
            }
            (6, _) => {
                let half = half(self.random.below(2));
                let replicas = self.random.between(1, i64::try_from(groups * size).expect("small"));
                self.log(&format!("{half} scales to {replicas}"));
                self.world.apply_owner(owner("apps", "StatefulSet", half).replicas(replicas));
            }
            (7, _) if exists => {
                let min = self.random.between(0, 3);
                self.log(&format!("{budget} wants {min}"));
                self.world.edit_budget(&budget, |spec| {
                    spec.max_unavailable = None;
                    spec.min_available = Some(Threshold::Count(min));
                });
            }
            (8, _) => {
                let made = self.draw_budget(&budget.object.name);
                self.log(&format!("{budget} is applied"));
                self.world.apply_budget(made);
            }
            (9, _) if exists => {
                self.log(&format!("{budget} is deleted"));
                self.world.delete_budget(&budget);
            }
            _ => {}
        }
    }

    pub fn instances_up(&mut self) -> Vec<usize> {
        let all = 0..self.params.instances;
        all.filter(|index| self.world.instance(*index).is_up()).collect()
    }
}

fn note(eviction: &holdfast_core::Eviction) -> String {
    let dry = if eviction.dry_run { "dry" } else { "" };
    format!("{} {dry}", eviction.uid.as_deref().unwrap_or(""))
}

fn call_name(command: &Command) -> String {
    match command {
        Command::WriteStatus { budget, status, .. } => {
            let granted: Vec<_> = status.grants.iter().map(|g| (&g.pod, &g.eviction)).collect();
            format!("WriteStatus {budget} {granted:?}")
        }
        Command::ReadBudget { budget } => format!("ReadBudget {budget}"),
        Command::ReadPod { pod, .. } => format!("ReadPod {pod}"),
        Command::ListNamespace { kind, .. } => format!("ListNamespace {kind}"),
        other => format!("{other:?}"),
    }
}
