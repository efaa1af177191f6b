//! What uninstalling takes from budgets, found out before anything changes. It is KEP-5682's warning
//! about downgrades: whoever does not know `budgetScope` counts pods, or holds nothing back.

use std::fmt;

use serde_json::Value;

use super::manifests::Installed;
use super::native::api_service::Standing;
use super::native::give_back;
use super::native::import::{Budgets, Key, Storage, is_copy, is_copy_of, list};
use super::read;
use super::registration::is_ours;
use super::unavailable::TAKEN_OVER;
use crate::api_client::ApiClient;
use crate::discovery::Resource;
use crate::error::Error;
use holdfast_api::unavailable;

const DISRUPTION: &str = "poddisruptionbudget";

/// A budget that is enforced now, and will not be as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    budget: String,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// As it was asked for.
    Deleted,
    NotEnforced,
    CountsPods,
}

impl Loss {
    /// Whether somebody has said in so many words that the budgets shall go.
    pub fn is_asked_for(&self) -> bool {
        self.fate == Fate::Deleted
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fate = match self.fate {
            Fate::Deleted => "will be deleted",
            Fate::NotEnforced => "Holdfast will not enforce it any more",
            Fate::CountsPods => "kube-apiserver will count pods",
        };
        write!(f, "{}: {fate}", self.budget)
    }
}

/// Nothing if Holdfast is not asked any more, and nothing of what an earlier run has begun.
pub async fn find(client: &ApiClient, delete_budgets: bool) -> Result<Vec<Loss>, Error> {
    let mut losses = Vec::new();
    let asked = read(client, Installed::Webhook).await?.is_some();
    if Standing::read(client).await?.is_ours() {
        // The others are the same to kube-apiserver as they are to us.
        let is_copy = |_: &Key, budget: &Value| is_copy(budget);
        let budgets = budgets(client, &Storage::Ours.resource(), DISRUPTION, is_copy).await;
        let replicas = budgets.into_iter().filter(|(_, counts_replicas)| *counts_replicas);
        losses.extend(replicas.map(|(budget, _)| Loss { budget, fate: Fate::CountsPods }));
    } else if asked
        && !give_back::is_under_way(client).await?
        && read(client, Installed::Crd).await?.is_some()
    {
        let fate = if delete_budgets { Fate::Deleted } else { Fate::NotEnforced };
        // Without them nothing is a copy.
        let originals =
            Storage::BuiltIn.list(client).await.map_or_else(|_| Budgets::new(), |(all, _)| all);
        let is_copy = |key: &Key, budget: &Value| is_copy_of(&originals, key, budget);
        let budgets = budgets(client, &Storage::Ours.resource(), DISRUPTION, is_copy).await;
        losses.extend(budgets.into_iter().map(|(budget, _)| Loss { budget, fate }));
    }
    let asked = asked || read(client, Installed::Guard).await?.is_some();
    let definition = read(client, Installed::UnavailableCrd).await?;
    if let Some(definition) = definition.filter(|definition| asked && is_ours(definition)) {
        let taken_over = !definition["metadata"]["annotations"][TAKEN_OVER].is_null();
        let fate = if delete_budgets && !taken_over { Fate::Deleted } else { Fate::NotEnforced };
        let version = stored_version(&definition);
        let resource = Resource::fixed(unavailable::GROUP, version, unavailable::PLURAL);
        let budgets = budgets(client, &resource, "podunavailablebudget", |_, _| false).await;
        losses.extend(budgets.into_iter().map(|(budget, _)| Loss { budget, fate }));
    }
    Ok(losses)
}

/// What to call each, and whether it counts replicas. Budgets that cannot be listed may be any.
async fn budgets(
    client: &ApiClient,
    resource: &Resource,
    kind: &str,
    is_copy: impl Fn(&Key, &Value) -> bool,
) -> Vec<(String, bool)> {
    let listed = match list(client, resource).await {
        Ok((listed, _)) => listed,
        Err(error) => return vec![(format!("every {kind} ({error})"), true)],
    };
    let live = listed.iter().filter(|(key, budget)| {
        budget["metadata"]["deletionTimestamp"].is_null() && !is_copy(key, budget)
    });
    live.map(|((namespace, name), budget)| {
        let spec = &budget["spec"];
        let counts_replicas = matches!(spec["budgetScope"].as_str(), Some("Workload" | "PodGroup"))
            || !spec["podGroupPolicy"].is_null();
        let unit = if counts_replicas { " (counts replicas)" } else { "" };
        (format!("{kind} {namespace}/{name}{unit}"), counts_replicas)
    })
    .collect()
}

/// In which they can be read when nobody converts.
fn stored_version(definition: &Value) -> &str {
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    let mut stored = versions.filter(|version| version["storage"] == true);
    stored.next().and_then(|version| version["name"].as_str()).unwrap_or(unavailable::VERSION)
}
