//! Two engines that get the same inputs, with an API server behind them that sometimes says no.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::io::{Change, PodReadOutcome, ScaleOutcome, SnapshotOutcome, WriteOutcome};
use holdfast_core::model::{
    Budget, BudgetKey, BudgetStatus, Condition, ConditionStatus, Grant, ObjectKey, Operation,
    PendingReplacement, Phase, ResourceVersion, Timestamp,
};
use holdfast_core::verdict::{AllowReason, Verdict};
use holdfast_core::{Command, Config, Engine, Eviction, Input, Kind};

use super::ledger::Ledger;
use super::ops::Fate;
use super::world::World;
use crate::reference::{Snapshot, evaluate, may_forget, replacement, selects};

#[derive(Debug)]
pub struct Harness {
    pub engines: [Engine; 2],
    pub config: Config,
    pub now: Timestamp,
    pub world: World,
    pub ledger: Ledger,
    pub fates: VecDeque<Fate>,
    /// Answers that come after the next thing that happens.
    pub late: Vec<Input>,
    wake: Option<Timestamp>,
    queue: VecDeque<Input>,
    /// With the budgets that covered the pod when the eviction was asked for.
    outstanding: BTreeMap<String, (Eviction, BTreeSet<BudgetKey>)>,
    replies: BTreeMap<String, (Eviction, Verdict)>,
    count: u64,
}

