//! A plan being carried out: which pods to ask about now, by what has been answered and seen so far.
//!
//! Of units that the same budgets are asked about one goes first, with one pod. Once that is granted the rest of the
//! unit follows, because it is broken already, and then the next unit is tried. A denial holds them all up until
//! something has changed, or a while has passed. No clock and no network: whoever drives it has them.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_core::model::ObjectKey;
use holdfast_server::Evicted;

use super::plan::{PodOf, Unit};

/// After a denial: what we have seen, whoever decides may see a moment later.
const AGAIN_FIRST: Duration = Duration::from_millis(250);
const AGAIN_LAST: Duration = Duration::from_secs(5);

/// What we have seen to be back, whoever decides has seen too by then: else the next part would break it.
const SETTLES: Duration = Duration::from_secs(1);

/// How long the rest of a unit is left to its controller. Usually all of its pods end within a second. A pod that is
/// evicted in that second can leave a grant that no eviction uses, and its deletion can cost the next group.
const FOLLOWS: Duration = Duration::from_secs(15);

/// The same, once a pod of it has a successor while the others stay: the controller has missed the eviction. The rest
/// has to go before the unit is whole again, or it breaks twice.
const FOLLOWS_REPLACED: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Follow {
    units: Vec<Going>,
    /// Until when units of a class are not asked about, and why.
    held: BTreeMap<Class, Held>,
}

/// A unit on its way out.
#[derive(Debug)]
pub struct Going {
    pub unit: Unit,
    /// In the order of the unit's pods.
    pub steps: Vec<Step>,
    class: Class,
    /// When the first of it was granted, or seen to end.
    begun: Option<Duration>,
    /// When the first of it was seen to have a successor.
    replaced: Option<Duration>,
    /// How many of its pods its controller has not deleted in time.
    pub left_behind: usize,
    /// Some of its pods have gone, and whether they are back is not known.
    recovers: bool,
    /// Since when they are seen to be.
    whole: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Here,
    Asked,
    /// Its eviction is granted, or it is seen to end.
    Leaving,
    Gone,
    Failed(String),
}

/// What the watch says of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    Leaving,
    Gone,
    /// It is gone, and another pod has its name.
    Replaced,
}

/// Units that the same budgets decide about, in the same way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Class {
    namespace: String,
    costs: BTreeMap<String, bool>,
    /// One that will not go as things are is in nobody's way.
    alone: Option<usize>,
}

#[derive(Debug)]
struct Held {
    until: Duration,
    pause: Duration,
    why: String,
}

/// An eviction to send, by the places of the unit and the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    pub unit: usize,
    pub pod: usize,
}

impl Follow {
    /// Units in their order, and whether each may ever go.
    pub fn new(units: impl IntoIterator<Item = (Unit, bool)>) -> Self {
        let going = |(index, (unit, may_go)): (usize, (Unit, bool))| Going {
            steps: vec![Step::Here; unit.pods.len()],
            class: Class {
                namespace: unit.namespace.clone(),
                costs: unit.costs.iter().map(|(name, cost)| (name.clone(), *cost > 0)).collect(),
                alone: (!may_go).then_some(index),
            },
            unit,
            begun: None,
            replaced: None,
            left_behind: 0,
            recovers: false,
            whole: None,
        };
        let units = units.into_iter().enumerate().map(going).collect();
        Self { units, held: BTreeMap::new() }
    }

    /// The evictions to send now. Each is to be answered.
    pub fn poll(&mut self, now: Duration) -> Vec<Ask> {
        let mut asks = Vec::new();
        // Classes of which a unit is being tried.
        let mut tried: Vec<Class> = Vec::new();
        for (index, going) in self.units.iter().enumerate() {
            if !going.is_begun() && going.steps.contains(&Step::Asked) {
                tried.push(self.units[index].class.clone());
            }
        }
        for (index, going) in self.units.iter_mut().enumerate() {
            let is_held = self.held.get(&going.class).is_some_and(|held| held.until > now);
            let is_free = going.class.costs.is_empty();
            let is_next = is_free || going.is_begun() || !tried.contains(&going.class);
            if is_held || !is_next || going.is_left_alone(now) || !going.steps.contains(&Step::Here)
            {
                continue;
            }
            let spared = going.unit.is_spared();
            if spared && (going.recovers || going.is_under_way()) {
                continue;
            }
            let is_first = going.unit.follows && !going.is_begun();
            if is_first && going.steps.contains(&Step::Asked) {
                continue;
            }
            let at_once = if is_first {
                1
            } else if is_free || spared {
                going.unit.at_once
            } else if going.is_begun() {
                usize::MAX
            } else {
                1
            };
            if !is_free && !going.is_begun() {
                tried.push(going.class.clone());
            }
            if going.unit.follows && going.is_begun() && going.left_behind == 0 {
                going.left_behind = going.steps.iter().filter(|step| **step == Step::Here).count();
            }
            let here = going.steps.iter_mut().enumerate().filter(|(_, step)| **step == Step::Here);
            for (pod, step) in here.take(at_once) {
                *step = Step::Asked;
                asks.push(Ask { unit: index, pod });
            }
        }
        asks
    }

