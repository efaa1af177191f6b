//! What etcd holds: objects as JSON, one revision for all of them, and the history that watches read.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::resources::Kind;

/// Kind, namespace and name. Objects without a namespace have an empty one.
pub type Key = (Kind, String, String);

#[derive(Clone, Debug)]
pub struct Change {
    pub version: u64,
    pub kind: Kind,
    pub verb: Verb,
    pub object: Arc<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Added,
    Modified,
    Deleted,
}

impl Verb {
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

#[derive(Debug, Default)]
pub struct Store {
    revision: u64,
    objects: BTreeMap<Key, Arc<Value>>,
    history: Vec<Change>,
    /// Watches from an older version get 410.
    compacted: BTreeMap<Kind, u64>,
    uids: u64,
}

impl Store {
    pub fn revision(&self) -> u64 {
        self.revision
    }

    pub fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<&Arc<Value>> {
        self.objects.get(&(kind, namespace.to_owned(), name.to_owned()))
    }

    /// All objects of a kind, or those of one namespace, in the order of their names.
    pub fn list<'a>(
        &'a self,
        kind: Kind,
        namespace: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Arc<Value>> + 'a {
        let inside =
            move |key: &Key| key.0 == kind && namespace.is_none_or(|namespace| key.1 == namespace);
        self.objects.iter().filter(move |(key, _)| inside(key)).map(|(_, object)| object)
    }

    pub fn changes_after(&self, kind: Kind, version: u64) -> impl Iterator<Item = &Change> {
        let from = self.history.partition_point(|change| change.version <= version);
        self.history[from..].iter().filter(move |change| change.kind == kind)
    }

    pub fn last_change(&self) -> Option<&Change> {
        self.history.last()
    }

    /// Versions of this kind before now are forgotten.
    pub fn compact(&mut self, kind: Kind) {
        self.compacted.insert(kind, self.revision);
    }

    pub fn is_compacted(&self, kind: Kind, version: u64) -> bool {
        self.compacted.get(&kind).is_some_and(|compacted| version < *compacted)
    }

    /// Creates the object with a new uid. The caller has seen that there is none of this name.
    pub fn create(&mut self, kind: Kind, mut object: Value) -> Arc<Value> {
        self.uids += 1;
        object["apiVersion"] = json!(kind.api_version());
        object["kind"] = json!(kind.kind);
        object["metadata"]["uid"] = json!(format!("uid-{}", self.uids));
        if object["metadata"]["generation"].is_null() {
            object["metadata"]["generation"] = json!(1);
        }
        self.put(kind, Verb::Added, object)
    }

    pub fn replace(&mut self, kind: Kind, object: Value) -> Arc<Value> {
        self.put(kind, Verb::Modified, object)
    }

    pub fn delete(&mut self, kind: Kind, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let key = (kind, namespace.to_owned(), name.to_owned());
        let mut object = Arc::unwrap_or_clone(self.objects.remove(&key)?);
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        Some(self.note(kind, Verb::Deleted, object))
    }

    fn put(&mut self, kind: Kind, verb: Verb, mut object: Value) -> Arc<Value> {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let object = self.note(kind, verb, object);
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        self.objects.insert((kind, text("namespace"), text("name")), object.clone());
        object
    }

    fn note(&mut self, kind: Kind, verb: Verb, object: Value) -> Arc<Value> {
        let object = Arc::new(object);
        let version = self.revision;
        self.history.push(Change { version, kind, verb, object: object.clone() });
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::{BUDGETS, PODS};

    #[test]
    fn every_change_has_a_version_of_its_own_and_stays_in_the_history() {
        let mut store = Store::default();
        let pod = store.create(&PODS, json!({"metadata": {"namespace": "n", "name": "p"}}));
        assert_eq!(pod["metadata"]["resourceVersion"], "1");
        store.replace(&PODS, Value::clone(&pod));
        store.create(&BUDGETS, json!({"metadata": {"namespace": "n", "name": "b"}}));
        let gone = store.delete(&PODS, "n", "p").unwrap();
        assert_eq!(gone["metadata"]["resourceVersion"], "4");
        assert!(store.get(&PODS, "n", "p").is_none());
        let verbs: Vec<Verb> = store.changes_after(&PODS, 1).map(|change| change.verb).collect();
        assert_eq!(verbs, [Verb::Modified, Verb::Deleted]);
        store.compact(&PODS);
        assert!(store.is_compacted(&PODS, 3) && !store.is_compacted(&PODS, 4));
        assert!(!store.is_compacted(&BUDGETS, 1));
    }
}
