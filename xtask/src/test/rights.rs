//! Whether Holdfast has every right that it needs, and no other.
//!
//! The tests run it as the `ServiceAccount` of what `holdfast manifests` prints, with one choice of features or
//! another. kube-apiserver's audit log has both sides: the roles as they were applied, and the requests.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{BufRead as _, BufReader},
    path::PathBuf,
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use crate::localkube::{Options, workspace};

const USER: &str = "system:serviceaccount:holdfast-system:holdfast";
const ROLE: &str = "holdfast";

/// The identity of the test that tries forbidden requests.
const INTRUDER: &str = "holdfast-e2e-intruder";

/// Rights that these tests do not use, with the reasons.
const UNUSED: [(&str, &str); 3] = [
    (
        "get podgroups.scheduling.k8s.io",
        "a PodGroup that is there already when it is to be made, after a crash, say",
    ),
    (
        "patch pods/status",
        "done two minutes after an eviction that came to nothing: crates/core/tests/upstream/stale.rs",
    ),
    (
        "get podunavailablebudgets.policy.kruise.io",
        "read again after a write that met another, or that was not answered",
    ),
];

/// Removes the logs of earlier runs.
pub fn clear() -> Result<()> {
    let dir = dir();
    if dir.exists() {
        fs::remove_dir_all(&dir).with_context(|| format!("remove {}", dir.display()))?;
    }
    fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))
}

/// Turns on an audit log, named after the group of tests.
pub fn audited(options: &Options, row: &str) -> Result<Options> {
    let (log, policy) = (dir().join(format!("{row}.log")), dir().join("policy.json"));
    let rules = json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "omitManagedFields": true,
        // Only Holdfast's requests are logged, so that it costs nothing.
        "rules": [
            {"level": "Metadata", "users": [USER]},
            {"level": "Request", "verbs": ["create", "delete"], "resources": [{
                "group": "rbac.authorization.k8s.io",
                "resources": ["clusterroles", "clusterrolebindings", "roles", "rolebindings"],
            }]},
            {"level": "None"},
        ],
    });
    fs::write(&policy, rules.to_string()).with_context(|| format!("write {}", policy.display()))?;
    let mut audited = options.clone();
    audited.apiserver_flags.extend([
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", log.display()),
        // One file.
        "--audit-log-maxsize=10000".to_owned(),
    ]);
    Ok(audited)
}

/// Compares the logs after all groups have run. Rights that only concurrent instances need may be unused in
/// one run. So an unused right is a failure with `strict`, and else a line in the output.
pub fn check(strict: bool) -> Result<()> {
    let mut seen = Seen::default();
    for entry in fs::read_dir(dir()).with_context(|| format!("read {}", dir().display()))? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "log") {
            continue;
        }
        let file = File::open(&path).with_context(|| format!("open {}", path.display()))?;
        let mut events = Vec::new();
        for line in BufReader::new(file).lines() {
            let event: Value =
                serde_json::from_str(&line?).with_context(|| format!("read {}", path.display()))?;
            events.push(event);
        }
        // They were written in the order of their ends.
        events.sort_by_cached_key(|event| text(&event["requestReceivedTimestamp"]).to_owned());
        for event in &events {
            seen.note(event);
        }
    }
    seen.judge(strict)
}

/// One verb on one resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    verb: String,
    group: String,
    /// The resource with a subresource, such as `pods/eviction`.
    resource: String,
    /// Empty: every name.
    name: String,
}

impl Right {
    /// Returns true if this right of a role covers the request.
    fn allows(&self, asked: &Self) -> bool {
        let (resource, sub) = (&self.resource, self.resource.strip_prefix("*/"));
        let of_any = |sub| asked.resource.split_once('/').is_some_and(|(_, of)| of == sub);
        self.verb == asked.verb
            && (self.group == "*" || self.group == asked.group)
            && sub.map_or_else(|| *resource == asked.resource, of_any)
            && (self.name.is_empty() || self.name == asked.name)
    }

    fn title(&self) -> String {
        let Self { verb, group, resource, name } = self;
        let dot = if group.is_empty() { "" } else { "." };
        format!("{verb} {resource}{dot}{group} {name}").trim_end().to_owned()
    }
}

/// The roles that were printed for one choice of features.
#[derive(Debug, Default)]
struct Installation {
    rights: BTreeSet<Right>,
    used: BTreeSet<Right>,
}

