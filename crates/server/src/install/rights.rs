//! The rights that serving needs: one table for the `ClusterRole`, the `Role` and the check at start.

use holdfast_core::model::GroupApi;
use serde::Deserialize;
use serde_json::{Value, json};

use super::gang;
use super::unavailable::PROBE;
use super::{NAME, POD_GROUPS, SYSTEM_NAMESPACE, TURN};
use crate::api_client::{ApiClient, NoAnswer};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    group: &'static str,
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
    /// Limits the right to the object of this name.
    name: Option<&'static str>,
    place: Where,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    Cluster,
    /// The right applies only in Holdfast's own namespace.
    System,
}

const READ: &[&str] = &["list", "watch"];
const GET: &[&str] = &["get"];

const SERVING: &[Right] = &[
    right("", &["pods"], &["get", "list", "watch"]),
    right("", &["replicationcontrollers"], READ),
    right("", &["events"], &["create", "patch"]),
    right("apps", &["replicasets", "deployments", "statefulsets"], READ),
    right("batch", &["jobs"], READ),
    right("policy", &["poddisruptionbudgets"], READ),
    right("policy.holdfast.dev", &["poddisruptionbudgets"], &["get", "list", "watch"]),
    right("policy.holdfast.dev", &["poddisruptionbudgets/status"], &["update"]),
    right("scheduling.k8s.io", &["podgroups", "workloads"], READ),
    right("scheduling.holdfast.dev", &["podgroups", "workloads"], READ),
    right("leaderworkerset.x-k8s.io", &["leaderworkersets"], READ),
    right("jobset.x-k8s.io", &["jobsets"], READ),
    right("apps.kruise.io", &["clonesets", "statefulsets"], READ),
    // Any kind may own pods. Holdfast reads only its /scale.
    right("*", &["*/scale"], &["get"]),
    // To check whether PodUnavailableBudgets are Holdfast's, whether policy/v1 is, and whether pods wait for
    // groups.
    UNAVAILABLE_CRD,
    POLICY,
    Right { verbs: GET, ..PLACING },
    // To check at start whether everything is installed, and to keep address and CA there.
    named("admissionregistration.k8s.io", &["mutatingwebhookconfigurations"], &["get", "update"]),
    named(
        "flowcontrol.apiserver.k8s.io",
        &["flowschemas", "prioritylevelconfigurations"],
        &["get"],
    ),
    // The election. A right to create cannot be limited to a name.
    own(right("coordination.k8s.io", &["leases"], &["create"])),
    own(named("coordination.k8s.io", &["leases"], &["get", "update"])),
];

/// Additional rights of native mode: the CRD is the storage of `policy/v1`, and Holdfast forwards clients'
/// requests under its own identity, after kube-apiserver has authorized them.
const NATIVE: &[Right] = &[
    right(
        "policy.holdfast.dev",
        &["poddisruptionbudgets"],
        &["create", "update", "patch", "delete", "deletecollection"],
    ),
    right("policy.holdfast.dev", &["poddisruptionbudgets/status"], &["get", "patch"]),
    // To keep the CA there.
    Right { verbs: &["update"], ..POLICY },
    own(named("", &["services"], &["get"])),
];

/// To register only while no uninstallation runs.
const INSTALLING: &[Right] = &[own(Right {
    name: Some(TURN),
    ..right("coordination.k8s.io", &["leases"], &["get", "update"])
})];

/// To take over `policy/v1` without `--install`: to find admission rules that would no longer see budgets.
const CLAIMING: &[Right] = &[
    right(
        "admissionregistration.k8s.io",
        &[
            "mutatingwebhookconfigurations",
            "validatingwebhookconfigurations",
            "mutatingadmissionpolicies",
            "validatingadmissionpolicies",
        ],
        &["list"],
    ),
    right("", &["resourcequotas"], &["list"]),
];

/// Holdfast's kinds that users read and write if they may view or edit other objects of a namespace.
const PEOPLES: [(&str, &[&str]); 3] = [
    ("policy.holdfast.dev", &["poddisruptionbudgets"]),
    ("policy.kruise.io", &["podunavailablebudgets"]),
    ("scheduling.holdfast.dev", &["podgroups", "workloads"]),
];

/// Returns rules for users. In native mode users use `policy/v1`, and only Holdfast writes its storage.
pub fn of_people(edit: bool, native: bool) -> Value {
    let verbs: &[&str] = if edit {
        &["create", "update", "patch", "delete", "deletecollection"]
    } else {
        &["get", "list", "watch"]
    };
    let rule =
        |(group, resources)| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    PEOPLES.into_iter().skip(native.into()).map(rule).collect()
}

/// Returns true if these are the rights of native mode.
pub fn are_native(rights: &[Right]) -> bool {
    NATIVE.iter().all(|right| rights.contains(right))
}

const UNAVAILABLE_CRD: Right = Right {
    name: Some("podunavailablebudgets.policy.kruise.io"),
    ..right("apiextensions.k8s.io", &["customresourcedefinitions"], &["get"])
};

