//! A world, the clients who evict in it, and what they were told.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use holdfast_core::Config;
use holdfast_core::model::{BudgetKey, ObjectKey, Pod, Timestamp};
use holdfast_core::verdict::{AllowReason, Verdict};
use holdfast_sim::{Random, World, budget, group, owner, pod};

use crate::params::Params;

/// How long an allowed eviction may take until it is executed, or never is.
pub const EXECUTED_WITHIN: Duration = Duration::from_secs(34);

pub struct Driver {
    pub seed: u64,
    pub random: Random,
    pub params: Params,
    pub world: World,
    /// Requests that are not answered yet.
    pub asked: BTreeMap<String, Asked>,
    /// Allowed evictions that may still be executed.
    pub allowed: Vec<Allowed>,
    /// Uids of pods that an eviction took, and the budgets (by uid) that had granted it.
    pub taken: BTreeMap<String, BTreeSet<String>>,
    /// Requests that were denied, and by whom.
    pub denied: BTreeMap<String, usize>,
    pub dry_runs: BTreeSet<String>,
    /// Requests that renewed a grant of an earlier one.
    pub renewals: BTreeSet<String>,
    /// Budget, pod and request of every grant that was ever recorded.
    pub recorded: BTreeSet<(BudgetKey, String, String)>,
    /// Pods that their controller has yet to replace.
    pub missing: Vec<Member>,
    pub names: usize,
    trace: Vec<String>,
    done: bool,
}

#[derive(Clone, Debug)]
pub struct Asked {
    pub instance: usize,
    pub pod: ObjectKey,
    pub uid: Option<String>,
    pub deadline: Timestamp,
}

#[derive(Clone, Debug)]
pub struct Allowed {
    pub eviction: String,
    pub pod: ObjectKey,
    /// The pod that the decision was about, and that the webhook pins the eviction to; empty for none.
    pub uid: String,
    pub until: Timestamp,
    /// Uids of the budgets that hold the grant.
    pub budgets: BTreeSet<String>,
}

#[derive(Clone, Debug)]
pub struct Member {
    pub name: String,
    pub group: usize,
}

impl Driver {
    pub fn new(seed: u64, involuntary: bool) -> Self {
        let mut random = Random::new(seed);
        let params = Params::draw(&mut random, involuntary);
        let mut world = World::with_instances(Config::default(), params.instances);
        world.record();
        let mut driver = Self {
            seed,
            random,
            params,
            world,
            asked: BTreeMap::new(),
            allowed: Vec::new(),
            taken: BTreeMap::new(),
            denied: BTreeMap::new(),
            dry_runs: BTreeSet::new(),
            renewals: BTreeSet::new(),
            recorded: BTreeSet::new(),
            missing: Vec::new(),
            names: 0,
            trace: Vec::new(),
            done: false,
        };
        driver.populate();
        driver
    }

    pub fn run(&mut self) {
        for _ in 0..self.params.steps {
            self.act();
            self.observe();
            self.check_step();
        }
        self.done = true;
    }

    /// The faults end after a run, and everything comes to rest.
    pub fn come_to_rest(&mut self) {
        self.done = false;
        self.check_end();
        self.done = true;
    }

    pub fn log(&mut self, line: &str) {
        let at = self.world.elapsed();
        self.trace.push(format!("{:>8.3} {line}", at.as_secs_f64()));
    }

    fn populate(&mut self) {
        let Params { groups, size, min_count, skew, instances, .. } = self.params;
        for half in ["h0", "h1"] {
            let index = usize::from(half == "h1");
            let of_half = (0..groups).filter(|g| g % 2 == index).count() * size;
            let replicas = i64::try_from(of_half).expect("small");
            self.world.apply_owner(owner("apps", "StatefulSet", half).replicas(replicas));
        }
        for index in 0..groups {
            let name = format!("g{index}");
            let made = group(&name).gang(min_count).owned_by("example.com", "Train", half(index));
            self.world.apply_pod_group(made);
            for member in 0..size {
                self.create_pod(&Member { name: format!("p{index}-{member}"), group: index }, true);
            }
        }
        let budgets = 1 + self.random.below(3);
        for index in 0..budgets {
            let made = self.draw_budget(&format!("b{index}"));
            self.world.apply_budget(made);
        }
        for index in 0..instances {
            let offset = self.random.between(0, 600_000).unsigned_abs();
            let rate = self.random.between(800, 1300);
            let mut instance = self.world.instance(index);
            if skew {
                instance.skew(Duration::from_millis(offset), rate);
            }
            instance.sync();
            instance.hold_watch();
            instance.hold_calls();
            instance.lead(index == 0);
        }
    }

