//! Removes the installed objects. It can be repeated.

use std::cell::RefCell;

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
use super::{BEING_DELETED, MANAGED_BY, NAME, PART_OF, Turn, in_turn, read, refused, still_there};
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
    /// Also delete the CRDs if there are budgets. This deletes all of these budgets.
    pub delete_budgets: bool,
    /// Continue even if budgets lose their protection.
    pub allow_loss: bool,
}

impl UninstallOptions {
    /// Returns true if the user has accepted these losses.
    pub fn allow(&self, losses: &[Loss]) -> bool {
        self.allow_loss || losses.iter().all(Loss::is_asked_for)
    }
}

/// The result for one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// A budget loses its protection. Reported before anything changes.
    Loses(Loss),
    Removed(String),
    NotThere(String),
    Kept {
        object: String,
        why: String,
    },
    /// A step that takes some time.
    Progress(String),
}

/// The webhooks come first: after that nothing depends on Holdfast. The CRDs, if they are deleted, and
/// [`LAST`] come after these.
const ORDER: [Installed; 14] = [
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
];

/// The next installation begins with the namespace, and waits until it is gone. A namespace that the
/// installer has not created lacks the label and is kept.
const LAST: [Installed; 2] = [Installed::Lease, Installed::Namespace];

const COUNTS_MAX: usize = 5;

/// Returns the losses that an uninstallation with the same options would cause. It changes nothing.
pub async fn losses(options: &UninstallOptions) -> Result<Vec<Loss>, Error> {
    let (client, _) = connect(&options.cluster).await?;
    loss::find(&client, options.delete_budgets).await
}

/// Calls `tell` for each object when it is done, so that an interrupted run shows what is left.
pub async fn uninstall(
    options: &UninstallOptions,
    tell: impl FnMut(&Removal),
) -> Result<(), Error> {
    let (client, _) = connect(&options.cluster).await?;
    uninstall_from(&client, options, tell).await
}

async fn uninstall_from(
    client: &ApiClient,
    options: &UninstallOptions,
    tell: impl FnMut(&Removal),
) -> Result<(), Error> {
    let tell = RefCell::new(tell);
    let mut telling = |removal: &Removal| tell.borrow_mut()(removal);
    loop {
        // An installation begins with the namespace. Without a namespace, no installation is in progress.
        if found(client, Installed::Namespace).await?.is_some() {
            let waiting = |why: &str| tell.borrow_mut()(&Removal::Progress(why.to_owned()));
            let work = async |_: &Turn| {
                let namespace = found(client, Installed::Namespace).await?;
                let place = Place(namespace.map(|namespace| uid(&namespace).clone()));
                take_back(client, options, &place, &mut telling).await
            };
            if in_turn(client, waiting, work).await?.is_some() {
                return drop_turn(client).await;
            }
        }
        match take_back(client, options, &Place(None), &mut telling).await {
            Err(_) if found(client, Installed::Namespace).await?.is_some() => {
                let why = "somebody installs Holdfast meanwhile: beginning anew, in turn";
                telling(&Removal::Progress(why.to_owned()));
            }
            outcome => return outcome,
        }
    }
}

/// The namespace of the Lease, by its uid. None: there is no namespace, and a new one would belong to a new
/// installation.
struct Place(Option<Value>);

impl Place {
    /// Removes an object, unless a new installation has begun.
    async fn remove(
        &self,
        client: &ApiClient,
        kind: Installed,
        what_else: String,
    ) -> Result<Removal, Error> {
        let namespace = found(client, Installed::Namespace).await?;
        if namespace.is_none_or(|now| self.0.as_ref() == Some(uid(&now))) {
            return remove(client, kind, what_else).await;
        }
        let why = "somebody installs Holdfast meanwhile; run it again".to_owned();
        Err(refused(kind, "delete", why))
    }
}