/// The `APIService`, which shows which server serves `policy/v1`.
const POLICY: Right =
    Right { name: Some("v1.policy"), ..right("apiregistration.k8s.io", &["apiservices"], GET) };

/// Additional rights of `PodUnavailableBudgets`.
const UNAVAILABLE: &[Right] = &[
    right("policy.kruise.io", &["podunavailablebudgets"], &["get", "list", "watch"]),
    right("policy.kruise.io", &["podunavailablebudgets/status"], &["update"]),
    // To write the annotation that names a pod's budget.
    right("", &["pods"], &["patch"]),
    // To keep address and CA there, for conversion and for the webhooks.
    Right { verbs: &["update"], ..UNAVAILABLE_CRD },
    named("admissionregistration.k8s.io", &["validatingwebhookconfigurations"], &["get", "update"]),
    // To test whether API servers call Holdfast about pods. Limited to this name.
    Right { name: Some(PROBE.pod), ..right("", &["pods/eviction"], &["create"]) },
    // To check whether the system itself removes a pod. These kinds are read completely, and for other owners
    // only /scale.
    right("", &["namespaces", "nodes", "replicationcontrollers"], GET),
    right("apps", &["replicasets", "statefulsets", "daemonsets"], GET),
    right("batch", &["jobs"], GET),
    right("apps.kruise.io", &["clonesets", "statefulsets", "daemonsets"], GET),
];

/// Additional rights of the web page, which also shows `PodUnavailableBudgets` that Holdfast does not
/// enforce.
const PAGE: &[Right] = &[
    right("", &["nodes"], &["list"]),
    right("policy.kruise.io", &["podunavailablebudgets"], &["list"]),
];

/// Additional rights of pod groups, of both APIs.
const GANGS: &[Right] = &[
    right("", &["namespaces"], READ),
    Right { verbs: &["update"], ..PLACING },
    Right { resources: &["validatingwebhookconfigurations"], verbs: &["get", "update"], ..PLACING },
];

const PLACING: Right = Right {
    name: Some(POD_GROUPS),
    ..right("admissionregistration.k8s.io", &["mutatingwebhookconfigurations"], GET)
};

/// Additional rights of pod groups of Kubernetes.
const GANGS_OF_KUBERNETES: &[Right] = &[
    right("scheduling.k8s.io", &["podgroups"], &["get", "create", "patch", "delete"]),
    right("scheduling.k8s.io", &["podgroups/status"], &["patch"]),
    right("scheduling.k8s.io", &["workloads"], &["get", "create", "patch"]),
    // To test whether API servers call Holdfast about pods. Limited to this name.
    Right { name: Some(gang::PROBE.pod), ..right("", &["pods/eviction"], &["create"]) },
];

/// Additional rights of Holdfast's own pod groups.
const GANGS_OF_HOLDFAST: &[Right] = &[
    right("scheduling.holdfast.dev", &["podgroups"], &["get", "create", "patch", "delete"]),
    right("scheduling.holdfast.dev", &["podgroups/status"], &["patch"]),
    right("scheduling.holdfast.dev", &["workloads"], &["get", "create", "patch"]),
    // To find room.
    right("", &["nodes"], READ),
    // To remove gates, and to evict gangs that do not become whole.
    right("", &["pods"], &["patch"]),
    right("", &["pods/eviction"], &["create"]),
];

const CLEARING: &[Right] = &[right("", &["pods/status"], &["patch"])];

/// The features that need rights.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub struct Needs {
    /// Clear stale `DisruptionTarget` conditions.
    pub clearing: bool,
    pub native: bool,
    /// Take over `policy/v1` without installing, after a check of admission rules.
    pub claiming: bool,
    pub installing: bool,
    /// Enforce `PodUnavailableBudgets`.
    pub unavailable: bool,
    /// The API of pod groups.
    pub gangs: Option<GroupApi>,
    pub page: bool,
}

pub fn needed(needs: Needs) -> Vec<Right> {
    let of = |is_needed: bool, rights: &'static [Right]| if is_needed { rights } else { &[] };
    let (common, gangs): (&[Right], &[Right]) = match needs.gangs {
        None => (&[], &[]),
        Some(GroupApi::Kubernetes) => (GANGS, GANGS_OF_KUBERNETES),
        Some(GroupApi::Holdfast) => (GANGS, GANGS_OF_HOLDFAST),
    };
    let native = of(needs.native, NATIVE);
    let all = SERVING.iter().chain(native).chain(of(needs.unavailable, UNAVAILABLE));
    let all = all.chain(common).chain(gangs).chain(of(needs.clearing, CLEARING));
    all.chain(of(needs.page, PAGE))
        .chain(of(needs.claiming, CLAIMING))
        .chain(of(needs.installing, INSTALLING))
        .copied()
        .collect()
}

/// Returns true if this identity may list objects of this kind in all namespaces.
pub async fn may_list(client: &ApiClient, group: &str, resource: &str) -> Result<bool, NoAnswer> {
    is_allowed(client, &review(group, resource, "list", "", "")).await
}

