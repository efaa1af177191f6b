//! What we serve, in the three documents by which clients find it.

use axum::response::{IntoResponse, Response};
use holdfast_api::budget::{KIND, PLURAL};
use http::{HeaderMap, header};
use serde_json::{Value, json};

use super::words::{SERVED, SERVED_GROUP};

const SINGULAR: &str = "poddisruptionbudget";
const SHORT: &str = "pdb";
const VERBS: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const STATUS_VERBS: [&str; 3] = ["get", "patch", "update"];

/// `/apis`: in one document for those who know how to read it.
pub fn groups(headers: &HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let accept = accept.unwrap_or_default();
    let wants = |version: &str| {
        accept.split(',').any(|choice| {
            let has = |parameter: &str| choice.split(';').any(|p| p.trim() == parameter);
            has("as=APIGroupDiscoveryList") && has(&format!("v={version}"))
        })
    };
    for version in ["v2", "v2beta1"] {
        if wants(version) {
            let content = format!(
                "application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
            );
            return json_as(&content, &aggregated(version));
        }
    }
    let list = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group_document()]});
    json_as("application/json", &list)
}

pub fn group() -> Response {
    let mut group = group_document();
    group["kind"] = json!("APIGroup");
    group["apiVersion"] = json!("v1");
    json_as("application/json", &group)
}

pub fn resources() -> Response {
    let list = json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": SERVED,
        "resources": [
            {
                "name": PLURAL,
                "singularName": SINGULAR,
                "namespaced": true,
                "kind": KIND,
                "verbs": VERBS,
                "shortNames": [SHORT],
            },
            {
                "name": format!("{PLURAL}/status"),
                "singularName": "",
                "namespaced": true,
                "kind": KIND,
                "verbs": STATUS_VERBS,
            },
        ],
    });
    json_as("application/json", &list)
}

fn group_document() -> Value {
    let version = json!({"groupVersion": SERVED, "version": "v1"});
    json!({"name": SERVED_GROUP, "versions": [version], "preferredVersion": version})
}

fn aggregated(version: &str) -> Value {
    let kind = json!({"group": SERVED_GROUP, "version": "v1", "kind": KIND});
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {},
        "items": [{
            "metadata": {"name": SERVED_GROUP, "creationTimestamp": null},
            "versions": [{
                "version": "v1",
                "freshness": "Current",
                "resources": [{
                    "resource": PLURAL,
                    "responseKind": kind,
                    "scope": "Namespaced",
                    "singularResource": SINGULAR,
                    "verbs": VERBS,
                    "shortNames": [SHORT],
                    "subresources": [{
                        "subresource": "status",
                        "responseKind": kind,
                        "verbs": STATUS_VERBS,
                    }],
                }],
            }],
        }],
    })
}

fn json_as(content_type: &str, document: &Value) -> Response {
    ([(header::CONTENT_TYPE, content_type)], document.to_string()).into_response()
}
