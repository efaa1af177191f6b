//! Gives `policy/v1` back to kube-apiserver.

use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::entry::address;
use super::super::manifests::{self, Installed, Intercept};
use super::super::{NAME, SYSTEM_NAMESPACE, read, refused};
use super::api_service::{self, Standing};
use super::import::{self, Changes, Step, Storage};
use crate::api_client::{ApiClient, MERGE_PATCH, NoAnswer};
use crate::error::Error;
use crate::watch::Backoff;

/// On the webhook configuration: the uninstallation is giving `policy/v1` back.
const GIVING_BACK: &str = "holdfast.dev/giving-back";

/// On Holdfast's copy of a budget that is a built-in budget again.
const GIVEN_BACK: &str = "given-back";

/// The time for API servers to notice a changed webhook. They watch.
const NOTICE: Duration = Duration::from_secs(1);

/// The time for the controller of Kubernetes to see one budget, and all of them. Its watch may go through
/// Holdfast. That watch ends when an instance notices that policy/v1 is no longer Holdfast's.
const PROBED: Duration = Duration::from_secs(30);
const CAUGHT_UP: Duration = Duration::from_mins(3);

pub async fn is_under_way(client: &ApiClient) -> Result<bool, Error> {
    Ok(read(client, Installed::Webhook).await?.as_ref().is_some_and(is_noted))
}

/// Returns true if this configuration says that `policy/v1` is being given back.
pub fn is_noted(registration: &Value) -> bool {
    !registration["metadata"]["annotations"][GIVING_BACK].is_null()
}

/// Returns true if `policy/v1` is Holdfast's, or was when an unfinished uninstallation began.
pub async fn was_native(client: &ApiClient) -> Result<bool, Error> {
    Ok(Standing::read(client).await?.is_ours() || is_under_way(client).await?)
}

/// Gives it back. Does nothing if `policy/v1` is not Holdfast's. `tell` gets messages for the waiting user.
pub async fn give_back(client: &ApiClient, mut tell: impl FnMut(String)) -> Result<(), Error> {
    if !was_native(client).await? {
        return forget_copies(client).await;
    }
    let standing = Standing::read(client).await?;
    if standing.is_ours() {
        tell("sending every eviction to the webhook".to_owned());
        intercept(client, true).await?;
        tokio::time::sleep(NOTICE).await;
        tell("giving policy/v1 back to kube-apiserver".to_owned());
        api_service::give_back(client).await?;
        if let Some(obstacle) = obstacle(client, &mut tell).await? {
            tell("policy/v1 stays with Holdfast".to_owned());
            api_service::restore(client, &standing).await?;
            intercept(client, false).await?;
            return Err(Error::Obstacles(vec![obstacle]));
        }
    } else if standing.is_missing() {
        // An earlier run has deleted it and was then interrupted.
        api_service::give_back(client).await?;
    }
    api_service::await_served(client, false).await?;
    let (Changes { created, updated, deleted }, kept) = equalise(client).await?;
    tell(format!("built-in budgets: {created} created, {updated} changed, {deleted} deleted"));
    if kept > 0 {
        tell(format!(
            "kept {kept} built-in budgets that Holdfast does not have: the definition of its own was made \
             anew after it was installed, and they may have been lost with the last"
        ));
    }
    tell("waiting until the disruption-controller has seen them".to_owned());
    await_controller(client).await
}

/// Marks the copies before the webhook is removed, so that an interrupted run leaves no budgets that look
/// like a user's.
pub async fn mark_copies(client: &ApiClient) -> Result<(), Error> {
    let (budgets, _) = Storage::Ours.list(client).await?;
    let unmarked = budgets.iter().filter(|(_, budget)| !import::is_copy(budget));
    let unmarked: Vec<_> = unmarked.map(|(key, _)| key.clone()).collect();
    import::mark(client, &unmarked, Some(GIVEN_BACK)).await
}

/// Deletes the copies when the webhook is removed. Otherwise a later installation would bring back budgets
/// that users have deleted in between.
pub async fn drop_budgets(client: &ApiClient) -> Result<usize, Error> {
    let (budgets, _) = Storage::Ours.list(client).await?;
    let steps = budgets.into_values().map(Step::Delete).collect();
    Ok(import::carry_out(client, Storage::Ours, steps).await?.deleted)
}

