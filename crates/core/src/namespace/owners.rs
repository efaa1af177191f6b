//! Owners that a budget expects replicas of although none of their pods is there (semantics 4).
//!
//! ```text
//! owner --pod templates + labels that its controller adds--> matches the budget's selector
//!   \--> the source that its pods would have --> counted, unless a pod of the owner has brought it in
//! ```

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use litemap::LiteMap;

use super::budgets::BudgetEntry;
use super::{BudgetId, Namespace};
use crate::cache::GroupCount;
use crate::model::{
    ControllerRef, GroupApi, GroupKind, Owner, PendingReplacement, PodTemplate, Scope,
};
use crate::replicas::{
    HOLDFAST_FIRST, KUBERNETES_FIRST, LWS, Member, ReplicaKey, Source, resolve, source_of_groups,
};
use crate::tally::ReplicaTally;

/// Kind and name of an owner, with the source that most of its pods lead to.
pub(super) type ExpectedOwners = BTreeMap<(GroupKind, String), Source>;

impl Namespace {
    /// The budget's spec is new.
    pub(super) fn expect_owners(&mut self, id: &BudgetId) {
        let Some(budget) = self.budgets.get(id) else { return };
        let owners = self.find_owners(budget);
        if let Some(budget) = self.budgets.get_mut(id) {
            budget.owners = owners;
        }
    }

    /// Looks at every owner.
    pub(super) fn find_owners(&self, budget: &BudgetEntry) -> ExpectedOwners {
        let expected = self.cache.objects.owners().filter(|owner| is_expected(budget, owner));
        expected.filter_map(entry).collect()
    }

    /// The owner has come, changed or gone.
    pub(super) fn owner_changed(&mut self, kind: &GroupKind, name: &str) {
        if kind_source(kind, "").is_none() {
            return;
        }
        let owner = self.cache.objects.owner(&kind.group, &kind.kind, name);
        for budget in self.budgets.values_mut() {
            let expected = owner.filter(|owner| is_expected(budget, owner)).and_then(entry);
            match expected {
                Some((key, source)) => budget.owners.insert(key, source),
                None => budget.owners.remove(&(kind.clone(), name.to_owned())),
            };
        }
    }

    /// Sources that count although no unfinished pod has brought them in.
    pub(super) fn absent_sources(&self, budget: &BudgetEntry) -> BTreeSet<Source> {
        let mut absent = BTreeSet::new();
        if planted!(ForgetEmptied) {
            return absent;
        }
        // Looks at every pod that is in no group, so only for owners that leave it open.
        let ungrouped = LazyCell::new(|| self.ungrouped(budget));
        for ((kind, name), own) in &budget.owners {
            if has_source(&budget.tally.sources, own) || planted!(IgnoreTemplates) {
                continue;
            }
            if let Some(owner) = self.cache.objects.owner(&kind.group, &kind.kind, name) {
                let is_grouped = || {
                    is_grouped(owner)
                        || (may_be_grouped(owner) && !ungrouped.contains(owner.uid.as_str()))
                };
                absent.extend(self.template_sources(budget, owner, is_grouped));
            }
        }
        for pending in budget.replacements().filter(|pending| selects(budget, pending)) {
            let sources = pending.sources.iter().filter_map(|text| self.remembered(budget, text));
            absent.extend(sources.filter(|source| self.is_standing(budget, source)));
        }
        absent.retain(|source| !has_source(&budget.tally.sources, source));
        absent
    }

    /// The source that a budget's status remembers. An instance that had not seen the owner recorded its `PodGroups`. Then
    /// another source may stand for them by now.
    pub(super) fn remembered(&self, budget: &BudgetEntry, text: &str) -> Option<Source> {
        let source = Source::decode(text)?;
        let Source::Groups(count) = &source else { return Some(source) };
        if has_source(&budget.tally.sources, &source) {
            return Some(source);
        }
        let by_pods = self.source_of_groups(budget, count);
        let own = by_pods.or_else(|| self.source_of_controller(count));
        Some(own.unwrap_or(source))
    }

    /// Returns the source that counts the pods of these `PodGroups`.
    fn source_of_groups(&self, budget: &BudgetEntry, count: &GroupCount) -> Option<Source> {
        let replicas = self.replicas_of(budget, count);
        let sources = replicas.flat_map(|replica| replica.resolution().sources.iter());
        // A Job stands for its own group, and says nothing of the others.
        let for_all = sources.filter(|s| !matches!(s, Source::Job { .. } | Source::Unknown));
        // Replicas are in no order to rely on.
        for_all.min().cloned()
    }

    /// How many of these `PodGroups` count by another source, each by its own.
    pub(super) fn counted_otherwise(&self, budget: &BudgetEntry, count: &GroupCount) -> i64 {
        let replicas = self.replicas_of(budget, count);
        let source = Source::Groups(count.clone());
        let others =
            replicas.filter(|r| r.unfinished > 0 && !r.resolution().sources.contains(&source));
        i64::try_from(others.count()).unwrap_or(i64::MAX)
    }

