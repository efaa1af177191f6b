//! The `APIService` `v1.policy`, which decides which server serves `policy/v1`.

use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::super::bundle::{Trusted, merged};
use super::super::registration::{decoded, encoded};
use super::super::{NAME, SYSTEM_NAMESPACE};
use crate::api_client::{ApiClient, NoAnswer};
use crate::error::Error;
use crate::native::SERVED_BY;
use crate::watch::Backoff;

const PATH: &str = "/apis/apiregistration.k8s.io/v1/apiservices/v1.policy";
const ALL: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const BUDGETS: &str = "/apis/policy/v1/poddisruptionbudgets?limit=1";

/// kube-apiserver manages an `APIService` that has this label.
const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// The time of the takeover. From then on, open watches miss changes.
const TAKEN_OVER: &str = "holdfast.dev/taken-over";

/// Another writer may write between the read and the write.
const TRIES: usize = 20;

/// The time for API servers to notice the change. They watch, but the check of availability takes time.
const EFFECT: Duration = Duration::from_mins(1);

/// The number of correct answers in a row that prove a change. Answers may come from any of the API servers
/// behind one address.
const IN_A_ROW: usize = 5;

/// Holdfast's address for the `APIService`.
#[derive(Clone, Debug)]
pub struct Place {
    pub port: u16,
    pub trusted: watch::Receiver<Trusted>,
}

/// The present `APIService`. Null if it is missing, which is possible after an interrupted uninstallation.
#[derive(Clone, Debug)]
pub struct Standing {
    object: Value,
}

impl Standing {
    pub async fn read(client: &ApiClient) -> Result<Self, Error> {
        let answer = client.get(PATH).await.map_err(|NoAnswer(why)| failed("read", why))?;
        if answer.is_object_not_found("v1.policy") {
            return Ok(Self { object: Value::Null });
        }
        if answer.code != StatusCode::OK {
            return Err(failed("read", answer.message()));
        }
        let object = answer.json().map_err(|e| failed("read", e.to_string()))?;
        Ok(Self { object })
    }

    pub fn is_missing(&self) -> bool {
        self.object.is_null()
    }

    /// Returns when it was created, by the clock of the API server. Giving back `policy/v1` creates it again.
    pub fn made(&self) -> Option<Timestamp> {
        self.object["metadata"]["creationTimestamp"].as_str()?.parse().ok()
    }

    pub fn is_ours(&self) -> bool {
        is_ours(&self.object)
    }

    /// Returns the name of another aggregated server, if there is one.
    pub fn foreign(&self) -> Option<String> {
        let service = &self.object["spec"]["service"];
        let text = |key: &str| service[key].as_str().unwrap_or_default();
        let elsewhere = !service.is_null() && !self.is_ours();
        elsewhere.then(|| format!("{}/{}", text("namespace"), text("name")))
    }

    pub fn taken_over(&self) -> Option<Timestamp> {
        let time = self.object["metadata"]["annotations"][TAKEN_OVER].as_str()?;
        time.parse().ok()
    }
}

/// Makes the API servers send `policy/v1` to Holdfast.
pub async fn take_over(client: &ApiClient, place: &Place) -> Result<(), Error> {
    let (changed, _) = edit(client, |object| enter(object, place)).await?;
    if changed {
        tracing::info!(object = "apiservice/v1.policy", port = place.port, "policy/v1 is ours");
    }
    Ok(())
}

/// Keeps Holdfast's certificate in the `APIService`. Returns true if it points at Holdfast. It does not
/// change one that was given back.
pub async fn keep(client: &ApiClient, place: &Place) -> Result<bool, Error> {
    let (_, object) = edit(client, |object| stay(object, place)).await?;
    Ok(is_ours(&object))
}

fn stay(object: &mut Value, place: &Place) -> Result<bool, String> {
    if is_ours(object) { enter(object, place) } else { Ok(false) }
}

/// Adds this instance beside the others. Returns true if anything changed.
fn enter(object: &mut Value, place: &Place) -> Result<bool, String> {
    let held = decoded(&object["spec"]["caBundle"])?;
    let service = json!({"namespace": SYSTEM_NAMESPACE, "name": NAME, "port": place.port});
    let ours = is_ours(object);
    let known = if ours { held.as_str() } else { "" };
    let merged = merged(known, &place.trusted.borrow().clone(), Timestamp::now());
    if ours && object["spec"]["service"] == service && merged == held {
        return Ok(false);
    }
    object["spec"]["service"] = service;
    object["spec"]["caBundle"] = encoded(&merged);
    if let Some(labels) = object["metadata"]["labels"].as_object_mut() {
        labels.remove(AUTOMANAGED);
    }
    if object["metadata"]["annotations"][TAKEN_OVER].is_null() {
        let now = Timestamp::now().round(jiff::Unit::Second).unwrap_or_else(|_| Timestamp::now());
        object["metadata"]["annotations"][TAKEN_OVER] = json!(now.to_string());
    }
    Ok(true)
}

