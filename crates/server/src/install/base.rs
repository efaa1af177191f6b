//! The objects that an instance needs before it receives requests: definitions, rights, and a priority level.

use holdfast_core::Kind;
use holdfast_core::model::GroupApi;
use tokio::time::Instant;

use super::manifests::{self, Installed, Manifest};
use super::rights::{self, Right};
use super::turn::{Turn, in_turn, warn};
use super::{EFFECT, apply_one, ensure_namespace, exists, is_namespace_going, native};
use crate::api_client::{ApiClient, NoAnswer};
use crate::connect::Identity;
use crate::error::Error;
use crate::watch::{Backoff, Source};

/// The objects for the chosen features.
#[derive(Clone, Debug)]
pub struct Base {
    pub rights: Vec<Right>,
    /// The API of the pod groups.
    pub gangs: Option<GroupApi>,
    pub native: bool,
}

impl Base {
    /// Waits for the installation Lease, applies the objects, and waits until they are in force. `host` and
    /// `port` are the address of native mode.
    pub async fn apply(
        &self,
        client: &ApiClient,
        identity: &Identity,
        (host, port): (&str, u16),
    ) -> Result<(), Error> {
        let manifests = manifests::base(identity, &self.rights, self.gangs);
        loop {
            ensure_namespace(client).await?;
            let applying = async {
                self.may_take_turns(client, &manifests).await?;
                let work = async |_: &Turn| {
                    self.refuse_other_mode(client).await?;
                    for manifest in &manifests {
                        apply_one(client, manifest).await?;
                    }
                    if self.native {
                        native::apply(client, identity, host, port).await?;
                    }
                    in_force(async || self.missing(client).await.map(Missing::into_lines)).await
                };
                in_turn(client, warn, work).await
            };
            match applying.await {
                Ok(Some(())) => return Ok(()),
                Err(error) if !is_namespace_going(client).await => return Err(error),
                // An uninstallation was finishing. It deletes the applied objects, directly or with the
                // namespace.
                Ok(None) | Err(_) => {}
            }
        }
    }

    /// Fails with a list of the missing objects, if any. For instances without --install.
    pub async fn check(&self, client: &ApiClient) -> Result<(), Error> {
        let Missing { mut objects, rights } = self.missing(client).await?;
        if !exists(client, Installed::Webhook).await? {
            objects.push(Installed::Webhook.title());
        }
        match (objects.is_empty(), rights.is_empty()) {
            (true, true) => Ok(()),
            (true, false) => Err(Error::MissingRights(rights)),
            (false, true) => Err(Error::NotInstalled(objects)),
            (false, false) => {
                let role = Installed::ClusterRole.title();
                objects.push(format!("{} rights of {role}", rights.len()));
                Err(Error::NotInstalled(objects))
            }
        }
    }

    /// Checks again after waiting for the Lease, because an uninstallation may have run since.
    pub async fn check_again(&self, client: &ApiClient) -> Result<(), Error> {
        self.refuse_other_mode(client).await?;
        let missing = self.missing(client).await?.into_lines();
        if missing.is_empty() { Ok(()) } else { Err(uninstalled(&missing)) }
    }

    /// Refuses to install webhook mode if native mode is installed. Native mode makes more checks itself.
    async fn refuse_other_mode(&self, client: &ApiClient) -> Result<(), Error> {
        if self.native { Ok(()) } else { native::refuse_beside(client).await }
    }

    /// A user who may install everything may still lack the right to the installation Lease, because it is in
    /// a role that is being installed.
    async fn may_take_turns(
        &self,
        client: &ApiClient,
        manifests: &[Manifest],
    ) -> Result<(), Error> {
        let own = rights::in_own_namespace(&self.rights);
        let missing = async || rights::missing(client, &own).await.map_err(unknown);
        if missing().await?.is_empty() {
            return Ok(());
        }
        let is_own = |manifest: &&Manifest| {
            [Installed::Role, Installed::RoleBinding].contains(&manifest.kind)
        };
        for manifest in manifests.iter().filter(is_own) {
            apply_one(client, manifest).await?;
        }
        in_force(missing).await
    }

    async fn missing(&self, client: &ApiClient) -> Result<Missing, Error> {
        let mut kinds = vec![(Installed::Crd, Kind::Budget)];
        if let Some(api @ GroupApi::Holdfast) = self.gangs {
            kinds.push((Installed::PodGroupCrd, Kind::PodGroup(api)));
            kinds.push((Installed::WorkloadCrd, Kind::Workload(api)));
        }
        let mut objects = Vec::new();
        for (crd, kind) in kinds {
            if Source::of(&kind).find(client).await.map_err(unknown)?.is_none() {
                objects.push(format!("{} (not served)", crd.title()));
            }
        }
        for kind in [Installed::PriorityLevel, Installed::FlowSchema] {
            if !exists(client, kind).await? {
                objects.push(kind.title());
            }
        }
        let rights = rights::missing(client, &self.rights).await.map_err(unknown)?;
        Ok(Missing { objects, rights })
    }
}

/// The missing objects, in words.
struct Missing {
    objects: Vec<String>,
    rights: Vec<String>,
}

impl Missing {
    fn into_lines(mut self) -> Vec<String> {
        self.objects.extend(self.rights.iter().map(|right| format!("the right to {right}")));
        self.objects
    }
}

