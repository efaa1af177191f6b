//! The objects that `PodUnavailableBudgets` need on a cluster: their definition, which may be Kruise's, and a
//! webhook on pods, only in namespaces with such budgets.

use std::collections::BTreeSet;

use http::StatusCode;
use serde_json::{Value, json};

use super::entry::{client, endpoint, selected};
use super::manifests::{Installed, metadata};
use super::registration::is_ours;
use super::{EXCLUDED_NAMESPACES, MANAGED_BY, NAME, refused};
use crate::api_client::{ApiClient, NoAnswer};
use crate::error::Error;
use crate::interception::Probe;
use crate::webhook::TIMEOUT_SECONDS;

pub const BUDGETS_PATH: &str = "/podunavailablebudgets";
pub const CONVERT_PATH: &str = "/convert";
pub const PODS_PATH: &str = "/pods";

/// The probe of the webhook on pods.
pub const PROBE: Probe =
    Probe { pod: "holdfast-probe", answer: "this probe of Holdfast's has come where it should" };

/// The webhook on pods.
const PODS_WEBHOOK: &str = "pods.holdfast.dev";

/// On a definition that existed before Holdfast. It stays after an uninstallation.
pub const TAKEN_OVER: &str = "holdfast.dev/taken-over";

/// The value of its label `managed-by` before that. Helm uses this label.
pub const MANAGED_BEFORE: &str = "holdfast.dev/managed-by-before";

/// Returns true if Holdfast serves `PodUnavailableBudgets`. It reads the definition and does not change it.
pub async fn is_to_be_served(
    client: &ApiClient,
    install: bool,
    take_over: bool,
) -> Result<bool, Error> {
    let crd = Installed::UnavailableCrd;
    let failed = |reason| refused(crd, "read", reason);
    let answer = client.get(&crd.path()).await.map_err(|NoAnswer(reason)| failed(reason))?;
    let object = crd.title();
    let is_foreign = match answer.code {
        StatusCode::OK => {
            let found: Value = answer.json().map_err(|error| failed(error.to_string()))?;
            !is_ours(&found)
        }
        StatusCode::NOT_FOUND if install => false,
        // PodUnavailableBudgets are not installed, or an older version is installed.
        StatusCode::NOT_FOUND | StatusCode::FORBIDDEN if !install => {
            tracing::info!(%object, "absent: PodUnavailableBudgets are not served");
            return Ok(false);
        }
        _ => return Err(failed(answer.message())),
    };
    let serves = !is_foreign || (install && take_over);
    if !serves {
        tracing::warn!(
            %object,
            "somebody else's: PodUnavailableBudgets are left alone; `serve --install --take-over` makes \
             them Holdfast's"
        );
    }
    Ok(serves)
}

/// Returns the definition. The bundle is in base64. `now` is the present definition.
pub fn crd(url: &str, bundle: &Value, now: &Value) -> Value {
    let mut crd = holdfast_api::unavailable::crd::with_conversion(client(url, bundle));
    crd["metadata"]["labels"][MANAGED_BY] = json!(NAME);
    if !now.is_null() && !is_ours(now) {
        crd["metadata"]["annotations"][TAKEN_OVER] = json!("true");
        if let by @ Value::String(_) = &now["metadata"]["labels"][MANAGED_BY] {
            crd["metadata"]["annotations"][MANAGED_BEFORE] = by.clone();
        }
    }
    crd
}

/// Returns the configuration of both webhooks. Without budgets it leaves out the webhook on pods.
pub fn guard(evict: &str, bundle: &Value, namespaces: &BTreeSet<String>) -> Value {
    let mut webhooks = vec![json!({
        "name": "podunavailablebudgets.holdfast.dev",
        "clientConfig": client(&endpoint(evict, BUDGETS_PATH), bundle),
        "rules": [{
            "apiGroups": ["policy.kruise.io"],
            "apiVersions": ["v1alpha1", "v1beta1"],
            "resources": ["podunavailablebudgets"],
            "operations": ["CREATE", "UPDATE"],
            "scope": "Namespaced",
        }],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_SECONDS,
        "matchPolicy": "Equivalent",
        "admissionReviewVersions": ["v1"],
    })];
    if !namespaces.is_empty() {
        webhooks.push(pods(evict, bundle, namespaces));
    }
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": metadata(),
        "webhooks": webhooks,
    })
}