/// Points the `APIService` at Holdfast again, as before it was given back.
pub async fn restore(client: &ApiClient, before: &Standing) -> Result<(), Error> {
    edit(client, |object| {
        for field in ["service", "caBundle"] {
            object["spec"][field] = before.object["spec"][field].clone();
        }
        object["metadata"]["labels"] = before.object["metadata"]["labels"].clone();
        object["metadata"]["annotations"] = before.object["metadata"]["annotations"].clone();
        Ok(true)
    })
    .await?;
    await_served(client, true).await
}

/// Gives `policy/v1` back to kube-apiserver. It deletes and recreates the `APIService`: without its service
/// alone, it leaves a stale entry in kube-apiserver's discovery until a restart.
pub async fn give_back(client: &ApiClient) -> Result<(), Error> {
    let answer = client.delete(PATH).await.map_err(|NoAnswer(why)| failed("delete", why))?;
    if !answer.code.is_success() && answer.code != StatusCode::NOT_FOUND {
        return Err(failed("delete", answer.message()));
    }
    let answer =
        client.post(ALL, &built_in()).await.map_err(|NoAnswer(why)| failed("create", why))?;
    // kube-apiserver may have restarted in between and may have created it.
    if answer.code.is_success() || answer.code == StatusCode::CONFLICT {
        return Ok(());
    }
    Err(failed("create", answer.message()))
}

/// Returns the `APIService` as kube-apiserver creates it.
fn built_in() -> Value {
    json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1.policy", "labels": {AUTOMANAGED: "onstart"}},
        "spec": {"group": "policy", "version": "v1", "groupPriorityMinimum": 17100, "versionPriority": 15},
    })
}

/// Waits until every API server serves budgets by Holdfast, or by itself.
pub async fn await_served(client: &ApiClient, by_us: bool) -> Result<(), Error> {
    let deadline = tokio::time::Instant::now() + EFFECT;
    let mut backoff = Backoff::new();
    let mut in_a_row = 0;
    let mut reason = String::new();
    while in_a_row < IN_A_ROW {
        match served_by_us(client).await {
            Ok(ours) if ours == by_us => in_a_row += 1,
            Ok(_) => {
                in_a_row = 0;
                "still served by the other".clone_into(&mut reason);
                backoff.pause().await;
            }
            Err(why) => {
                in_a_row = 0;
                reason = why;
                backoff.pause().await;
            }
        }
        if tokio::time::Instant::now() > deadline {
            let seconds = EFFECT.as_secs();
            return Err(failed("wait for", format!("not in force after {seconds} s: {reason}")));
        }
    }
    Ok(())
}

pub async fn served_by_us(client: &ApiClient) -> Result<bool, String> {
    let mut request = http::Request::new(Vec::new());
    *request.uri_mut() = http::Uri::from_static(BUDGETS);
    let response = client.send(request).await.map_err(|NoAnswer(why)| why)?;
    if !response.status().is_success() {
        return Err(format!("policy/v1 answers {}", response.status()));
    }
    Ok(response.headers().contains_key(SERVED_BY))
}

/// Changes the object if `change` finds a difference. Returns whether it did, and the present object.
async fn edit(
    client: &ApiClient,
    change: impl Fn(&mut Value) -> Result<bool, String>,
) -> Result<(bool, Value), Error> {
    let mut backoff = Backoff::new();
    for _ in 0..TRIES {
        let Standing { mut object } = Standing::read(client).await?;
        let is_missing = object.is_null();
        if !change(&mut object).map_err(|why| failed("change", why))? {
            return Ok((false, object));
        }
        if is_missing {
            let missing = "it is missing; kube-apiserver makes it when it starts";
            return Err(failed("change", missing.to_owned()));
        }
        let path = format!("{PATH}?fieldManager={NAME}");
        let answer =
            client.put(&path, &object).await.map_err(|NoAnswer(why)| failed("change", why))?;
        match answer.code {
            code if code.is_success() => return Ok((true, object)),
            StatusCode::CONFLICT => backoff.pause().await,
            _ => return Err(failed("change", answer.message())),
        }
    }
    Err(failed("change", "others write it all the time".to_owned()))
}

fn is_ours(object: &Value) -> bool {
    let service = &object["spec"]["service"];
    service["name"] == NAME && service["namespace"] == SYSTEM_NAMESPACE
}

fn failed(action: &str, reason: String) -> Error {
    Error::Refused { action: format!("{action} apiservice/v1.policy"), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_was_given_back_stays_so() {
        let (_, trusted) = watch::channel(Trusted::default());
        let place = Place { port: 9443, trusted };
        let mut object = built_in();
        assert_eq!(stay(&mut object, &place), Ok(false));
        assert_eq!(object, built_in());

        assert_eq!(enter(&mut object, &place), Ok(true));
        assert!(is_ours(&object));
        assert_eq!(stay(&mut object, &place), Ok(false), "nothing to change");
        let moved = Place { port: 9444, ..place };
        assert_eq!(stay(&mut object, &moved), Ok(true));
        assert_eq!(stay(&mut Value::Null, &moved), Ok(false));
    }
}