/// Deletes the Lease, for a namespace that is kept. It does not delete the Lease if another process holds it.
async fn drop_turn(client: &ApiClient) -> Result<(), Error> {
    let kind = Installed::TurnLease;
    let Some(lease) = read(client, kind).await? else { return Ok(()) };
    if lease["spec"]["holderIdentity"].as_str().is_some_and(|holder| !holder.is_empty()) {
        return Ok(());
    }
    let as_seen = json!({"resourceVersion": lease["metadata"]["resourceVersion"]});
    let answer = client.delete_only(&kind.path(), as_seen).await;
    let answer = answer.map_err(|NoAnswer(why)| refused(kind, "delete", why))?;
    match answer.code {
        StatusCode::OK | StatusCode::NOT_FOUND | StatusCode::CONFLICT => Ok(()),
        _ => Err(refused(kind, "delete", answer.message())),
    }
}

async fn take_back(
    client: &ApiClient,
    options: &UninstallOptions,
    place: &Place,
    tell: &mut impl FnMut(&Removal),
) -> Result<(), Error> {
    let losses = loss::find(client, options.delete_budgets).await?;
    if !options.allow(&losses) {
        return Err(Error::Losses(
            losses.into_iter().filter(|loss| !loss.is_asked_for()).collect(),
        ));
    }
    for loss in losses {
        tell(&Removal::Loses(loss));
    }
    let native = give_back::was_native(client).await?;
    give_back::give_back(client, |step| tell(&Removal::Progress(step))).await?;
    if native {
        give_back::mark_copies(client).await?;
    }
    // Count the budgets first, while there is a right to count them.
    let count = if native { Some(0) } else { count(client, &budget_resource()).await };
    let unavailable = stop_conversion(client).await?;
    let unavailable_count = match unavailable {
        Definition::Ours => count_unavailable(client).await,
        Definition::GivenBack | Definition::NotOurs => None,
    };
    let gangs = found(client, Installed::PodGroupCrd).await?.is_some();
    for kind in ORDER {
        tell(&place.remove(client, kind, String::new()).await?);
        if gangs && kind == Installed::Placing {
            // Release the pods before anything can fail for lack of rights: they must not wait for ever.
            release_gangs(client, tell).await?;
        }
        if native && kind == Installed::Webhook {
            let copies = give_back::drop_budgets(client).await?;
            tell(&Removal::Removed(format!("{copies} copies of what are built-in budgets now")));
        }
    }
    if gangs {
        // Release them again: now no instance has the right to add gates.
        release_gangs(client, tell).await?;
    }
    // An instance that started in between may have set up conversion.
    let unavailable = match stop_conversion(client).await? {
        Definition::NotOurs => unavailable,
        again => again,
    };
    let delete = options.delete_budgets;
    // Without budgets the deletion loses nothing.
    let is_free = delete || count == Some(0);
    tell(&remove_crd(client, place, Installed::Crd, &budgets(count), is_free).await?);
    let kind = Installed::UnavailableCrd;
    tell(&match unavailable {
        Definition::Ours => {
            let is_free = delete || unavailable_count == Some(0);
            remove_crd(client, place, kind, &budgets(unavailable_count), is_free).await?
        }
        // The user did not ask to delete the objects of another program.
        Definition::GivenBack => {
            let why = "it was there before Holdfast".to_owned();
            Removal::Kept { object: kind.title(), why }
        }
        // This reports that the definition is not Holdfast's, or that it does not exist.
        Definition::NotOurs => place.remove(client, kind, String::new()).await?,
    });
    for (kind, plural) in
        [(Installed::PodGroupCrd, "podgroups"), (Installed::WorkloadCrd, "workloads")]
    {
        // Groups that Holdfast created do not count.
        let others = format!("{}?labelSelector={MANAGED_BY}%21%3D{NAME}&", own(plural).path());
        let count = match found(client, kind).await? {
            Some(_) => count_patiently(client, &others).await,
            None => None,
        };
        let others = count.map_or("all".to_owned(), |count| count.to_string());
        let objects = format!("{others} {plural} that others made");
        let is_free = delete || count == Some(0);
        tell(&remove_crd(client, place, kind, &objects, is_free).await?);
    }
    for kind in LAST {
        tell(&place.remove(client, kind, String::new()).await?);
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

/// Releases pods and groups, and reports how many there were.
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
    place: &Place,
    kind: Installed,
    objects: &str,
    delete: bool,
) -> Result<Removal, Error> {
    if delete {
        let removal = place.remove(client, kind, format!(" with {objects}")).await?;
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

/// The definition of `PodUnavailableBudgets`.
enum Definition {
    Ours,
    /// Holdfast had taken it over. It now belongs to its previous owner again.
    GivenBack,
    NotOurs,
}

/// Turns conversion off, because no instance will run. Budgets then have the same fields in both versions,
/// except those that one version has in annotations.
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
        // The definition was terminating.
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
    let Some(object) = found(client, kind).await? else { return Ok(Removal::NotThere(title)) };
    // Only Holdfast uses the domain of its CRD. Other objects named "holdfast" may be of another program.
    if !kind.is_in_our_domain() && !is_ours(&object) {
        let why = format!("not ours: it lacks the label {PART_OF}={NAME}");
        return Ok(Removal::Kept { object: title, why });
    }
    let failed = |reason| Error::Refused { action: format!("delete {title}"), reason };
    // Another object of that name may have been created since.
    let answer = client.delete_only(&kind.path(), json!({"uid": uid(&object)})).await;
    let answer = answer.map_err(|NoAnswer(why)| failed(why))?;
    match answer.code {
        code if code.is_success() => Ok(Removal::Removed(format!("{title}{what_else}"))),
        StatusCode::NOT_FOUND => Ok(Removal::NotThere(title)),
        _ => Err(failed(answer.message())),
    }
}

fn uid(object: &Value) -> &Value {
    &object["metadata"]["uid"]
}

/// Returns None if there is no such object.
async fn found(client: &ApiClient, kind: Installed) -> Result<Option<Value>, Error> {
    // A namespace takes seconds to terminate. An earlier run has deleted it.
    let is_going = |object: &Value| {
        kind == Installed::Namespace && !object["metadata"]["deletionTimestamp"].is_null()
    };
    Ok(read(client, kind).await?.filter(|object| !is_going(object)))
}

async fn wait_until_gone(client: &ApiClient, kind: Installed) -> Result<(), Error> {
    let deadline = Instant::now() + BEING_DELETED;
    let mut backoff = Backoff::new();
    while found(client, kind).await?.is_some() {
        if Instant::now() > deadline {
            return Err(still_there(kind, "delete"));
        }
        backoff.pause().await;
    }
    Ok(())
}

fn budget_resource() -> Resource {
    Resource::fixed(budget::GROUP, budget::VERSION, budget::PLURAL)
}

/// Counts the budgets. API servers may still ask for conversion for a short time.
async fn count_unavailable(client: &ApiClient) -> Option<usize> {
    let resource = Resource::fixed(unavailable::GROUP, unavailable::VERSION, unavailable::PLURAL);
    count_patiently(client, &format!("{}?", resource.path())).await
}

/// Counts objects of kinds whose definition or conversion has just changed.
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

/// Returns None if the count fails. An earlier run may have removed the right to count.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::fake::{Cluster, Fake, Who, base, registration};
    use super::super::manifests::{Intercept, labels};
    use super::*;
    use crate::connect::Identity;

    /// Objects that exist together or not at all.
    const PARTS: [Installed; 5] = [
        Installed::Webhook,
        Installed::FlowSchema,
        Installed::PriorityLevel,
        Installed::ClusterRole,
        Installed::Crd,
    ];

    fn options() -> UninstallOptions {
        UninstallOptions { delete_budgets: true, ..UninstallOptions::default() }
    }

    async fn install(client: &ApiClient) -> Result<(), Error> {
        let identity = Identity::User("holdfast".to_owned());
        base(false).apply(client, &identity, ("127.0.0.1", 9443)).await?;
        // Wait until the caches are complete.
        tokio::time::sleep(Duration::from_millis(300)).await;
        registration(client.clone(), Intercept::Outside).install().await
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_comes_first_there_is_all_or_nothing() {
        let (mut whole, mut nothing) = (0, 0);
        // With one or two processes at once. A namespace of another program stays.
        for (labels, two) in [(labels(), false), (labels(), true), (Value::Null, false)] {
            for pause in (1000..5000).step_by(250).map(Duration::from_millis) {
                let fake = Fake::new();
                fake.lock().put_namespace(&labels);
                let (admin, installer) = (fake.client(Who::Admin), fake.client(Who::Installer));
                install(&installer).await.unwrap();
                let uninstalling = async |is: bool| {
                    tokio::time::sleep(Duration::from_secs(3)).await;
                    if is { uninstall_from(&admin, &options(), |_| {}).await } else { Ok(()) }
                };
                let installing = async {
                    tokio::time::sleep(pause).await;
                    install(&installer).await
                };
                let (one, other, started) =
                    tokio::join!(uninstalling(true), uninstalling(two), installing);
                one.unwrap();
                other.unwrap();
                let cluster = fake.lock();
                let there = PARTS.map(|kind| cluster.has(kind));
                assert!(there.iter().all(|is| *is == there[0]), "{pause:?}: {there:?} {started:?}");
                whole += usize::from(there[0]);
                nothing += usize::from(!there[0]);
            }
        }
        assert!(whole > 0 && nothing > 0, "{whole} {nothing}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_instance_that_starts_meanwhile_does_not_leave_a_conversion_that_nobody_answers() {
        let fake = Fake::new();
        let admin = fake.client(Who::Admin);
        install(&admin).await.unwrap();
        let definition = Installed::UnavailableCrd.path();
        let by_us = json!({"conversion": {"strategy": "Webhook", "webhook": {}}});
        let object = json!({"metadata": {"labels": labels()}, "spec": by_us});
        fake.lock().put(&definition, object.clone());
        let (path, again) = (definition.clone(), object);
        let joined = move |cluster: &mut Cluster| *cluster.get(&path) = again;
        fake.before(&format!("DELETE {}", Installed::Webhook.path()), joined);
        let options = UninstallOptions { allow_loss: true, ..UninstallOptions::default() };
        uninstall_from(&admin, &options, |_| {}).await.unwrap();
        // There may be budgets of this kind, which could not be counted.
        assert_eq!(
            fake.lock().get(&definition)["spec"],
            json!({"conversion": {"strategy": "None"}})
        );
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_installs_where_no_namespace_was_is_waited_for() {
        for (before, kind) in
            [(Installed::Placing, Installed::FlowSchema), (Installed::ViewRole, Installed::Crd)]
        {
            let fake = Fake::new();
            // The remains of an earlier run.
            for kind in [Installed::FlowSchema, Installed::Crd] {
                fake.lock().put(&kind.path(), json!({"metadata": {"labels": labels()}}));
            }
            let began = |cluster: &mut Cluster| {
                cluster.put_namespace(&labels());
                cluster.hold_turn("another");
            };
            fake.before(&format!("GET {}", before.path()), began);
            let mut told = Vec::new();
            let tell = |removal: &Removal| told.push(removal.clone());
            let (admin, options) = (fake.client(Who::Admin), options());
            let uninstalling = uninstall_from(&admin, &options, tell);
            let installing = async {
                tokio::time::sleep(Duration::from_secs(5)).await;
                assert!(fake.lock().has(kind), "{} may be theirs", kind.title());
                fake.lock().hold_turn("");
            };
            let (outcome, ()) = tokio::join!(uninstalling, installing);
            outcome.unwrap();
            assert!(!fake.lock().has(kind));
            let waiting = "waiting: another installs or uninstalls (lease/holdfast-installation)";
            assert!(told.contains(&Removal::Progress(waiting.to_owned())), "{told:#?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_that_was_made_anew_is_not_ours_to_delete() {
        let fake = Fake::new();
        fake.lock().put_namespace(&labels());
        fake.before(&format!("DELETE {}", Installed::Namespace.path()), |cluster| {
            cluster.remove(Installed::Namespace);
            cluster.put_namespace(&labels());
        });
        let error = uninstall_from(&fake.client(Who::Admin), &options(), |_| {}).await.unwrap_err();
        assert!(error.to_string().contains("delete namespace/holdfast-system"), "{error}");
        let namespace = fake.lock().get(&Installed::Namespace.path()).take();
        assert!(namespace["metadata"]["deletionTimestamp"].is_null(), "{namespace}");
    }
}
