//! Short ways to write objects down. Each starts as the plainest one of its kind.

use std::collections::BTreeMap;

use holdfast_core::model::{
    Budget, BudgetSpec, BudgetStatus, ControllerRef, GroupApi, GroupKind, GroupPolicy,
    GroupReference, LabelSelector, LwsMember, Owner, OwnerPods, Phase, Pod, PodGroup, PodTemplate,
    ResourceVersion, Scope, TemplateRef, Threshold, UnhealthyPolicy, Workload, WorkloadEntry,
};

use crate::cluster::Shape;
use crate::name::Name;

/// A pending pod without labels, group, owner or node.
pub fn pod(name: impl Name) -> PodBuilder {
    let pod = Pod {
        key: name.object_key(),
        uid: String::new(),
        version: ResourceVersion::default(),
        labels: BTreeMap::new(),
        controller: None,
        phase: Phase::Pending,
        ready: false,
        terminating: false,
        disruption_target: None,
        reference: None,
        lws: None,
        generation: 1,
        settled: true,
        applied: true,
        no_protect: false,
        related: true,
    };
    pod.into()
}

/// A budget that counts pods, selects all of its namespace and has no threshold yet.
pub fn budget(name: impl Name) -> BudgetBuilder {
    let spec = BudgetSpec { selector: Some(LabelSelector::default()), ..BudgetSpec::default() };
    BudgetBuilder(Budget {
        key: name.budget_key(),
        uid: String::new(),
        version: ResourceVersion::default(),
        generation: 1,
        spec,
        status: BudgetStatus::default(),
    })
}

/// A `PodGroup` of `scheduling.k8s.io` without a policy of its own.
pub fn group(name: impl Name) -> GroupBuilder {
    GroupBuilder(PodGroup {
        api: GroupApi::Kubernetes,
        key: name.object_key(),
        uid: String::new(),
        version: ResourceVersion::default(),
        terminating: false,
        controller: None,
        policy: GroupPolicy::Absent,
        template: None,
        disrupt_whole: false,
        composite_parent: None,
    })
}

/// A Workload of `scheduling.k8s.io` without entries.
pub fn workload(name: impl Name) -> WorkloadBuilder {
    WorkloadBuilder(Workload {
        api: GroupApi::Kubernetes,
        key: name.object_key(),
        uid: String::new(),
        version: ResourceVersion::default(),
        entries: Vec::new(),
    })
}

/// A controller's object, such as `owner("apps", "StatefulSet", "web")`.
pub fn owner(group: &str, kind: &str, name: impl Name) -> OwnerBuilder {
    OwnerBuilder(Owner {
        group_kind: GroupKind::new(group, kind),
        key: name.object_key(),
        uid: String::new(),
        version: ResourceVersion::default(),
        terminating: false,
        controller: None,
        replicas: None,
        group_size: None,
        lws_keeps_group: false,
        pods: OwnerPods::default(),
    })
}

#[derive(Clone, Debug)]
#[must_use]
pub struct PodBuilder {
    pod: Pod,
    node: Option<String>,
    shape: Shape,
}

impl From<Pod> for PodBuilder {
    fn from(pod: Pod) -> Self {
        Self { pod, node: None, shape: Shape::default() }
    }
}

impl PodBuilder {
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.pod.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Member of this `PodGroup`.
    pub fn group(self, name: &str) -> Self {
        self.reference(GroupReference::PodGroup { name: name.to_owned() })
    }

    pub fn reference(mut self, reference: GroupReference) -> Self {
        self.pod.reference = Some(reference);
        self
    }

    /// Member of group `index` of this `LeaderWorkerSet`.
    pub fn lws(mut self, lws: &str, index: i64, size: i64) -> Self {
        self.pod.lws = Some(LwsMember {
            lws: lws.to_owned(),
            group_key: format!("{lws}-group-key-{index}"),
            group_index: Some(index),
            size: Some(size),
        });
        self
    }

    pub fn owned_by(mut self, group: &str, kind: &str, name: &str) -> Self {
        self.pod.controller = Some(controller(group, kind, name));
        self
    }

    pub fn node(mut self, node: &str) -> Self {
        self.node = Some(node.to_owned());
        self
    }

    pub fn phase(mut self, phase: Phase) -> Self {
        self.pod.phase = phase;
        self
    }

    pub fn running(self) -> Self {
        self.phase(Phase::Running)
    }

    /// Running and Ready.
    pub fn ready(mut self) -> Self {
        self.pod.ready = true;
        self.running()
    }

    pub fn terminating(mut self) -> Self {
        self.pod.terminating = true;
        self
    }

    /// So much of a resource, where nodes say how much they have.
    pub fn request(mut self, resource: &str, amount: i64) -> Self {
        self.shape.requests.insert(resource.to_owned(), amount);
        self
    }

    /// What the scheduler has to look at.
    pub fn shape(mut self, shape: Shape) -> Self {
        self.shape = shape;
        self
    }

    pub(crate) fn into_parts(self) -> (Pod, Option<String>, Shape) {
        (self.pod, self.node, self.shape)
    }
}

#[derive(Clone, Debug)]
#[must_use]
pub struct BudgetBuilder(Budget);

impl From<Budget> for BudgetBuilder {
    fn from(object: Budget) -> Self {
        Self(object)
    }
}

impl BudgetBuilder {
    /// Select pods with this label; several must all match.
    pub fn select(self, key: &str, value: &str) -> Self {
        self.spec(|spec| {
            let selector = spec.selector.get_or_insert_default();
            selector.match_labels.insert(key.to_owned(), value.to_owned());
        })
    }