/// The error of an instance whose objects were removed by an uninstallation.
pub fn uninstalled(missing: &[String]) -> Error {
    let missing = missing.join(", ");
    Error::Refused {
        action: "install Holdfast".to_owned(),
        reason: format!(
            "it was uninstalled while this instance started; start it again (missing: {missing})"
        ),
    }
}

/// Waits until nothing is missing.
async fn in_force(missing: impl AsyncFn() -> Result<Vec<String>, Error>) -> Result<(), Error> {
    let deadline = Instant::now() + EFFECT;
    let mut backoff = Backoff::new();
    loop {
        let missing = missing().await?;
        if missing.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(Error::Refused {
                action: "install".to_owned(),
                reason: format!(
                    "not in force after {} s: {}",
                    EFFECT.as_secs(),
                    missing.join(", ")
                ),
            });
        }
        backoff.pause().await;
    }
}

fn unknown(NoAnswer(reason): NoAnswer) -> Error {
    Error::Refused { action: "find out what is installed".to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::super::fake::{self, Fake, POLICY, Who, registration};
    use super::super::manifests::Intercept;
    use super::*;

    const PLACE: (&str, u16) = ("127.0.0.1", 9443);

    fn identity() -> Identity {
        Identity::User("holdfast".to_owned())
    }

    async fn installed(who: Who) -> (Fake, ApiClient) {
        let fake = Fake::new();
        let client = fake.client(who);
        fake::base(false).apply(&client, &identity(), PLACE).await.unwrap();
        (fake, client)
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_may_install_gets_the_right_to_take_turns() {
        let (fake, client) = installed(Who::Installer).await;
        for kind in [Installed::Crd, Installed::ClusterRole, Installed::FlowSchema] {
            assert!(fake.lock().has(kind), "{}", kind.title());
        }
        registration(client, Intercept::Outside).install().await.unwrap();
        assert!(fake.lock().has(Installed::Webhook));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_about_to_go_is_waited_for() {
        let fake = Fake::new();
        fake.lock().put_namespace(&Value::Null);
        fake.lock().put(&Installed::Role.path(), json!({}));
        fake.lock().hold_turn("another");
        // The uninstallation happens while this instance waits for the Lease.
        let ending = async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            fake.lock().end_namespace();
        };
        let (client, base, identity) = (fake.client(Who::Installer), fake::base(false), identity());
        let (outcome, ()) = tokio::join!(base.apply(&client, &identity, PLACE), ending);
        outcome.unwrap();
        let mut cluster = fake.lock();
        let namespace = cluster.get(&Installed::Namespace.path());
        assert!(namespace["metadata"]["deletionTimestamp"].is_null(), "{namespace}");
        assert!(cluster.has(Installed::Role) && cluster.has(Installed::FlowSchema));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_registered_on_what_was_uninstalled_meanwhile() {
        for gone in [
            Installed::Crd,
            Installed::ClusterRole,
            Installed::FlowSchema,
            Installed::PriorityLevel,
        ] {
            let (fake, client) = installed(Who::Admin).await;
            fake.lock().remove(gone);
            let registration = registration(client, Intercept::Outside);
            let error = registration.install().await.unwrap_err().to_string();
            let told = "it was uninstalled while this instance started; start it again";
            assert!(error.contains(told), "{}: {error}", gone.title());
            assert!(!fake.lock().has(Installed::Webhook), "{}", gone.title());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn webhook_mode_does_not_begin_on_what_is_half_uninstalled() {
        let (fake, client) = installed(Who::Installer).await;
        let body = manifests::webhook("https://h/evict", &Value::Null, Intercept::All).body;
        fake.lock().put(&Installed::Webhook.path(), body);
        let annotations = json!({"holdfast.dev/giving-back": "true"});
        fake.lock().get(&Installed::Webhook.path())["metadata"]["annotations"] = annotations;
        let told = "finish it with `holdfast uninstall`";
        let error = registration(client.clone(), Intercept::Outside).install().await.unwrap_err();
        assert!(error.to_string().contains(told), "{error}");
        let error = fake::base(false).apply(&client, &identity(), PLACE).await.unwrap_err();
        assert!(error.to_string().contains(told), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn webhook_mode_does_not_join_what_native_mode_has_taken_over_meanwhile() {
        let (fake, client) = installed(Who::Installer).await;
        let ours = json!({"service": {"namespace": "holdfast-system", "name": "holdfast"}});
        let native = manifests::webhook("https://h/evict", &Value::Null, Intercept::All).body;
        fake.lock().put(&Installed::Webhook.path(), native);
        fake.lock().get(POLICY)["spec"] = ours;
        let error = registration(client.clone(), Intercept::Outside).install().await.unwrap_err();
        assert!(error.to_string().contains("served by Holdfast in native mode"), "{error}");
        let error = fake::base(false).apply(&client, &identity(), PLACE).await.unwrap_err();
        assert!(error.to_string().contains("served by Holdfast in native mode"), "{error}");
        let webhook = fake.lock().get(&Installed::Webhook.path())["webhooks"].take();
        assert!(webhook[0]["namespaceSelector"].is_null(), "it is native mode's: {webhook}");
    }
}
