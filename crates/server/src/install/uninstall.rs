//! Taking back what was installed. Safe to repeat.

use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::loss::{self, Loss};
use super::manifests::Installed;
use super::native::give_back;
use super::registration::is_ours;
use super::release::release;
use super::unavailable::{MANAGED_BEFORE, TAKEN_OVER};
use super::{MANAGED_BY, NAME, PART_OF, read, refused};
use crate::api_client::{ApiClient, MERGE_PATCH, NoAnswer};
use crate::connect::{ClusterOptions, connect};
use crate::discovery::Resource;
use crate::error::Error;
use crate::gang::act::own;
use crate::watch::Backoff;
use holdfast_api::{budget, unavailable};

#[derive(Clone, Debug, Default)]
pub struct UninstallOptions {
    pub cluster: ClusterOptions,
    /// Also delete the CRDs if there are budgets, and with them every one of those.
    pub delete_budgets: bool,
    /// Go on although budgets lose what they protect.
    pub allow_loss: bool,
}

/// What became of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Before anything changes.
    Loses(Loss),
    Removed(String),
    NotThere(String),
    Kept {
        object: String,
        why: String,
    },
    /// Not about an object: a step that takes a while.
    Progress(String),
}

/// The webhooks first: from then on nothing depends on us. The CRDs last, if at all.
const ORDER: [Installed; 16] = [
    Installed::Webhook,
    Installed::Guard,
    Installed::Asking,
    Installed::Placing,
    Installed::FlowSchema,
    Installed::PriorityLevel,
    Installed::Service,
    Installed::AuthenticationReader,
    Installed::RoleBinding,
    Installed::Role,
    Installed::ClusterRoleBinding,
    Installed::ClusterRole,
    Installed::EditRole,
    Installed::ViewRole,
    Installed::Lease,
    // Made by the installer or else kept: it lacks the label.
    Installed::Namespace,
];

/// Budgets with finalizers, and many of them, take a while.
const CRD_GONE: Duration = Duration::from_secs(30);

const COUNTS_MAX: usize = 5;

/// What the same options would take from budgets; nothing is changed.
pub async fn losses(options: &UninstallOptions) -> Result<Vec<Loss>, Error> {
    let (client, _) = connect(&options.cluster).await?;
    loss::find(&client, options.delete_budgets).await
}

/// Calls `tell` for each object as it goes, so that a failure half way shows what is left.
pub async fn uninstall(
    options: &UninstallOptions,
    mut tell: impl FnMut(&Removal),
) -> Result<(), Error> {
    let (client, _) = connect(&options.cluster).await?;
    let losses = loss::find(&client, options.delete_budgets).await?;
    if !options.allow_loss && !losses.iter().all(Loss::is_asked_for) {
        return Err(Error::Losses(
            losses.into_iter().filter(|loss| !loss.is_asked_for()).collect(),
        ));
    }
    for loss in losses {
        tell(&Removal::Loses(loss));
    }
    let native = give_back::was_native(&client).await?;
    give_back::give_back(&client, |step| tell(&Removal::Progress(step))).await?;
    if native {
        give_back::mark_copies(&client).await?;
    }
    // Counted first, while we still have the right to.
    let count = if native { Some(0) } else { count(&client, &budget_resource()).await };
    let unavailable = stop_conversion(&client).await?;
    let unavailable_count = match unavailable {
        Definition::Ours => count_unavailable(&client).await,
        Definition::GivenBack | Definition::NotOurs => None,
    };
    let gangs = found(&client, Installed::PodGroupCrd).await?.is_some();
    for kind in ORDER {
        tell(&remove(&client, kind, String::new()).await?);
        if gangs && kind == Installed::Placing {
            // Before anything can fail for want of rights: they must not be held for ever.
            release_gangs(&client, &mut tell).await?;
        }
        if native && kind == Installed::Webhook {
            let copies = give_back::drop_budgets(&client).await?;
            tell(&Removal::Removed(format!("{copies} copies of what are built-in budgets now")));
        }
    }
    if gangs {
        // And now that nobody has the right to hold them again.
        release_gangs(&client, &mut tell).await?;
    }
    let delete = options.delete_budgets;
    // Without budgets there is nothing that deleting it could lose.
    tell(&remove_crd(&client, Installed::Crd, &budgets(count), delete || count == Some(0)).await?);
    let kind = Installed::UnavailableCrd;
    tell(&match unavailable {
        Definition::Ours => {
            let delete = delete || unavailable_count == Some(0);
            remove_crd(&client, kind, &budgets(unavailable_count), delete).await?
        }
        // Nobody asked us to delete what others have made.
        Definition::GivenBack => {
            let why = "it was there before Holdfast".to_owned();
            Removal::Kept { object: kind.title(), why }
        }
        // Says that it is not ours, or not there.
        Definition::NotOurs => remove(&client, kind, String::new()).await?,
    });
    for (kind, plural) in
        [(Installed::PodGroupCrd, "podgroups"), (Installed::WorkloadCrd, "workloads")]
    {
        // Those that we made are nobody's loss.
        let others = format!("{}?labelSelector={MANAGED_BY}%21%3D{NAME}&", own(plural).path());
        let count = match found(&client, kind).await? {
            Some(_) => count_patiently(&client, &others).await,
            None => None,
        };
        let others = count.map_or("all".to_owned(), |count| count.to_string());
        let objects = format!("{others} {plural} that others made");
        tell(&remove_crd(&client, kind, &objects, delete || count == Some(0)).await?);
    }
    Ok(())
}

