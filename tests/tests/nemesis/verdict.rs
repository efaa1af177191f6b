//! Whether an eviction took a group while there was no room for it.
//!
//! A group can be lost without an eviction: a controller's DELETE that was under way in a paused API server
//! when the group was back, a node that nobody renewed. No admission check can hinder that. So it is counted
//! and shown, and it excuses an eviction that was granted before it, by which the budget is then below what it
//! needs. It excuses no eviction that was granted after it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use crate::count::{self, Counts, Group, State, place};
use crate::etcd::Change;

#[derive(Debug, Default)]
pub struct Verdict {
    /// By budget, the moment at which it had least beyond what it needs.
    pub fewest: BTreeMap<String, (Counts, u64)>,
    /// Groups that evictions took.
    pub taken: Vec<Loss>,
    /// Groups that were lost otherwise.
    pub lost: Vec<Loss>,
    /// Evictions that took a group below what a budget needs, for losses after their grant.
    pub excused: Vec<String>,
    pub violations: Vec<Violation>,
}

/// A healthy group that is none any more.
#[derive(Clone, Debug)]
pub struct Loss {
    pub revision: u64,
    pub group: Group,
    /// The write that did it.
    pub what: String,
}

#[derive(Debug)]
pub struct Violation {
    pub budget: String,
    pub counts: Counts,
    pub loss: Loss,
    /// What happened before, one write a line.
    pub before: Vec<String>,
}

/// Goes through all that was stored, write by write. `evicted` are uids of pods of which a client knows that
/// it evicted them.
pub fn judge(first: &[Change], history: &[Change], evicted: &BTreeSet<String>) -> Verdict {
    let mut state = State::of(first);
    let mut judge = Judge { evicted, granted: Granted::default(), lost: BTreeMap::new() };
    let mut verdict = Verdict::default();
    let mut healthy = state.healthy();
    for (i, change) in history.iter().enumerate() {
        let before = old_object(&state, change).cloned();
        state.apply(change);
        judge.granted.note(change);
        let now = state.healthy();
        judge.lost.retain(|group, _| !now.contains(group));
        for group in healthy.difference(&now) {
            let what = describe(change);
            let loss = Loss { revision: change.revision, group: group.clone(), what };
            if let Some(pod) = judge.evicted_pod(change, before.as_ref()) {
                judge.check(&state, &now, &loss, pod, &history[..=i], &mut verdict);
                verdict.taken.push(loss);
            } else {
                judge.lost.insert(group.clone(), change.revision);
                verdict.lost.push(loss);
            }
        }
        note_fewest(&state, &now, change.revision, &mut verdict);
        healthy = now;
    }
    verdict
}

struct Judge<'a> {
    evicted: &'a BTreeSet<String>,
    granted: Granted,
    /// Groups that are down without an eviction, and since which revision.
    lost: BTreeMap<Group, u64>,
}

impl Judge<'_> {
    /// The pod that this write took, if an eviction did it.
    fn evicted_pod<'v>(&self, change: &'v Change, before: Option<&'v Value>) -> Option<&'v Value> {
        let pod = change.object.as_ref().or(before)?;
        let is_gone = change.object.is_none() || count::is_leaving(pod);
        let known = pod["metadata"]["uid"].as_str().is_some_and(|uid| self.evicted.contains(uid));
        let is_pod = place(&change.key).0 == count::PODS;
        (is_pod && is_gone && (known || count::is_evicted(pod))).then_some(pod)
    }

    fn check(
        &self,
        state: &State,
        healthy: &BTreeSet<Group>,
        loss: &Loss,
        pod: &Value,
        history: &[Change],
        verdict: &mut Verdict,
    ) {
        for (name, budget) in &state.budgets {
            let (covered, counts) = (state.covered(budget), state.counts(budget, healthy));
            if !covered.contains_key(loss.group.0.as_str()) || counts.healthy >= counts.needed {
                continue;
            }
            let granted = self.granted.of(name, pod);
            let after = |since: &u64| granted.is_some_and(|granted| granted < *since);
            let later = self
                .lost
                .iter()
                .filter(|((set, _), since)| covered.contains_key(set.as_str()) && after(since));
            if counts.healthy + later.count() >= counts.needed {
                verdict
                    .excused
                    .push(format!("{name} {counts:?} at {}: {}", loss.revision, loss.what));
                continue;
            }
            verdict.violations.push(Violation {
                budget: name.clone(),
                counts,
                loss: loss.clone(),
                before: history.iter().rev().take(60).rev().map(describe).collect(),
            });
        }
    }
}

