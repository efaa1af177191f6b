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

/// How long the rest of a unit is left to its controller. Evicted while that deletes it, a pod has a grant that no
/// eviction uses, and that the pod after it is taken for disrupted by until it expires.
const FOLLOWS: Duration = Duration::from_secs(5);

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
    /// When the first of it was granted.
    begun: Option<Duration>,
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
            let at_once = if is_free || spared {
                going.unit.at_once
            } else if going.is_begun() {
                usize::MAX
            } else {
                1
            };
            if !is_free && !going.is_begun() {
                tried.push(going.class.clone());
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
            going.begun.get_or_insert(now);
            going.recovers = true;
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

    /// A pod was seen to end, or not to be there any more. Whether it is one of ours.
    pub fn saw(&mut self, pod: &ObjectKey, is_gone: impl Fn(&PodOf) -> Option<Step>) -> bool {
        let mut ours = false;
        for going in self.units.iter_mut().filter(|going| going.unit.namespace == pod.namespace) {
            for (of, step) in going.unit.pods.iter().zip(&mut going.steps) {
                if of.name == pod.name
                    && *step != Step::Gone
                    && let Some(seen) = is_gone(of)
                {
                    ours |= *step != seen;
                    *step = seen;
                    // Perhaps before its eviction is answered.
                    going.recovers = true;
                }
            }
        }
        ours
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

    fn alone_until(&self) -> Option<Duration> {
        Some(self.begun? + FOLLOWS).filter(|_| self.unit.follows)
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
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    fn unit(name: &str, pods: usize, costs: &[&str]) -> Unit {
        let pod = |index: usize| PodOf {
            name: format!("{name}-{index}"),
            uid: format!("{name}-{index}"),
            node: "a".to_owned(),
        };
        Unit {
            namespace: "ns".to_owned(),
            name: name.to_owned(),
            replica: true,
            pods: (0..pods).map(pod).collect(),
            at_once: pods,
            costs: costs.iter().map(|&budget| (budget.to_owned(), 1)).collect(),
            follows: false,
            recovery: None,
        }
    }

    fn follow(units: Vec<Unit>) -> Follow {
        Follow::new(units.into_iter().map(|unit| (unit, true)))
    }

    fn asked(follow: &mut Follow, now: Duration) -> Vec<String> {
        let asks = follow.poll(now);
        asks.iter().map(|ask| follow.units[ask.unit].unit.pods[ask.pod].name.clone()).collect()
    }

    fn denied() -> Evicted {
        Evicted::Denied("no room".to_owned())
    }

    #[test]
    fn the_first_pod_is_tried_and_the_rest_of_the_replica_follows_and_then_the_next() {
        let mut follow = follow(vec![unit("x", 3, &["b"]), unit("y", 2, &["b"])]);
        assert_eq!(asked(&mut follow, NOW), ["x-0"]);
        assert!(asked(&mut follow, NOW).is_empty());
        follow.answer(NOW, Ask { unit: 0, pod: 0 }, Evicted::Granted);
        assert_eq!(asked(&mut follow, NOW), ["x-1", "x-2", "y-0"]);
        follow.answer(NOW, Ask { unit: 1, pod: 0 }, denied());
        assert!(asked(&mut follow, NOW).is_empty());
        assert_eq!(follow.denials().collect::<Vec<_>>(), ["no room"]);
    }

    #[test]
    fn a_denial_is_asked_about_when_something_changes_and_ever_more_rarely_otherwise() {
        let mut follow = follow(vec![unit("x", 1, &["b"])]);
        let (mut now, mut pauses) = (NOW, Vec::new());
        for _ in 0..7 {
            assert_eq!(asked(&mut follow, now), ["x-0"]);
            follow.answer(now, Ask { unit: 0, pod: 0 }, denied());
            let due = follow.next_due(now).unwrap();
            assert!(asked(&mut follow, due.mul_f32(0.999)).is_empty());
            pauses.push(due.abs_diff(now).as_millis());
            now = due;
        }
        assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 5000, 5000]);
        assert_eq!(asked(&mut follow, now), ["x-0"]);
        follow.answer(now, Ask { unit: 0, pod: 0 }, denied());
        follow.changed(now, "other");
        assert!(asked(&mut follow, now).is_empty());
        follow.changed(now, "ns");
        assert_eq!(asked(&mut follow, now), ["x-0"]);
        follow.answer(now, Ask { unit: 0, pod: 0 }, denied());
        assert_eq!(follow.next_due(now), Some(now + AGAIN_FIRST));
    }

    #[test]
    fn what_one_budget_denies_holds_nothing_else_up() {
        let mut blocked = unit("never", 1, &["b"]);
        blocked.costs.insert("b".to_owned(), 1);
        let units = [
            (blocked, false),
            (unit("x", 1, &["b"]), true),
            (unit("y", 1, &["c"]), true),
            (unit("z", 2, &[]), true),
        ];
        let mut follow = Follow::new(units);
        assert_eq!(asked(&mut follow, NOW), ["never-0", "x-0", "y-0", "z-0", "z-1"]);
        follow.answer(NOW, Ask { unit: 0, pod: 0 }, denied());
        follow.answer(NOW, Ask { unit: 1, pod: 0 }, Evicted::Unknown("timeout".to_owned()));
        assert_eq!(asked(&mut follow, AGAIN_FIRST), ["never-0", "x-0"]);
    }

    #[test]
    fn what_goes_in_parts_waits_until_the_last_part_is_back() {
        let mut spared = unit("x", 3, &["b"]);
        spared.at_once = 1;
        let mut follow = follow(vec![spared, unit("y", 1, &["b"])]);
        assert_eq!(asked(&mut follow, NOW), ["x-0"]);
        follow.answer(NOW, Ask { unit: 0, pod: 0 }, Evicted::Granted);
        follow.look(NOW, |_| true);
        assert_eq!(asked(&mut follow, NOW), ["y-0"], "the pod is not gone yet");
        follow.saw(&ObjectKey::new("ns", "x-0"), |_| Some(Step::Gone));
        follow.look(NOW, |_| false);
        assert_eq!(follow.recovering().map(|unit| &*unit.name).collect::<Vec<_>>(), ["x"]);
        assert!(asked(&mut follow, NOW).is_empty());
        follow.look(NOW, |_| true);
        assert!(asked(&mut follow, NOW).is_empty(), "not at once");
        follow.look(SETTLES, |_| true);
        assert_eq!(asked(&mut follow, SETTLES), ["x-1"]);
        // The next is seen to go before its eviction is answered.
        follow.saw(&ObjectKey::new("ns", "x-1"), |_| Some(Step::Gone));
        assert!(asked(&mut follow, SETTLES).is_empty());
        follow.answer(SETTLES, Ask { unit: 0, pod: 1 }, Evicted::Granted);
        follow.look(SETTLES, |_| true);
        assert!(asked(&mut follow, SETTLES).is_empty());
        follow.look(2 * SETTLES, |_| true);
        assert_eq!(asked(&mut follow, 2 * SETTLES), ["x-2"]);
    }

    #[test]
    fn it_is_done_when_every_pod_is_seen_to_be_gone_or_cannot_go() {
        let mut follow = follow(vec![unit("x", 2, &[]), unit("y", 1, &[])]);
        let _ = follow.poll(NOW);
        follow.answer(NOW, Ask { unit: 0, pod: 0 }, Evicted::Granted);
        follow.answer(NOW, Ask { unit: 0, pod: 1 }, Evicted::Gone);
        follow.answer(NOW, Ask { unit: 1, pod: 0 }, Evicted::Refused("forbidden".to_owned()));
        assert!(!follow.is_done());
        // A successor of the same name has another uid.
        let pod = ObjectKey::new("ns", "x-0");
        let seen = |of: &PodOf| (of.uid != "new").then_some(Step::Gone);
        assert!(follow.saw(&pod, seen) && !follow.saw(&pod, seen));
        assert!(follow.is_done());
        let steps: Vec<&Step> = follow.on("a").map(|(_, _, step)| step).collect();
        assert_eq!(steps, [&Step::Gone, &Step::Gone, &Step::Failed("forbidden".to_owned())]);
    }

    #[test]
    fn what_its_controller_takes_is_left_to_it_for_a_while() {
        let mut group = unit("x", 3, &["b"]);
        group.follows = true;
        let mut follow = Follow::new([(group, true)]);
        let first = follow.poll(NOW);
        assert_eq!(first, [Ask { unit: 0, pod: 0 }]);
        follow.answer(NOW, first[0], Evicted::Granted);
        assert_eq!(follow.poll(NOW), []);
        assert_eq!(follow.next_due(NOW), Some(FOLLOWS));
        let key = ObjectKey::new("ns", "x-1");
        follow.saw(&key, |_| Some(Step::Gone));
        // The other has not gone, so it is evicted after all.
        assert_eq!(follow.poll(FOLLOWS), [Ask { unit: 0, pod: 2 }]);
    }
}
