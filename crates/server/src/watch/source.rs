//! Where the objects of each of the engine's kinds come from.

use holdfast_api::{budget, unavailable};
use holdfast_core::Kind;
use holdfast_core::model::GroupApi;

use crate::api_client::{ApiClient, NoAnswer};
use crate::discovery::{self, Resource};

/// Newest first. None of them served is a normal state (semantics 3).
const SCHEDULING_VERSIONS: &[&str] = &["v1beta1", "v1alpha3", "v1alpha2", "v1alpha1"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Served by every API server, always in this version.
    BuiltIn(Resource),
    /// May come and go, in one of several versions; an empty list is the server's preference.
    Discovered { group: String, versions: &'static [&'static str], kind: String },
}

impl Source {
    pub fn of(kind: &Kind) -> Self {
        match kind {
            Kind::Pod => Self::built_in("", "pods"),
            Kind::BuiltinBudget => Self::built_in("policy", "poddisruptionbudgets"),
            Kind::Budget => Self::discovered(budget::GROUP, &[budget::VERSION], budget::KIND),
            // Kruise's releases serve the older one alone; those are read, and never written.
            Kind::UnavailableBudget => Self::discovered(
                unavailable::GROUP,
                &[unavailable::VERSION, "v1alpha1"],
                unavailable::KIND,
            ),
            Kind::PodGroup(api) => Self::scheduling(*api, "PodGroup"),
            Kind::Workload(api) => Self::scheduling(*api, "Workload"),
            Kind::Owner(owner) => match (owner.group.as_str(), owner.kind.as_str()) {
                ("", "ReplicationController") => Self::built_in("", "replicationcontrollers"),
                ("apps", "ReplicaSet") => Self::built_in("apps", "replicasets"),
                ("apps", "Deployment") => Self::built_in("apps", "deployments"),
                ("apps", "StatefulSet") => Self::built_in("apps", "statefulsets"),
                ("batch", "Job") => Self::built_in("batch", "jobs"),
                (group, kind) => Self::discovered(group, &[], kind),
            },
        }
    }

    pub async fn find(&self, client: &ApiClient) -> Result<Option<Resource>, NoAnswer> {
        match self {
            Self::BuiltIn(resource) => Ok(Some(resource.clone())),
            Self::Discovered { group, versions, kind } => {
                discovery::find(client, group, versions, kind).await
            }
        }
    }

    fn built_in(group: &str, plural: &str) -> Self {
        Self::BuiltIn(Resource::fixed(group, "v1", plural))
    }

    fn discovered(group: &str, versions: &'static [&'static str], kind: &str) -> Self {
        Self::Discovered { group: group.to_owned(), versions, kind: kind.to_owned() }
    }

    fn scheduling(api: GroupApi, kind: &str) -> Self {
        match api {
            GroupApi::Kubernetes => {
                Self::discovered("scheduling.k8s.io", SCHEDULING_VERSIONS, kind)
            }
            GroupApi::Holdfast => Self::discovered("scheduling.holdfast.dev", &["v1alpha1"], kind),
        }
    }
}

/// For logs, metrics and `/readyz`.
impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BuiltIn(resource) => f.write_str(&resource.qualified()),
            Self::Discovered { group, kind, .. } => write!(f, "{kind}.{group}"),
        }
    }
}
