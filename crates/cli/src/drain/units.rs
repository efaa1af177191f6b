//! What there is to drain, as the budgets count it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use holdfast_core::model::{BudgetKey, BudgetKind, ObjectKey};
use holdfast_core::view::{self, BudgetView, PodView, ReplicaState};
use serde_json::Value;

use super::group::{self, Group};
use super::plan::{PodOf, Unit};
use crate::ask::{Cluster, Given};

/// Everything that a plan is made of.
#[derive(Debug, Default)]
pub struct Units {
    pub free: Vec<Unit>,
    /// Those that no budget will ever let go as things are, and why.
    pub stuck: Vec<(Unit, String)>,
    /// How many units of each budget may go at the same time.
    pub room: BTreeMap<String, i64>,
    /// Budgets that let nothing go now and may later, and what they say.
    pub waiting: BTreeMap<String, String>,
}

/// A budget as it is now.
struct Seen {
    view: BudgetView,
    is_builtin: bool,
    recovery: Option<Duration>,
}

/// Of these pods, which are those to evict.
pub fn units(cluster: &Cluster, evicted: &[ObjectKey]) -> Units {
    let seen = |given: &Given| {
        let view = cluster.view(&given.budget.key)?;
        let is_builtin = given.api_version == "policy/v1";
        Some(Seen { recovery: recovery(cluster, &view), view, is_builtin })
    };
    let views: Vec<Seen> = cluster.budgets().filter_map(seen).collect();
    let evicted: BTreeSet<&ObjectKey> = evicted.iter().collect();
    let mut grouped: BTreeMap<(&str, String, bool), Vec<&ObjectKey>> = BTreeMap::new();
    let (replicas, ending) = (replicas(&views), group::ending(cluster));
    for &pod in &evicted {
        // A group goes as a whole under no budget too.
        let replica = replicas.get(pod).cloned();
        let replica = replica.or_else(|| Some(Group::of(cluster, pod)?.label()));
        let (name, replica) = match replica {
            Some(replica) => (replica, true),
            None => (pod.name.clone(), false),
        };
        grouped.entry((&pod.namespace, name, replica)).or_default().push(pod);
    }
    let mut units = Units::default();
    for ((namespace, name, replica), mut pods) in grouped {
        pods.sort_by_key(|pod| !cluster.pod(pod).is_some_and(group::is_leader));
        let mut unit = Unit {
            namespace: namespace.to_owned(),
            name,
            replica,
            pods: pods.iter().filter_map(|pod| described(cluster, pod)).collect(),
            at_once: pods.len(),
            costs: BTreeMap::new(),
            follows: group::goes_as_a_whole(cluster, &pods),
            ends: pods
                .iter()
                .any(|pod| Group::of(cluster, pod).is_some_and(|of| ending.contains(&of))),
            recovery: None,
        };
        let stuck = units.weigh(cluster, &views, &pods, &mut unit);
        match stuck {
            Some(why) => units.stuck.push((unit, why)),
            None => units.free.push(unit),
        }
    }
    units
}

impl Units {
    /// What the unit costs whom; and why that can never be had, if so.
    fn weigh(
        &mut self,
        cluster: &Cluster,
        views: &[Seen],
        pods: &[&ObjectKey],
        unit: &mut Unit,
    ) -> Option<String> {
        // What has not begun or has ended passes whatever a budget says.
        let running = pods.iter().filter(|pod| is_running(cluster, pod));
        let running: BTreeSet<&str> = running.map(|pod| pod.name.as_str()).collect();
        let (mut stuck, mut builtin) = (None, Vec::new());
        let of_namespace = |seen: &&Seen| seen.view.key.object.namespace == unit.namespace;
        for Seen { view, is_builtin, recovery } in views.iter().filter(of_namespace) {
            let covered: Vec<&PodView> =
                view.all_pods().filter(|pod| running.contains(&*pod.name)).collect();
            let Some(first) = covered.first() else { continue };
            let name = name_of(&view.key);
            let mut cost = cost(view, &covered);
            if let Some(spare) = spare(view, &covered).filter(|_| cost > 0) {
                (cost, unit.at_once) = (0, unit.at_once.min(spare));
            }
            let says = denial(cluster, &view.key, &first.name);
            // Where nothing is expected nothing is allowed: pods without a controller under maxUnavailable.
            let no_room = view.never.is_some() || view.expected <= 0;
            let can_never = view.failure.is_some() || (cost > 0 && no_room);
            if can_never || says.as_ref().is_some_and(|(mend, _)| *mend) {
                let because = says.map(|(_, message)| message).or_else(|| view.failure.clone());
                let because = because.unwrap_or_else(|| "it can never let it go".to_owned());
                stuck.get_or_insert(format!("{name}: {because}"));
            } else if let Some((_, message)) = says {
                self.waiting.entry(name.clone()).or_insert(message);
            }
            builtin.extend(is_builtin.then(|| name.clone()));
            let most = if view.allowed > 0 { view.allowed } else { view.expected - view.desired };
            self.room.insert(name.clone(), most.max(1));
            unit.recovery = unit.recovery.max(*recovery);
            unit.costs.insert(name, cost);
        }
        if builtin.len() > 1 {
            let names = builtin.join(" and ");
            stuck.get_or_insert(format!(
                "{names} cover it, and the API server evicts no pod under two of its own"
            ));
        }
        stuck
    }
}

