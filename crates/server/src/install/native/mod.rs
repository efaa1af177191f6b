//! Takes over `policy/v1`, and gives it back.
//!
//! ```text
//! install:    copy budgets -> webhook on, for all evictions -> copy the changes -> `APIService` to Holdfast
//!             -> verify -> write each budget once
//!             ... an hour later, when every watch has been reopened: write each budget once more
//! uninstall:  webhook on, for all evictions -> `APIService` back -> built-in budgets equal to Holdfast's
//!             -> the controller of Kubernetes has seen them -> webhook off
//! ```
//!
//! The process may end at every arrow. Evictions are then decided as before, or refused because the webhook does not
//! answer. The same command continues from the present state.

pub mod api_service;
mod follow;
pub mod give_back;
pub mod import;
mod preflight;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::sync::watch;

use super::entry::Entry;
use super::manifests::{self, Installed, Intercept};
use super::registration::{Registration, State};
use super::turn::{in_turn, warn};
use super::{MANAGED_BY, NAME, SYSTEM_NAMESPACE, Turn, apply_one, installing, refused};
use crate::api_client::{ApiClient, NoAnswer};
use crate::connect::Identity;
use crate::error::Error;
use api_service::{Place, Standing};
use follow::Follower;
use import::{SERVED_NOW, Storage};

/// The time for API servers to notice a changed webhook. They watch.
const NOTICE: Duration = Duration::from_secs(1);

/// The time for writes that an API server accepted just before it noticed that `policy/v1` is Holdfast's.
const LATE_WRITES: Duration = Duration::from_secs(2);

/// The time for the statuses of newly copied budgets.
const STATUSES: Duration = Duration::from_mins(1);

/// A watch is open for at most an hour (twice `--min-request-timeout`).
const WATCHES_RESUMED: SignedDuration = SignedDuration::from_mins(65);

/// How often to check the `APIService`. After it is given back, watches through Holdfast end within this
/// time, and the controller of Kubernetes sees the built-in budgets again.
const LOOK: Duration = Duration::from_secs(5);

/// The webhook configuration from before the takeover, if there was one.
#[derive(Clone, Debug)]
struct Before(Option<Value>);

/// The work of an instance in native mode besides serving.
#[derive(Clone, Debug)]
pub struct Takeover {
    pub client: ApiClient,
    pub registration: Registration,
    pub place: Place,
    /// Whether `policy/v1` is Holdfast's, for watches through Holdfast.
    pub serves: Arc<watch::Sender<bool>>,
}

/// Refuses webhook mode beside native mode. Webhook mode would change the webhook and leave out namespaces
/// that native mode protects.
pub async fn refuse_beside(client: &ApiClient) -> Result<(), Error> {
    // If the right to read it is missing, the check of rights reports that.
    if Standing::read(client).await.is_ok_and(|standing| standing.is_ours()) {
        return Err(Error::Obstacles(vec![
            "policy/v1 is served by Holdfast in native mode: start it with --mode native, or leave native \
             mode with `holdfast uninstall` first"
                .to_owned(),
        ]));
    }
    if give_back::is_under_way(client).await.unwrap_or(false) {
        return Err(half_uninstalled());
    }
    Ok(())
}

/// Refuses to continue on a half-uninstalled native mode: the remaining budgets would look like users'
/// budgets.
fn half_uninstalled() -> Error {
    Error::Obstacles(vec![
        "an uninstallation is under way; finish it with `holdfast uninstall`".to_owned(),
    ])
}

/// Applies the objects that only native mode needs, before the check of rights.
pub async fn apply(
    client: &ApiClient,
    identity: &Identity,
    host: &str,
    port: u16,
) -> Result<(), Error> {
    apply_one(client, &manifests::native(identity)).await?;
    // Another Service exists, for example that of the chart. It already has Holdfast's address.
    if let Some((_, false)) = service_port(client).await? {
        return Ok(());
    }
    // A Service of this type needs a name, not an address.
    let is_loopback = host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    let host = if is_loopback { "localhost" } else { host };
    apply_one(client, &manifests::service(host, port)).await
}

