//! Taking back what was installed. Safe to repeat.

use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;
use tokio::time::Instant;

use super::manifests::Installed;
use super::native::give_back;
use super::{MANAGED_BY, NAME};
use crate::api_client::{ApiClient, NoAnswer};
use crate::connect::{ClusterOptions, connect};
use crate::discovery::Resource;
use crate::error::Error;
use crate::watch::Backoff;
use holdfast_api::budget;

#[derive(Clone, Debug, Default)]
pub struct UninstallOptions {
    pub cluster: ClusterOptions,
    /// Also delete the CRD if there are budgets, and with it every one of them.
    pub delete_budgets: bool,
    /// Leave native mode although budgets that count replicas will count pods.
    pub allow_scope_loss: bool,
}

/// What became of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    Removed(String),
    NotThere(String),
    Kept {
        object: String,
        why: String,
    },
    /// Not about an object: a step that takes a while.
    Progress(String),
}

/// The webhook first: from then on no eviction depends on us. The CRD last, if at all.
const ORDER: [Installed; 11] = [
    Installed::Webhook,
    Installed::FlowSchema,
    Installed::PriorityLevel,
    Installed::Service,
    Installed::AuthenticationReader,
    Installed::RoleBinding,
    Installed::Role,
    Installed::ClusterRoleBinding,
    Installed::ClusterRole,
    Installed::Lease,
    // Made by the installer or else kept: it lacks the label.
    Installed::Namespace,
];

/// Budgets with finalizers, and many of them, take a while.
const CRD_GONE: Duration = Duration::from_secs(30);

/// Calls `tell` for each object as it goes, so that a failure half way shows what is left.
pub async fn uninstall(
    options: &UninstallOptions,
    mut tell: impl FnMut(&Removal),
) -> Result<(), Error> {
    let (client, _) = connect(&options.cluster).await?;
    let native = give_back::was_native(&client).await?;
    give_back::give_back(&client, options.allow_scope_loss, |step| tell(&Removal::Progress(step)))
        .await?;
    if native {
        give_back::mark_copies(&client).await?;
    }
    // Counted first, while we still have the right to.
    let count = if native { Some(0) } else { count_budgets(&client).await };
    let budgets = match count {
        None => "all budgets (they could not be counted)".to_owned(),
        Some(1) => "1 budget".to_owned(),
        Some(n) => format!("{n} budgets"),
    };
    for kind in ORDER {
        tell(&remove(&client, kind, String::new()).await?);
        if native && kind == Installed::Webhook {
            let copies = give_back::drop_budgets(&client).await?;
            tell(&Removal::Removed(format!("{copies} copies of what are built-in budgets now")));
        }
    }
    // Without budgets there is nothing that deleting it could lose.
    let crd = if options.delete_budgets || count == Some(0) {
        let removal = remove(&client, Installed::Crd, format!(" with {budgets}")).await?;
        wait_until_gone(&client).await?;
        removal
    } else {
        match labels(&client, Installed::Crd).await? {
            None => Removal::NotThere(Installed::Crd.title()),
            Some(_) => Removal::Kept {
                object: Installed::Crd.title(),
                why: format!("deleting it deletes {budgets}"),
            },
        }
    };
    tell(&crd);
    Ok(())
}

async fn remove(client: &ApiClient, kind: Installed, what_else: String) -> Result<Removal, Error> {
    let title = kind.title();
    match labels(client, kind).await? {
        None => return Ok(Removal::NotThere(title)),
        // The CRD's name is in our own domain; others could have chosen "holdfast" before us.
        Some(labels)
            if kind != Installed::Crd && labels.get(MANAGED_BY).is_none_or(|by| by != NAME) =>
        {
            let why = format!("not ours: it lacks the label {MANAGED_BY}={NAME}");
            return Ok(Removal::Kept { object: title, why });
        }
        Some(_) => {}
    }
    let failed = |reason| Error::Refused { action: format!("delete {title}"), reason };
    let answer = client.delete(&kind.path()).await.map_err(|NoAnswer(why)| failed(why))?;
    match answer.code {
        code if code.is_success() => Ok(Removal::Removed(format!("{title}{what_else}"))),
        StatusCode::NOT_FOUND => Ok(Removal::NotThere(title)),
        _ => Err(failed(answer.message())),
    }
}

type Labels = std::collections::BTreeMap<String, String>;

/// None: there is no such object.
async fn labels(client: &ApiClient, kind: Installed) -> Result<Option<Labels>, Error> {
    #[derive(Deserialize)]
    struct Object {
        metadata: Meta,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Meta {
        #[serde(default)]
        labels: Labels,
        deletion_timestamp: Option<String>,
    }
    let failed = |reason| Error::Refused { action: format!("read {}", kind.title()), reason };
    let answer = client.get(&kind.path()).await.map_err(|NoAnswer(why)| failed(why))?;
    match answer.code {
        StatusCode::OK => match answer.json::<Object>() {
            // A namespace takes seconds to go; an earlier run has seen to it.
            Ok(Object { metadata })
                if kind == Installed::Namespace && metadata.deletion_timestamp.is_some() =>
            {
                Ok(None)
            }
            Ok(object) => Ok(Some(object.metadata.labels)),
            Err(error) => Err(failed(error.to_string())),
        },
        StatusCode::NOT_FOUND => Ok(None),
        _ => Err(failed(answer.message())),
    }
}

async fn wait_until_gone(client: &ApiClient) -> Result<(), Error> {
    let deadline = Instant::now() + CRD_GONE;
    let mut backoff = Backoff::new();
    while labels(client, Installed::Crd).await?.is_some() {
        if Instant::now() > deadline {
            return Err(Error::Refused {
                action: format!("delete {}", Installed::Crd.title()),
                reason: format!(
                    "still being deleted after {} s; do budgets carry finalizers?",
                    CRD_GONE.as_secs()
                ),
            });
        }
        backoff.pause().await;
    }
    Ok(())
}

/// None: the right to count them may have gone with an earlier run.
async fn count_budgets(client: &ApiClient) -> Option<usize> {
    #[derive(Deserialize)]
    struct List {
        metadata: ListMeta,
        items: Vec<serde::de::IgnoredAny>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ListMeta {
        #[serde(default)]
        remaining_item_count: usize,
    }
    let path = Resource::fixed(budget::GROUP, budget::VERSION, budget::PLURAL).path();
    let counted = match client.list(&format!("{path}?limit=500")).await {
        Ok(answer) if answer.code == StatusCode::OK => answer.json::<List>().ok(),
        Ok(_) | Err(_) => None,
    };
    counted.map(|list| list.items.len() + list.metadata.remaining_item_count)
}
