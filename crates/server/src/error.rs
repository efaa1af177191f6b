//! What can go wrong before and around serving, in words for the person who started us.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::install::loss::Loss;

/// Each message is one line; [`Error::hint`] is an optional second one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot use the kubeconfig: {0}")]
    Kubeconfig(String),
    #[error("cannot reach the API server {url}: {reason}")]
    Unreachable { url: String, reason: String },
    #[error("the API server does not accept our credentials: {0}")]
    Unauthorized(String),
    #[error("cannot {action}: {reason}")]
    Refused { action: String, reason: String },
    #[error("cannot list {what}: {reason}")]
    Unlisted { what: String, reason: String },
    #[error("missing rights on the cluster: {}", .0.join(", "))]
    MissingRights(Vec<String>),
    #[error("Holdfast is not installed on this cluster: missing {}", .0.join(", "))]
    NotInstalled(Vec<String>),
    #[error("native mode cannot be changed here:\n{}", lines(.0))]
    Obstacles(Vec<String>),
    #[error("budgets would lose what they protect, and nothing was changed:\n{}", first(.0))]
    Losses(Vec<Loss>),
    #[error("the cluster serves no PodGroups of scheduling.k8s.io in v1beta1 or v1alpha2")]
    NoPodGroups,
    #[error("cannot listen on {address}: {reason}")]
    Listen { address: SocketAddr, reason: String },
    #[error("cannot make a certificate: {0}")]
    Certificate(String),
    #[error("cannot write {path}: {reason}", path = path.display())]
    ReadyFile { path: PathBuf, reason: String },
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Kubeconfig(_) => "name one with --kubeconfig FILE",
            Self::Unreachable { .. } => "is it running, and does the kubeconfig name its address?",
            Self::MissingRights(_) | Self::NotInstalled(_) => {
                "`holdfast serve --install`, run as somebody who may install, adds what is missing"
            }
            Self::Losses(_) => {
                "delete or change them first, or go on all the same with --allow-loss; \
                 `holdfast uninstall --dry-run` lists them"
            }
            Self::NoPodGroups => "--pod-groups holdfast makes them objects of Holdfast's",
            Self::Unlisted { .. } => "does the kubeconfig's user have the right to list them?",
            Self::Listen { .. } => "choose another address; port 0 takes any free one",
            Self::Refused { reason, .. } if !reason.contains("forbidden") => {
                "nothing is lost: run it again, and it goes on from what is there"
            }
            Self::Refused { .. } => {
                "installing needs rights on CustomResourceDefinitions, ClusterRoles and their \
                 bindings, FlowSchemas, PriorityLevelConfigurations and webhook configurations"
            }
            Self::Obstacles(_)
            | Self::Unauthorized(_)
            | Self::Certificate(_)
            | Self::ReadyFile { .. }
            | Self::Internal(_) => return None,
        };
        Some(text.to_owned())
    }
}

/// As many as a person reads.
const LISTED_MAX: usize = 20;

fn first(losses: &[Loss]) -> String {
    let more = losses.len().saturating_sub(LISTED_MAX);
    let more = (more > 0).then(|| format!("\n  - and {more} more"));
    lines(losses.iter().take(LISTED_MAX)) + &more.unwrap_or_default()
}

fn lines<T: std::fmt::Display>(all: impl IntoIterator<Item = T>) -> String {
    all.into_iter().map(|one| format!("  - {one}")).collect::<Vec<_>>().join("\n")
}