#[derive(Debug, Default)]
struct Seen {
    installations: Vec<Installation>,
    /// True while the last of them is installed.
    is_installed: bool,
    refused: BTreeSet<String>,
}

impl Seen {
    fn note(&mut self, event: &Value) {
        let object = &event["objectRef"];
        if event["user"]["username"] == USER {
            self.request(event, &asked(event));
        } else if event["verb"] == "delete" {
            self.is_installed &= object["name"] != ROLE;
        } else if event["requestObject"]["metadata"]["name"] == ROLE {
            // The cluster role comes first, then the role of Holdfast's own namespace.
            if object["resource"] == "clusterroles" {
                self.installations.push(Installation::default());
                self.is_installed = true;
            }
            let rights = list(&event["requestObject"]["rules"]).flat_map(expanded);
            if let Some(last) = self.installations.last_mut() {
                last.rights.extend(rights);
            }
        }
    }

    fn request(&mut self, event: &Value, asked: &Right) {
        let annotations = &event["annotations"];
        // During its removal it still sends requests for a moment.
        let (true, Some(last)) = (self.is_installed, self.installations.last_mut()) else { return };
        if annotations["authorization.k8s.io/decision"] == "allow" {
            last.used.extend(last.rights.iter().filter(|right| right.allows(asked)).cloned());
        } else if event["userAgent"] != INTRUDER {
            self.refused.insert(asked.title());
        }
    }

    fn judge(&self, strict: bool) -> Result<()> {
        ensure!(!self.installations.is_empty(), "no role {ROLE} was applied");
        let unused: BTreeSet<String> =
            self.installations.iter().flat_map(|of| self.unused(of)).map(Right::title).collect();
        let known = |title: &String| UNUSED.iter().any(|(right, _)| right == title);
        let (known, unknown): (Vec<String>, Vec<String>) = unused.into_iter().partition(known);
        let rights: BTreeSet<&Right> =
            self.installations.iter().flat_map(|of| &of.rights).collect();
        println!(
            "{} rights in {} installations, all used but for {}",
            rights.len(),
            self.installations.len(),
            known.len() + unknown.len()
        );
        for (right, why) in UNUSED.iter().filter(|(right, _)| known.iter().any(|k| k == right)) {
            println!("  not used here: {right}: {why}");
        }
        let mut wrong = Vec::new();
        let unused = unknown.iter().map(|right| format!("nothing used it: {right}"));
        if strict {
            wrong.extend(unused);
        } else {
            unused.for_each(|line| println!("  {line}"));
        }
        wrong.extend(self.refused.iter().map(|right| format!("refused: {right}")));
        if wrong.is_empty() {
            return Ok(());
        }
        bail!("what is printed is not what is needed\n{}", wrong.join("\n"))
    }

    /// Returns the unused rights of an installation. A right that a smaller installation also has belongs to
    /// that one: it must be used there or in a larger one. So if one feature uses a right, this does not
    /// excuse another feature that has the right too.
    fn unused<'a>(&'a self, of: &'a Installation) -> impl Iterator<Item = &'a Right> {
        let mut used = BTreeSet::new();
        for fewer in self.installations.iter().filter(|fewer| fewer.rights.is_subset(&of.rights)) {
            let more =
                self.installations.iter().filter(|more| fewer.rights.is_subset(&more.rights));
            used.extend(more.flat_map(|more| more.used.intersection(&fewer.rights)));
        }
        of.rights.iter().filter(move |right| !used.contains(right))
    }
}

fn asked(event: &Value) -> Right {
    let object = &event["objectRef"];
    let of = |key: &str| text(&object[key]).to_owned();
    let mut resource = of("resource");
    if let Some(sub) = object["subresource"].as_str() {
        resource = format!("{resource}/{sub}");
    }
    Right {
        verb: text(&event["verb"]).to_owned(),
        group: of("apiGroup"),
        resource,
        name: of("name"),
    }
}

