//! What is in a world: nodes, three workloads in replicas, and budgets that cover parts of them.
//!
//! | part | replicas | comes back |
//! |---|---|---|
//! | `h0`, `h1` | `PodGroup`s, of the owners in `owners.rs` | pod by pod |
//! | `lws` | groups of a `LeaderWorkerSet` | group by group: when one pod goes, all go |

use std::time::Duration;

use holdfast_core::model::{BudgetKey, BudgetKind, LabelGroups, Owner, UnavailableSpec};

use super::fault::Fault;
use super::params::{Owners, Params, Profile};
use super::run::Run;
use crate::builders::{BudgetBuilder, GroupBuilder, PodBuilder, budget, group, owner, pod};
use crate::cluster::{Behaviour, Span, node};
use crate::name::NAMESPACE;

pub(super) const LWS: &str = "lws";
pub(super) const GROUP_LABEL: &str = "group";

impl Run {
    pub fn populate(&mut self) {
        let Params { groups, lws_groups, size, nodes, room, budgets, .. } = self.params;
        let many = |n: usize| i64::try_from(n).expect("small");
        for index in 0..nodes {
            self.world.apply_node(node(&format!("n{index}")).room("pods", many(room)));
        }
        for part in [0, 1] {
            for made in self.params.owners_of(part) {
                self.world.apply_owner(made);
            }
            self.world.apply_owner(owner("example.com", "Train", half(part)));
        }
        self.world.apply_owner(self.params.leader_worker_set(lws_groups));
        let mut count = 0;
        let mut place = |made: PodBuilder| {
            count += 1;
            made.label("app", "a").node(&format!("n{}", count % nodes)).ready()
        };
        for g in 0..groups {
            self.world.apply_pod_group(pod_group(&self.params, g, self.params.min_count));
            for member in 0..size {
                let made = pod(&format!("p{g}-{member}"))
                    .label("part", half(g))
                    .label(GROUP_LABEL, &format!("g{g}"))
                    .group(&format!("g{g}"));
                let made = self.params.owned(made, g);
                self.world.apply_pod(place(made));
            }
        }
        for g in 0..lws_groups {
            for member in 0..size {
                let made = pod(&format!("{LWS}-{g}-{member}"))
                    .label("part", LWS)
                    .label("leaderworkerset.sigs.k8s.io/name", LWS)
                    .label("leaderworkerset.sigs.k8s.io/group-index", &g.to_string())
                    .label(GROUP_LABEL, &format!("{LWS}-{g}"))
                    .lws(LWS, many(g), many(size))
                    .owned_by(Owner::LWS_GROUP, "LeaderWorkerSet", LWS);
                self.world.apply_pod(place(made));
            }
        }
        for index in 0..budgets {
            let key = budget_key(self.params.profile, index);
            let made = self.draw_budget(&key);
            self.world.apply_budget(made);
        }
        let span = |most: i64| Span { least: Duration::ZERO, most: millis(most) };
        let (startup, grace) = (self.random.between(0, 20_000), self.random.between(0, 15_000));
        let seed = self.random.draw();
        self.world.behave(Behaviour { startup: span(startup), grace: span(grace), seed });
        self.began = self.world.revision();
        self.start_instances();
    }

    /// Thresholds that a whole cluster meets. A budget of single pods counts by its owner's scale only if it
    /// is of one part: upstream's arithmetic forgets an owner all of whose pods are gone.
    pub fn draw_budget(&mut self, key: &BudgetKey) -> BudgetBuilder {
        let Params { groups, lws_groups, size, .. } = self.params;
        let mut parts = vec![(None, groups + lws_groups)];
        if groups > 0 {
            parts.push((Some("h0"), groups.div_ceil(2)));
            parts.push((Some("h1"), groups / 2));
        }
        if lws_groups > 0 {
            parts.push((Some(LWS), lws_groups));
        }
        let (part, replicas) = parts[self.random.below(parts.len())];
        // A LeaderWorkerSet takes pods by itself, which a budget of single pods cannot help.
        let whole = part == Some(LWS) || (part.is_none() && lws_groups > 0);
        let per_replica = self.random.chance(65) || whole;
        let units = replicas * if per_replica { 1 } else { size };
        let units = i64::try_from(units).expect("small").max(1);
        let mut made = budget(key).select("app", "a");
        let is_pub = key.kind == BudgetKind::PodUnavailableBudget;
        if let Some(part) = part {
            made = made.select("part", part);
        }
        if per_replica {
            made = made.per_replica();
        }
        if self.random.chance(20) {
            made = made.always_allow();
        }
        if is_pub {
            let least = self.random.between(1, i64::try_from(size).expect("small"));
            // The scale of what is no LeaderWorkerSet counts pods.
            let total = (per_replica && part != Some(LWS)).then_some(units);
            let groups = LabelGroups { label: GROUP_LABEL.to_owned(), min_ready: least };
            made = made.spec(|spec| {
                spec.unavailable = Some(Box::new(UnavailableSpec {
                    total,
                    groups: per_replica.then_some(groups),
                    ..UnavailableSpec::default()
                }));
            });
        }
        // Owners that a grant has emptied count too, so the budget may span several. Jobs have no scale to count pods by.
        let has_scale = !matches!(self.params.owners, Owners::Jobs | Owners::JobSets);
        let counted = (part.is_some() && (per_replica || has_scale)) || (per_replica && !is_pub);
        let random = &mut self.random;
        match (counted, random.below(4)) {
            (true, 0) => made.max_unavailable(random.between(1, units)),
            (true, 1) => made.max_unavailable_percent(random.between(1, 100)),
            (true, 2) => made.min_available_percent(random.between(1, 100)),
            _ => made.min_available(random.between(1, units.max(2) - 1)),
        }
    }

    /// Pods come and go: time passes for the cluster, a little.
    pub fn work(&mut self) {
        let ms = self.random.between(10, 5_000);
        self.log(|| format!("{ms} ms of work"));
        self.advance(millis(ms));
        self.notice_reuse();
    }

    fn notice_reuse(&mut self) {
        let new: Vec<(String, String)> = self
            .world
            .pods()
            .filter(|pod| !self.uids.contains(&pod.uid))
            .map(|pod| (pod.key.name.clone(), pod.uid.clone()))
            .collect();
        for (name, uid) in new {
            self.uids.insert(uid);
            if !self.names.insert(name) {
                self.count(Fault::NameReused);
            }
        }
    }
}

pub(super) fn pod_group(params: &Params, index: usize, min_count: i64) -> GroupBuilder {
    let made = group(&format!("g{index}")).gang(min_count);
    let made = made.owned_by("example.com", "Train", half(index));
    if params.whole { made.disrupt_whole() } else { made }
}

pub(super) fn half(group: usize) -> &'static str {
    if group.is_multiple_of(2) { "h0" } else { "h1" }
}

/// Where there are two kinds, they take turns.
pub(super) fn budget_key(profile: Profile, index: usize) -> BudgetKey {
    let name = format!("b{index}");
    if profile == Profile::Unavailable && index.is_multiple_of(2) {
        BudgetKey::unavailable(NAMESPACE, name)
    } else {
        BudgetKey::pdb(NAMESPACE, name)
    }
}

pub(super) fn millis(ms: i64) -> Duration {
    Duration::from_millis(ms.unsigned_abs())
}
