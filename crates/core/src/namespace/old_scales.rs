//! Scales that may be old (semantics 4).
//!
//! A controller is scaled up before it makes more pods. So pods beyond the scale in the cache show that the scale may
//! be old: the watch of the owners may be behind the watch of the pods, and scales that are not watched are read every
//! 30 s only. Whoever decided by the old scale would take the new pods for surplus. So a decision waits until the scale
//! is as new as the pods that the budget has counted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::budgets::BudgetEntry;
use super::lists::Missing;
use super::{BudgetId, Context, Namespace};
use crate::cache::{Claim, Found, PodEntry, owner_kind};
use crate::io::Kind;
use crate::model::{ControllerRef, GroupKind, Owner, Scope, Target, UnhealthyPolicy};
use crate::replicas::{LWS, Source};

/// Where a scale comes from, and how to learn it anew.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    /// Objects of this kind, which is watched.
    Kind(Kind),
    /// The `/scale` subresource of this object.
    Subresource(ControllerRef),
}

impl Namespace {
    /// Returns None if the scales that the budget goes by are as new as its pods, where that may matter. Else asks for
    /// those that are not, and returns what the watches have to show.
    pub(super) fn old_scales(&mut self, cx: &mut Context<'_>, id: &BudgetId) -> Option<Missing> {
        let budget = self.budgets.get(id)?;
        let version = budget.seen.version(&Kind::Pod).cloned()?;
        let uid = budget.object.uid.clone();
        let mut missing: Option<Missing> = None;
        for origin in self.exceeded_scales(budget) {
            match origin {
                Origin::Kind(kind) => {
                    let claim = Claim { budget: uid.clone(), kind, version: version.clone() };
                    if !self.has_seen(cx, &claim) {
                        self.list(cx, claim.kind.clone());
                        missing.get_or_insert(Missing(Vec::new())).0.push(claim);
                    }
                }
                Origin::Subresource(owner) => {
                    if let Some(begins) = self.cache.scales.demand(&owner, &version) {
                        missing.get_or_insert(Missing(Vec::new()));
                        if begins {
                            self.read_scale(cx, owner);
                        }
                    }
                }
            }
        }
        missing
    }

    /// Returns the versions of this kind that decisions need, because a budget has more pods than the kind's objects are
    /// scaled to.
    pub(super) fn scale_claims(&self, kind: &Kind) -> impl Iterator<Item = Claim> {
        self.budgets.values().filter_map(move |budget| {
            let version = budget.seen.version(&Kind::Pod)?.clone();
            let exceeded = self.exceeded_scales(budget);
            exceeded.contains(&Origin::Kind(kind.clone())).then(|| Claim {
                budget: budget.object.uid.clone(),
                kind: kind.clone(),
                version,
            })
        })
    }

    /// Returns the origins of scales that the budget goes by and that its live pods exceed.
    fn exceeded_scales(&self, budget: &BudgetEntry) -> BTreeSet<Origin> {
        let spec = &budget.object.spec;
        // These let pass what is beyond the scale, whatever their thresholds are.
        let lets_pass = spec.unhealthy_policy == UnhealthyPolicy::AlwaysAllow;
        let matters = lets_pass || spec.unavailable.is_some() || spec.needs_total();
        if planted!(KeepOldScales) || !matters {
            return BTreeSet::new();
        }
        let has_total = spec.unavailable.as_ref().is_some_and(|spec| spec.total.is_some());
        match (budget.scope, budget.target()) {
            (Scope::Pod, _) if has_total => BTreeSet::new(),
            (Scope::Pod, Some(target)) => self.exceeded_target(budget, target),
            (Scope::Pod, None) => {
                let controllers = budget.tally.controllers.iter();
                self.exceeded_controllers(budget, controllers.map(|(c, pods)| (c, pods.live)))
            }
            (Scope::Workload, _) => {
                let mut exceeded = self.exceeded_sources(budget);
                exceeded.extend(self.exceeded_in_pool(budget));
                exceeded
            }
        }
    }