/// Returns true if this identity may get this cluster-scoped object of the core group.
pub async fn may_get(client: &ApiClient, resource: &str, name: &str) -> Result<bool, NoAnswer> {
    is_allowed(client, &review("", resource, "get", name, "")).await
}

pub fn rules(rights: &[Right], place: Where) -> Value {
    rights
        .iter()
        .filter(|right| right.place == place)
        .map(|right| {
            let mut rule = json!({
                "apiGroups": [right.group],
                "resources": right.resources,
                "verbs": right.verbs,
            });
            if let Some(name) = right.name {
                rule["resourceNames"] = json!([name]);
            }
            rule
        })
        .collect()
}

/// Returns the rights that apply only in Holdfast's own namespace.
pub fn in_own_namespace(rights: &[Right]) -> Vec<Right> {
    rights.iter().filter(|right| right.place == Where::System).copied().collect()
}

/// Returns the missing rights in words, such as `list pods`.
pub async fn missing(client: &ApiClient, rights: &[Right]) -> Result<Vec<String>, NoAnswer> {
    let mut missing = Vec::new();
    for (review, text) in rights.iter().flat_map(reviews) {
        if !is_allowed(client, &review).await? {
            missing.push(text);
        }
    }
    Ok(missing)
}

const fn right(
    group: &'static str,
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
) -> Right {
    Right { group, resources, verbs, name: None, place: Where::Cluster }
}

const fn named(
    group: &'static str,
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
) -> Right {
    Right { group, resources, verbs, name: Some(NAME), place: Where::Cluster }
}

const fn own(mut right: Right) -> Right {
    right.place = Where::System;
    right
}

fn reviews(right: &Right) -> Vec<(Value, String)> {
    let pairs = right.resources.iter().flat_map(|r| right.verbs.iter().map(move |v| (*r, *v)));
    pairs
        .map(|(path, verb)| {
            let namespace = if right.place == Where::System { SYSTEM_NAMESPACE } else { "" };
            let name = right.name.unwrap_or_default();
            let review = review(right.group, path, verb, name, namespace);
            let (group, name) = (after(".", right.group), after(" ", name));
            (review, format!("{verb} {path}{group}{name}{}", after(" in ", namespace)))
        })
        .collect()
}

/// Returns `sign` and `text`, or nothing if `text` is empty.
fn after(sign: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{sign}{text}") }
}

fn review(group: &str, path: &str, verb: &str, name: &str, namespace: &str) -> Value {
    let (resource, subresource) = path.split_once('/').unwrap_or((path, ""));
    json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {
            "group": group,
            "resource": resource,
            "subresource": subresource,
            "verb": verb,
            "name": name,
            "namespace": namespace,
        }},
    })
}

async fn is_allowed(client: &ApiClient, review: &Value) -> Result<bool, NoAnswer> {
    #[derive(Deserialize)]
    struct Review {
        status: Status,
    }
    #[derive(Deserialize)]
    struct Status {
        allowed: bool,
    }
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let answer = client.post(path, review).await?;
    if !answer.code.is_success() {
        return Err(NoAnswer(answer.message()));
    }
    let review: Review = answer.json().map_err(|e| NoAnswer(e.to_string()))?;
    Ok(review.status.allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_written_as_people_read_them() {
        let texts = |right| reviews(&right).into_iter().map(|(_, text)| text).collect::<Vec<_>>();
        assert_eq!(texts(CLEARING[0]), ["patch pods/status"]);
        assert_eq!(
            texts(own(right("coordination.k8s.io", &["leases"], &["create"]))),
            ["create leases.coordination.k8s.io in holdfast-system"]
        );
        assert_eq!(
            texts(INSTALLING[0])[0],
            "get leases.coordination.k8s.io holdfast-installation in holdfast-system"
        );
        assert_eq!(texts(POLICY), ["get apiservices.apiregistration.k8s.io v1.policy"]);
        assert_eq!(
            texts(right("apps", &["deployments", "replicasets"], READ)),
            [
                "list deployments.apps",
                "watch deployments.apps",
                "list replicasets.apps",
                "watch replicasets.apps"
            ]
        );
    }

    #[test]
    fn clearing_needs_one_more() {
        let of = |clearing| needed(Needs { clearing, unavailable: true, ..Needs::default() });
        assert!(!of(false).contains(&CLEARING[0]));
        assert!(of(true).contains(&CLEARING[0]));
    }

    #[test]
    fn evictions_are_a_right_about_the_probe_alone() {
        let gangs = Some(GroupApi::Kubernetes);
        let all =
            Needs { clearing: true, native: true, unavailable: true, gangs, ..Needs::default() };
        let rights = needed(all);
        let evicting = rights.iter().filter(|right| right.resources.contains(&"pods/eviction"));
        assert_eq!(
            evicting.map(|right| right.name).collect::<Vec<_>>(),
            [Some(PROBE.pod), Some(gang::PROBE.pod)]
        );
        let without = needed(Needs { unavailable: false, gangs: None, ..all });
        assert!(without.iter().all(|right| right.group != "policy.kruise.io"));
    }
}
