//! The world's objects as the auditor's (`holdfast-audit`). Nothing is computed here.

use holdfast_audit::objects as audit;
use holdfast_core::model::{
    BasicMinCount, Budget, BudgetKey, BudgetKind, ConditionStatus, ControllerRef, Grant, GroupApi,
    GroupKind, GroupPolicy, GroupReference, LabelSelector, ObjectKey, Operation, Operator, Owner,
    Phase, Pod, PodGroup, PodTemplate, ResourceVersion, Scope, Threshold, UnhealthyPolicy,
    Workload,
};
use holdfast_core::{Change, Input};

/// The object that an input tells of, and whether the object is gone.
pub(crate) fn change(input: &Input) -> Option<(audit::Object, bool)> {
    Some(match input {
        Input::Pod(change) => (audit::Object::Pod(pod(change.object())), gone(change)),
        Input::Budget(change) => (audit::Object::Budget(budget(change.object())), gone(change)),
        Input::PodGroup(change) => (audit::Object::PodGroup(group(change.object())), gone(change)),
        Input::Workload(change) => {
            (audit::Object::Workload(workload(change.object())), gone(change))
        }
        Input::Owner(change) => (audit::Object::Owner(owner(change.object())), gone(change)),
        _ => return None,
    })
}

fn gone<T>(change: &Change<T>) -> bool {
    matches!(change, Change::Deleted(_))
}

pub(crate) fn name(key: &ObjectKey) -> audit::Name {
    audit::Name::new(&key.namespace, &key.name)
}

pub(crate) fn version(version: &ResourceVersion) -> u64 {
    version.to_string().parse().unwrap_or(0)
}

pub(crate) fn budget_key(key: &BudgetKey) -> audit::BudgetKey {
    let unavailable = key.kind == BudgetKind::PodUnavailableBudget;
    audit::BudgetKey { unavailable, key: name(&key.object) }
}

pub(crate) fn operation(operation: Operation) -> audit::Operation {
    match operation {
        Operation::Evict => audit::Operation::Evict,
        Operation::Delete => audit::Operation::Delete,
        Operation::Update | Operation::Resize => audit::Operation::Change,
    }
}

fn kind(kind: &GroupKind) -> audit::Kind {
    audit::Kind::new(&kind.group, &kind.kind)
}

fn controller(controller: &ControllerRef) -> audit::Controller {
    let ControllerRef { group_kind, name, uid, .. } = controller;
    audit::Controller { kind: kind(group_kind), name: name.clone(), uid: uid.clone() }
}

fn api(api: GroupApi) -> audit::Api {
    match api {
        GroupApi::Kubernetes => audit::Api::Kubernetes,
        GroupApi::Holdfast => audit::Api::Holdfast,
    }
}

pub(crate) fn pod(pod: &Pod) -> audit::Pod {
    let lws = pod.lws.as_ref().map(|lws| audit::LwsMember {
        set: lws.lws.clone(),
        group_key: lws.group_key.clone(),
        group_index: lws.group_index,
        size: lws.size,
    });
    audit::Pod {
        key: name(&pod.key),
        uid: pod.uid.clone(),
        version: version(&pod.version),
        labels: pod.labels.clone(),
        controller: pod.controller.as_ref().map(controller),
        phase: match pod.phase {
            Phase::Pending => audit::Phase::Pending,
            Phase::Running => audit::Phase::Running,
            Phase::Succeeded => audit::Phase::Succeeded,
            Phase::Failed => audit::Phase::Failed,
            Phase::Unknown => audit::Phase::Unknown,
        },
        ready: pod.ready,
        terminating: pod.terminating,
        evicted: pod.is_targeted(),
        reference: pod.reference.as_ref().map(reference),
        lws,
        generation: pod.generation,
        settled: pod.settled,
        applied: pod.applied,
    }
}

fn reference(reference: &GroupReference) -> audit::Reference {
    match reference {
        GroupReference::PodGroup { name } => audit::Reference::PodGroup(name.clone()),
        GroupReference::Annotation { name } => audit::Reference::Annotation(name.clone()),
        GroupReference::WorkloadEntry { workload, entry, replica_key } => audit::Reference::Entry {
            workload: workload.clone(),
            entry: entry.clone(),
            replica_key: replica_key.clone(),
        },
    }
}