fn pods(evict: &str, bundle: &Value, namespaces: &BTreeSet<String>) -> Value {
    let rule = |resource: &str, operations: &[&str]| {
        json!({
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": [resource],
            "operations": operations,
            "scope": "Namespaced",
        })
    };
    let condition = |name: &str, expression: &str| json!({"name": name, "expression": expression});
    json!({
        "name": PODS_WEBHOOK,
        "clientConfig": client(&endpoint(evict, PODS_PATH), bundle),
        "rules": [
            rule("pods", &["DELETE", "UPDATE"]),
            rule("pods/resize", &["UPDATE"]),
            // For the probe. Evictions are decided by another webhook.
            rule("pods/eviction", &["CREATE"]),
        ],
        "namespaceSelector": {"matchExpressions": [{
            "key": "kubernetes.io/metadata.name",
            "operator": "In",
            "values": namespaces,
        }]},
        "matchConditions": [
            condition("not-ended", IS_NOT_ENDED),
            condition("disruptive", MAY_DISRUPT),
            condition("probe", &format!("request.operation != 'CREATE' || {}", PROBE.condition())),
        ],
        // As for evictions: an allow without a record would break the budget.
        "failurePolicy": "Fail",
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": TIMEOUT_SECONDS,
        "matchPolicy": "Equivalent",
        "admissionReviewVersions": ["v1"],
    })
}

/// Leaves out the kubelet's last delete of a pod. CREATE is the operation of an eviction.
const IS_NOT_ENDED: &str = "request.operation == 'CREATE' || \
    !(has(oldObject.metadata.deletionTimestamp) || (has(oldObject.status) && \
    has(oldObject.status.phase) && oldObject.status.phase in ['Succeeded', 'Failed']))";

/// An update of the spec, or one that adds an unavailable label.
const MAY_DISRUPT: &str = "request.operation != 'UPDATE' || object.spec != oldObject.spec || \
    (has(object.metadata.labels) && object.metadata.labels.exists(key, \
    key.startsWith('unavailable-pod.kruise.io/') && \
    !(has(oldObject.metadata.labels) && key in oldObject.metadata.labels)))";

/// Returns the namespaces for which the configuration covers pods.
pub fn guarded(configuration: &Value) -> BTreeSet<String> {
    selected(configuration, PODS_WEBHOOK)
}

/// Returns false for the namespaces of Holdfast and of the control plane, which must not depend on Holdfast.
pub fn is_guardable(namespace: &str) -> bool {
    !EXCLUDED_NAMESPACES.contains(&namespace)
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
        let body = guard(EVICT, &json!("Q0E="), &namespaces(&["a", "b"]));
        insta::assert_snapshot!(serde_json::to_string_pretty(&body).unwrap());
    }

    #[test]
    fn pods_of_namespaces_without_budgets_are_not_asked_about() {
        let guarded_by = |names| guarded(&guard(EVICT, &json!("Q0E="), &namespaces(names)));
        assert_eq!(guarded_by(&["a", "b"]), namespaces(&["a", "b"]));
        assert_eq!(guarded_by(&[]), namespaces(&[]));
        let none = guard(EVICT, &json!("Q0E="), &namespaces(&[]));
        assert_eq!(none["webhooks"].as_array().unwrap().len(), 1, "an empty selector selects all");
    }

    #[test]
    fn a_definition_of_somebody_else_is_marked() {
        let marked = |now: Value| {
            let crd = crd("https://h/convert", &json!("Q0E="), &now);
            assert!(is_ours(&crd));
            crd["metadata"]["annotations"][TAKEN_OVER] == "true"
        };
        assert!(!marked(Value::Null));
        assert!(marked(json!({"metadata": {"name": "theirs"}})));
        assert!(!marked(json!({"metadata": {"labels": {MANAGED_BY: NAME}}})));
        let helms = json!({"metadata": {"labels": {MANAGED_BY: "Helm"}}});
        let crd = crd("https://h/convert", &json!("Q0E="), &helms);
        assert_eq!(crd["metadata"]["annotations"][MANAGED_BEFORE], "Helm");
    }
}