    pub fn min_available(self, count: i64) -> Self {
        self.spec(|spec| spec.min_available = Some(Threshold::Count(count)))
    }

    pub fn max_unavailable(self, count: i64) -> Self {
        self.spec(|spec| spec.max_unavailable = Some(Threshold::Count(count)))
    }

    pub fn min_available_percent(self, percent: i64) -> Self {
        self.spec(|spec| spec.min_available = Some(Threshold::Percent(percent)))
    }

    pub fn max_unavailable_percent(self, percent: i64) -> Self {
        self.spec(|spec| spec.max_unavailable = Some(Threshold::Percent(percent)))
    }

    /// Count replicas instead of pods: `budgetScope: Workload`.
    pub fn per_replica(self) -> Self {
        self.spec(|spec| spec.scope = Scope::Workload)
    }

    /// `unhealthyPodEvictionPolicy: AlwaysAllow`.
    pub fn always_allow(self) -> Self {
        self.spec(|spec| spec.unhealthy_policy = UnhealthyPolicy::AlwaysAllow)
    }

    pub fn spec(mut self, edit: impl FnOnce(&mut BudgetSpec)) -> Self {
        edit(&mut self.0.spec);
        self
    }

    pub(crate) fn into_budget(self) -> Budget {
        self.0
    }
}

#[derive(Clone, Debug)]
#[must_use]
pub struct GroupBuilder(PodGroup);

impl From<PodGroup> for GroupBuilder {
    fn from(object: PodGroup) -> Self {
        Self(object)
    }
}

impl GroupBuilder {
    pub fn gang(mut self, min_count: i64) -> Self {
        self.0.policy = GroupPolicy::Gang { min_count };
        self
    }

    pub fn basic(mut self) -> Self {
        self.0.policy = GroupPolicy::Basic;
        self
    }

    /// Made from this entry of this Workload.
    pub fn template(mut self, workload: &str, template: &str) -> Self {
        self.0.template =
            Some(TemplateRef { workload: workload.to_owned(), template: template.to_owned() });
        self
    }

    pub fn owned_by(mut self, group: &str, kind: &str, name: &str) -> Self {
        self.0.controller = Some(controller(group, kind, name));
        self
    }

    pub fn disrupt_whole(mut self) -> Self {
        self.0.disrupt_whole = true;
        self
    }

    pub fn terminating(mut self) -> Self {
        self.0.terminating = true;
        self
    }

    pub fn api(mut self, api: GroupApi) -> Self {
        self.0.api = api;
        self
    }

    pub(crate) fn into_group(self) -> PodGroup {
        self.0
    }
}

#[derive(Clone, Debug)]
#[must_use]
pub struct WorkloadBuilder(Workload);

impl From<Workload> for WorkloadBuilder {
    fn from(object: Workload) -> Self {
        Self(object)
    }
}

impl WorkloadBuilder {
    pub fn gang(self, entry: &str, min_count: i64) -> Self {
        self.entry(entry, GroupPolicy::Gang { min_count }, None)
    }

    pub fn entry(mut self, name: &str, policy: GroupPolicy, replicas: Option<i64>) -> Self {
        self.0.entries.push(WorkloadEntry { name: name.to_owned(), policy, replicas });
        self
    }

    pub fn api(mut self, api: GroupApi) -> Self {
        self.0.api = api;
        self
    }

    pub(crate) fn into_workload(self) -> Workload {
        self.0
    }
}

#[derive(Clone, Debug)]
#[must_use]
pub struct OwnerBuilder(Owner);

impl From<Owner> for OwnerBuilder {
    fn from(object: Owner) -> Self {
        Self(object)
    }
}

impl OwnerBuilder {
    pub fn replicas(mut self, replicas: i64) -> Self {
        self.0.replicas = Some(replicas);
        self
    }

    /// Its pods will have this label. Several make one template.
    pub fn template_label(mut self, key: &str, value: &str) -> Self {
        self.template().labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Its pods will be members of this `PodGroup`.
    pub fn template_group(mut self, name: &str) -> Self {
        self.template().reference = Some(GroupReference::PodGroup { name: name.to_owned() });
        self
    }

    fn template(&mut self) -> &mut PodTemplate {
        let templates = &mut self.0.pods.templates;
        if templates.is_empty() {
            templates.push(PodTemplate::default());
        }
        &mut templates[0]
    }

    /// Annotation `holdfast.dev/pod-groups: "true"`: Holdfast puts its pods into groups.
    pub fn grouped(mut self) -> Self {
        self.0.pods.grouped = true;
        self
    }

    pub fn terminating(mut self) -> Self {
        self.0.terminating = true;
        self
    }

    /// A `LeaderWorkerSet` with restartPolicy `None`.
    pub fn keeps_group(mut self) -> Self {
        self.0.lws_keeps_group = true;
        self
    }

    pub fn parallelism(mut self, pods: i64) -> Self {
        self.0.pods.parallelism = Some(pods);
        self
    }

    pub fn group_size(mut self, pods: i64) -> Self {
        self.0.group_size = Some(pods);
        self
    }

    pub fn owned_by(mut self, group: &str, kind: &str, name: &str) -> Self {
        self.0.controller = Some(controller(group, kind, name));
        self
    }

    pub(crate) fn into_owner(self) -> Owner {
        self.0
    }
}

/// The world fills in the uid when it stores the object that carries the reference.
fn controller(group: &str, kind: &str, name: &str) -> ControllerRef {
    ControllerRef {
        group_kind: GroupKind::new(group, kind),
        version: "v1".to_owned(),
        name: name.to_owned(),
        uid: String::new(),
    }
}