fn budgets(count: Option<usize>) -> String {
    match count {
        None => "all budgets (they could not be counted)".to_owned(),
        Some(1) => "1 budget".to_owned(),
        Some(n) => format!("{n} budgets"),
    }
}

/// Says what was held, if anything was.
async fn release_gangs(client: &ApiClient, tell: &mut impl FnMut(&Removal)) -> Result<(), Error> {
    let (pods, groups) = release(client).await?;
    if pods + groups > 0 {
        let step = format!("let go of {pods} pods that waited for their gang");
        tell(&Removal::Progress(format!("{step}, and of {groups} PodGroups")));
    }
    Ok(())
}

async fn remove_crd(
    client: &ApiClient,
    kind: Installed,
    objects: &str,
    delete: bool,
) -> Result<Removal, Error> {
    if delete {
        let removal = remove(client, kind, format!(" with {objects}")).await?;
        if matches!(removal, Removal::Removed(_)) {
            wait_until_gone(client, kind).await?;
        }
        return Ok(removal);
    }
    let object = kind.title();
    Ok(match found(client, kind).await? {
        None => Removal::NotThere(object),
        Some(_) => Removal::Kept { object, why: format!("deleting it deletes {objects}") },
    })
}

/// Of `PodUnavailableBudgets`.
enum Definition {
    Ours,
    /// It was taken over, and is whoever's it was before.
    GivenBack,
    NotOurs,
}

/// Nobody converts when we are gone. Budgets are then the same in both versions, but for what one of them
/// keeps in annotations.
async fn stop_conversion(client: &ApiClient) -> Result<Definition, Error> {
    let kind = Installed::UnavailableCrd;
    let failed = |reason| refused(kind, "change", reason);
    let Some(object) = read(client, kind).await?.filter(is_ours) else {
        return Ok(Definition::NotOurs);
    };
    let mut patch = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
    let annotations = &object["metadata"]["annotations"];
    let taken_over = !annotations[TAKEN_OVER].is_null();
    if taken_over {
        patch["metadata"] = json!({
            "labels": {
                MANAGED_BY: annotations[MANAGED_BEFORE],
                "app.kubernetes.io/name": null,
                "app.kubernetes.io/part-of": null,
            },
            "annotations": {TAKEN_OVER: null, MANAGED_BEFORE: null},
        });
    }
    let answer = client.patch(&kind.path(), MERGE_PATCH, &patch).await;
    let answer = answer.map_err(|NoAnswer(why)| failed(why))?;
    if answer.code == StatusCode::NOT_FOUND {
        // It was on its way out.
        return Ok(Definition::NotOurs);
    }
    if !answer.code.is_success() {
        return Err(failed(answer.message()));
    }
    Ok(if taken_over { Definition::GivenBack } else { Definition::Ours })
}

pub(super) async fn remove(
    client: &ApiClient,
    kind: Installed,
    what_else: String,
) -> Result<Removal, Error> {
    let title = kind.title();
    match found(client, kind).await? {
        None => return Ok(Removal::NotThere(title)),
        // The CRD's name is in our own domain; others could have chosen "holdfast" before us.
        Some(object) if !kind.is_in_our_domain() && !is_ours(&object) => {
            let why = format!("not ours: it lacks the label {PART_OF}={NAME}");
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

/// None: there is no such object.
async fn found(client: &ApiClient, kind: Installed) -> Result<Option<Value>, Error> {
    // A namespace takes seconds to go; an earlier run has seen to it.
    let is_going = |object: &Value| {
        kind == Installed::Namespace && !object["metadata"]["deletionTimestamp"].is_null()
    };
    Ok(read(client, kind).await?.filter(|object| !is_going(object)))
}

async fn wait_until_gone(client: &ApiClient, kind: Installed) -> Result<(), Error> {
    let deadline = Instant::now() + CRD_GONE;
    let mut backoff = Backoff::new();
    while found(client, kind).await?.is_some() {
        if Instant::now() > deadline {
            return Err(Error::Refused {
                action: format!("delete {}", kind.title()),
                reason: format!(
                    "still being deleted after {} s; do its objects carry finalizers?",
                    CRD_GONE.as_secs()
                ),
            });
        }
        backoff.pause().await;
    }
    Ok(())
}

fn budget_resource() -> Resource {
    Resource::fixed(budget::GROUP, budget::VERSION, budget::PLURAL)
}

/// API servers may go on asking us for conversion for a moment.
async fn count_unavailable(client: &ApiClient) -> Option<usize> {
    let resource = Resource::fixed(unavailable::GROUP, unavailable::VERSION, unavailable::PLURAL);
    count_patiently(client, &format!("{}?", resource.path())).await
}

/// Of kinds that were defined, or whose conversion was changed, a moment ago.
async fn count_patiently(client: &ApiClient, path: &str) -> Option<usize> {
    let mut backoff = Backoff::new();
    for _ in 1..COUNTS_MAX {
        if let Some(count) = count_at(client, path).await {
            return Some(count);
        }
        backoff.pause().await;
    }
    count_at(client, path).await
}

async fn count(client: &ApiClient, resource: &Resource) -> Option<usize> {
    count_at(client, &format!("{}?", resource.path())).await
}

/// None: the right to count them may have gone with an earlier run.
async fn count_at(client: &ApiClient, path: &str) -> Option<usize> {
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
    let counted = match client.list(&format!("{path}limit=500")).await {
        Ok(answer) if answer.code == StatusCode::OK => answer.json::<List>().ok(),
        Ok(_) | Err(_) => None,
    };
    counted.map(|list| list.items.len() + list.metadata.remaining_item_count)
}
