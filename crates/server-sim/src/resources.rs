//! The resources that the API server serves, and the paths under which it does.

/// One resource. Kinds that Holdfast watches have `watched`.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resource {
    pub group: &'static str,
    pub version: &'static str,
    pub plural: &'static str,
    pub kind: &'static str,
    pub watched: bool,
}

pub type Kind = &'static Resource;

const fn watched(
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
) -> Resource {
    Resource { group, version, plural, kind, watched: true }
}

const fn other(
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
) -> Resource {
    Resource { group, version, plural, kind, watched: false }
}

pub static PODS: Resource = watched("", "v1", "pods", "Pod");
pub static BUDGETS: Resource =
    watched("policy.holdfast.dev", "v1", "poddisruptionbudgets", "PodDisruptionBudget");
pub static STATEFUL_SETS: Resource = watched("apps", "v1", "statefulsets", "StatefulSet");
pub static LEADER_WORKER_SETS: Resource =
    watched("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet");
pub static POD_GROUPS: Resource = watched("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup");

static OTHERS: [Resource; 16] = [
    watched("", "v1", "replicationcontrollers", "ReplicationController"),
    watched("apps", "v1", "replicasets", "ReplicaSet"),
    watched("apps", "v1", "deployments", "Deployment"),
    watched("batch", "v1", "jobs", "Job"),
    watched("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
    watched("scheduling.k8s.io", "v1beta1", "workloads", "Workload"),
    other("", "v1", "events", "Event"),
    other("", "v1", "configmaps", "ConfigMap"),
    other("", "v1", "services", "Service"),
    other("coordination.k8s.io", "v1", "leases", "Lease"),
    other(
        "admissionregistration.k8s.io",
        "v1",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
    ),
    other(
        "admissionregistration.k8s.io",
        "v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
    ),
    other("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema"),
    other(
        "flowcontrol.apiserver.k8s.io",
        "v1",
        "prioritylevelconfigurations",
        "PriorityLevelConfiguration",
    ),
    other("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition"),
    other("apiregistration.k8s.io", "v1", "apiservices", "APIService"),
];

pub fn all() -> impl Iterator<Item = Kind> {
    [&PODS, &BUDGETS, &STATEFUL_SETS, &LEADER_WORKER_SETS, &POD_GROUPS].into_iter().chain(&OTHERS)
}

impl Resource {
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// `poddisruptionbudgets.policy.holdfast.dev`.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_owned()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }
}

/// What a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Path {
    /// `/apis/GROUP`.
    Group(String),
    /// `/apis/GROUP/VERSION`.
    GroupVersion(String, String),
    Objects(Target),
    /// Everything else, such as `/version`.
    Other(String),
}

/// A collection, an object, or a part of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub kind: Kind,
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub part: Option<String>,
}

impl Path {
    pub fn parse(path: &str) -> Self {
        let mut parts = path.trim_matches('/').split('/');
        let first = parts.next().unwrap_or_default();
        let rest: Vec<&str> = parts.collect();
        let (group, rest) = match (first, rest.as_slice()) {
            ("api", rest) => ("", rest),
            ("apis", [group]) => return Self::Group((*group).to_owned()),
            ("apis", [group, rest @ ..]) => (*group, rest),
            _ => return Self::Other(path.to_owned()),
        };
        let (version, rest) = match rest {
            [version] => return Self::GroupVersion(group.to_owned(), (*version).to_owned()),
            [version, rest @ ..] => (*version, rest),
            [] => return Self::Other(path.to_owned()),
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
            rest => (None, rest),
        };
        let own = |text: &&str| (*text).to_owned();
        let kind = all().find(|kind| {
            (kind.group, kind.version, Some(&kind.plural)) == (group, version, rest.first())
        });
        match kind {
            Some(kind) => Self::Objects(Target {
                kind,
                namespace: namespace.map(str::to_owned),
                name: rest.get(1).map(own),
                part: rest.get(2).map(own),
            }),
            None => Self::Other(path.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_groups_collections_and_objects() {
        assert_eq!(Path::parse("/apis/apps"), Path::Group("apps".to_owned()));
        assert_eq!(Path::parse("/api/v1"), Path::GroupVersion(String::new(), "v1".to_owned()));
        let path = "/apis/policy.holdfast.dev/v1/namespaces/n/poddisruptionbudgets/b/status";
        let Path::Objects(target) = Path::parse(path) else { panic!("{path}") };
        assert_eq!(target.kind, &BUDGETS);
        assert_eq!(target.namespace.as_deref(), Some("n"));
        assert_eq!((target.name.as_deref(), target.part.as_deref()), (Some("b"), Some("status")));
        let Path::Objects(target) = Path::parse("/api/v1/pods") else { panic!("pods") };
        assert_eq!((target.kind, target.namespace, target.name), (&PODS, None, None));
        assert_eq!(Path::parse("/version"), Path::Other("/version".to_owned()));
        assert_eq!(Path::parse("/apis/apps/v2/jobs"), Path::Other("/apis/apps/v2/jobs".to_owned()));
    }
}
