//! One seed decides a sequence of requests. Changes are valid in the present state. Requests of the engine
//! may be late, lost or wrong, and must still be answered.

use holdfast_core::io::WriteOutcome;
use holdfast_core::model::{
    Budget, BudgetKey, BudgetSpec, BudgetStatus, ControllerRef, Grant, GroupKind, GroupReference,
    LabelSelector, ObjectKey, Operation, Phase, Pod, Scope, Threshold, Timestamp,
};
use holdfast_core::{Command, Config, Input, Kind};
use holdfast_sim::{Random, World, budget, owner, pod};

use super::plain::{Numbered, is_ours};
use super::real::Real;

const STEPS: usize = 80;

pub fn random_requests_are_answered_alike() {
    (0..6).for_each(run);
}

pub fn many_random_requests_are_answered_alike() {
    (100..200).for_each(run);
}

fn run(seed: u64) {
    let mut pair = Pair::new(seed);
    for _ in 0..STEPS {
        pair.step();
    }
    pair.compare_watches();
}

struct Pair {
    random: Random,
    real: Real,
    sim: World,
    real_shown: Numbered,
    sim_shown: Numbered,
    /// Budgets that were read at some time, as a base for writes.
    read: Vec<(Budget, Budget)>,
    /// Pods that existed at some time, with their uids on the real server and in the simulator.
    pods_seen: Vec<(Pod, Pod)>,
    log: Vec<String>,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let real = Real::new();
        let mut sim = World::new(Config::default());
        sim.sync();
        sim.hold_watch();
        sim.hold_calls();
        Self {
            random: Random::new(seed),
            real,
            sim,
            real_shown: Numbered::default(),
            sim_shown: Numbered::default(),
            read: Vec::new(),
            pods_seen: Vec::new(),
            log: vec![format!("seed {seed}")],
        }
    }

    fn step(&mut self) {
        match self.random.below(20) {
            0..=2 => self.change_pod(),
            3 => self.evict(),
            4..=6 => self.change_budget(),
            7 => self.change_scale(),
            8..=13 => self.write_status(),
            14..=15 => self.read_budget(),
            16..=17 => self.read_pod(),
            18 => self.read_scale(),
            _ => self.list_or_clear(),
        }
    }

    /// Sends the same call to both. The answers must be equal.
    fn compare(&mut self, real: Command, sim: Command) -> (Option<Input>, Option<Input>) {
        self.log.push(format!("{sim:?}"));
        let answers = (self.real.call(real), self.sim.call(sim));
        let real = self.real_shown.show(answers.0.clone());
        let sim = self.sim_shown.show(answers.1.clone());
        assert_eq!(real, sim, "real, simulated, after\n{}", self.log.join("\n"));
        answers
    }

    fn compare_watches(&mut self) {
        let real = self.real.events();
        let sim: Vec<Input> = self.sim.watch_under_way().cloned().collect();
        let of_watch = |input: &Input| matches!(input, Input::Pod(_) | Input::Budget(_));
        let real = real.into_iter().filter(is_ours).map(|e| self.real_shown.show(Some(e)));
        let real: Vec<String> = real.collect();
        let sim = sim.into_iter().filter(of_watch).map(|e| self.sim_shown.show(Some(e)));
        let sim: Vec<String> = sim.collect();
        let log = self.log.join("\n");
        for (n, (real, sim)) in real.iter().zip(&sim).enumerate() {
            assert_eq!(real, sim, "event {n} of the watch, real and simulated, after\n{log}");
        }
        assert_eq!(real.len(), sim.len(), "events of the watch, after\n{log}");
    }

    fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::new(&self.real.world.namespace, name)
    }

    fn change_pod(&mut self) {
        let name = format!("p{}", self.random.below(4));
        let key = self.key(&name);
        let Some(stored) = self.sim.pod(&key).cloned() else {
            let made = pod(&key).label("app", "a");
            let made = if self.random.chance(50) {
                made.reference(GroupReference::Annotation { name: "g".to_owned() })
            } else {
                made
            };
            self.log.push(format!("{name} is created"));
            self.sim.apply_pod(made);
            let created = self.sim.pod(&key).expect("just created").clone();
            self.real.create_pod(&created);
            return;
        };
        match self.random.below(4) {
            0 => {
                self.log.push(format!("{name} is removed"));
                self.sim.delete_pod(&key);
                self.real.remove_pod(&name);
            }
            1 => {
                let value = ["a", "b"][self.random.below(2)];
                self.log.push(format!("{name} is labelled {value}"));
                let label = |pod: &mut Pod| pod.labels.insert("app".to_owned(), value.to_owned());
                self.sim.edit_pod(&key, |pod| drop(label(pod)));
                self.real.label_pod(&name, value);
            }
            // The merge patch would remove the mark of the eviction.
            _ if stored.disruption_target.is_none() => {
                let ready = !stored.ready;
                self.log.push(format!("{name} is ready: {ready}"));
                self.sim.edit_pod(&key, |pod| {
                    pod.phase = Phase::Running;
                    pod.ready = ready;
                });
                self.real.set_pod_status(&name, Phase::Running, ready);
            }
            _ => {}
        }
    }

    fn evict(&mut self) {
        let going: Vec<String> =
            self.sim.pods().filter(|p| !p.terminating).map(|p| p.key.name.clone()).collect();
        if let Some(name) = self.random.pick(&going).cloned() {
            self.log.push(format!("{name} is evicted"));
            let key = self.key(&name);
            self.sim.begin_eviction(&key);
            self.real.evict_pod(&name);
        }
    }

    fn change_budget(&mut self) {
        let name = format!("b{}", self.random.below(2));
        let key = self.key(&name);
        let spec = self.draw_spec();
        if self.sim.budget(&key).is_none() {
            self.log.push(format!("{name} is created"));
            self.sim.apply_budget(budget(&key).spec(|new| *new = spec.clone()));
            self.real.create_budget(&name, &spec);
            return;
        }
        match self.random.below(4) {
            0 => {
                self.log.push(format!("{name} is deleted"));
                self.sim.delete_budget(&key);
                self.real.delete_budget(&name);
            }
            1 => {
                // Writing a zero where there was no value changes only the version.
                let healthy = self.random.between(1, 3);
                self.log.push(format!("somebody writes {healthy} into {name}"));
                self.sim.edit_status(&key, |status| status.current_healthy = healthy);
                self.real.edit_status(&name, healthy);
            }
            _ => {
                self.log.push(format!("{name} becomes {spec:?}"));
                self.sim.edit_budget(&key, |old| *old = spec.clone());
                self.real.edit_budget(&name, &spec);
            }
        }
    }

    fn draw_spec(&mut self) -> BudgetSpec {
        let match_labels = [("app".to_owned(), ["a", "b"][self.random.below(2)].to_owned())];
        let selector =
            LabelSelector { match_labels: match_labels.into(), match_expressions: Vec::new() };
        let threshold = if self.random.chance(50) {
            Threshold::Count(self.random.between(0, 2))
        } else {
            Threshold::Percent(self.random.between(1, 3) * 10)
        };
        let (min_available, max_unavailable) =
            if self.random.chance(50) { (Some(threshold), None) } else { (None, Some(threshold)) };
        BudgetSpec {
            min_available,
            max_unavailable,
            selector: self.random.chance(80).then_some(selector),
            scope: if self.random.chance(50) { Scope::Pod } else { Scope::Workload },
            ..BudgetSpec::default()
        }
    }

    fn change_scale(&mut self) {
        let kind = stateful_set();
        let key = self.key("web");
        if self.random.chance(25) {
            self.log.push("web is deleted".to_owned());
            self.sim.delete_owner(&kind, &key);
            self.real.delete_stateful_set("web");
            return;
        }
        let replicas = self.random.between(0, 2);
        self.log.push(format!("web scales to {replicas}"));
        self.sim.apply_owner(owner("apps", "StatefulSet", &key).replicas(replicas));
        self.real.scale("web", replicas);
    }

    /// Writes from the newest state, or from an older one.
    fn write_status(&mut self) {
        if self.read.is_empty() {
            return self.read_budget();
        }
        let n = self.random.below(self.read.len());
        let n = if self.random.chance(60) { self.read.len() - 1 } else { n };
        let (real, sim) = self.read[n].clone();
        let status = self.draw_status(&sim);
        let command = |from: &Budget| Command::WriteStatus {
            budget: from.key.clone(),
            uid: from.uid.clone(),
            version: from.version.clone(),
            status: status.clone().into(),
        };
        let answers = self.compare(command(&real), command(&sim));
        self.remember(answers);
    }

    fn draw_status(&mut self, read: &Budget) -> BudgetStatus {
        let mut status = read.status.clone();
        // Only if Holdfast wrote all of it: an absent field reads as zero and is written as zero.
        if self.random.chance(20) && status.observed_generation > 0 {
            return status;
        }
        status.current_healthy = self.random.between(1, 3);
        status.observed_generation = read.generation;
        if self.random.chance(50) {
            let granted_at = Timestamp::from_secs(1_800_000_000 + self.random.between(0, 9));
            status.disrupted_pods.insert("p0".to_owned(), granted_at);
            status.grants = vec![Grant {
                operation: Operation::Evict,
                generation: 0,
                shared: false,
                age_seconds: 0,
                pinned: false,
                targeted_before: false,
                pod: "p0".to_owned(),
                uid: "u".to_owned(),
                replica: "PodGroup g".to_owned(),
                cost: 1,
                requester: "drainer".to_owned(),
                granted_at,
                eviction: format!("e{}", self.random.below(9)),
                budgets: vec![read.key.object.name.clone()],
            }];
        } else {
            status.disrupted_pods.clear();
            status.grants.clear();
        }
        status
    }

    fn read_budget(&mut self) {
        let name = format!("b{}", self.random.below(2));
        let budget = BudgetKey::pdb(&self.real.world.namespace, name);
        let command = Command::ReadBudget { budget, uid: String::new() };
        let answers = self.compare(command.clone(), command);
        self.remember(answers);
    }

    fn remember(&mut self, answers: (Option<Input>, Option<Input>)) {
        if let (Some(real), Some(sim)) = (current(answers.0), current(answers.1)) {
            self.read.push((real, sim));
        }
    }

    fn read_pod(&mut self) {
        let name = format!("p{}", self.random.below(4));
        let pod = self.key(&name);
        let command = Command::ReadPod { token: 1, pod };
        let answers = self.compare(command.clone(), command);
        if let (Some(real), Some(sim)) = (found(answers.0), found(answers.1)) {
            self.pods_seen.push((real, sim));
        }
    }

    fn read_scale(&mut self) {
        let namespace = self.real.world.namespace.clone();
        let (group_kind, name) = match self.random.below(4) {
            0 => (GroupKind::new("batch", "Job"), "once"),
            1 => (stateful_set(), "none"),
            _ => (stateful_set(), "web"),
        };
        let owner = ControllerRef {
            group_kind,
            version: "v1".to_owned(),
            name: name.to_owned(),
            uid: String::new(),
        };
        let command = Command::ReadScale { namespace, owner };
        self.compare(command.clone(), command);
    }

    fn list_or_clear(&mut self) {
        if self.random.chance(50)
            && let Some((real, sim)) = self.random.pick(&self.pods_seen).cloned()
            // The engine requests this only for pods that have the condition, or had it with this uid.
            && self.sim.pod(&sim.key).is_none_or(|p| p.uid != sim.uid || p.is_targeted())
        {
            let clear = |pod: &Pod| Command::ClearDisruptionTarget {
                pod: pod.key.clone(),
                uid: pod.uid.clone(),
            };
            self.compare(clear(&real), clear(&sim));
            return;
        }
        let kind = if self.random.chance(50) { Kind::Pod } else { Kind::Budget };
        let namespace = self.real.world.namespace.clone();
        let command = Command::ListNamespace { kind, namespace };
        self.compare(command.clone(), command);
    }
}

fn stateful_set() -> GroupKind {
    GroupKind::new("apps", "StatefulSet")
}

fn current(answer: Option<Input>) -> Option<Budget> {
    match answer {
        Some(Input::StatusWritten { outcome: WriteOutcome::Current(budget), .. }) => Some(*budget),
        _ => None,
    }
}

fn found(answer: Option<Input>) -> Option<Pod> {
    use holdfast_core::io::PodReadOutcome;
    match answer {
        Some(Input::PodRead { outcome: PodReadOutcome::Found(pod), .. }) => Some(*pod),
        _ => None,
    }
}