/// Returns the port of the existing Service, and whether Holdfast created the Service.
pub async fn service_port(client: &ApiClient) -> Result<Option<(u16, bool)>, Error> {
    let failed = |reason| refused(Installed::Service, "read", reason);
    let answer = client.get(&Installed::Service.path()).await;
    let answer = answer.map_err(|NoAnswer(reason)| failed(reason))?;
    match answer.code {
        StatusCode::OK => {
            let service: serde_json::Value = answer.json().map_err(|e| failed(e.to_string()))?;
            let port = service["spec"]["ports"][0]["port"].as_u64();
            let port = port.and_then(|port| u16::try_from(port).ok()).unwrap_or_default();
            // Do not change the address of a Service that selects pods.
            let made = service["metadata"]["labels"][MANAGED_BY] == NAME
                && service["spec"]["type"] == "ExternalName";
            Ok(Some((port, made)))
        }
        StatusCode::NOT_FOUND => Ok(None),
        _ => Err(failed(answer.message())),
    }
}

impl Takeover {
    pub async fn standing(&self) -> Result<Standing, Error> {
        Standing::read(&self.client).await
    }

    /// Joins a running native mode, before this instance is ready itself.
    pub async fn join(&self, install: bool) -> Result<(), Error> {
        self.registration.enter(install).await?;
        if api_service::keep(&self.client, &self.place).await? {
            return Ok(());
        }
        Err(Error::Obstacles(vec!["policy/v1 was given back while we started".to_owned()]))
    }

    /// Refuses before anything is changed.
    pub async fn preflight(&self, accept_bypass: bool) -> Result<(), Error> {
        self.refuse_to_meet_an_uninstallation().await?;
        preflight::check(&self.client, &self.standing().await?, accept_bypass).await
    }

    async fn refuse_to_meet_an_uninstallation(&self) -> Result<(), Error> {
        if give_back::is_under_way(&self.client).await? { Err(half_uninstalled()) } else { Ok(()) }
    }

    /// Takes over, unless another instance was faster. The caches are complete, so every eviction can be
    /// decided.
    pub async fn install(&self) -> Result<(), Error> {
        let (client, base) = (self.client.clone(), self.registration.base.clone());
        let mut begun = None;
        let outcome = installing(&client, &base, async |turn| {
            let standing = self.standing().await?;
            if standing.is_ours() {
                self.join(false).await?;
                return self.complete().await;
            }
            self.refuse_to_meet_an_uninstallation().await?;
            preflight::check_again(&self.client, &standing).await?;
            self.take_over(turn, &mut begun).await
        })
        .await;
        match (outcome, begun) {
            // The Lease was lost in the middle, and its new holder may be taking over. What to undo is
            // decided when this instance has the Lease again.
            (Err(error), Some(before)) => {
                let lost = error.to_string();
                let work = async |_: &Turn| Ok(self.withdraw(error, before).await);
                match in_turn(&client, warn, work).await {
                    Ok(Some(error)) => Err(error),
                    Ok(None) => Err(Error::Obstacles(vec![lost])),
                    Err(why) => Err(Error::Obstacles(vec![format!(
                        "{lost}; to undo it failed, too ({why})"
                    )])),
                }
            }
            (outcome, _) => outcome,
        }
    }

    /// Takes over. `begun` gets what has to be undone.
    async fn take_over(&self, turn: &Turn, begun: &mut Option<Before>) -> Result<(), Error> {
        let (follower, changes) = Follower::start(self.client.clone()).await?;
        tracing::info!(
            created = changes.created,
            updated = changes.updated,
            deleted = changes.deleted,
            not_kept = import::NOT_KEPT,
            "copied the built-in budgets"
        );
        let before = begun.insert(Before(self.registration.before().await?)).clone();
        let taken = self.take_over_following(turn, follower).await;
        let outcome = match taken {
            Ok(()) => Ok(()),
            Err(error) => Err(self.withdraw(error, before).await),
        };
        *begun = None;
        outcome?;
        self.complete().await
    }

    /// Takes over while the copies follow their originals. Dropping the future stops them.
    async fn take_over_following(&self, turn: &Turn, follower: Follower) -> Result<(), Error> {
        self.registration.register(turn).await?;
        tokio::time::sleep(NOTICE).await;
        let (stop, stopped) = watch::channel(false);
        let following = tokio::spawn(follower.run(stopped));
        let taken = self.flip().await;
        tokio::time::sleep(LATE_WRITES).await;
        stop.send_replace(true);
        following.await.map_err(|e| Error::Internal(e.to_string()))?;
        taken
    }