    /// Returns whether a remembered source has a healthy replica.
    pub(super) fn is_back(&self, budget: &BudgetEntry, source: &Source) -> bool {
        let is_one = |replica: &ReplicaTally| {
            let mut sources = replica.resolution().sources.iter();
            replica.summary.healthy && sources.any(|own| stands_for(own, source))
        };
        let by_group = |count| self.replicas_of(budget, count).any(|r| r.summary.healthy);
        budget.tally.replicas().any(|(_, replica)| is_one(replica))
            || matches!(source, Source::Groups(count) if by_group(count))
    }

    /// The budget's replicas that are one of these `PodGroups`.
    fn replicas_of<'a>(
        &'a self,
        budget: &'a BudgetEntry,
        count: &'a GroupCount,
    ) -> impl Iterator<Item = &'a ReplicaTally> {
        let is_counted = |name: &str, order: [GroupApi; 2]| {
            let group = order.iter().find_map(|api| self.cache.objects.group(*api, name));
            group.and_then(GroupCount::of).as_ref() == Some(count)
        };
        let replicas = budget.tally.replicas().filter(move |(key, _)| match &***key {
            ReplicaKey::PodGroup { name } => is_counted(name, KUBERNETES_FIRST),
            ReplicaKey::AnnotatedGroup { name } => is_counted(name, HOLDFAST_FIRST),
            _ => false,
        });
        replicas.map(|(_, replica)| replica)
    }

    /// Returns the source that would count pods of the controller of these `PodGroups`.
    fn source_of_controller(&self, count: &GroupCount) -> Option<Source> {
        let GroupCount::Controller(_, uid) = count else { return None };
        let objects = &self.cache.objects;
        let owner = objects.owners().find(|owner| owner.uid == *uid)?;
        let root = match &owner.controller {
            Some(above) => objects.controller(objects.root(above))?,
            None => owner,
        };
        let is_set = root.group_kind.is("apps", "StatefulSet");
        let (_, own) = entry(root).filter(|_| !is_set || root.group_size.is_some())?;
        Some(match own {
            Source::JobSet { name, .. } => Source::JobSet { name, otherwise: Some(count.clone()) },
            own => own,
        })
    }

    /// Whether the budget counts this source by a pod template, pods or no pods.
    pub(super) fn has_template(&self, budget: &BudgetEntry, source: &Source) -> bool {
        let owner = source.owner().and_then(|(group, kind, name)| {
            budget
                .owners
                .contains_key(&(GroupKind::new(group, kind), name.to_owned()))
                .then(|| self.cache.objects.owner(group, kind, name))?
        });
        owner.is_some_and(|owner| {
            self.template_sources(budget, owner, || is_grouped(owner)).contains(source)
        })
    }

    /// Whether a remembered source still says that there should be replicas.
    pub(super) fn is_standing(&self, budget: &BudgetEntry, source: &Source) -> bool {
        match source {
            Source::Entry { api, workload, entry } => {
                let entry = self.cache.objects.workload_entry(*api, workload, entry);
                entry.is_some_and(|entry| entry.replicas.is_some_and(|replicas| replicas > 0))
            }
            Source::Groups(count) => self.cache.objects.group_count(count).is_some(),
            Source::Unknown => false,
            _ => source.owner().is_some_and(|(group, kind, name)| {
                let owner = self.cache.objects.owner(group, kind, name).filter(|o| is_active(o));
                // Templates that have ceased to match say that the pods will not come back.
                owner.is_some_and(|o| o.pods.templates.is_empty() || has_match(budget, o))
            }),
        }
    }

    /// Returns the uids of the owners that have a selected pod in no group.
    fn ungrouped(&self, budget: &BudgetEntry) -> BTreeSet<&str> {
        let pods = budget.tally.unreferenced.iter().filter_map(|name| self.cache.pod(name));
        let controllers: BTreeSet<&ControllerRef> =
            pods.filter_map(|pod| pod.pod.controller.as_deref()).collect();
        controllers.into_iter().map(|c| self.cache.objects.root(c).uid.as_str()).collect()
    }

    /// The sources that pods of the owner's templates would have. `grouped`: templates that name no group count too.
    fn template_sources(
        &self,
        budget: &BudgetEntry,
        owner: &Owner,
        grouped: impl Fn() -> bool,
    ) -> BTreeSet<Source> {
        let own = entry(owner).map(|(_, source)| source);
        if let Some(groups) = budget.groups() {
            return source_of_groups(owner, groups).into_iter().collect();
        }
        let is_lws = owner.group_kind.is(Owner::LWS_GROUP, LWS);
        if is_lws && budget.lws_groups {
            return own.into_iter().collect();
        }
        let templates = owner.pods.templates.iter().filter(|t| may_select(budget, owner, t));
        let mut sources = BTreeSet::new();
        for template in templates {
            match self.referenced_sources(owner, template) {
                Some(referenced) => sources.extend(referenced.iter().cloned()),
                None if grouped() => sources.extend(own.clone()),
                None => {}
            }
        }
        sources
    }

    /// What a pod of this template would be resolved to; None if the template names no group.
    fn referenced_sources(&self, owner: &Owner, template: &PodTemplate) -> Option<Arc<[Source]>> {
        let controller = ControllerRef {
            group_kind: owner.group_kind.clone(),
            version: String::new(),
            name: owner.key.name.clone(),
            uid: owner.uid.clone(),
        };
        let member = Member {
            unfinished: true,
            lws: None,
            reference: Some(template.reference.clone()?),
            controller: Some(Arc::new(controller)),
        };
        let key = ReplicaKey::named(member.reference.as_ref()?);
        let members = LiteMap::from_iter([(Arc::new(member), 1)]);
        let (resolution, _) = resolve(&self.cache.objects, &key, &members);
        Some(resolution.sources)
    }
}

