//! One simulated drain, from the cordon until the last pod is back or nothing can change any more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::model::{ObjectKey, ResourceVersion, Scope, Threshold, Timestamp};
use holdfast_core::verdict::{AllowReason, Verdict};
use holdfast_sim::{Answer, Drain, DrainOptions, Target, World};

use super::needs::{self, Needs};
use super::objects::GivenBudget;
use super::record::Recorder;
use super::report::{BudgetRun, EvictionRun, Moment, NodeRun, Outcome, Run, Time};
use super::scenario::{Counting, Scenario, Settings};

/// A drain in which for so long nothing was granted, no pod started or ended, and whatever the engine
/// remembers has expired, will never do anything again.
const PATIENCE: Duration = Duration::from_mins(5);

/// How many times in a row a pod that waits for room may get it from one that ends, after the drain has
/// finished. Nothing goes on for ever in a cluster without faults; this is a guard.
const SUCCESSORS_MAX: u32 = 1000;

/// The drain under the budgets as they are written, and if asked for, under budgets that count pods.
pub fn run(scenario: &Scenario, compare: bool) -> Vec<Run> {
    let mut world = scenario.world(Counting::AsWritten);
    let needs = needs::of(scenario, &world);
    let mut runs = vec![Driver::new(scenario, &mut world).run(Counting::AsWritten, &needs)];
    if compare {
        let mut world = scenario.world(Counting::Pods);
        runs.push(Driver::new(scenario, &mut world).run(Counting::Pods, &needs));
    }
    runs
}

struct Driver<'a> {
    scenario: &'a Scenario,
    world: &'a mut World,
    drain: Drain,
    recorder: Recorder,
    began: Timestamp,
    evictions: Vec<EvictionRun>,
    /// By the number of the target, where its record is.
    records: Vec<Option<usize>>,
    /// Of each record, the last denial.
    refusals: Vec<Option<Refusal>>,
    /// Of each budget.
    denials: Vec<usize>,
    budgets: BTreeMap<ObjectKey, usize>,
    nodes: BTreeMap<Arc<str>, Time>,
    timeline: Vec<Moment>,
    granted: usize,
    denied: usize,
    /// The last moment in which something happened that could help.
    moved: Duration,
    /// Pods were starting or ending when we last looked.
    busy: bool,
}

/// A denial, and the world that it was given in.
struct Refusal {
    version: ResourceVersion,
    /// By their indices.
    budgets: Vec<usize>,
}

impl<'a> Driver<'a> {
    fn new(scenario: &'a Scenario, world: &'a mut World) -> Self {
        let settings = scenario.settings;
        let options = DrainOptions {
            retry: settings.retry,
            parallel: settings.parallel,
            ..DrainOptions::default()
        };
        Self {
            drain: Drain::new(scenario.drained.iter().cloned(), options),
            recorder: Recorder::new(scenario, world),
            began: world.now(),
            scenario,
            world,
            evictions: Vec::new(),
            records: Vec::new(),
            refusals: Vec::new(),
            denials: vec![0; scenario.objects.budgets.len()],
            budgets: (scenario.objects.budgets.iter().enumerate())
                .map(|(index, given)| (given.budget.key.object.clone(), index))
                .collect(),
            nodes: BTreeMap::new(),
            timeline: Vec::new(),
            granted: 0,
            denied: 0,
            moved: Duration::ZERO,
            busy: false,
        }
    }

    fn run(mut self, counting: Counting, needs: &Needs) -> Run {
        let outcome = self.drive();
        let end = match outcome {
            Outcome::Finished { .. } => self.recover(),
            // A little more than the moment, so that one can see that it stays so.
            Outcome::Blocked { at_seconds } => at_seconds.0 + 2 * self.scenario.settings.startup,
        };
        self.report(counting, needs, outcome, end)
    }

    fn drive(&mut self) -> Outcome {
        self.drain.cordon(self.world);
        loop {
            let targets = self.drain.poll(self.world);
            if !targets.is_empty() {
                self.evict(targets);
            }
            let now = self.note();
            if self.drain.is_done() {
                return Outcome::Finished { at_seconds: Time(now) };
            }
            let was_busy = std::mem::replace(&mut self.busy, self.world.is_busy());
            if was_busy || self.busy {
                self.moved = now;
            } else if now.saturating_sub(self.moved) > PATIENCE {
                return Outcome::Blocked { at_seconds: Time(self.moved) };
            }
            let next = [self.drain.next_due(), self.world.next_due()].into_iter().flatten().min();
            match next {
                Some(next) => self.world.advance_to(next),
                None => return Outcome::Blocked { at_seconds: Time(self.moved) },
            }
        }
    }

