//! The objects that pod groups need on a cluster: with Holdfast's own kinds their definitions, a webhook on
//! pods, only in namespaces with workloads that ask for groups, and a webhook on these workloads.

use std::collections::BTreeSet;

use holdfast_api::gang;
use holdfast_core::gang::{ASKS, GROUP_SIZE, POD_GROUP};
use holdfast_core::model::GroupApi;
use serde_json::{Value, json};

use super::entry::{client, endpoint, selected};
use super::manifests::{Installed, metadata_of};
use super::release::release;
use super::uninstall::remove;
use super::{EXCLUDED_NAMESPACES, exists};
use crate::api_client::{ApiClient, NoAnswer};
use crate::discovery;
use crate::error::Error;
use crate::interception::Probe;
use crate::webhook::TIMEOUT_SECONDS;

pub const PLACE_PATH: &str = "/place";
pub const WORKLOADS_PATH: &str = "/workloads";

/// The probe of the webhook on pods.
pub const PROBE: Probe = Probe {
    pod: "holdfast-probe-pod-groups",
    answer: "this probe of Holdfast's pod groups has come where it should",
};

/// The webhook on pods of workloads that ask for groups.
const OWNED_WEBHOOK: &str = "owned.pods.holdfast.dev";

/// The versions of `scheduling.k8s.io` in which Holdfast can write `PodGroups`, newest first.
pub const VERSIONS: &[&str] = &["v1beta1", "v1alpha2"];

/// The choice of the API of pod groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodGroups {
    /// `scheduling.k8s.io` if the cluster serves it, else `scheduling.holdfast.dev`.
    Auto,
    /// `scheduling.k8s.io`: kube-scheduler starts gangs.
    Kubernetes,
    /// `scheduling.holdfast.dev`: Holdfast starts gangs, with scheduling gates.
    Holdfast,
    Off,
}

/// Returns the API of pod groups on this cluster. None: there are no pod groups.
pub async fn api(
    client: &ApiClient,
    wanted: PodGroups,
    install: bool,
) -> Result<Option<GroupApi>, Error> {
    if wanted == PodGroups::Off {
        if install {
            turn_off(client).await?;
        } else if exists(client, Installed::Placing).await? {
            let webhooks = Installed::Placing.title();
            tracing::warn!(%webhooks, "pod groups are off, and their webhooks are there: pods of workloads that \
                ask cannot be created; --install removes them");
        }
        return Ok(None);
    }
    let failed = |NoAnswer(reason)| Error::Refused {
        action: "find out whether PodGroups are served".to_owned(),
        reason,
    };
    let served = |group, versions| discovery::find(client, group, versions, "PodGroup");
    let of_kubernetes = served("scheduling.k8s.io", VERSIONS).await.map_err(failed)?;
    let api = match (wanted, &of_kubernetes) {
        (PodGroups::Kubernetes, None) => return Err(Error::NoPodGroups),
        (PodGroups::Kubernetes | PodGroups::Auto, Some(_)) => GroupApi::Kubernetes,
        _ => GroupApi::Holdfast,
    };
    // Without the webhooks no pod is put into a group, but waiting pods must still start.
    let is_installed = install
        || exists(client, Installed::Placing).await?
        || exists(client, Installed::Asking).await?
        || (api == GroupApi::Holdfast
            && served(gang::GROUP, &[gang::VERSION]).await.map_err(failed)?.is_some());
    if is_installed {
        let version = of_kubernetes.filter(|_| api == GroupApi::Kubernetes).map(|of| of.version);
        tracing::info!(?api, version, "workloads that ask get pod groups");
        return Ok(Some(api));
    }
    if wanted == PodGroups::Auto {
        // Pod groups are not installed, or an older version is installed.
        tracing::info!("pod groups are not installed: workloads get none");
        return Ok(None);
    }
    Err(Error::NotInstalled(vec![Installed::Placing.title()]))
}

/// Removes the webhooks and releases waiting pods, because no instance would answer or release them.
async fn turn_off(client: &ApiClient) -> Result<(), Error> {
    for kind in [Installed::Asking, Installed::Placing] {
        remove(client, kind, String::new()).await?;
    }
    // If the role is gone, an uninstallation has released everything, and this instance has no right to look.
    if exists(client, Installed::ClusterRole).await?
        && exists(client, Installed::PodGroupCrd).await?
    {
        let (pods, groups) = release(client).await?;
        tracing::info!(pods, groups, "pod groups are off: let go of what waited");
    }
    Ok(())
}