    pub fn answer(&mut self, now: Duration, ask: Ask, answer: Evicted) {
        let going = &mut self.units[ask.unit];
        let step = &mut going.steps[ask.pod];
        if answer == Evicted::Granted {
            self.held.remove(&going.class);
            going.recovers = true;
        }
        if matches!(answer, Evicted::Granted | Evicted::Gone) {
            going.begun.get_or_insert(now);
        }
        // Seen to go while it was asked about.
        if *step != Step::Asked {
            return;
        }
        *step = match answer {
            Evicted::Granted => Step::Leaving,
            Evicted::Gone => Step::Gone,
            Evicted::Refused(why) => Step::Failed(why),
            Evicted::Denied(why) | Evicted::Unknown(why) => {
                let last = self.held.get(&going.class).map(|held| held.pause);
                let pause = last.map_or(AGAIN_FIRST, |last| (last * 2).min(AGAIN_LAST));
                self.held.insert(going.class.clone(), Held { until: now + pause, pause, why });
                Step::Here
            }
        };
    }

    /// Units of which the next pods go when `is_whole` says so.
    pub fn look(&mut self, now: Duration, is_whole: impl Fn(&Unit) -> bool) {
        let waiting = |going: &&mut Going| going.unit.is_spared() && going.recovers;
        for going in self.units.iter_mut().filter(waiting) {
            if going.is_under_way() || !is_whole(&going.unit) {
                going.whole = None;
            } else if now >= *going.whole.get_or_insert(now) + SETTLES {
                (going.recovers, going.whole) = (false, None);
            }
        }
    }

    /// Something there may have made room.
    pub fn changed(&mut self, now: Duration, namespace: &str) {
        for (class, held) in &mut self.held {
            if class.namespace == namespace {
                // The pause after the next denial is the first again.
                (held.until, held.pause) = (now, AGAIN_FIRST / 2);
            }
        }
    }

    /// A pod was seen to end, or not to be there any more.
    pub fn saw(&mut self, now: Duration, pod: &ObjectKey, look: impl Fn(&PodOf) -> Option<Seen>) {
        for going in self.units.iter_mut().filter(|going| going.unit.namespace == pod.namespace) {
            for (of, step) in going.unit.pods.iter().zip(&mut going.steps) {
                if of.name != pod.name {
                    continue;
                }
                let Some(seen) = look(of) else { continue };
                if seen == Seen::Replaced {
                    going.replaced.get_or_insert(now);
                }
                if *step != Step::Gone {
                    *step = if seen == Seen::Leaving { Step::Leaving } else { Step::Gone };
                    // Perhaps before its eviction is answered.
                    going.begun.get_or_insert(now);
                    going.recovers = true;
                }
            }
        }
    }

    /// When to poll even if nothing has been answered or seen.
    pub fn next_due(&self, now: Duration) -> Option<Duration> {
        let held = self.held.values().map(|held| held.until);
        let alone = self.units.iter().filter_map(Going::alone_until);
        held.chain(alone).filter(|until| *until > now).min()
    }

    pub fn is_done(&self) -> bool {
        self.units.iter().all(|going| {
            going.steps.iter().all(|step| matches!(step, Step::Gone | Step::Failed(_)))
        })
    }

    pub fn units(&self) -> &[Going] {
        &self.units
    }

    /// What has been said against evictions that are tried again.
    pub fn denials(&self) -> impl Iterator<Item = &str> {
        self.held.values().map(|held| held.why.as_str())
    }

    /// Units of which the next part waits for the last to be back.
    pub fn recovering(&self) -> impl Iterator<Item = &Unit> {
        let waiting = |going: &&Going| {
            going.unit.is_spared() && going.recovers && going.steps.contains(&Step::Here)
        };
        self.units.iter().filter(waiting).map(|going| &going.unit)
    }

    /// The pods of a node, and how far they are.
    pub fn on<'a>(
        &'a self,
        node: &'a str,
    ) -> impl Iterator<Item = (&'a Unit, &'a PodOf, &'a Step)> {
        self.units.iter().flat_map(move |going| {
            let pods = going.unit.pods.iter().zip(&going.steps);
            pods.filter(move |(pod, _)| pod.node == node)
                .map(|(pod, step)| (&going.unit, pod, step))
        })
    }
}

impl Going {
    fn is_under_way(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Asked | Step::Leaving))
    }

    /// Until when the rest is left to the controller. The successor of a leader says nothing: the garbage collector
    /// still deletes the workers of the old one.
    fn alone_until(&self) -> Option<Duration> {
        if !self.unit.follows || (self.begun.is_none() && !self.unit.ends) {
            return None;
        }
        let last = self.begun.unwrap_or_default() + FOLLOWS;
        let has_leader = self.unit.pods.iter().any(|pod| pod.leader);
        let replaced = self.replaced.filter(|_| !has_leader);
        Some(replaced.map_or(last, |replaced| last.min(replaced + FOLLOWS_REPLACED)))
    }

    fn is_left_alone(&self, now: Duration) -> bool {
        self.alone_until().is_some_and(|until| until > now)
    }

    /// Broken by now, or nearly.
    pub fn is_begun(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Leaving | Step::Gone))
    }
}

#[cfg(test)]
mod tests;
