//! How far each kind's watch has come, and how far a status has seen.

use std::collections::{BTreeMap, BTreeSet};

use litemap::LiteMap;

use crate::io::Kind;
use crate::model::ResourceVersion;

/// The highest version seen of each kind, anywhere: a watch delivers its events in order.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    reached: BTreeMap<Kind, ResourceVersion>,
    /// Kinds by the name that they have in a status.
    names: BTreeMap<String, Kind>,
}

impl Progress {
    pub(crate) fn new(kinds: &BTreeSet<Kind>) -> Self {
        let names = kinds.iter().map(|kind| (kind.to_string(), kind.clone())).collect();
        Self { reached: BTreeMap::new(), names }
    }

    pub(crate) fn reach(&mut self, kind: &Kind, version: &ResourceVersion) {
        match self.reached.get_mut(kind) {
            Some(reached) => raise(reached, version),
            None => {
                self.reached.insert(kind.clone(), version.clone());
            }
        }
    }

    pub(crate) fn all_reached(&self) -> &BTreeMap<Kind, ResourceVersion> {
        &self.reached
    }

    pub(crate) fn has_reached(&self, kind: &Kind, version: &ResourceVersion) -> bool {
        self.reached.get(kind).is_some_and(|reached| !reached.is_older_than(version))
    }

    pub(crate) fn reached(&self, kind: &Kind) -> Option<&ResourceVersion> {
        self.reached.get(kind)
    }

    /// Versions start over: etcd was restored.
    pub(crate) fn forget(&mut self, kind: &Kind) {
        self.reached.remove(kind);
    }

    /// None for a kind that this instance does not read: it cannot be behind on that.
    pub(crate) fn kind(&self, name: &str) -> Option<&Kind> {
        self.names.get(name)
    }
}

/// What a budget's numbers were computed from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen(LiteMap<Kind, ResourceVersion>);

impl Seen {
    pub(crate) fn note(&mut self, kind: &Kind, version: &ResourceVersion) {
        match self.0.get_mut(kind) {
            Some(seen) => raise(seen, version),
            None => {
                self.0.insert(kind.clone(), version.clone());
            }
        }
    }

    pub(crate) fn version(&self, kind: &Kind) -> Option<&ResourceVersion> {
        self.0.get(kind)
    }

    /// Versions start over: etcd was restored.
    pub(crate) fn forget(&mut self, kind: &Kind) {
        self.0.remove(kind);
    }

    /// Watermarks never go back.
    pub(crate) fn write_into(&self, watermarks: &mut LiteMap<String, ResourceVersion>) {
        for (kind, version) in &self.0 {
            let watermark = watermarks.entry(kind.to_string()).or_default();
            if planted!(WatermarkBack) {
                watermark.clone_from(version);
            }
            raise(watermark, version);
        }
    }
}

fn raise(to: &mut ResourceVersion, version: &ResourceVersion) {
    if to.is_older_than(version) {
        to.clone_from(version);
    }
}
