//! Reads etcd's stored revisions through its JSON gateway.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::AsyncBufReadExt;
use holdfast_e2e::client::{Client, RUNTIME};
use holdfast_e2e::localkube;
use http::Method;
use k8s_openapi::ByteString;
use serde_json::{Value, json};

/// Time limit of one request. A watch of ten minutes of history takes longer, so the limit applies to each
/// line.
const LIMIT: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub struct Etcd(Client);

/// One write of one object.
#[derive(Clone, Debug)]
pub struct Change {
    /// The revision, which is also the object's `resourceVersion`.
    pub revision: u64,
    /// The key, such as `/registry/pods/NAMESPACE/NAME`.
    pub key: String,
    /// None if the write deleted the object.
    pub object: Option<Value>,
}

impl Etcd {
    /// Connects to the etcd of the control plane under test, which must run.
    pub fn of_localkube() -> Result<Self, String> {
        let components = localkube::components()?;
        let etcd =
            components.iter().find(|known| known.name == "etcd").ok_or("there is no etcd")?;
        Client::plain(&format!("http://127.0.0.1:{}", etcd.port)).map(Self)
    }

    /// Returns the current revision, if etcd answers soon.
    pub fn revision(&self) -> Option<u64> {
        let nothing = json!({"key": text("/"), "count_only": true});
        let answer = self.call("/v3/kv/range", &nothing, Duration::from_secs(1)).ok()?;
        number(&answer["header"]["revision"]).ok()
    }

    /// Returns the objects below these prefixes as of this revision.
    pub fn list(&self, prefixes: &[String], revision: u64) -> Result<Vec<Change>, String> {
        let mut found = Vec::new();
        for prefix in prefixes {
            let mut range = range(prefix);
            range["revision"] = json!(revision.to_string());
            let answer = self.call("/v3/kv/range", &range, LIMIT)?;
            let entries = answer["kvs"].as_array().into_iter().flatten();
            found.extend(entries.map(stored).collect::<Result<Vec<_>, _>>()?);
        }
        Ok(found)
    }

    /// Returns all writes below a prefix after revision `after`, up to and including revision `until`, at
    /// which there must be a write. Fails if a write is missing: each write names the previous write of its
    /// object.
    pub fn history(
        &self,
        prefix: &str,
        first: &[Change],
        after: u64,
        last: u64,
    ) -> Result<Vec<Change>, String> {
        let mut range = range(prefix);
        range["start_revision"] = json!((after + 1).to_string());
        range["prev_kv"] = json!(true);
        // A message with everything would exceed the limit of gRPC.
        range["fragment"] = json!(true);
        let below = first.iter().filter(|change| change.key.starts_with(prefix));
        let mut known: BTreeMap<String, u64> =
            below.map(|change| (change.key.clone(), change.revision)).collect();
        RUNTIME.block_on(async {
            let request = json!({"create_request": range});
            let mut stream = self.0.stream_post("/v3/watch", &request).await?;
            let (mut changes, mut line) = (Vec::new(), Vec::new());
            loop {
                line.clear();
                let read = tokio::time::timeout(LIMIT, stream.read_until(b'\n', &mut line)).await;
                let read = read.map_err(|_| format!("{prefix}: nothing more is told"))?;
                if read.map_err(|e| e.to_string())? == 0 {
                    return Err(format!("{prefix}: the watch ended"));
                }
                let message: Value = serde_json::from_slice(&line).map_err(|e| e.to_string())?;
                let result = &message["result"];
                if !message["error"].is_null() || result["canceled"] == true {
                    return Err(format!("{prefix}: {message}"));
                }
                for event in result["events"].as_array().into_iter().flatten() {
                    let change = change(event)?;
                    if change.revision > last {
                        return Err(format!("{prefix}: no write at revision {last}"));
                    }
                    assert_no_gap(&mut known, &change, &event["prev_kv"])?;
                    let is_last = change.revision == last;
                    changes.push(change);
                    if is_last {
                        return Ok(changes);
                    }
                }
            }
        })
    }

    fn call(&self, path: &str, body: &Value, limit: Duration) -> Result<Value, String> {
        let answer = self.0.attempt(Method::POST, path, Some(body), limit)?;
        if answer.is_success() { Ok(answer.body) } else { Err(format!("{path}: {answer:?}")) }
    }
}

fn assert_no_gap(
    known: &mut BTreeMap<String, u64>,
    change: &Change,
    before: &Value,
) -> Result<(), String> {
    let before = if before.is_null() { None } else { Some(number(&before["mod_revision"])?) };
    let last = match change.object {
        Some(_) => known.insert(change.key.clone(), change.revision),
        None => known.remove(&change.key),
    };
    if last == before {
        return Ok(());
    }
    let (key, revision) = (&change.key, change.revision);
    Err(format!("{key}: before revision {revision} was {before:?}, and {last:?} is known"))
}

fn change(event: &Value) -> Result<Change, String> {
    let entry = &event["kv"];
    // An absent type is PUT, the first value of the enumeration.
    if event["type"] == "DELETE" {
        let (key, revision) = (decoded(&entry["key"])?, number(&entry["mod_revision"])?);
        let key = String::from_utf8(key).map_err(|e| e.to_string())?;
        return Ok(Change { revision, key, object: None });
    }
    stored(entry)
}

fn stored(entry: &Value) -> Result<Change, String> {
    let key = String::from_utf8(decoded(&entry["key"])?).map_err(|e| e.to_string())?;
    let object = serde_json::from_slice(&decoded(&entry["value"])?)
        .map_err(|e| format!("{key} is no JSON, so the API servers do not store JSON: {e}"))?;
    Ok(Change { revision: number(&entry["mod_revision"])?, key, object: Some(object) })
}

fn range(prefix: &str) -> Value {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    json!({"key": text(prefix), "range_end": ByteString(end)})
}

fn text(text: &str) -> ByteString {
    ByteString(text.as_bytes().to_vec())
}

fn decoded(value: &Value) -> Result<Vec<u8>, String> {
    let bytes: ByteString =
        serde_json::from_value(value.clone()).map_err(|e| format!("{value}: {e}"))?;
    Ok(bytes.0)
}

/// JSON has 64-bit numbers as strings.
fn number(value: &Value) -> Result<u64, String> {
    let number = value.as_str().and_then(|text| text.parse().ok());
    number.ok_or_else(|| format!("{value} is no number"))
}