    /// The drain is over; the pods that it moved are starting.
    fn recover(&mut self) -> Duration {
        let Settings { startup, grace, .. } = self.scenario.settings;
        let end = self.world.now() + SUCCESSORS_MAX * (startup + grace);
        let mut last = self.elapsed();
        while self.world.is_busy()
            && let Some(next) = self.world.next_due().filter(|next| *next <= end)
        {
            self.world.advance_to(next);
            last = self.note();
        }
        last + self.scenario.settings.startup / 10
    }

    fn evict(&mut self, targets: Vec<Target>) {
        let at = Time(self.elapsed());
        let mut moment = Moment {
            at_seconds: at,
            nodes: Vec::new(),
            granted: Vec::new(),
            replicas: Vec::new(),
            denied: 0,
            lowest_healthy: usize::MAX,
        };
        let targets = self.refuse_again(targets, at, &mut moment);
        let (targets, gone): (Vec<_>, Vec<_>) =
            targets.into_iter().partition(|(_, target)| self.world.pod(&target.pod).is_some());
        for (index, target) in gone {
            self.evictions[index].granted_seconds = Some(at);
            self.evictions[index].reason = Some("NotFound");
            self.drain.answer(self.world.now(), target, Answer::NotFound);
        }
        let pods: Vec<ObjectKey> = targets.iter().map(|(_, target)| target.pod.clone()).collect();
        let verdicts = self.world.evict_together(&pods);
        for ((index, target), verdict) in targets.into_iter().zip(verdicts) {
            self.nodes.entry(target.node.clone()).or_insert(at);
            let answer = self.take_answer(index, verdict, at, &mut moment);
            self.drain.answer(self.world.now(), target, answer);
        }
        self.note_moment(moment);
    }

    /// As long as no object has changed the engine has nothing new to say, and is not asked again:
    /// most requests of a large drain are retries. Returns the others, with their records.
    fn refuse_again(
        &mut self,
        targets: Vec<Target>,
        at: Time,
        moment: &mut Moment,
    ) -> Vec<(usize, Target)> {
        let version = self.world.version();
        let mut others = Vec::new();
        for target in targets {
            let index = self.record(&target);
            let Some(refusal) = self.refusals[index].as_ref().filter(|r| r.version == version)
            else {
                others.push((index, target));
                continue;
            };
            for budget in &refusal.budgets {
                self.denials[*budget] += 1;
            }
            self.count_denial(index, at, moment);
            self.drain.answer(self.world.now(), target, Answer::Denied);
        }
        others
    }

    fn take_answer(
        &mut self,
        index: usize,
        verdict: Verdict,
        at: Time,
        moment: &mut Moment,
    ) -> Answer {
        let record = &mut self.evictions[index];
        match verdict {
            Verdict::Allow(allowed) => {
                record.granted_seconds = Some(at);
                record.reason = Some(match allowed.reason {
                    AllowReason::Granted => "Granted",
                    AllowReason::NotCovered => "NotCovered",
                    AllowReason::PodEnded => "PodEnded",
                    AllowReason::Exempt => "Exempt",
                    AllowReason::PodGone | AllowReason::UidMismatch => "NotFound",
                });
                record.cost = allowed.grants.iter().map(|(_, cost)| cost).sum();
                moment.granted.push(record.pod.clone());
                moment.nodes.push(record.node.clone());
                moment.replicas.extend(record.replica.clone());
                self.granted += 1;
                self.moved = at.0;
                Answer::Granted
            }
            Verdict::Deny(denial) => {
                let causes = denial.causes.into_iter().filter_map(|cause| cause.budget);
                let keys: Vec<ObjectKey> = causes.map(|key| key.object).collect();
                let budgets: Vec<usize> =
                    keys.iter().filter_map(|key| self.budgets.get(key).copied()).collect();
                for budget in &budgets {
                    self.denials[*budget] += 1;
                }
                record.blocked_by = keys.into_iter().map(|key| key.name).collect();
                record.first_denial.get_or_insert_with(|| denial.message.clone());
                record.last_denial = Some(denial.message);
                self.refusals[index] = Some(Refusal { version: self.world.version(), budgets });
                self.count_denial(index, at, moment);
                Answer::Denied
            }
        }
    }

    fn count_denial(&mut self, index: usize, at: Time, moment: &mut Moment) {
        let record = &mut self.evictions[index];
        record.denials += 1;
        record.first_denied_seconds.get_or_insert(at);
        record.last_denied_seconds = Some(at);
        // One name will do for many pods in a row.
        if moment.nodes.last() != Some(&record.node) {
            moment.nodes.push(record.node.clone());
        }
        moment.denied += 1;
        self.denied += 1;
    }

    /// Retries that came to nothing belong to the moment before.
    fn note_moment(&mut self, mut moment: Moment) {
        moment.nodes.sort();
        moment.nodes.dedup();
        moment.replicas.sort();
        moment.replicas.dedup();
        match self.timeline.last_mut() {
            Some(last) if moment.granted.is_empty() => last.denied += moment.denied,
            _ => self.timeline.push(moment),
        }
    }

