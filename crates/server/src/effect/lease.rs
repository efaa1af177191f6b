//! The Lease object: what the election's commands do to it.

use holdfast_api::time::{self, Time};
use holdfast_core::lease::{LEASE_DURATION, LeaseCommand, LeaseInput, Record};
use holdfast_core::model::{ResourceVersion, Timestamp};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api_client::{Answer, ApiClient, NoAnswer};
use crate::install::{MANAGED_BY, NAME, SYSTEM_NAMESPACE};

/// Carries out a command; on failure also says why.
pub async fn execute(client: ApiClient, command: LeaseCommand) -> Result<LeaseInput, String> {
    let (answer, wrote) = match &command {
        LeaseCommand::Read => (client.get(&path(NAME)).await, false),
        LeaseCommand::Create { holder, now } => {
            let record = Record {
                version: ResourceVersion::default(),
                uid: String::new(),
                holder: holder.clone(),
                acquired: *now,
                transitions: 0,
            };
            (client.post(&path(""), &manifest(&record, *now)).await, true)
        }
        LeaseCommand::Update { record, now } => {
            (client.put(&path(NAME), &manifest(record, *now)).await, true)
        }
        LeaseCommand::WakeAt(_) => return Ok(LeaseInput::Tick),
    };
    let answer = answer.map_err(|NoAnswer(reason)| reason)?;
    if wrote && answer.code == StatusCode::CONFLICT {
        // Somebody else was faster: see who.
        let now = client.get(&path(NAME)).await.map_err(|NoAnswer(reason)| reason)?;
        return seen(&now);
    }
    seen(&answer)
}

pub fn path(name: &str) -> String {
    let all = format!("/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases");
    if name.is_empty() { all } else { format!("{all}/{name}") }
}

fn seen(answer: &Answer) -> Result<LeaseInput, String> {
    if answer.code.is_success() {
        let lease: Lease = answer.json().map_err(|e| format!("cannot read the Lease: {e}"))?;
        return Ok(LeaseInput::Seen(Some(lease.into())));
    }
    if answer.is_object_not_found(NAME) {
        return Ok(LeaseInput::Seen(None));
    }
    Err(answer.message())
}

fn manifest(record: &Record, now: Timestamp) -> Value {
    let mut lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": NAME,
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
        let lease = manifest(&record, Timestamp(1_800_000_007_000));
        assert_eq!(lease["spec"]["acquireTime"], "2027-01-15T08:00:00.250000Z");
        assert_eq!(lease["spec"]["renewTime"], "2027-01-15T08:00:07.000000Z");
        let body = lease.to_string().into_bytes();
        let read = seen(&Answer { code: StatusCode::OK, body });
        assert_eq!(read, Ok(LeaseInput::Seen(Some(record.clone()))));
        // Given back: nobody's.
        let free = manifest(&Record { holder: String::new(), ..record }, Timestamp(0));
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
        assert_eq!(seen(&not_found(NAME)), Ok(LeaseInput::Seen(None)));
        assert!(seen(&not_found(SYSTEM_NAMESPACE)).is_err(), "the namespace is missing");
    }
}