    /// Undoes a failed installation if Holdfast has not served any request: the built-in budgets are still
    /// right then. Otherwise an unreachable address would leave API servers without `policy/v1` and without
    /// evictions.
    async fn withdraw(&self, error: Error, Before(before): Before) -> Error {
        let Ok(standing) = self.standing().await else { return error };
        // An uninstallation that runs since the Lease was lost does all of this.
        if give_back::is_under_way(&self.client).await.unwrap_or(false) {
            return error;
        }
        let ours = standing.is_ours();
        if ours && api_service::served_by_us(&self.client).await.is_ok() {
            return error;
        }
        let withdrawn = async {
            if ours {
                api_service::give_back(&self.client).await?;
                api_service::await_served(&self.client, false).await?;
            }
            self.registration.withdraw(before).await
        };
        let outcome = match withdrawn.await {
            Ok(()) => "everything is as it was".to_owned(),
            Err(why) => format!("to undo it failed, too ({why}): run `holdfast uninstall`"),
        };
        if !ours {
            return Error::Obstacles(vec![format!("{error}; {outcome}")]);
        }
        Error::Obstacles(vec![format!(
            "kube-apiserver does not reach us at {} (service/{NAME} in {SYSTEM_NAMESPACE}, port {}): \
             {error}; {outcome}. Does --advertise name an address that it reaches?",
            self.registration.url, self.place.port,
        )])
    }

    async fn flip(&self) -> Result<(), Error> {
        self.await_statuses().await?;
        api_service::take_over(&self.client, &self.place).await?;
        api_service::await_served(&self.client, true).await
    }

    /// Completes the takeover after `policy/v1` is Holdfast's. It can be repeated.
    pub async fn complete(&self) -> Result<(), Error> {
        api_service::await_served(&self.client, true).await?;
        let (budgets, _) = Storage::Ours.list(&self.client).await?;
        let unwritten = budgets.iter().filter(|(_, budget)| import::is_copy(budget));
        let unwritten: Vec<_> = unwritten.map(|(key, _)| key.clone()).collect();
        import::mark(&self.client, &unwritten, Some(SERVED_NOW)).await
    }

    /// Keeps the `APIService`, reports whether evictions are checked, and writes the copies the second time
    /// when it is due. Runs until the task is aborted.
    pub async fn keep(&self, found: impl Fn(bool)) {
        let mut written = false;
        loop {
            tokio::time::sleep(LOOK).await;
            let ours = match api_service::keep(&self.client, &self.place).await {
                Ok(ours) => {
                    let changed = self.serves.send_replace(ours) != ours;
                    if changed {
                        tell_of_hands(ours);
                    }
                    Some(ours)
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot look after the APIService");
                    None
                }
            };
            if let Err(error) = self.widen().await {
                tracing::warn!(%error, "cannot have the webhook asked about every eviction");
            }
            if let Some(asked) = self.is_asked(ours).await {
                found(asked);
            }
            if !written {
                written = self.write_again().await.unwrap_or_else(|error| {
                    tracing::warn!(%error, "cannot write the copied budgets for the second time");
                    false
                });
            }
        }
    }

    /// Returns true if no eviction passes without a check, at the gate or by the webhook. None: unknown.
    async fn is_asked(&self, ours: Option<bool>) -> Option<bool> {
        if ours == Some(true) {
            return ours;
        }
        let entry = Entry::Evictions(Intercept::All);
        let state = Registration { entry, ..self.registration.clone() }.state().await.ok()?;
        // An uninstallation removes all rights at once. So an instance that may look at neither has been
        // uninstalled.
        (ours.is_some() || state == State::Forbidden).then(|| state.is_asked())
    }

    /// Removes a condition that keeps evictions from the webhook. Releases up to 0.1 limited it to dry runs,
    /// and their instances may still run beside this one.
    async fn widen(&self) -> Result<(), Error> {
        if self.registration.conditions().await?.is_none_or(|count| count == 0) {
            return Ok(());
        }
        tracing::warn!("the webhook was not asked about every eviction; it is now");
        self.registration.join().await
    }

    /// Returns true if it is done.
    async fn write_again(&self) -> Result<bool, Error> {
        let standing = self.standing().await?;
        let since = standing.taken_over().unwrap_or_else(Timestamp::now);
        if Timestamp::now().duration_since(since) < WATCHES_RESUMED {
            return Ok(false);
        }
        let (budgets, _) = Storage::Ours.list(&self.client).await?;
        let marked = budgets.iter().filter(|(_, budget)| import::is_marked(budget));
        let marked: Vec<_> = marked.map(|(key, _)| key.clone()).collect();
        import::mark(&self.client, &marked, None).await?;
        if !marked.is_empty() {
            tracing::info!(budgets = marked.len(), "written again, for watches that have resumed");
        }
        Ok(true)
    }

    /// Waits until the status of every budget is computed, so that its first eviction is not denied
    /// needlessly.
    async fn await_statuses(&self) -> Result<(), Error> {
        match Storage::Ours.await_observed(&self.client, STATUSES).await? {
            0 => Ok(()),
            behind => Err(Error::Refused {
                action: "take over policy/v1".to_owned(),
                reason: format!("{behind} budgets have no status after {} s", STATUSES.as_secs()),
            }),
        }
    }
}