impl Harness {
    pub fn new(config: Config, world: World) -> Self {
        Self {
            engines: [Engine::new(config.clone()), Engine::new(config.clone())],
            config,
            now: Timestamp::from_secs(1_800_000_000),
            world,
            ledger: Ledger::default(),
            fates: VecDeque::new(),
            late: Vec::new(),
            wake: None,
            queue: VecDeque::new(),
            outstanding: BTreeMap::new(),
            replies: BTreeMap::new(),
            count: 0,
        }
    }

    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            config: self.config.clone(),
            pods: self.world.pods.values().cloned().collect(),
            budgets: self.world.budgets.values().cloned().collect(),
            builtin: self.world.builtin.values().cloned().collect(),
            groups: self.world.groups.values().cloned().collect(),
            workloads: self.world.workloads.values().cloned().collect(),
            owners: self.world.owners.values().cloned().collect(),
            scales: self.world.scales.clone(),
            grants: self.ledger.live(|_| true),
        }
    }

    pub fn is_quiet(&self) -> bool {
        self.late.is_empty() && self.outstanding.is_empty()
    }

    /// Tell both engines, and answer what they ask until they ask no more.
    pub fn feed(&mut self, input: Input) {
        self.queue.push_back(input);
        while let Some(input) = self.queue.pop_front() {
            match &input {
                Input::Snapshot { outcome: SnapshotOutcome::Listed { objects, .. }, .. } => {
                    for object in objects {
                        self.ledger.observe(object);
                    }
                }
                input => self.ledger.observe(input),
            }
            let [first, second] = self.engines.each_mut().map(|engine| {
                engine.handle(self.now, input.clone());
                std::iter::from_fn(|| engine.poll()).collect::<Vec<Command>>()
            });
            // Two engines of one process have differently seeded hash maps.
            assert_eq!(format!("{first:?}"), format!("{second:?}"), "same inputs, other commands");
            self.engines[0].verify();
            for command in first {
                self.execute(command);
            }
        }
    }

    /// Follow the wake-ups of the near future: housekeeping writes and, where an eviction waits, its
    /// deadline.
    pub fn settle(&mut self) {
        let near = self.now + Duration::from_millis(2500);
        let far = self.now + Duration::from_secs(8);
        for _ in 0..200 {
            let waits = self.late.is_empty() && !self.outstanding.is_empty();
            match self.wake {
                Some(at) if at <= if waits { far } else { near } => self.tick(at),
                _ => break,
            }
        }
        assert!(
            !self.late.is_empty() || self.outstanding.is_empty(),
            "evictions without an answer: {:?}",
            self.outstanding
        );
    }

    pub fn tick(&mut self, at: Timestamp) {
        self.now = self.now.max(at);
        // A tick that comes early is not the one that the engine waits for.
        self.wake = self.wake.filter(|wake| *wake > self.now);
        self.feed(Input::Tick);
    }

    pub fn deliver_late(&mut self) {
        for input in std::mem::take(&mut self.late) {
            self.feed(input);
        }
    }

    pub fn ask(&mut self, pod: &ObjectKey, dry_run: bool) -> String {
        self.count += 1;
        let id = format!("eviction-{}", self.count);
        let eviction = Eviction {
            id: id.clone(),
            pod: pod.clone(),
            uid: None,
            requester: "drain".to_owned(),
            dry_run,
            operation: Operation::Evict,
            object: None,
            generation: 0,
            exempt: false,
            by_name: false,
            deadline: self.now + Duration::from_secs(5),
        };
        let covering = self.covering(pod);
        self.outstanding.insert(id.clone(), (eviction.clone(), covering));
        self.feed(Input::Evict(eviction));
        id
    }

    pub fn reply(&self, id: &str) -> Option<&Verdict> {
        self.replies.get(id).map(|(_, verdict)| verdict)
    }

    fn execute(&mut self, command: Command) {
        match command {
            Command::Reply { eviction, verdict } => self.replied(eviction, verdict),
            Command::WriteStatus { budget, uid, version, status } => {
                let fate = self.fates.pop_front().unwrap_or(Fate::Normal);
                self.write(&budget, &uid, &version, Arc::unwrap_or_clone(status), fate);
            }
            Command::ReadBudget { budget, uid } => {
                let outcome = self.current(&budget);
                self.queue.push_back(Input::StatusWritten { budget, uid, outcome });
            }
            Command::ReadPod { token, pod } => {
                let outcome = match self.world.pods.get(&pod) {
                    Some(pod) => PodReadOutcome::Found(Box::new(pod.clone())),
                    None => PodReadOutcome::NotFound,
                };
                self.queue.push_back(Input::PodRead { token, outcome });
            }
            Command::ReadScale { namespace, owner } => {
                let key = (namespace.clone(), owner.group_kind.clone(), owner.name.clone());
                let known = self.world.scales.iter().find(|(k, _)| *k == key);
                let outcome = known.map_or(ScaleOutcome::NotFound, |(_, outcome)| outcome.clone());
                self.queue.push_back(Input::ScaleRead { namespace, owner, outcome });
            }
            Command::ListNamespace { kind, namespace } => {
                let outcome = self.list(&kind, &namespace);
                self.queue.push_back(Input::Snapshot { kind, namespace, outcome });
            }
            Command::WakeAt(at) => self.wake = Some(at),
            Command::Event(_) | Command::ClearDisruptionTarget { .. } | Command::Relate { .. } => {}
        }
    }

    fn list(&self, kind: &Kind, namespace: &str) -> SnapshotOutcome {
        let objects = match kind {
            Kind::Pod => {
                let pods = self.world.pods.values().filter(|p| p.key.namespace == namespace);
                pods.map(|p| Input::Pod(Change::Applied(p.clone()))).collect()
            }
            Kind::Budget | Kind::UnavailableBudget => {
                let listed = self.world.budgets.values();
                let listed = listed.filter(|b| b.key.kind.watched() == *kind);
                let listed = listed.filter(|b| b.key.object.namespace == namespace);
                listed.map(|b| Input::Budget(Change::Applied(b.clone()))).collect()
            }
            Kind::PodGroup(api) => {
                let of_kind = self.world.groups.values().filter(|group| group.api == *api);
                let here = of_kind.filter(|group| group.key.namespace == namespace);
                here.map(|group| Input::PodGroup(Change::Applied(group.clone()))).collect()
            }
            Kind::Workload(api) => {
                let of_kind = self.world.workloads.values().filter(|of| of.api == *api);
                let here = of_kind.filter(|workload| workload.key.namespace == namespace);
                here.map(|workload| Input::Workload(Change::Applied(workload.clone()))).collect()
            }
            Kind::Owner(kind) => {
                let of_kind = self.world.owners.values().filter(|o| o.group_kind == *kind);
                let here = of_kind.filter(|owner| owner.key.namespace == namespace);
                here.map(|owner| Input::Owner(Change::Applied(owner.clone()))).collect()
            }
            Kind::BuiltinBudget => panic!("no decision asks for a list of {kind}"),
        };
        SnapshotOutcome::Listed { version: self.world.version(), objects }
    }

    fn current(&self, budget: &BudgetKey) -> WriteOutcome {
        match self.world.budgets.get(budget) {
            Some(budget) => WriteOutcome::Current(Box::new(budget.clone())),
            None => WriteOutcome::Gone,
        }
    }

    fn write(
        &mut self,
        key: &BudgetKey,
        uid: &str,
        version: &ResourceVersion,
        status: BudgetStatus,
        fate: Fate,
    ) {
        if let Fate::Conflict { slot, anonymous } = fate {
            self.foreign_write(key, slot, anonymous);
        }
        let holds = |budget: &&Budget| budget.uid == uid && budget.version == *version;
        if fate != Fate::UnknownLost && self.world.budgets.get(key).as_ref().is_some_and(holds) {
            self.check_write(key, &status);
            let version = self.world.next_version();
            let budget = self.world.budgets.get_mut(key).expect("just seen");
            budget.status = status;
            budget.version = version;
            let budget = budget.clone();
            self.ledger.budget_is(&budget);
        }
        let outcome = match fate {
            Fate::UnknownWritten | Fate::UnknownLost => WriteOutcome::Unknown("timeout".to_owned()),
            Fate::Normal | Fate::Conflict { .. } | Fate::Late => self.current(key),
        };
        let seen = self.world.budgets.get(key).map(|b| Input::Budget(Change::Applied(b.clone())));
        let answer = Input::StatusWritten { budget: key.clone(), uid: uid.to_owned(), outcome };
        if fate == Fate::Late {
            self.late.push(answer);
        } else {
            // The watch is sometimes faster than the answer.
            self.count += 1;
            let (first, second) = if self.count.is_multiple_of(2) {
                (seen, Some(answer))
            } else {
                (Some(answer), seen)
            };
            self.queue.extend(first);
            self.queue.extend(second);
        }
    }

    /// Another instance's grant, another component's entry, or only a condition that is none of ours.
    fn foreign_write(&mut self, key: &BudgetKey, slot: u8, anonymous: bool) {
        let version = self.world.next_version();
        let Some(budget) = self.world.budgets.get_mut(key) else { return };
        budget.version = version;
        if !budget.status.conditions.iter().any(|condition| condition.kind == "Foreign") {
            budget.status.conditions.push(Condition {
                kind: "Foreign".to_owned(),
                status: ConditionStatus::True,
                reason: "Foreign".to_owned(),
                message: String::new(),
                observed_generation: 0,
                last_transition: self.now.truncated(),
            });
        }
        let name = format!("p{slot}");
        let pod = self.world.pods.get(&ObjectKey::new(&key.object.namespace, &name));
        let Some(pod) = pod
            .filter(|pod| selects(budget, pod) && pod.phase == Phase::Running && !pod.terminating)
        else {
            return;
        };
        if self.ledger.of(key).any(|held| held.pod == pod.key) {
            return;
        }
        let at = self.now.truncated();
        budget.status.disrupted_pods.insert(name.clone(), at);
        if !anonymous {
            budget.status.grants.push(Grant {
                operation: Operation::Evict,
                generation: 0,
                shared: false,
                age_seconds: 0,
                pinned: true,
                targeted_before: false,
                pod: name,
                uid: pod.uid.clone(),
                replica: String::new(),
                cost: 1,
                requester: "other".to_owned(),
                granted_at: at,
                eviction: format!("foreign-{}", budget.version),
                budgets: vec![key.object.name.clone()],
            });
        }
    }

    /// The invariant, at the one moment that matters: the compare-and-swap holds, so the engine knew
    /// all of this budget, and in these worlds its caches are never behind.
    fn check_write(&mut self, key: &BudgetKey, status: &BudgetStatus) {
        let is_ours = |eviction: &str| eviction.starts_with("eviction-");
        let was_allowed = |eviction: &str| {
            self.replies.get(eviction).is_some_and(|(_, verdict)| verdict.is_allow())
        };
        self.ledger.confirm(key, status, |id| !is_ours(id) || was_allowed(id));
        let mut refunded = Vec::new();
        for held in self.ledger.of(key).filter(|held| !held.is_kept_by(status)) {
            let is_refund =
                is_ours(&held.eviction) && !was_allowed(&held.eviction) && !held.is_firm;
            let is_over = held.is_over(self.now);
            assert!(is_refund || is_over, "{key}: a live grant was dropped: {held:?}");
            refunded.push(held.eviction.clone());
        }
        for eviction in refunded {
            self.ledger.remove(key, &eviction);
        }

        let new: Vec<&Grant> =
            status.grants.iter().filter(|grant| !self.ledger.holds(key, grant)).collect();
        let is_new = |uid: &str| new.iter().any(|grant| grant.uid == uid);
        let mut before = self.snapshot();
        // What the same evictions already reserved in other budgets is part of what they cost here.
        before.grants.retain(|grant| !is_new(&grant.uid));
        let mut after = before.clone();
        after.grants.extend(new.iter().map(|grant| crate::reference::LiveGrant {
            budget: key.clone(),
            uid: grant.uid.clone(),
            cost: grant.cost,
        }));
        // Upstream counts a Pending pod that says Ready, and evicts it freely.
        let upstream_oddity = before
            .pods
            .iter()
            .any(|pod| is_new(&pod.uid) && pod.phase == Phase::Pending && pod.ready);
        let budget = before.budget(key).expect("just seen");
        let (before, after) = (evaluate(&before, budget), evaluate(&after, budget));
        if before.failure.is_some() || upstream_oddity {
            assert!(
                upstream_oddity || new.iter().all(|grant| grant.cost == 0),
                "{key}: failed closed, and yet {new:?}"
            );
            return;
        }
        self.check_replacements(key, status, &new);
        let paid: i64 = new.iter().map(|grant| grant.cost).sum();
        let lost = before.healthy - after.healthy;
        assert!(lost <= paid, "{key}: {lost} units lost for {paid}: {new:?}");
        assert!(paid <= before.allowed, "{key}: {} allowed, {paid} paid: {new:?}", before.allowed);
        assert!(lost <= 0 || after.healthy >= before.desired, "{key}: {before:?} to {after:?}");
    }

    /// A write remembers what the pods that it grants away stand for, and forgets nothing too early.
    fn check_replacements(&self, key: &BudgetKey, status: &BudgetStatus, new: &[&Grant]) {
        let truth = self.snapshot();
        let budget = truth.budget(key).expect("just seen");
        let after = |p: &PendingReplacement| {
            let mut written = status.pending_replacements.iter();
            written.find(|w| w.pod == p.pod && w.uid == p.uid).cloned()
        };
        for grant in new.iter().filter(|grant| self.outstanding.contains_key(&grant.eviction)) {
            let Some(pod) = truth.pods.iter().find(|pod| pod.uid == grant.uid) else { continue };
            let expected = replacement(&truth, budget, pod);
            let mut written = status.pending_replacements.iter();
            let written = written.find(|w| w.pod == grant.pod && w.uid == grant.uid);
            let (size, sources) = expected.unwrap_or_default();
            // One record of a source is enough for all its pods.
            let recorded = || status.pending_replacements.iter().flat_map(|p| &p.sources);
            let missing = |source: &String| {
                // A JobSet whose Jobs are not its replicas is remembered by its name.
                !recorded().any(|own| own == source || own.starts_with("JobSet/"))
            };
            assert_eq!(written.map_or(0, |w| w.size), size, "{key}: the size kept of {grant:?}");
            let missing: Vec<&String> = sources.iter().filter(|s| missing(s)).collect();
            assert!(missing.is_empty(), "{key}: {missing:?} not kept of {grant:?}");
        }
        for pending in &budget.status.pending_replacements {
            let after = after(pending);
            let is_granted = status.grants.iter().any(|grant| grant.pod == pending.pod)
                || status.disrupted_pods.contains_key(&pending.pod);
            let forgets = |what| may_forget(&truth, budget, pending, what, is_granted);
            let keeps_size = after.as_ref().is_some_and(|after| after.size == pending.size);
            assert!(
                pending.size == 0 || keeps_size || forgets((true, None)),
                "{key}: the size of {pending:?} is forgotten"
            );
            for source in &pending.sources {
                let mut written = status.pending_replacements.iter();
                let keeps = written.any(|written| written.sources.contains(source));
                assert!(keeps || forgets((false, Some(source))), "{key}: {pending:?} is forgotten");
            }
        }
    }

    fn covering(&self, pod: &ObjectKey) -> BTreeSet<BudgetKey> {
        let Some(pod) = self.world.pods.get(pod) else { return BTreeSet::new() };
        let budgets = self.world.budgets.values().filter(|budget| selects(budget, pod));
        budgets.map(|budget| budget.key.clone()).collect()
    }

    /// An allowed eviction has a grant in every covering budget (semantics 6). A budget that came to
    /// cover the pod while the request was under way is one that could as well have come after it.
    fn replied(&mut self, id: String, verdict: Verdict) {
        let (eviction, covered) = self.outstanding.remove(&id).expect("one reply per eviction");
        if let (Verdict::Allow(allowed), Some(pod), false) =
            (&verdict, self.world.pods.get(&eviction.pod), eviction.dry_run)
            && matches!(allowed.reason, AllowReason::Granted | AllowReason::NotCovered)
        {
            for key in self.covering(&pod.key).intersection(&covered) {
                let status = &self.world.budgets[key].status;
                assert!(
                    status.grants.iter().any(|grant| grant.uid == pod.uid)
                        || status.disrupted_pods.contains_key(&pod.key.name),
                    "{id} of {} was allowed without a grant in {key}",
                    pod.key,
                );
            }
        }
        self.replies.insert(id, (eviction, verdict));
    }

    /// A denied eviction has no grant anywhere, once refunds are done.
    pub fn check_refunds(&self) {
        for budget in self.world.budgets.values() {
            for grant in &budget.status.grants {
                let reply = self.replies.get(&grant.eviction);
                let is_firm = self.ledger.of(&budget.key).any(|h| h.is_firm && h.is(grant));
                assert!(
                    is_firm || reply.is_none_or(|(_, verdict)| verdict.is_allow()),
                    "{}: not refunded: {grant:?}",
                    budget.key
                );
            }
        }
    }
}