    fn exceeded_controllers<'a>(
        &'a self,
        budget: &BudgetEntry,
        controllers: impl Iterator<Item = (&'a Arc<ControllerRef>, u32)>,
    ) -> BTreeSet<Origin> {
        // ReplicaSets of one Deployment share its scale.
        let mut scales: BTreeMap<&str, (i64, i64, Vec<&ControllerRef>)> = BTreeMap::new();
        for (controller, live) in controllers {
            let (uid, scale) = match self.cache.find_scale(controller) {
                Found::Scale { uid, replicas } => (uid, replicas),
                Found::Nothing if budget.object.spec.unavailable.is_some() => (&*controller.uid, 0),
                // Such a budget allows nothing, or does not go by scales.
                Found::Nothing | Found::Failed(_) | Found::Pending => continue,
            };
            let (_, pods, owners) = scales.entry(uid).or_insert((scale, 0, Vec::new()));
            *pods += i64::from(live);
            owners.push(controller);
        }
        let exceeded = scales.into_values().filter(|(scale, pods, _)| pods > scale);
        exceeded.flat_map(|(_, _, owners)| owners).flat_map(|owner| self.origins(owner)).collect()
    }

    fn exceeded_target(&self, budget: &BudgetEntry, target: &Target) -> BTreeSet<Origin> {
        match self.target_pods(budget, target) {
            Ok(expected) if budget.tally.live_pods > expected => {
                if Owner::is_watched(&target.group_kind) {
                    BTreeSet::from([Origin::Kind(Kind::Owner(target.group_kind.clone()))])
                } else {
                    BTreeSet::from([Origin::Subresource(target.reference())])
                }
            }
            Ok(_) | Err(_) => BTreeSet::new(),
        }
    }

    fn exceeded_sources(&self, budget: &BudgetEntry) -> BTreeSet<Origin> {
        let mut exceeded = BTreeSet::new();
        let owner = |group, kind| Origin::Kind(Kind::Owner(GroupKind::new(group, kind)));
        let has_lws = |source: &Source| matches!(source, Source::Lws { .. });
        // Groups above the scale of their LeaderWorkerSet are leaving. They are not among the live sources.
        if budget.tally.leaving_replicas > 0 && budget.tally.sources.keys().any(has_lws) {
            exceeded.insert(owner(Owner::LWS_GROUP, LWS));
        }
        for (source, live) in &budget.tally.live_sources {
            let (scale, origin) = match source {
                Source::JobSet { name, .. } => {
                    let jobset = self.cache.objects.owner(Owner::JOBSET_GROUP, "JobSet", name);
                    let scale = jobset.and_then(|jobset| jobset.replicas);
                    (scale, owner(Owner::JOBSET_GROUP, "JobSet"))
                }
                Source::Lws { .. } => {
                    (self.source_replicas(source).ok(), owner(Owner::LWS_GROUP, LWS))
                }
                Source::StatefulSet { .. } => {
                    (self.source_replicas(source).ok(), owner("apps", "StatefulSet"))
                }
                Source::Entry { api, .. } => {
                    (self.source_replicas(source).ok(), Origin::Kind(Kind::Workload(*api)))
                }
                // A Job has no scale, and a group that is not in the cache is not resolved.
                Source::Job { .. } | Source::Groups(_) | Source::Unknown => continue,
            };
            if scale.is_some_and(|scale| i64::from(*live) > scale) {
                exceeded.insert(origin);
            }
        }
        exceeded
    }

    /// Of pods without the label that groups go by.
    fn exceeded_in_pool(&self, budget: &BudgetEntry) -> BTreeSet<Origin> {
        if budget.groups().is_none() {
            return BTreeSet::new();
        }
        let mut controllers: BTreeMap<&Arc<ControllerRef>, u32> = BTreeMap::new();
        let live = |pod: &&PodEntry| !pod.pod.is_terminal() && !pod.pod.terminating;
        for pod in self.pool(budget).filter(live) {
            if let Some(controller) = &pod.pod.controller {
                *controllers.entry(controller).or_insert(0) += 1;
            }
        }
        self.exceeded_controllers(budget, controllers.into_iter())
    }

    /// Where the scale of pods with this controller comes from.
    fn origins(&self, controller: &ControllerRef) -> Vec<Origin> {
        if self.cache.objects.scaled_owner(controller).is_none() {
            return vec![Origin::Subresource(controller.clone())];
        }
        let kind = owner_kind(&controller.group_kind).into_owned();
        let mut origins = Vec::from([Origin::Kind(Kind::Owner(kind.clone()))]);
        if kind.is("apps", "ReplicaSet") {
            let deployment = GroupKind::new("apps", "Deployment");
            origins.push(Origin::Kind(Kind::Owner(deployment)));
        }
        origins
    }
}