    fn record(&mut self, target: &Target) -> usize {
        if let Some(Some(index)) = self.records.get(target.number) {
            return *index;
        }
        self.evictions.push(EvictionRun {
            namespace: target.pod.namespace.clone(),
            pod: target.pod.name.clone(),
            node: target.node.to_string(),
            replica: self.recorder.replica_of(&target.pod),
            granted_seconds: None,
            reason: None,
            cost: 0,
            denials: 0,
            first_denied_seconds: None,
            last_denied_seconds: None,
            first_denial: None,
            last_denial: None,
            blocked_by: Vec::new(),
        });
        self.refusals.push(None);
        let index = self.evictions.len() - 1;
        if self.records.len() <= target.number {
            self.records.resize(target.number + 1, None);
        }
        self.records[target.number] = Some(index);
        index
    }

    fn note(&mut self) -> Duration {
        let now = self.elapsed();
        self.recorder.take_in(self.world, now);
        if let Some(last) = self.timeline.last_mut() {
            last.lowest_healthy = last.lowest_healthy.min(self.recorder.healthy());
        }
        now
    }

    fn elapsed(&self) -> Duration {
        let millis = self.world.now().0 - self.began.0;
        Duration::from_millis(u64::try_from(millis).unwrap_or_default())
    }

    fn report(self, counting: Counting, needs: &Needs, outcome: Outcome, end: Duration) -> Run {
        let (replicas, pod_sets) = self.recorder.lanes(end);
        let budgets = self.scenario.objects.budgets.iter().zip(needs).enumerate();
        let budgets =
            budgets.map(|(index, (given, needs))| self.budget(index, given, *needs, end)).collect();
        Run {
            counting: match counting {
                Counting::AsWritten => "AsWritten",
                Counting::Pods => "Pods",
            },
            outcome,
            end_seconds: Time(end),
            evictions_granted: self.granted,
            evictions_denied: self.denied,
            budgets,
            nodes: self.node_runs(),
            replicas,
            pod_sets,
            unplaced_pods: self.world.unplaced().map(ToString::to_string).collect(),
            timeline: self.timeline,
            evictions: self.evictions,
        }
    }

    fn budget(
        &self,
        index: usize,
        given: &GivenBudget,
        (pods, needs): (usize, Option<(i64, i64)>),
        end: Duration,
    ) -> BudgetRun {
        let states = self.recorder.levels(index, end);
        let spec = &given.budget.spec;
        let (needed, expected) = needs.filter(|_| self.recorder.tells(index)).unzip();
        let below = states.iter().filter(|level| needed.is_some_and(|n| level.healthy < n));
        let below =
            below.map(|level| level.to_seconds.0.saturating_sub(level.from_seconds.0)).sum();
        let threshold = match (&spec.min_available, &spec.max_unavailable) {
            (Some(min), _) => format!("minAvailable: {}", written(min)),
            (None, Some(max)) => format!("maxUnavailable: {}", written(max)),
            (None, None) => String::new(),
        };
        let key = &given.budget.key.object;
        BudgetRun {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            api: given.api,
            counts: if spec.scope == Scope::Workload { "Replicas" } else { "Pods" },
            threshold,
            pods,
            needed,
            expected,
            lowest_healthy: states.iter().map(|level| level.healthy).min().unwrap_or_default(),
            below_needed_seconds: Time(below),
            denials: self.denials[index],
            states,
        }
    }

    fn node_runs(&self) -> Vec<NodeRun> {
        let mut evicted: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for eviction in &self.evictions {
            let (done, left) = evicted.entry(eviction.node.as_str()).or_default();
            *(if eviction.granted_seconds.is_some() { done } else { left }) += 1;
        }
        let empty: BTreeMap<&str, Timestamp> =
            self.drain.finished().iter().map(|(node, at)| (node.as_str(), *at)).collect();
        let since = |at: &Timestamp| {
            Time(Duration::from_millis(u64::try_from(at.0 - self.began.0).unwrap_or_default()))
        };
        let of = |name: &String| NodeRun {
            name: name.clone(),
            began_seconds: self.nodes.get(name.as_str()).copied(),
            empty_seconds: empty.get(name.as_str()).map(since),
            pods_evicted: evicted.get(name.as_str()).map_or(0, |(done, _)| *done),
            pods_left: evicted.get(name.as_str()).map_or(0, |(_, left)| *left),
        };
        self.scenario.drained.iter().map(of).collect()
    }
}

fn written(threshold: &Threshold) -> String {
    match threshold {
        Threshold::Count(n) => n.to_string(),
        Threshold::Percent(n) => format!("{n}%"),
        Threshold::Invalid(why) => why.clone(),
    }
}
