//! Copies budgets from one storage to the other without changes.
//!
//! Until the takeover the built-in storage has the true budgets, and Holdfast's storage follows it. When
//! `policy/v1` is given back, the roles are exchanged. A copy has the uid of its original in an annotation,
//! which distinguishes it from a budget that a user created in Holdfast's API group. The annotation stays
//! until `policy/v1` serves the copy.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use holdfast_api::budget::{API_VERSION as STORED, GROUP, KIND, PLURAL, VERSION};
use http::StatusCode;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::super::NAME;
use crate::api_client::{ApiClient, MERGE_PATCH, NoAnswer};
use crate::discovery::Resource;
use crate::error::Error;
use crate::native::{SERVED, words};
use crate::watch::{Backoff, items};

/// On a copy that is not served yet: the uid of its original.
pub const IMPORTED: &str = "holdfast.dev/imported-from";

/// On a copy that `policy/v1` serves, until it is written the second time.
pub const SERVED_NOW: &str = "served";

/// Limit of concurrent writes. It keeps an API server busy without blocking other clients.
const AT_A_TIME: usize = 8;

/// Other clients write too.
const TRIES: usize = 10;

/// The parts of an original that a copy cannot have, for the installing user.
pub const NOT_KEPT: &str = "metadata.uid, metadata.creationTimestamp, metadata.generation, \
    metadata.resourceVersion";

/// Namespace and name.
pub type Key = (String, String);
pub type Budgets = BTreeMap<Key, Value>;

/// One of the two storages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// The storage of kube-apiserver's own `policy/v1`.
    BuiltIn,
    /// The storage of the CRD.
    Ours,
}

impl Storage {
    pub fn resource(self) -> Resource {
        match self {
            Self::BuiltIn => Resource::fixed("policy", "v1", PLURAL),
            Self::Ours => Resource::fixed(GROUP, VERSION, PLURAL),
        }
    }

    fn api_version(self) -> &'static str {
        match self {
            Self::BuiltIn => SERVED,
            Self::Ours => STORED,
        }
    }

    fn path(self, (namespace, name): &Key) -> String {
        self.resource().object_path(namespace, name)
    }

    pub async fn list(self, client: &ApiClient) -> Result<(Budgets, String), Error> {
        list(client, &self.resource()).await
    }

    /// Waits until the status of every budget is of its present spec. Returns how many are not, after this
    /// limit.
    pub async fn await_observed(self, client: &ApiClient, limit: Duration) -> Result<usize, Error> {
        let deadline = Instant::now() + limit;
        let mut backoff = Backoff::new();
        loop {
            let (budgets, _) = self.list(client).await?;
            let behind = budgets.values().filter(|budget| {
                budget["status"]["observedGeneration"] != budget["metadata"]["generation"]
            });
            let behind = behind.count();
            if behind == 0 || Instant::now() > deadline {
                return Ok(behind);
            }
            backoff.pause().await;
        }
    }
}

/// Returns all budgets, and the version of the list.
pub async fn list(client: &ApiClient, resource: &Resource) -> Result<(Budgets, String), Error> {
    let mut budgets = Budgets::new();
    let take = |item: &RawValue| {
        let budget: Value = serde_json::from_str(item.get()).map_err(|e| e.to_string())?;
        budgets.insert(key(&budget), budget);
        Ok(())
    };
    let failed = |reason| Error::Unlisted { what: resource.qualified(), reason };
    let version = items(client, &resource.path(), take).await.map_err(failed)?;
    Ok((budgets, version))
}

pub fn key(budget: &Value) -> Key {
    let text = |field: &str| budget["metadata"][field].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

/// Returns true if the budget is a copy of an original that is still served elsewhere. A budget that
/// `policy/v1` has served from here does not count, because it may have changed since.
pub fn is_copy(budget: &Value) -> bool {
    is_marked(budget) && budget["metadata"]["annotations"][IMPORTED] != SERVED_NOW
}

/// Returns true if the original exists and is equal. For places where a user may have written the mark or
/// changed the copy.
pub fn is_copy_of(originals: &Budgets, key: &Key, budget: &Value) -> bool {
    is_copy(budget) && originals.get(key).is_some_and(|original| is_same(budget, original))
}

pub fn is_marked(budget: &Value) -> bool {
    !budget["metadata"]["annotations"][IMPORTED].is_null()
}

/// Returns the parts that a copy must have of its original.
fn essence(budget: &Value) -> Value {
    let metadata = &budget["metadata"];
    let mut annotations = metadata["annotations"].as_object().cloned().unwrap_or_default();
    annotations.remove(IMPORTED);
    json!({
        "labels": metadata["labels"].as_object().cloned().unwrap_or_default(),
        "annotations": annotations,
        "finalizers": metadata["finalizers"].as_array().cloned().unwrap_or_default(),
        "ownerReferences": metadata["ownerReferences"].as_array().cloned().unwrap_or_default(),
        "spec": budget["spec"],
    })
}

pub fn is_same(one: &Value, other: &Value) -> bool {
    essence(one) == essence(other)
}

/// The numbers of created, changed and deleted budgets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub created: usize,
    pub updated: usize,
    pub deleted: usize,
}