fn tell_of_hands(ours: bool) {
    if ours {
        tracing::info!("policy/v1 is ours again");
        return;
    }
    tracing::warn!(
        "policy/v1 was taken from us: if not by `holdfast uninstall`, the built-in budgets are out of date; the \
         webhook decides every eviction until apiservice/v1.policy is ours again"
    );
}

#[cfg(test)]
mod tests {
    use super::super::bundle::Trusted;
    use super::super::fake::{Fake, POLICY, Who, base, registration};
    use super::*;
    use serde_json::json;

    async fn takeover(fake: &Fake) -> Takeover {
        let client = fake.client(Who::Admin);
        let identity = Identity::User("holdfast".to_owned());
        base(true).apply(&client, &identity, ("127.0.0.1", 9443)).await.unwrap();
        let (trusted, serves) = (watch::channel(Trusted::default()).1, watch::channel(true).0);
        Takeover {
            registration: registration(client.clone(), Intercept::All),
            client,
            place: Place { port: 9443, trusted },
            serves: Arc::new(serves),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_is_lost_half_way_leaves_everything_as_it_was() {
        let fake = Fake::new();
        let takeover = takeover(&fake).await;
        let losing = async {
            // By then `policy/v1` is Holdfast's, and no server answers.
            tokio::time::sleep(Duration::from_secs(10)).await;
            let ours = json!({"namespace": SYSTEM_NAMESPACE, "name": NAME, "port": 9443});
            assert_eq!(fake.lock().get(POLICY)["spec"]["service"], ours);
            assert!(fake.lock().has(Installed::Webhook));
            fake.lock().hold_turn("another");
        };
        let (outcome, ()) = tokio::join!(takeover.install(), losing);
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("lost lease/holdfast-installation half way"), "{error}");
        assert!(error.contains("everything is as it was"), "{error}");
        assert!(!fake.lock().has(Installed::Webhook));
        assert!(fake.lock().get(POLICY)["spec"]["service"].is_null());
    }

    #[tokio::test(start_paused = true)]
    async fn an_uninstallation_that_was_begun_is_met_in_turn() {
        let fake = Fake::new();
        let takeover = takeover(&fake).await;
        let annotations = json!({"holdfast.dev/giving-back": "true"});
        let metadata = json!({"metadata": {"annotations": annotations}});
        fake.lock().put(&Installed::Webhook.path(), metadata);
        let error = takeover.install().await.unwrap_err().to_string();
        assert!(error.contains("an uninstallation is under way"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn evictions_are_asked_about_at_the_gate_or_by_the_webhook() {
        let fake = Fake::new();
        let takeover = takeover(&fake).await;
        let asked = async |ours| takeover.is_asked(ours).await;
        let register = |intercept| {
            let body = manifests::webhook("https://h/evict", &Value::Null, intercept).body;
            fake.lock().put(&Installed::Webhook.path(), body);
        };
        assert_eq!(asked(Some(false)).await, Some(false), "there is no webhook");
        assert_eq!(asked(Some(true)).await, Some(true));
        register(Intercept::All);
        narrow(&fake);
        assert_eq!(asked(Some(false)).await, Some(false));
        takeover.widen().await.unwrap();
        assert_eq!(asked(Some(false)).await, Some(true), "it was widened");
        assert_eq!(asked(None).await, None);
        // As after an uninstallation.
        let client = fake.client(Who::Server);
        let registration = Registration { client, ..takeover.registration.clone() };
        let takeover = Takeover { registration, ..takeover.clone() };
        fake.lock().remove(Installed::ClusterRole);
        assert_eq!(takeover.is_asked(None).await, Some(false));
    }

    /// Configures the webhook as an earlier release did.
    fn narrow(fake: &Fake) {
        let condition = json!({"name": "dry-run", "expression": "request.dryRun"});
        let mut fake = fake.lock();
        fake.get(&Installed::Webhook.path())["webhooks"][0]["matchConditions"] = json!([condition]);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_follows_whom_nobody_can_stop() {
        let fake = Fake::new();
        let client = takeover(&fake).await.client;
        let (follower, _) = Follower::start(client).await.unwrap();
        let (stop, stopped) = watch::channel(false);
        let following = tokio::spawn(follower.run(stopped));
        drop(stop);
        tokio::time::timeout(Duration::from_secs(5), following).await.unwrap().unwrap();
    }
}
