//! From a kubeconfig to a client that is known to work.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::StatusCode;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use serde::Deserialize;
use serde_json::json;

use crate::api_client::{Answer, ApiClient, NoAnswer};
use crate::error::Error;

#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// Several as `KUBECONFIG` has them, with `:` between. Without it: `~/.kube/config`, else the pod's
    /// service account.
    pub kubeconfig: Option<PathBuf>,
    pub context: Option<String>,
}

/// Who the API server takes us for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    User(String),
    ServiceAccount { namespace: String, name: String },
}

/// Together about five seconds of waiting: long enough for an API server that restarts, short enough
/// for a person who mistyped an address.
const PAUSES_MS: [u64; 4] = [200, 600, 1400, 2800];

pub async fn connect(options: &ClusterOptions) -> Result<(ApiClient, Identity), Error> {
    let config = load(options).await?;
    let url = config.cluster_url.to_string();
    let client = kube::Client::try_from(config).map_err(|e| Error::Kubeconfig(e.to_string()))?;
    identified(ApiClient::new(client), &url).await
}

/// The client, once the API server has said who it is. `url` is for messages.
pub async fn identified(client: ApiClient, url: &str) -> Result<(ApiClient, Identity), Error> {
    let identity = identify(&client, url).await?;
    Ok((client, identity))
}

async fn load(options: &ClusterOptions) -> Result<kube::Config, Error> {
    // kube and the webhook's listener share rustls; the provider may have been chosen before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let choice = KubeConfigOptions { context: options.context.clone(), ..Default::default() };
    let loaded = match &options.kubeconfig {
        Some(path) => match read(path) {
            Ok(file) => kube::Config::from_custom_kubeconfig(file, &choice).await,
            Err(error) => Err(error),
        }
        .map_err(|error| {
            let reason = match error {
                KubeconfigError::ReadConfig(error, _) => error.to_string(),
                error => one_line(&error.to_string()),
            };
            format!("{}: {reason}", path.display())
        }),
        None if options.context.is_some() => {
            kube::Config::from_kubeconfig(&choice).await.map_err(|e| one_line(&e.to_string()))
        }
        None => kube::Config::infer().await.map_err(|e| one_line(&e.to_string())),
    };
    let mut config = loaded.map_err(Error::Kubeconfig)?;
    // Retries are decided where the meaning of a request is known (`effect`, `watch`).
    config.default_retry = false;
    Ok(config)
}

/// Of several files those that are there, as kubectl: what the first says of something stands.
fn read(paths: &Path) -> Result<Kubeconfig, KubeconfigError> {
    let several: Vec<PathBuf> = std::env::split_paths(paths).filter(|path| path.exists()).collect();
    let Some((first, rest)) = several.split_first() else { return Kubeconfig::read_from(paths) };
    let mut merged = Kubeconfig::read_from(first)?;
    for path in rest {
        merged = merged.merge(Kubeconfig::read_from(path)?)?;
    }
    Ok(merged)
}

async fn identify(client: &ApiClient, url: &str) -> Result<Identity, Error> {
    let mut pauses = PAUSES_MS.into_iter();
    loop {
        let reason = match who_are_we(client).await {
            Ok(answer) if answer.code.is_success() => return identity(&answer),
            Ok(answer) if answer.code == StatusCode::UNAUTHORIZED => {
                return Err(Error::Unauthorized(answer.message()));
            }
            Ok(answer) if answer.is_transient() => answer.message(),
            Ok(answer) => {
                let action = "ask the API server who we are".to_owned();
                return Err(Error::Refused { action, reason: answer.message() });
            }
            Err(NoAnswer(reason)) => reason,
        };
        let Some(pause) = pauses.next() else {
            return Err(Error::Unreachable { url: url.to_owned(), reason: one_line(&reason) });
        };
        tracing::debug!(%reason, "the API server does not answer yet");
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
}

async fn who_are_we(client: &ApiClient) -> Result<Answer, NoAnswer> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &review).await
}

fn identity(answer: &Answer) -> Result<Identity, Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Review {
        status: Status,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Status {
        user_info: UserInfo,
    }
    #[derive(Deserialize)]
    struct UserInfo {
        username: String,
    }
    let review: Review = answer
        .json()
        .map_err(|e| Error::Internal(format!("cannot read the SelfSubjectReview: {e}")))?;
    Ok(Identity::parse(&review.status.user_info.username))
}

impl Identity {
    fn parse(username: &str) -> Self {
        match username.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'))
        {
            Some((namespace, name)) => {
                Self::ServiceAccount { namespace: namespace.to_owned(), name: name.to_owned() }
            }
            None => Self::User(username.to_owned()),
        }
    }
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::User(name) => f.write_str(name),
            Self::ServiceAccount { namespace, name } => {
                write!(f, "system:serviceaccount:{namespace}:{name}")
            }
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_kubeconfigs_those_that_are_there_are_one() {
        let directory = std::env::temp_dir().join(format!("holdfast-kube-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let file = |name: &str, text: &str| {
            std::fs::write(directory.join(name), format!("apiVersion: v1\nkind: Config\n{text}"))
                .unwrap();
            directory.join(name)
        };
        let context = "contexts: [{name: there, context: {cluster: c}}]\ncurrent-context: there\n";
        let context = file("context", context);
        let cluster = "clusters: [{name: c, cluster: {server: 'http://h'}}]\ncurrent-context: no\n";
        let cluster = file("cluster", cluster);
        let nowhere = directory.join("nowhere");
        let joined = |paths: &[&PathBuf]| PathBuf::from(std::env::join_paths(paths).unwrap());
        let merged = read(&joined(&[&nowhere, &context, &cluster])).unwrap();
        assert_eq!(merged.current_context.as_deref(), Some("there"));
        assert_eq!((merged.contexts.len(), merged.clusters.len()), (1, 1));
        assert!(read(&nowhere).is_err() && read(&joined(&[&nowhere, &nowhere])).is_err());
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn service_accounts_are_recognised_by_their_user_name() {
        let account = Identity::parse("system:serviceaccount:holdfast-system:holdfast");
        assert_eq!(
            account,
            Identity::ServiceAccount {
                namespace: "holdfast-system".into(),
                name: "holdfast".into()
            }
        );
        assert_eq!(account.to_string(), "system:serviceaccount:holdfast-system:holdfast");
        assert_eq!(Identity::parse("holdfast"), Identity::User("holdfast".into()));
    }
}