/// A step that makes `to` equal to `from`.
#[derive(Debug)]
pub enum Step {
    Create(Value),
    /// The original, and the object to replace.
    Update(Value, Value),
    Delete(Value),
}

/// Executes steps on a storage, several at a time. It returns the first failure when all are done.
pub async fn carry_out(
    client: &ApiClient,
    to: Storage,
    steps: Vec<Step>,
) -> Result<Changes, Error> {
    let mut changes = Changes::default();
    for step in &steps {
        match step {
            Step::Create(_) => changes.created += 1,
            Step::Update(..) => changes.updated += 1,
            Step::Delete(_) => changes.deleted += 1,
        }
    }
    let work = steps.into_iter().map(|step| one(client, to, step));
    let outcomes: Vec<Result<(), Error>> =
        stream::iter(work).buffer_unordered(AT_A_TIME).collect().await;
    outcomes.into_iter().collect::<Result<(), Error>>()?;
    Ok(changes)
}

async fn one(client: &ApiClient, to: Storage, step: Step) -> Result<(), Error> {
    match step {
        Step::Create(original) => create(client, to, &original).await,
        Step::Update(original, current) => update(client, to, &original, &current).await,
        Step::Delete(current) => delete(client, to, &current).await,
    }
}

async fn create(client: &ApiClient, to: Storage, original: &Value) -> Result<(), Error> {
    let key = key(original);
    let path = format!("{}?fieldManager={NAME}", to.resource().namespace_path(&key.0));
    let answer = client
        .post(&path, &copied(to, original, None))
        .await
        .map_err(|NoAnswer(why)| failed("create", &key, why))?;
    match answer.code {
        code if code.is_success() => {
            let created: Value =
                answer.json().map_err(|e| failed("create", &key, e.to_string()))?;
            restore_managers(client, to, original, &created).await
        }
        // An earlier try succeeded without an answer, or the namespace is being deleted. The next comparison
        // shows it.
        StatusCode::CONFLICT => Ok(()),
        StatusCode::FORBIDDEN if answer.message().contains("being terminated") => Ok(()),
        _ => Err(failed("create", &key, answer.message())),
    }
}

async fn update(
    client: &ApiClient,
    to: Storage,
    original: &Value,
    current: &Value,
) -> Result<(), Error> {
    let key = key(original);
    let path = format!("{}?fieldManager={NAME}", to.path(&key));
    let mut newest = current.clone();
    for _ in 0..TRIES {
        let answer = client
            .put(&path, &copied(to, original, Some(&newest)))
            .await
            .map_err(|NoAnswer(why)| failed("change", &key, why))?;
        match answer.code {
            code if code.is_success() => {
                let updated: Value =
                    answer.json().map_err(|e| failed("change", &key, e.to_string()))?;
                return restore_managers(client, to, original, &updated).await;
            }
            // Controllers often write the status. Such a write must not prevent the change.
            StatusCode::CONFLICT => match unchanged(client, to, current).await? {
                Some(same) => newest = same,
                None => return Ok(()),
            },
            // The object was deleted in between.
            StatusCode::NOT_FOUND => return Ok(()),
            _ => return Err(failed("change", &key, answer.message())),
        }
    }
    Err(failed("change", &key, "others write it all the time".to_owned()))
}