/// Returns the configuration of the webhooks on pods.
pub fn placing(api: GroupApi, evict: &str, bundle: &Value, namespaces: &BTreeSet<String>) -> Value {
    let webhook = |name: &str, rules: Value, selector: Value, conditions: Value| {
        json!({
            "name": name,
            "clientConfig": client(&endpoint(evict, PLACE_PATH), bundle),
            "rules": rules,
            "namespaceSelector": {"matchExpressions": [selector]},
            "matchConditions": conditions,
            // A pod that is created without its group can never join it: spec.schedulingGroup cannot be set
            // later, and gates cannot be added.
            "failurePolicy": "Fail",
            // The webhook of LeaderWorkerSet may run after this one. It writes the labels that identify the
            // group of a pod.
            "reinvocationPolicy": "IfNeeded",
            "sideEffects": "NoneOnDryRun",
            "timeoutSeconds": TIMEOUT_SECONDS,
            "matchPolicy": "Equivalent",
            "admissionReviewVersions": ["v1"],
        })
    };
    let mut webhooks = Vec::new();
    if api == GroupApi::Holdfast {
        let elsewhere = json!({
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": EXCLUDED_NAMESPACES,
        });
        let named = format!("{} && {UNBOUND}", annotated("object", POD_GROUP));
        let conditions = json!([{"name": "named", "expression": named}]);
        let rules = json!([created("pods")]);
        let mut named = webhook("named.pods.holdfast.dev", rules, elsewhere, conditions);
        // This webhook runs before the other one, whose answer adds a group name, and never again after it:
        // otherwise pods of a basic group would get a gate.
        named["reinvocationPolicy"] = json!("Never");
        webhooks.push(named);
    }
    let within = if namespaces.is_empty() {
        // Every namespace has this label: the webhook keeps Holdfast's address and is never called.
        json!({"key": "kubernetes.io/metadata.name", "operator": "DoesNotExist"})
    } else {
        json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces})
    };
    let conditions = json!([{"name": "owned", "expression": owned(api)}]);
    // Evictions of the probe show whether API servers call the webhook.
    let rules = json!([created("pods"), created("pods/eviction")]);
    webhooks.push(webhook(OWNED_WEBHOOK, rules, within, conditions));
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": metadata_of(Installed::Placing),
        "webhooks": webhooks,
    })
}

/// Returns the namespaces for which the configuration covers pods of workloads.
pub fn placed(configuration: &Value) -> BTreeSet<String> {
    selected(configuration, OWNED_WEBHOOK)
}

/// Returns the configuration of the webhook on workloads that ask for groups, and on namespaces that ask for
/// their workloads.
pub fn asking(evict: &str, bundle: &Value) -> Value {
    let rule = |group: &str, resource: &str, scope: &str| {
        json!({
            "apiGroups": [group],
            "apiVersions": ["*"],
            "resources": [resource],
            "operations": ["CREATE", "UPDATE"],
            "scope": scope,
        })
    };
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": metadata_of(Installed::Asking),
        "webhooks": [{
            "name": "workloads.holdfast.dev",
            "clientConfig": client(&endpoint(evict, WORKLOADS_PATH), bundle),
            "rules": [
                rule("leaderworkerset.x-k8s.io", "leaderworkersets", "Namespaced"),
                rule("jobset.x-k8s.io", "jobsets", "Namespaced"),
                rule("batch", "jobs", "Namespaced"),
                rule("apps", "statefulsets", "Namespaced"),
                rule("", "namespaces", "Cluster"),
            ],
            "namespaceSelector": {"matchExpressions": [{
                "key": "kubernetes.io/metadata.name",
                "operator": "NotIn",
                "values": EXCLUDED_NAMESPACES,
            }]},
            "matchConditions": [
                {"name": "asks", "expression": format!("{} || {}", newly(ASKS), newly(GROUP_SIZE))},
            ],
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "timeoutSeconds": TIMEOUT_SECONDS,
            "matchPolicy": "Equivalent",
            "admissionReviewVersions": ["v1"],
        }],
    })
}

fn created(resource: &str) -> Value {
    json!({
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": [resource],
        "operations": ["CREATE"],
        "scope": "Namespaced",
    })
}

const UNBOUND: &str = "!(has(object.spec.nodeName) && object.spec.nodeName != '')";

fn annotated(object: &str, key: &str) -> String {
    format!("(has({object}.metadata.annotations) && '{key}' in {object}.metadata.annotations)")
}

/// Returns an expression: the annotation exists and has a new value.
fn newly(key: &str) -> String {
    let (new, old) = (annotated("object", key), annotated("oldObject", key));
    format!(
        "({new} && (request.operation == 'CREATE' || !({old} && \
         object.metadata.annotations['{key}'] == oldObject.metadata.annotations['{key}'])))"
    )
}

/// Returns an expression: the pod of a controller, without a node and a group, or the probe.
fn owned(api: GroupApi) -> String {
    let grouped = match api {
        GroupApi::Kubernetes => "has(object.spec.schedulingGroup)".to_owned(),
        GroupApi::Holdfast => annotated("object", POD_GROUP),
    };
    format!(
        "(has(request.subResource) && request.subResource == 'eviction') ? {} : \
         ({UNBOUND} && !{grouped} && has(object.metadata.ownerReferences) && \
         object.metadata.ownerReferences.exists(owner, has(owner.controller) && owner.controller && \
         owner.kind in ['StatefulSet', 'Job']))",
        PROBE.condition()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVICT: &str = "https://127.0.0.1:9443/evict";

    fn namespaces(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn what_is_asked_about() {
        let bundle = json!("Q0E=");
        let in_holdfast = placing(GroupApi::Holdfast, EVICT, &bundle, &namespaces(&["a", "b"]));
        let in_kubernetes = placing(GroupApi::Kubernetes, EVICT, &bundle, &namespaces(&[]));
        let all = [in_holdfast, in_kubernetes, asking(EVICT, &bundle)];
        let all = all.map(|object| serde_json::to_string_pretty(&object).unwrap());
        insta::assert_snapshot!(all.join("\n"));
    }

    #[test]
    fn namespaces_are_read_as_they_were_written() {
        for api in [GroupApi::Kubernetes, GroupApi::Holdfast] {
            let placed_in =
                |names| placed(&placing(api, EVICT, &json!("Q0E="), &namespaces(names)));
            assert_eq!(placed_in(&["a", "b"]), namespaces(&["a", "b"]));
            assert_eq!(placed_in(&[]), namespaces(&[]));
        }
    }
}
