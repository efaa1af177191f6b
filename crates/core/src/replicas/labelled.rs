//! Groups by label, which a `PodUnavailableBudget` makes of the pods that it selects (semantics 9).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{MinCount, ReplicaKey, Resolution, Source};
use crate::cache::{Known, PodEntry, owner_kind};
use crate::model::{LabelGroups, Owner};

pub(crate) const LWS: &str = "LeaderWorkerSet";
pub(crate) const LWS_NAME: &str = "leaderworkerset.sigs.k8s.io/name";
const LWS_GROUP_INDEX: &str = "leaderworkerset.sigs.k8s.io/group-index";
/// With one of these the pods of each child Job of a `JobSet` are one group.
const JOB_LABELS: [&str; 4] = [
    "batch.kubernetes.io/job-name",
    "job-name",
    "jobset.sigs.k8s.io/job-key",
    "jobset.sigs.k8s.io/job-global-index",
];
/// What a pod says of its `LeaderWorkerSet` group if its size cannot be read: such a group is never whole.
pub(crate) const UNKNOWN_SIZE: i64 = i64::MAX;

/// A group by label, as one of its pods shows it to one budget.
pub(crate) struct LabelGroup {
    pub(crate) key: Arc<ReplicaKey>,
    pub(crate) resolution: Arc<Resolution>,
    pub(crate) facts: GroupFacts,
}

/// What a pod says of its group by label. Other pods of the group may say something else.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GroupFacts {
    /// The group is beyond its `LeaderWorkerSet`'s scale.
    pub(crate) is_surplus: bool,
    /// The group goes as a whole when one of its pods goes: so many have to be there and stay. Else 0. (Replicas that
    /// have a minCount say it by that.)
    pub(crate) whole_size: i64,
}

/// Returns the group that a `PodUnavailableBudget` puts the pod in, unless the pod lacks the label.
pub(crate) fn label_group(
    known: Known<'_>,
    groups: &LabelGroups,
    pod: &PodEntry,
) -> Option<LabelGroup> {
    let value = known.label(pod, &groups.label)?.clone();
    let lws = known.label(pod, LWS_NAME);
    let root = pod.pod.controller.as_deref().map(|controller| known.objects.root(controller));
    let owner = match (lws, root) {
        (Some(lws), _) => format!("{LWS} {lws}"),
        // Kruise has a StatefulSet too.
        (None, Some(root)) => {
            let kind = owner_kind(&root.group_kind);
            let has_domain = kind.group.contains('.');
            let kind = if has_domain { kind.to_string() } else { kind.kind.clone() };
            format!("{kind} {}", root.name)
        }
        (None, None) => String::new(),
    };
    let mut facts = GroupFacts::default();
    let source = if let Some(lws) = lws {
        let index = known.label(pod, LWS_GROUP_INDEX);
        let index = index.and_then(|index| index.parse::<i64>().ok());
        let set = known.objects.owner(Owner::LWS_GROUP, LWS, lws);
        // It deletes what is left of a group that lost a pod, however many of them are ready.
        if set.is_none_or(|set| !set.lws_keeps_group) && !planted!(ForgetWhole) {
            let member = pod.pod.member.as_ref().and_then(|member| member.lws.as_ref());
            facts.whole_size = member.map_or(1, |lws| lws.size.unwrap_or(UNKNOWN_SIZE));
        }
        let scale = set.and_then(|set| set.replicas);
        facts.is_surplus = index.zip(scale).is_some_and(|(index, scale)| index >= scale);
        Source::Lws { name: lws.to_string() }
    } else {
        // By name, as the group is: which of its pods is asked must not matter.
        let owner = root.and_then(|root| known.objects.named(root));
        owner.and_then(|owner| source_of_groups(owner, groups)).unwrap_or(Source::Unknown)
    };
    let key = ReplicaKey::Labelled { owner, value };
    let resolution = Resolution {
        min: MinCount::Known(groups.min_ready.max(1)),
        whole: false,
        leaving: false,
        sources: Arc::from([source]),
        workload: None,
        jobs: BTreeSet::new(),
        label: key.to_string(),
    };
    Some(LabelGroup { key: Arc::new(key), resolution: Arc::new(resolution), facts })
}

/// Where an owner says how many groups there should be (semantics 4, b and c).
pub(crate) fn source_of_groups(owner: &Owner, groups: &LabelGroups) -> Option<Source> {
    let name = owner.key.name.clone();
    let is = |group, kind| owner.group_kind.is(group, kind);
    if is(Owner::LWS_GROUP, LWS) {
        Some(Source::Lws { name })
    } else if is("batch", "Job") {
        Some(Source::Job { name })
    } else if is(Owner::JOBSET_GROUP, "JobSet") && JOB_LABELS.contains(&groups.label.as_str()) {
        Some(Source::JobSet { name, otherwise: None })
    } else if is("apps", "StatefulSet") && owner.group_size.is_some() {
        Some(Source::StatefulSet { name })
    } else {
        None
    }
}