    pub fn create_pod(&mut self, member: &Member, ready: bool) {
        let half = half(member.group);
        let made = pod(&member.name)
            .label("app", "a")
            .label("half", half)
            .group(&format!("g{}", member.group))
            .owned_by("apps", "StatefulSet", half);
        self.world.apply_pod(if ready { made.ready() } else { made });
    }

    /// Thresholds that a whole cluster meets. Only a budget of one half counts by its owner's scale:
    /// an owner all of whose pods are gone is none that a budget could know of.
    pub fn draw_budget(&mut self, name: &str) -> holdfast_sim::BudgetBuilder {
        let Params { groups, size, .. } = self.params;
        let random = &mut self.random;
        let per_replica = random.chance(65);
        let in_half = random.chance(50).then(|| random.below(2));
        let of_groups = match in_half {
            Some(index) => (0..groups).filter(|g| g % 2 == index).count(),
            None => groups,
        };
        let units = of_groups * if per_replica { 1 } else { size };
        let units = i64::try_from(units).expect("small");
        let mut made = budget(name).select("app", "a");
        if let Some(index) = in_half {
            made = made.select("half", half(index));
        }
        if per_replica {
            made = made.per_replica();
        }
        if random.chance(20) {
            made = made.always_allow();
        }
        match (in_half.is_some(), random.below(4)) {
            (true, 0) => made.max_unavailable(random.between(1, units)),
            (true, 1) => made.max_unavailable_percent(random.between(1, 100)),
            (true, 2) => made.min_available_percent(random.between(1, 100)),
            _ => made.min_available(random.between(1, units.max(2) - 1)),
        }
    }

    /// Collect the answers.
    pub fn observe(&mut self) {
        let ids: Vec<String> = self.asked.keys().cloned().collect();
        for id in ids {
            let Some(verdict) = self.world.reply(&id) else { continue };
            let asked = self.asked.remove(&id).expect("it was asked");
            match verdict {
                Verdict::Allow(allowed) => {
                    self.log(&format!("{id} {} allowed: {:?}", asked.pod.name, allowed.reason));
                    if !self.dry_runs.contains(&id) {
                        self.take_allow(&id, asked, allowed.reason, allowed.uid);
                    }
                }
                Verdict::Deny(denial) => {
                    self.log(&format!("{id} {} denied: {:?}", asked.pod.name, denial.reason));
                    self.denied.insert(id, asked.instance);
                }
            }
        }
    }

    fn take_allow(&mut self, id: &str, asked: Asked, reason: AllowReason, uid: Option<String>) {
        let Asked { instance, pod, uid: precondition, .. } = asked;
        let uid = precondition.or(uid).unwrap_or_default();
        let mut budgets = BTreeSet::new();
        for budget in self.world.true_view().budgets.values() {
            for grant in budget.status.grants.iter().filter(|grant| grant.pod == pod.name) {
                if grant.uid == uid {
                    budgets.insert(budget.uid.clone());
                }
            }
        }
        let until = self.world.now() + EXECUTED_WITHIN;
        let allowed = Allowed { eviction: id.to_owned(), pod, uid, until, budgets };
        if reason == AllowReason::Granted {
            self.check_recorded(instance, &allowed);
            self.allowed.push(allowed);
        } else {
            self.execute(&allowed);
        }
    }

    /// The API server does what was allowed.
    pub fn execute(&mut self, allowed: &Allowed) {
        let Some(pod) = self.world.pod(&allowed.pod).cloned() else { return };
        if !hits(allowed, &pod) || pod.terminating {
            return;
        }
        self.log(&format!("{} executed on {} {}", allowed.eviction, pod.key.name, pod.uid));
        self.taken.entry(pod.uid).or_default().extend(allowed.budgets.iter().cloned());
        self.world.begin_eviction(&allowed.pod);
    }
}

/// Whether this eviction, if it is executed now, takes this pod.
pub fn hits(allowed: &Allowed, pod: &Pod) -> bool {
    allowed.pod == pod.key && allowed.uid == pod.uid
}

pub fn half(group: usize) -> &'static str {
    if group.is_multiple_of(2) { "h0" } else { "h1" }
}

pub fn budget_key(index: usize) -> BudgetKey {
    BudgetKey::pdb(holdfast_sim::NAMESPACE, format!("b{index}"))
}

/// Whatever goes wrong, an assertion of the engine's included, is told with how it came about.
impl Drop for Driver {
    fn drop(&mut self) {
        if !self.done && std::thread::panicking() {
            let test = if self.params.involuntary { "restless" } else { "quiet" };
            println!("{test} world, HOLDFAST_SEED={}\n{:#?}", self.seed, self.params);
            for (key, budget) in &self.world.true_view().budgets {
                println!("{key} {:?}", budget.spec);
            }
            println!("{}", self.trace.join("\n"));
        }
    }
}
