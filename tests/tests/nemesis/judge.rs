//! Judges the history of etcd with the auditor.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_audit::Finding;
use holdfast_audit::cluster::{ClusterAudit, Write, is_healthy, read};
use serde_json::Value;

use super::etcd::Change;

/// Longer than the longest pause and the time to catch up after it.
const LAG: Duration = Duration::from_secs(30);

/// The number of writes to print before a violation.
const SHOWN: usize = 60;

/// Audits all stored writes in order. `at` returns the time of a revision.
pub fn judge(first: &[Change], history: &[Change], at: impl Fn(u64) -> Duration) -> ClusterAudit {
    let there = first.iter().filter_map(|change| Some((change, change.object.as_ref()?)));
    let mut last: BTreeMap<&str, &Value> =
        there.clone().map(|(change, object)| (change.key.as_str(), object)).collect();
    let there = there.filter_map(|(change, object)| read(object, change.revision));
    let mut audit = ClusterAudit::new(LAG, there);
    for change in history {
        let before = match &change.object {
            Some(object) => last.insert(&change.key, object),
            None => last.remove(change.key.as_str()),
        };
        let Some(object) = change.object.as_ref().or(before) else { continue };
        let (version, gone) = (change.revision, change.object.is_none());
        if let Some(write) = Write::read(version, at(version), gone, object) {
            audit.take(write);
        }
    }
    audit
}

/// Describes a violation and the writes before it, one per line.
pub fn explain((revision, finding): &(u64, Finding), history: &[Change]) -> String {
    let before = history.iter().rev().filter(|change| change.revision <= *revision).take(SHOWN);
    let mut lines: Vec<String> = before.map(describe).collect();
    lines.push(finding.to_string());
    lines.reverse();
    lines.join("\n    ")
}

fn describe(change: &Change) -> String {
    let (revision, key) = (change.revision, change.key.trim_start_matches("/registry/"));
    let Some(object) = &change.object else { return format!("{revision} {key}: gone") };
    let mut what: Vec<String> = Vec::new();
    let mut say = |is: bool, word: &str| what.extend(is.then(|| word.to_owned()));
    say(!object["metadata"]["deletionTimestamp"].is_null(), "leaving");
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    say(conditions.into_iter().any(|c| c["reason"] == "EvictionByEvictionAPI"), "evicted");
    say(object["kind"] == "Pod" && is_healthy(object), "healthy");
    if object["kind"] == "PodDisruptionBudget" {
        let status = &object["status"];
        let grants = status["grants"].as_array().into_iter().flatten();
        let grants: Vec<String> =
            grants.map(|grant| format!("{} {}", grant["pod"], grant["cost"])).collect();
        let counted = ["currentHealthyReplicas", "desiredHealthyReplicas"].map(|n| &status[n]);
        what.push(format!("status {} of {}, grants {grants:?}", counted[0], counted[1]));
    }
    let uid = object["metadata"]["uid"].as_str().and_then(|uid| uid.get(..8)).unwrap_or_default();
    format!("{revision} {key} ({uid}): {}", what.join(" "))
}