/// PDBs go without their kind, as everywhere.
fn name_of(budget: &BudgetKey) -> String {
    match budget.kind {
        BudgetKind::PodDisruptionBudget => budget.to_string(),
        kind @ BudgetKind::PodUnavailableBudget => format!("{} {budget}", kind.short()),
    }
}

/// The replica that each covered pod names.
fn replicas(views: &[Seen]) -> BTreeMap<ObjectKey, String> {
    let mut replicas = BTreeMap::new();
    for Seen { view, .. } in views {
        let namespace = &view.key.object.namespace;
        for replica in &view.replicas {
            for pod in &replica.pods {
                replicas.insert(ObjectKey::new(namespace, &pod.name), replica.label.clone());
            }
        }
    }
    // Budgets that count pods know the replicas too.
    for Seen { view, .. } in views {
        for pod in &view.pods {
            let key = ObjectKey::new(&view.key.object.namespace, &pod.name);
            if let Some(replica) = &pod.replica {
                replicas.entry(key).or_insert_with(|| replica.clone());
            }
        }
    }
    replicas
}

/// In the budget's unit, once all of these are gone.
fn cost(view: &BudgetView, going: &[&PodView]) -> i64 {
    let count = |pods: usize| i64::try_from(pods).unwrap_or(i64::MAX);
    let is_going = |pod: &&PodView| pod.healthy && going.iter().any(|of| of.name == pod.name);
    let breaks = |replica: &&view::ReplicaView| {
        let lost = count(replica.pods.iter().filter(is_going).count());
        let rest = replica.healthy_pods - lost;
        replica.state == ReplicaState::Healthy && lost > 0 && rest < replica.min.unwrap_or(1)
    };
    count(view.replicas.iter().filter(breaks).count())
        + count(view.pods.iter().filter(is_going).count())
}

/// How many of these a healthy replica can do without, if it can do without some and not all.
fn spare(view: &BudgetView, going: &[&PodView]) -> Option<usize> {
    let mut concerned = view.replicas.iter().filter(|replica| {
        replica.pods.iter().any(|pod| going.iter().any(|of| of.name == pod.name))
    });
    let (replica, None) = (concerned.next()?, concerned.next()) else { return None };
    let spare = usize::try_from(replica.healthy_pods - replica.min?).ok()?;
    (replica.state == ReplicaState::Healthy && spare > 0).then_some(spare)
}

/// What a budget says against the eviction of a pod now, and whether something has to be mended first.
fn denial(cluster: &Cluster, budget: &BudgetKey, pod: &str) -> Option<(bool, String)> {
    use holdfast_core::verdict::DenyReason::{FailedClosed, MissingReference};
    let (opinions, _) = cluster.opinions(&ObjectKey::new(&budget.object.namespace, pod));
    let own = opinions.into_iter().find(|opinion| opinion.budget == *budget)?;
    match own.answer {
        view::Answer::Deny { reason, message, .. } => {
            Some((matches!(reason, FailedClosed | MissingReference), message))
        }
        _ => None,
    }
}

/// How long its replicas, or else its pods, took to become what they are: the middle one. Pods that have been not
/// Ready in between took longer than they would.
fn recovery(cluster: &Cluster, view: &BudgetView) -> Option<Duration> {
    let took = |pod: &PodView| {
        let key = ObjectKey::new(&view.key.object.namespace, &pod.name);
        cluster.pod(&key).filter(|_| pod.ready).and_then(startup)
    };
    let mut times: Vec<Duration> = if view.replicas.is_empty() {
        view.pods.iter().filter_map(took).collect()
    } else {
        let whole = view.replicas.iter().filter(|r| r.state == ReplicaState::Healthy);
        whole.filter_map(|replica| replica.pods.iter().filter_map(took).max()).collect()
    };
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

/// From its creation until it was Ready.
fn startup(pod: &Value) -> Option<Duration> {
    let time = |text: &Value| holdfast_api::time::parse(text.as_str()?).ok();
    let conditions = pod["status"]["conditions"].as_array()?;
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready")?;
    Some(time(&ready["lastTransitionTime"])?.since(time(&pod["metadata"]["creationTimestamp"])?))
}

fn described(cluster: &Cluster, key: &ObjectKey) -> Option<PodOf> {
    let pod = cluster.pod(key)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (uid, node) = (text(&pod["metadata"]["uid"]), text(&pod["spec"]["nodeName"]));
    Some(PodOf { name: key.name.clone(), uid, node, leader: group::is_leader(pod) })
}

fn is_running(cluster: &Cluster, key: &ObjectKey) -> bool {
    let pod = cluster.pod(key);
    pod.is_some_and(|pod| {
        pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
    })
}