pub(crate) fn budget(budget: &Budget) -> audit::Budget {
    let spec = &budget.spec;
    let unavailable = spec.unavailable.as_ref().map(|spec| audit::Unavailable {
        total: spec.total,
        groups: spec.groups.as_ref().map(|groups| audit::LabelGroups {
            label: groups.label.clone(),
            min_ready: groups.min_ready,
        }),
    });
    audit::Budget {
        key: budget_key(&budget.key),
        uid: budget.uid.clone(),
        version: version(&budget.version),
        unreadable: false,
        selector: spec.selector.as_ref().map(selector),
        min_available: spec.min_available.as_ref().map(threshold),
        max_unavailable: spec.max_unavailable.as_ref().map(threshold),
        always_allow: spec.unhealthy_policy == UnhealthyPolicy::AlwaysAllow,
        scope: match spec.scope {
            Scope::Pod => audit::Scope::Pod,
            Scope::Workload => audit::Scope::Replica,
        },
        basic_min_count: match spec.basic_min_count {
            BasicMinCount::Count(n) => Some(n),
            BasicMinCount::Absent | BasicMinCount::Unreadable(_) => None,
        },
        unavailable,
        status: status(budget),
    }
}

fn status(budget: &Budget) -> audit::Status {
    let status = &budget.status;
    let condition = status.conditions.iter().find(|c| c.kind == "DisruptionAllowed");
    let (healthy, desired, expected) = match budget.spec.scope {
        Scope::Pod => (status.current_healthy, status.desired_healthy, status.expected_pods),
        Scope::Workload => (
            status.current_healthy_replicas,
            status.desired_healthy_replicas,
            status.expected_replicas,
        ),
    };
    audit::Status {
        allowed: status.disruptions_allowed,
        healthy,
        desired,
        expected,
        condition: condition.map(|c| (c.status == ConditionStatus::True, c.message.clone())),
        grants: status.grants.iter().map(grant).collect(),
    }
}

pub(crate) fn grant(grant: &Grant) -> audit::Grant {
    audit::Grant {
        pod: grant.pod.clone(),
        uid: grant.uid.clone(),
        eviction: grant.eviction.clone(),
        operation: operation(grant.operation),
        pinned: grant.is_exact(),
    }
}

fn selector(selector: &LabelSelector) -> audit::Selector {
    let expressions = selector.match_expressions.iter().map(|requirement| audit::Expression {
        key: requirement.key.clone(),
        operator: match &requirement.operator {
            Operator::In => "In".to_owned(),
            Operator::NotIn => "NotIn".to_owned(),
            Operator::Exists => "Exists".to_owned(),
            Operator::DoesNotExist => "DoesNotExist".to_owned(),
            Operator::Other(other) => other.clone(),
        },
        values: requirement.values.clone(),
    });
    audit::Selector { labels: selector.match_labels.clone(), expressions: expressions.collect() }
}

fn threshold(threshold: &Threshold) -> audit::Threshold {
    match threshold {
        Threshold::Count(n) => audit::Threshold::Count(*n),
        Threshold::Percent(n) => audit::Threshold::Percent(*n),
        Threshold::Invalid(_) => audit::Threshold::Invalid,
    }
}

fn policy(policy: GroupPolicy) -> audit::Policy {
    match policy {
        GroupPolicy::Gang { min_count } => audit::Policy::Gang(min_count),
        GroupPolicy::Basic => audit::Policy::Basic,
        GroupPolicy::Absent => audit::Policy::Absent,
    }
}

pub(crate) fn group(group: &PodGroup) -> audit::PodGroup {
    audit::PodGroup {
        api: api(group.api),
        key: name(&group.key),
        uid: group.uid.clone(),
        version: version(&group.version),
        terminating: group.terminating,
        controller: group.controller.as_ref().map(controller),
        policy: policy(group.policy),
        template: group
            .template
            .as_ref()
            .map(|t| audit::Template { workload: t.workload.clone(), entry: t.template.clone() }),
        whole: group.disrupt_whole,
        composite: group.composite_parent.is_some(),
    }
}

pub(crate) fn workload(workload: &Workload) -> audit::Workload {
    let entries = workload.entries.iter().map(|entry| audit::Entry {
        name: entry.name.clone(),
        policy: policy(entry.policy),
        replicas: entry.replicas,
    });
    audit::Workload {
        api: api(workload.api),
        key: name(&workload.key),
        uid: workload.uid.clone(),
        version: version(&workload.version),
        entries: entries.collect(),
    }
}

pub(crate) fn owner(owner: &Owner) -> audit::Owner {
    audit::Owner {
        kind: kind(&owner.group_kind),
        key: name(&owner.key),
        uid: owner.uid.clone(),
        version: version(&owner.version),
        terminating: owner.terminating,
        ended: owner.pods.finished || owner.pods.suspended || owner.pods.parallelism == Some(0),
        controller: owner.controller.as_ref().map(controller),
        replicas: owner.replicas,
        group_size: owner.group_size,
        keeps_group: owner.lws_keeps_group,
        templates: owner.pods.templates.iter().map(template).collect(),
        grouped: owner.pods.grouped,
    }
}

fn template(template: &PodTemplate) -> audit::PodTemplate {
    let labels = template.labels.clone();
    audit::PodTemplate { labels, reference: template.reference.as_ref().map(reference) }
}