/// A write makes Holdfast the manager of the written fields. This second write changes nothing else and gives
/// the fields to the managers of the original.
async fn restore_managers(
    client: &ApiClient,
    to: Storage,
    original: &Value,
    written: &Value,
) -> Result<(), Error> {
    let key = key(original);
    let refused = |reason| failed("change", &key, reason);
    let mut current = written.clone();
    for _ in 0..TRIES {
        current["metadata"]["managedFields"] = managers(to, original, &current);
        let path = format!("{}?fieldManager={NAME}", to.path(&key));
        let answer = client.put(&path, &current).await.map_err(|NoAnswer(why)| refused(why))?;
        match answer.code {
            code if code.is_success() => return Ok(()),
            // The status was written in between.
            StatusCode::CONFLICT => {
                let answer =
                    client.get(&to.path(&key)).await.map_err(|NoAnswer(why)| refused(why))?;
                if answer.code == StatusCode::NOT_FOUND {
                    return Ok(());
                }
                current = answer.json().map_err(|e| refused(e.to_string()))?;
            }
            StatusCode::NOT_FOUND => return Ok(()),
            _ => return Err(refused(answer.message())),
        }
    }
    Err(refused("others write it all the time".to_owned()))
}

/// Returns the managers of the original, except those of the status, which is written again.
fn managers(to: Storage, original: &Value, current: &Value) -> Value {
    let mut holder = json!({"metadata": {"managedFields": original["metadata"]["managedFields"]}});
    match to {
        Storage::Ours => words::stored(&mut holder),
        Storage::BuiltIn => words::served(&mut holder),
    }
    let entries =
        |of: &Value| of["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let is_main = |entry: &Value| entry["subresource"].is_null();
    let mut all: Vec<Value> = entries(&holder).into_iter().filter(is_main).collect();
    all.extend(entries(current).into_iter().filter(|entry| !is_main(entry)));
    all.into()
}

/// Returns the original as an object of the other storage. It replaces `current`, if there is one.
fn copied(to: Storage, original: &Value, current: Option<&Value>) -> Value {
    let (namespace, name) = key(original);
    let mut metadata = Map::new();
    metadata.insert("namespace".to_owned(), json!(namespace));
    metadata.insert("name".to_owned(), json!(name));
    let from = &original["metadata"];
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        if !from[field].is_null() {
            metadata.insert(field.to_owned(), from[field].clone());
        }
    }
    let mut copy = json!({
        "apiVersion": to.api_version(),
        "kind": KIND,
        "metadata": metadata,
        "spec": original["spec"],
    });
    let annotations = &mut copy["metadata"]["annotations"];
    match to {
        Storage::Ours => annotations[IMPORTED] = from["uid"].clone(),
        Storage::BuiltIn => {
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.remove(IMPORTED);
            }
            // The API server would drop the field, and kubectl would print a warning about an unknown field.
            if let Some(spec) = copy["spec"].as_object_mut() {
                spec.remove("budgetScope");
            }
        }
    }
    if let Some(current) = current {
        copy["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"].clone();
        copy["metadata"]["uid"] = current["metadata"]["uid"].clone();
    }
    copy
}