/// Removes the marks of an unfinished installation.
async fn forget_copies(client: &ApiClient) -> Result<(), Error> {
    let Ok((budgets, _)) = Storage::Ours.list(client).await else { return Ok(()) };
    let (originals, _) = Storage::BuiltIn.list(client).await?;
    let is_copy = |key: &import::Key, budget: &Value| import::is_copy_of(&originals, key, budget);
    let copies = budgets.into_iter().filter(|(key, budget)| is_copy(key, budget));
    let copies = copies.map(|(_, budget)| Step::Delete(budget)).collect();
    import::carry_out(client, Storage::Ours, copies).await?;
    Ok(())
}

/// Returns why kube-apiserver and its controllers could not take over, if they could not.
async fn obstacle(
    client: &ApiClient,
    tell: &mut impl FnMut(String),
) -> Result<Option<String>, Error> {
    if let Err(error) = api_service::await_served(client, false).await {
        return Ok(Some(format!(
            "{error}; does kube-apiserver run with --runtime-config=policy/v1=false?"
        )));
    }
    tell("looking for kube-controller-manager's disruption-controller".to_owned());
    let missing = "kube-controller-manager's disruption-controller does not run: built-in budgets would \
        have no status, and no eviction would pass; turn it on first";
    Ok((!is_controller_there(client).await?).then(|| missing.to_owned()))
}

/// Returns true if the controller of Kubernetes gives a new built-in budget a status.
async fn is_controller_there(client: &ApiClient) -> Result<bool, Error> {
    let failed = |reason| Error::Refused {
        action: format!("create budget {SYSTEM_NAMESPACE}/{PROBE}"),
        reason,
    };
    let resource = Storage::BuiltIn.resource();
    let path = resource.object_path(SYSTEM_NAMESPACE, PROBE);
    let manifest = json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": PROBE},
        "spec": {"minAvailable": 0, "selector": {"matchLabels": {PROBE: ""}}},
    });
    let all = resource.namespace_path(SYSTEM_NAMESPACE);
    let answer = client.post(&all, &manifest).await.map_err(|NoAnswer(why)| failed(why))?;
    if !answer.code.is_success() && answer.code != StatusCode::CONFLICT {
        return Err(failed(answer.message()));
    }
    let deadline = Instant::now() + PROBED;
    let mut backoff = Backoff::new();
    let mut seen = false;
    while !seen && Instant::now() < deadline {
        backoff.pause().await;
        let budget = client.get(&path).await.ok().and_then(|answer| answer.json::<Value>().ok());
        seen = budget.is_some_and(|budget| budget["status"]["observedGeneration"] == 1);
    }
    // If this fails, the budget is deleted with other built-in budgets that Holdfast lacks.
    let _ = client.delete(&path).await;
    Ok(seen)
}

const PROBE: &str = "holdfast-probe";

/// Sends every eviction to the webhook. Also notes in it whether `policy/v1` is being given back.
async fn intercept(client: &ApiClient, giving_back: bool) -> Result<(), Error> {
    let failed = |reason: String| refused(Installed::Webhook, "change", reason);
    let Some(object) = read(client, Installed::Webhook).await? else {
        return Err(failed(
            "it is not there; put it back with `holdfast serve --install`, or apply what `holdfast manifests` \
             prints, and run this again"
                .to_owned(),
        ));
    };
    let config = &object["webhooks"][0]["clientConfig"];
    let url = address(config).unwrap_or_default();
    let webhook = manifests::webhook(&url, &config["caBundle"], Intercept::All).body;
    let version = &object["metadata"]["resourceVersion"];
    let patch = json!({
        "metadata": {
            "annotations": {GIVING_BACK: giving_back.then_some("true")},
            "resourceVersion": version,
        },
        "webhooks": webhook["webhooks"],
    });
    let path = format!("{}?fieldManager={NAME}", Installed::Webhook.path());
    let answer = client.patch(&path, MERGE_PATCH, &patch).await;
    let answer = answer.map_err(|NoAnswer(why)| failed(why))?;
    if answer.code.is_success() { Ok(()) } else { Err(failed(answer.message())) }
}

