//! The Lease object: what an election's commands do to it.

use holdfast_api::time::{self, Time};
use holdfast_core::lease::{LEASE_DURATION, LeaseCommand, LeaseInput, Record};
use holdfast_core::model::{ResourceVersion, Timestamp};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api_client::{Answer, ApiClient, NoAnswer};
use crate::install::{MANAGED_BY, NAME, SYSTEM_NAMESPACE};

/// Why the Lease could not be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Trouble {
    pub reason: String,
    /// The namespace is gone, or about to go.
    pub homeless: bool,
}

impl From<NoAnswer> for Trouble {
    fn from(NoAnswer(reason): NoAnswer) -> Self {
        Self { reason, homeless: false }
    }
}

/// Carries out a command on the Lease of this name.
pub async fn execute(
    client: ApiClient,
    name: &'static str,
    command: LeaseCommand,
) -> Result<LeaseInput, Trouble> {
    let (answer, wrote) = match &command {
        LeaseCommand::Read => (client.get(&path(name)).await, false),
        LeaseCommand::Create { holder, now } => {
            let record = Record {
                version: ResourceVersion::default(),
                uid: String::new(),
                holder: holder.clone(),
                acquired: *now,
                transitions: 0,
            };
            (client.post(&path(""), &manifest(name, &record, *now)).await, true)
        }
        LeaseCommand::Update { record, now } => {
            (client.put(&path(name), &manifest(name, record, *now)).await, true)
        }
    };
    let answer = answer?;
    if wrote && answer.code == StatusCode::CONFLICT {
        // Somebody else was faster: see who.
        return seen(name, &client.get(&path(name)).await?);
    }
    seen(name, &answer)
}

pub fn path(name: &str) -> String {
    let all = format!("/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases");
    if name.is_empty() { all } else { format!("{all}/{name}") }
}

/// What the API server says of it.
pub fn seen(name: &str, answer: &Answer) -> Result<LeaseInput, Trouble> {
    if answer.code.is_success() {
        let unreadable = |e| NoAnswer(format!("cannot read the Lease: {e}"));
        let lease: Lease = answer.json().map_err(unreadable)?;
        return Ok(LeaseInput::Seen(Some(lease.into())));
    }
    if answer.is_object_not_found(name) {
        return Ok(LeaseInput::Seen(None));
    }
    Err(Trouble { reason: answer.message(), homeless: is_homeless(answer) })
}

/// Whoever may use the Lease need not have the right to look at the namespace.
fn is_homeless(answer: &Answer) -> bool {
    let Ok(status) = answer.json::<Value>() else { return false };
    let mut causes = status["details"]["causes"].as_array().into_iter().flatten();
    answer.is_object_not_found(SYSTEM_NAMESPACE)
        || causes.any(|cause| cause["reason"] == "NamespaceTerminating")
}

fn manifest(name: &str, record: &Record, now: Timestamp) -> Value {
    let mut lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": name,
            "namespace": SYSTEM_NAMESPACE,
            "labels": {MANAGED_BY: NAME},
        },
        "spec": {
            "leaseDurationSeconds": LEASE_DURATION.as_secs(),
            "acquireTime": micro_time(record.acquired),
            "renewTime": micro_time(now),
            "leaseTransitions": record.transitions,
        },
    });
    // The precondition: without them the write would be unconditional.
    if !record.version.is_empty() {
        lease["metadata"]["resourceVersion"] = json!(record.version.to_string());
        lease["metadata"]["uid"] = json!(record.uid);
    }
    if !record.holder.is_empty() {
        lease["spec"]["holderIdentity"] = json!(record.holder);
    }
    lease
}

/// `MicroTime` insists on six digits after the point.
fn micro_time(time: Timestamp) -> String {
    let whole = time::format(time);
    format!("{}.{:03}000Z", whole.trim_end_matches('Z'), time.0.rem_euclid(1000))
}

#[derive(Debug, Deserialize)]
struct Lease {
    metadata: Meta,
    #[serde(default)]
    spec: Spec,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    uid: String,
    resource_version: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    holder_identity: Option<String>,
    acquire_time: Time,
    lease_transitions: Option<i64>,
}

impl From<Lease> for Record {
    fn from(lease: Lease) -> Self {
        Self {
            version: lease.metadata.resource_version.as_str().into(),
            uid: lease.metadata.uid,
            holder: lease.spec.holder_identity.unwrap_or_default(),
            acquired: lease.spec.acquire_time.into(),
            transitions: lease.spec.lease_transitions.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_reads_back_as_it_was_written() {
        let record = Record {
            version: 7.into(),
            uid: "u".to_owned(),
            holder: "host_1f".to_owned(),
            acquired: Timestamp(1_800_000_000_250),
            transitions: 3,
        };
        let lease = manifest(NAME, &record, Timestamp(1_800_000_007_000));
        assert_eq!(lease["spec"]["acquireTime"], "2027-01-15T08:00:00.250000Z");
        assert_eq!(lease["spec"]["renewTime"], "2027-01-15T08:00:07.000000Z");
        let body = lease.to_string().into_bytes();
        let read = seen(NAME, &Answer { code: StatusCode::OK, body });
        assert_eq!(read, Ok(LeaseInput::Seen(Some(record.clone()))));
        // Given back: nobody's.
        let free = manifest(NAME, &Record { holder: String::new(), ..record }, Timestamp(0));
        assert!(free["spec"].get("holderIdentity").is_none());
    }

    #[test]
    fn only_the_leases_own_absence_is_an_absence() {
        let not_found = |name: &str| Answer {
            code: StatusCode::NOT_FOUND,
            body: json!({"reason": "NotFound", "message": "no", "details": {"name": name}})
                .to_string()
                .into_bytes(),
        };
        assert_eq!(seen(NAME, &not_found(NAME)), Ok(LeaseInput::Seen(None)));
        let trouble = seen(NAME, &not_found(SYSTEM_NAMESPACE)).unwrap_err();
        assert!(trouble.homeless, "the namespace is missing");
    }

    #[test]
    fn a_namespace_that_goes_is_told_from_a_right_that_is_missing() {
        let refused = |details: Value| {
            let status = json!({"reason": "Forbidden", "message": "no", "details": details});
            let body = status.to_string().into_bytes();
            seen(NAME, &Answer { code: StatusCode::FORBIDDEN, body }).unwrap_err()
        };
        let going = json!({"name": NAME, "causes": [{"reason": "NamespaceTerminating"}]});
        assert!(refused(going).homeless);
        let missing = refused(json!({"name": NAME}));
        assert_eq!(missing, Trouble { reason: "no (403)".to_owned(), homeless: false });
    }
}