/// Returns the rights of a rule of a role, verb by verb.
fn expanded(rule: &Value) -> Vec<Right> {
    let names: Vec<&str> = match &rule["resourceNames"] {
        Value::Null => vec![""],
        names => list(names).map(text).collect(),
    };
    let mut rights = Vec::new();
    for group in list(&rule["apiGroups"]).map(text) {
        for resource in list(&rule["resources"]).map(text) {
            for verb in list(&rule["verbs"]).map(text) {
                let [verb, group, resource] = [verb, group, resource].map(str::to_owned);
                let of = |name: &&str| Right {
                    verb: verb.clone(),
                    group: group.clone(),
                    resource: resource.clone(),
                    name: (*name).to_owned(),
                };
                rights.extend(names.iter().map(of));
            }
        }
    }
    rights
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The directory of the logs. They stay for later analysis.
fn dir() -> PathBuf {
    workspace().join("target/rights")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the roles of an installation with these rights, each `verb resource`, and the right to list
    /// pods.
    fn role(rights: &[&str]) -> Value {
        let rule = |right: &&str| {
            let (verb, resource) = right.split_once(' ').expect("a verb and a resource");
            json!({"apiGroups": [""], "resources": [resource], "verbs": [verb]})
        };
        let rules: Vec<Value> = rights.iter().chain(&["list pods"]).map(rule).collect();
        json!({
            "user": {"username": "admin"},
            "verb": "create",
            "objectRef": {"resource": "clusterroles"},
            "requestObject": {"metadata": {"name": ROLE}, "rules": rules},
        })
    }

    fn request(right: &str, decision: &str) -> Value {
        let (verb, resource) = right.split_once(' ').expect("a verb and a resource");
        let (resource, sub) = resource.split_once('/').unwrap_or((resource, ""));
        let sub = if sub.is_empty() { Value::Null } else { sub.into() };
        json!({
            "user": {"username": USER},
            "verb": verb,
            "objectRef": {"resource": resource, "subresource": sub, "name": "x"},
            "annotations": {"authorization.k8s.io/decision": decision},
        })
    }

    fn judge(events: &[Value]) -> Result<(), String> {
        let mut seen = Seen::default();
        for event in events {
            seen.note(event);
        }
        seen.judge(true).map_err(|error| error.to_string())
    }

    #[test]
    fn what_nothing_used_is_named() {
        let used = ["list pods", "get pods", "get jobs/scale"].map(|right| request(right, "allow"));
        let judge = |rights: &[&str]| judge(&[&[role(rights)], &used[..]].concat());
        assert_eq!(judge(&["get pods", "get */scale"]), Ok(()));
        let wrong = judge(&["get pods", "patch pods", "get */status"]).expect_err("two are unused");
        assert!(wrong.ends_with("used it: get */status\nnothing used it: patch pods"), "{wrong}");
        assert!(Seen::default().judge(true).is_err(), "nothing was seen at all");
    }

    #[test]
    fn features_do_not_excuse_each_other() {
        let used = |rights: &[&str]| -> Vec<Value> {
            rights.iter().map(|right| request(right, "allow")).collect()
        };
        let one =
            [vec![role(&["get pods", "get jobs"])], used(&["list pods", "get jobs"])].concat();
        let all = ["list pods", "get pods", "get nodes"];
        let other = [vec![role(&["get pods", "get nodes"])], used(&all)].concat();
        let wrong = judge(&[&one[..], &other].concat()).expect_err("only the other gets pods");
        assert!(wrong.ends_with("needed\nnothing used it: get pods"), "{wrong}");
        // Both smaller installations have it, so it belongs to neither, or a larger one uses it.
        let fewer = vec![role(&["get pods"])];
        let more =
            [vec![role(&["get pods", "get jobs", "get nodes"])], used(&["get pods"])].concat();
        for third in [fewer, more] {
            assert_eq!(judge(&[&one[..], &other, &third].concat()), Ok(()));
        }
    }

    #[test]
    fn what_was_refused_is_named() {
        let (list, refused) = (request("list pods", "allow"), request("list secrets", "forbid"));
        let mut intruder = refused.clone();
        intruder["userAgent"] = json!(INTRUDER);
        assert_eq!(judge(&[role(&[]), list.clone(), intruder]), Ok(()));
        let wrong = judge(&[role(&[]), list.clone(), refused.clone()]).expect_err("it was refused");
        assert!(wrong.ends_with("refused: list secrets x"), "{wrong}");
        let gone = json!({"user": {}, "verb": "delete", "objectRef": {"name": ROLE}});
        assert_eq!(judge(&[role(&[]), list, gone, refused]), Ok(()), "it has no role any more");
    }
}