/// Deletes the object, unless a user has changed or recreated it since it was read.
async fn delete(client: &ApiClient, to: Storage, current: &Value) -> Result<(), Error> {
    let key = key(current);
    let path = to.path(&key);
    let (mut wanted, mut newest) = (current.clone(), current.clone());
    for _ in 0..TRIES {
        let [uid, version] = ["uid", "resourceVersion"].map(|field| &newest["metadata"][field]);
        let as_seen = json!({"uid": uid, "resourceVersion": version});
        let held = newest["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty());
        let answer = if held {
            // Other programs have set finalizers and expect the original.
            let mut patch = json!({"metadata": as_seen});
            patch["metadata"]["finalizers"] = Value::Null;
            client.patch(&path, MERGE_PATCH, &patch).await
        } else {
            client.delete_only(&path, as_seen).await
        };
        let answer = answer.map_err(|NoAnswer(why)| failed("delete", &key, why))?;
        match answer.code {
            code if code.is_success() && held => {
                wanted = answer.json().map_err(|e| failed("delete", &key, e.to_string()))?;
                newest = wanted.clone();
            }
            code if code.is_success() || code == StatusCode::NOT_FOUND => return Ok(()),
            StatusCode::CONFLICT => match unchanged(client, to, &wanted).await? {
                Some(same) => newest = same,
                None => return Ok(()),
            },
            _ => return Err(failed("delete", &key, answer.message())),
        }
    }
    Err(failed("delete", &key, "others write it all the time".to_owned()))
}

/// Returns the newest version if only the status has changed. None: it is gone, or a user has changed or
/// recreated it.
async fn unchanged(
    client: &ApiClient,
    to: Storage,
    current: &Value,
) -> Result<Option<Value>, Error> {
    let key = key(current);
    let failed = |why| failed("read", &key, why);
    let answer = client.get(&to.path(&key)).await.map_err(|NoAnswer(why)| failed(why))?;
    if answer.is_object_not_found(&key.1) {
        return Ok(None);
    }
    if answer.code != StatusCode::OK {
        return Err(failed(answer.message()));
    }
    let newest: Value = answer.json().map_err(|e| failed(e.to_string()))?;
    let is_it = newest["metadata"]["uid"] == current["metadata"]["uid"];
    Ok((is_it && is_same(&newest, current)).then_some(newest))
}

/// Sets the annotation of copies, or removes it with `None`. In both cases the budget is written, so watchers
/// see it.
pub async fn mark(client: &ApiClient, budgets: &[Key], value: Option<&str>) -> Result<(), Error> {
    let patch = json!({"metadata": {"annotations": {IMPORTED: value}}});
    let write = |key: &Key| {
        let (path, patch, key) = (Storage::Ours.path(key), patch.clone(), key.clone());
        async move {
            let path = format!("{path}?fieldManager={NAME}");
            let answer = client.patch(&path, MERGE_PATCH, &patch).await;
            let answer = answer.map_err(|NoAnswer(why)| failed("change", &key, why))?;
            if answer.code.is_success() || answer.code == StatusCode::NOT_FOUND {
                return Ok(());
            }
            Err(failed("change", &key, answer.message()))
        }
    };
    let work: Vec<_> = budgets.iter().map(write).collect();
    let outcomes: Vec<Result<(), Error>> =
        stream::iter(work).buffer_unordered(AT_A_TIME).collect().await;
    outcomes.into_iter().collect()
}

fn failed(action: &str, (namespace, name): &Key, reason: String) -> Error {
    Error::Refused { action: format!("{action} budget {namespace}/{name}"), reason }
}

#[cfg(test)]
mod tests {
    use super::super::super::fake::{Fake, Who};
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_somebody_has_changed_or_made_anew_is_not_deleted() {
        let path = Storage::BuiltIn.path(&("n".to_owned(), "b".to_owned()));
        let status = |now: &mut Value| now["status"] = json!({"observedGeneration": 1});
        let spec = |now: &mut Value| now["spec"] = json!({"minAvailable": 2});
        let anew = |now: &mut Value| now["metadata"]["uid"] = json!("another");
        let changes = [(status as fn(&mut Value), false), (spec, true), (anew, true)];
        for finalizers in [json!([]), json!(["example.com/waits"])] {
            for (change, is_kept) in changes {
                let fake = Fake::new();
                let client = fake.client(Who::Admin);
                let metadata = json!({"namespace": "n", "name": "b", "finalizers": finalizers});
                let budget = json!({"metadata": metadata, "spec": {"minAvailable": 1}});
                let seen = fake.lock().put(&path, budget);
                let now = fake.lock().put(&path, seen.clone());
                *fake.lock().get(&path) = now;
                change(fake.lock().get(&path));
                delete(&client, Storage::BuiltIn, &seen).await.unwrap();
                let left = client.get(&path).await.unwrap();
                assert_eq!(left.code == StatusCode::OK, is_kept, "{left:?}");
                let held = left.json::<Value>().unwrap()["metadata"]["finalizers"].take();
                assert!(!is_kept || held == finalizers, "{held}");
            }
        }
    }

    #[test]
    fn a_copy_that_somebody_has_changed_is_theirs() {
        let key = ("n".to_owned(), "b".to_owned());
        let budget = |spec: Value| json!({"metadata": {"name": "b"}, "spec": spec});
        let originals = Budgets::from([(key.clone(), budget(json!({"minAvailable": 1})))]);
        let mut copy = budget(json!({"minAvailable": 1}));
        assert!(!is_copy_of(&originals, &key, &copy), "it lacks the mark");
        copy["metadata"]["annotations"][IMPORTED] = json!("1a2b");
        assert!(is_copy_of(&originals, &key, &copy));
        assert!(!is_copy_of(&Budgets::new(), &key, &copy), "its original is gone");
        copy["spec"]["budgetScope"] = json!("Workload");
        assert!(!is_copy_of(&originals, &key, &copy));
    }

    #[test]
    fn what_was_served_from_here_is_no_copy() {
        let budget = |mark: Value| json!({"metadata": {"annotations": {IMPORTED: mark}}});
        assert!(is_copy(&budget(json!("1a2b"))));
        assert!(!is_copy(&budget(json!(SERVED_NOW))));
        assert!(is_marked(&budget(json!(SERVED_NOW))));
        assert!(!is_marked(&json!({"metadata": {}})));
    }
}