/// Makes the built-in storage equal to Holdfast's, except for budgets that users have written there since.
/// Also returns how many built-in budgets without a copy were kept, because the copy may be missing by
/// accident.
async fn equalise(client: &ApiClient) -> Result<(Changes, usize), Error> {
    let failed = |reason: &str| Error::Refused {
        action: "make the built-in budgets equal".to_owned(),
        reason: reason.to_owned(),
    };
    let made = |object: &Value| {
        object["metadata"]["creationTimestamp"].as_str()?.parse::<Timestamp>().ok()
    };
    let Some(given_back) = Standing::read(client).await?.made() else {
        return Err(failed("apiservice/v1.policy does not say when it was made"));
    };
    let (built_in, _) = Storage::BuiltIn.list(client).await?;
    let (ours, _) = Storage::Ours.list(client).await?;
    // While the webhook exists, no run has deleted Holdfast's budgets.
    let Some(webhook) = read(client, Installed::Webhook).await? else {
        return Err(failed("another uninstallation is ahead of this one"));
    };
    let definition = read(client, Installed::Crd).await?.as_ref().and_then(made);
    let is_whole = definition.is_some() && definition <= made(&webhook);
    let is_newer = |budget: &Value| is_written_since(budget, given_back);
    let is_going = |budget: &Value| !budget["metadata"]["deletionTimestamp"].is_null();
    let mut steps = Vec::new();
    for (key, own) in ours.iter().filter(|(_, own)| !is_going(own)) {
        let own = without_scope(own);
        match built_in.get(key) {
            None => steps.push(Step::Create(own)),
            Some(built_in) if is_newer(built_in) || import::is_same(&own, built_in) => {}
            Some(built_in) => steps.push(Step::Update(own, built_in.clone())),
        }
    }
    let is_probe = |(namespace, name): &import::Key| namespace == SYSTEM_NAMESPACE && name == PROBE;
    let (gone, kept): (Vec<_>, Vec<_>) = built_in
        .iter()
        .filter(|(key, budget)| !ours.contains_key(*key) && (is_probe(key) || !is_newer(budget)))
        .partition(|(key, _)| is_whole || is_probe(key));
    steps.extend(gone.into_iter().map(|(_, budget)| Step::Delete(budget.clone())));
    Ok((import::carry_out(client, Storage::BuiltIn, steps).await?, kept.len()))
}

/// Returns true if a user has written the budget since then. The resource version does not show this, because
/// the controller of Kubernetes also writes statuses.
fn is_written_since(budget: &Value, time: Timestamp) -> bool {
    let Some(entries) = budget["metadata"]["managedFields"].as_array() else { return false };
    let mut times = (entries.iter())
        .filter(|entry| entry["subresource"].is_null())
        .filter_map(|entry| entry["time"].as_str()?.parse::<Timestamp>().ok());
    times.any(|written| written >= time)
}

fn without_scope(budget: &Value) -> Value {
    let mut budget = budget.clone();
    if let Some(spec) = budget["spec"].as_object_mut() {
        spec.remove("budgetScope");
    }
    budget
}

/// Waits for the controller. Before this the webhook decides, and after it the built-in budgets can decide.
async fn await_controller(client: &ApiClient) -> Result<(), Error> {
    match Storage::BuiltIn.await_observed(client, CAUGHT_UP).await? {
        0 => Ok(()),
        behind => Err(Error::Refused {
            action: "give policy/v1 back".to_owned(),
            reason: format!(
                "kube-controller-manager's disruption-controller has not seen {behind} budgets after \
                 {} s; the webhook goes on deciding, and `holdfast uninstall` can be run again",
                CAUGHT_UP.as_secs()
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_that_the_controller_writes_makes_no_budget_newer() {
        let since = "2026-01-01T00:01:00Z".parse().unwrap();
        let budget = |main: &str, status: &str| {
            json!({"metadata": {"resourceVersion": "99", "managedFields": [
                {"manager": "kubectl", "operation": "Update", "time": main},
                {"manager": "kube-controller-manager", "subresource": "status", "time": status},
            ]}})
        };
        let (before, after) = ("2026-01-01T00:00:59Z", "2026-01-01T00:01:00Z");
        assert!(!is_written_since(&budget(before, before), since));
        assert!(!is_written_since(&budget(before, after), since));
        assert!(is_written_since(&budget(after, before), since));
        assert!(!is_written_since(&json!({"metadata": {}}), since));
    }
}