/// Since when the grants of now are on record: by budget, and by the pod's uid and name. In native mode an
/// eviction goes by name, and may hit the successor of the pod that it was granted for.
#[derive(Default)]
struct Granted(BTreeMap<(String, String), u64>);

impl Granted {
    fn note(&mut self, change: &Change) {
        let (count::BUDGETS, name) = place(&change.key) else { return };
        let budget = change.object.as_ref().unwrap_or(&Value::Null);
        let grants = budget["status"]["grants"].as_array().into_iter().flatten();
        let keys = grants.flat_map(|grant| [grant["uid"].as_str(), grant["pod"].as_str()]);
        let now: BTreeSet<&str> = keys.flatten().collect();
        self.0.retain(|(of, key), _| of != name || now.contains(key.as_str()));
        for key in now {
            self.0.entry((name.to_owned(), key.to_owned())).or_insert(change.revision);
        }
    }

    fn of(&self, budget: &str, pod: &Value) -> Option<u64> {
        let by = |key: &str| {
            let key = pod["metadata"][key].as_str()?;
            self.0.get(&(budget.to_owned(), key.to_owned())).copied()
        };
        by("uid").or_else(|| by("name"))
    }
}

fn note_fewest(state: &State, healthy: &BTreeSet<Group>, revision: u64, verdict: &mut Verdict) {
    let room = |counts: &Counts| counts.healthy.cast_signed() - counts.needed.cast_signed();
    for (name, budget) in &state.budgets {
        let counts = state.counts(budget, healthy);
        let fewest = verdict.fewest.entry(name.clone()).or_insert((counts, revision));
        if room(&counts) < room(&fewest.0) {
            *fewest = (counts, revision);
        }
    }
}

fn old_object<'s>(state: &'s State, change: &Change) -> Option<&'s Value> {
    let (kind, name) = place(&change.key);
    if kind == count::PODS { state.pods.get(name) } else { None }
}

/// One line about a write.
pub fn describe(change: &Change) -> String {
    let (kind, name) = place(&change.key);
    let revision = change.revision;
    let Some(object) = &change.object else { return format!("{revision} {kind} {name}: gone") };
    let mut what: Vec<String> = Vec::new();
    let mut say = |is: bool, word: &str| what.extend(is.then(|| word.to_owned()));
    say(count::is_leaving(object), "leaving");
    if kind == count::PODS {
        say(count::is_healthy(object), "healthy");
        say(count::is_evicted(object), "evicted");
    }
    if kind == count::BUDGETS {
        let status = &object["status"];
        let grants = status["grants"].as_array().into_iter().flatten();
        let grants: Vec<String> =
            grants.map(|grant| format!("{} {}", grant["pod"], grant["cost"])).collect();
        let counted = ["currentHealthyReplicas", "desiredHealthyReplicas"].map(|n| &status[n]);
        what.push(format!("status {} of {}, grants {grants:?}", counted[0], counted[1]));
    }
    let uid = object["metadata"]["uid"].as_str().and_then(|uid| uid.get(..8)).unwrap_or_default();
    format!("{revision} {kind} {name} ({uid}): {}", what.join(" "))
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (budget, Counts { healthy, needed, .. }) = (&self.budget, self.counts);
        writeln!(f, "budget {budget} has {healthy} and needs {needed} after {}", self.loss.what)?;
        self.before.iter().try_for_each(|line| writeln!(f, "    {line}"))
    }
}