/// Whether the budget selects pods with the labels of the one that was taken; its selector may have changed.
pub(super) fn selects(budget: &BudgetEntry, pending: &PendingReplacement) -> bool {
    let value = |key: &str| pending.labels.get(key).map(String::as_str);
    let selector = budget.object.spec.selector.as_ref();
    budget.target().is_some() || selector.is_some_and(|selector| selector.matches(value))
}

/// Whether the source is there, or another one that stands for it.
pub(super) fn has_source(sources: &LiteMap<Source, u32>, source: &Source) -> bool {
    sources.contains_key(source) || sources.keys().any(|own| stands_for(own, source))
}

fn stands_for(own: &Source, source: &Source) -> bool {
    match (own, source) {
        // By its name alone: its pods may know of PodGroups to count instead.
        (Source::JobSet { name: own, .. }, Source::JobSet { name, .. }) => own == name,
        // An instance that has not seen the JobSet records the PodGroups in its place.
        (Source::JobSet { otherwise, .. }, Source::Groups(count)) => {
            otherwise.as_ref() == Some(count)
        }
        _ => own == source,
    }
}

fn entry(owner: &Owner) -> Option<((GroupKind, String), Source)> {
    let source = kind_source(&owner.group_kind, &owner.key.name)?;
    Some(((owner.group_kind.clone(), owner.key.name.clone()), source))
}

fn kind_source(kind: &GroupKind, name: &str) -> Option<Source> {
    let name = name.to_owned();
    match (kind.group.as_str(), kind.kind.as_str()) {
        (Owner::LWS_GROUP, LWS) => Some(Source::Lws { name }),
        ("batch", "Job") => Some(Source::Job { name }),
        (Owner::JOBSET_GROUP, "JobSet") => Some(Source::JobSet { name, otherwise: None }),
        ("apps", "StatefulSet") => Some(Source::StatefulSet { name }),
        _ => None,
    }
}

/// Whether its pods, should there be none, are missing.
fn is_expected(budget: &BudgetEntry, owner: &Owner) -> bool {
    // Pods of an owner with a controller count by that controller. Pods of a LeaderWorkerSet count by their labels.
    let by_labels = budget.lws_groups || budget.groups().is_some();
    let is_lws = by_labels && owner.group_kind.is(Owner::LWS_GROUP, LWS);
    budget.scope == Scope::Workload
        && (owner.controller.is_none() || is_lws)
        && is_active(owner)
        && has_match(budget, owner)
}

fn is_active(owner: &Owner) -> bool {
    let pods = &owner.pods;
    let makes_none = pods.finished || pods.suspended || pods.parallelism == Some(0);
    let makes_none = makes_none || owner.replicas == Some(0);
    !owner.terminating && !makes_none
}

/// Holdfast puts the pods into groups that the template does not name.
fn is_grouped(owner: &Owner) -> bool {
    let is_set = owner.group_kind.is("apps", "StatefulSet");
    if is_set { owner.group_size.is_some() } else { owner.pods.grouped }
}

/// Its namespace, or somebody else, may put the pods into groups.
fn may_be_grouped(owner: &Owner) -> bool {
    owner.group_kind.is("batch", "Job") || owner.group_kind.is(Owner::JOBSET_GROUP, "JobSet")
}

fn has_match(budget: &BudgetEntry, owner: &Owner) -> bool {
    if let Some(target) = budget.target() {
        return target.group_kind == owner.group_kind && target.name == owner.key.name;
    }
    owner.pods.templates.iter().any(|template| may_select(budget, owner, template))
}

/// Whether the budget may select a pod of this template. A label whose value only the controller knows may have any.
fn may_select(budget: &BudgetEntry, owner: &Owner, template: &PodTemplate) -> bool {
    let varies = |key: &str| {
        !template.labels.contains_key(key) && Owner::has_varying_label(&owner.group_kind, key)
    };
    let value = |key: &str| template.labels.get(key).map(String::as_str);
    if let Some(groups) = budget.groups()
        && value(&groups.label).is_none()
        && !varies(&groups.label)
    {
        return false;
    }
    if budget.target().is_some() {
        return true;
    }
    let selector = budget.object.spec.selector.as_ref();
    selector.is_some_and(|selector| selector.may_match(value, varies))
}
