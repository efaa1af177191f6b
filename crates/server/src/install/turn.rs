//! Ensures that one process at a time changes the installation.
//!
//! A process that installs or uninstalls holds a Lease. Otherwise an uninstallation could delete objects of a
//! concurrent installation and leave a webhook without a server, or `policy/v1` with a Holdfast without
//! budgets. Instances that find everything installed join without the Lease.

use std::time::Duration;

use tokio::time::Instant;

use super::base::{Base, uninstalled};
use super::is_namespace_going;
use super::manifests::Installed;
use crate::api_client::ApiClient;
use crate::clock::Clock;
use crate::election::{Candidate, identity};
use crate::error::Error;

/// The name of the Lease.
pub const TURN: &str = "holdfast-installation";

/// The time for another process to finish: taking over `policy/v1` and giving it back take minutes at worst.
const PATIENCE: Duration = Duration::from_mins(6);

/// The time until an unusable Lease must be usable again.
const TROUBLE: Duration = Duration::from_secs(15);

/// Proof that this process holds the Lease.
#[derive(Debug)]
pub struct Turn(());

/// Runs work that registers at the API server: with the Lease, and only if no uninstallation has run since.
pub async fn installing<T>(
    client: &ApiClient,
    base: &Base,
    work: impl AsyncFnOnce(&Turn) -> Result<T, Error>,
) -> Result<T, Error> {
    let outcome = in_turn(client, warn, async |turn| {
        base.check_again(client).await?;
        work(turn).await
    });
    outcome.await?.ok_or_else(|| uninstalled(&[Installed::Namespace.title()]))
}

/// Runs the work with the Lease, and drops it if the Lease is lost. It logs the holder while it waits.
/// Returns None if the namespace is gone or terminating, because everything else will be deleted too.
pub async fn in_turn<T>(
    client: &ApiClient,
    tell: impl FnOnce(&str),
    work: impl AsyncFnOnce(&Turn) -> Result<T, Error>,
) -> Result<Option<T>, Error> {
    let mut candidate = Candidate::new(client.clone(), Clock::start(), TURN, identity()?);
    if !is_elected(client, &mut candidate, tell).await? {
        return Ok(None);
    }
    // In a terminating namespace the Lease can still be acquired until it is deleted.
    let outcome = if is_namespace_going(client).await {
        Ok(None)
    } else {
        tokio::select! {
            biased;
            () = lost(&mut candidate) => {
                Err(failed(format!("lost lease/{TURN} half way; run it again")))
            }
            outcome = work(&Turn(())) => outcome.map(Some),
        }
    };
    candidate.resign().await;
    outcome
}

/// Reports progress through the log.
pub fn warn(why: &str) {
    tracing::warn!("{why}");
}

/// Returns false if the namespace is gone or terminating.
async fn is_elected(
    client: &ApiClient,
    candidate: &mut Candidate,
    tell: impl FnOnce(&str),
) -> Result<bool, Error> {
    let began = Instant::now();
    let mut troubled = None;
    let mut tell = Some(tell);
    while !candidate.step().await {
        let (why, since, patience) = match candidate.trouble() {
            Some(trouble) if trouble.homeless || is_namespace_going(client).await => {
                return Ok(false);
            }
            Some(trouble) => {
                let since = *troubled.get_or_insert_with(Instant::now);
                (format!("cannot use lease/{TURN}: {trouble}"), since, TROUBLE)
            }
            None => {
                troubled = None;
                let holder = candidate.holder();
                if holder.is_empty() {
                    continue;
                }
                (format!("{holder} installs or uninstalls (lease/{TURN})"), began, PATIENCE)
            }
        };
        if since.elapsed() > patience {
            return Err(failed(why));
        }
        if let Some(tell) = tell.take() {
            tell(&format!("waiting: {why}"));
        }
    }
    Ok(true)
}

/// Returns when another process holds the Lease, or when it is gone. If it only cannot be renewed, no other
/// holder is known, and half-done work should be completed.
async fn lost(candidate: &mut Candidate) {
    while candidate.holds() {
        candidate.step().await;
    }
}

fn failed(reason: String) -> Error {
    Error::Refused { action: "change the installation".to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Fake, Who};
    use super::*;
    use serde_json::Value;

    const MINUTE: Duration = Duration::from_mins(1);

    /// Returns a fake with a namespace and the right to the Lease.
    fn fake() -> Fake {
        let fake = Fake::new();
        fake.lock().put_namespace(&Value::Null);
        fake.lock().put(&Installed::Role.path(), Value::default());
        fake
    }

    fn quietly(_: &str) {}

    async fn work(_: &Turn) -> Result<(), Error> {
        tokio::time::sleep(MINUTE).await;
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn as_long_as_nobody_can_take_it_the_turn_is_ours() {
        let fake = fake();
        let client = fake.client(Who::Server);
        let stall = async {
            tokio::time::sleep(MINUTE / 4).await;
            fake.lock().away = true;
            tokio::time::sleep(MINUTE / 2).await;
            fake.lock().away = false;
        };
        let (outcome, ()) = tokio::join!(in_turn(&client, quietly, work), stall);
        assert_eq!(outcome.unwrap(), Some(()));
        let lease = fake.lock().get(&Installed::TurnLease.path()).clone();
        assert!(lease["spec"]["holderIdentity"].is_null(), "it was not given back: {lease}");
        assert_eq!(fake.lock().refused, [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_another_has_or_that_is_gone_is_lost() {
        for take in [(|fake| fake.lock().hold_turn("another")) as fn(&Fake), |fake| {
            fake.lock().remove(Installed::TurnLease);
        }] {
            let fake = fake();
            let client = fake.client(Who::Server);
            let taking = async {
                tokio::time::sleep(MINUTE / 4).await;
                take(&fake);
            };
            let (outcome, ()) = tokio::join!(in_turn(&client, quietly, work), taking);
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains("lost lease/holdfast-installation half way"), "{error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn trouble_counts_from_when_it_began() {
        let fake = fake();
        fake.lock().hold_turn("another");
        let client = fake.client(Who::Server);
        let began = Instant::now();
        let story = async {
            // The other process is alive.
            for n in 0..10 {
                tokio::time::sleep(MINUTE / 10).await;
                fake.lock().hold_turn(&format!("another {n}"));
            }
            fake.lock().away = true;
            tokio::time::sleep(TROUBLE * 2 / 3).await;
            fake.lock().away = false;
            tokio::time::sleep(TROUBLE / 3).await;
            // Without --install there is no right to read the namespace.
            fake.lock().remove(Installed::Role);
        };
        let (outcome, ()) = tokio::join!(in_turn(&client, quietly, work), story);
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("cannot use lease/holdfast-installation: forbidden"), "{error}");
        let (took, least) = (began.elapsed(), MINUTE + TROUBLE + TROUBLE);
        assert!(took > least && took < least + MINUTE / 20, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_that_goes_is_noticed() {
        // With the right to read the namespace, although the Lease could be acquired.
        let going = fake();
        going.lock().hold_turn("");
        going.lock().end_namespace();
        let outcome = in_turn(&going.client(Who::Admin), quietly, work).await;
        assert_eq!(outcome.unwrap(), None);
        // From the error of the request for the Lease.
        let going = fake();
        going.lock().end_namespace();
        let outcome = in_turn(&going.client(Who::Server), quietly, work).await;
        assert_eq!(outcome.unwrap(), None);
        let gone = fake();
        gone.lock().remove(Installed::Namespace);
        let outcome = in_turn(&gone.client(Who::Server), quietly, work).await;
        assert_eq!(outcome.unwrap(), None);
    }
}
