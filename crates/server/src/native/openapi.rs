//! The schema, in the documents by which kubectl explains and checks fields.
//!
//! kube-apiserver publishes the CRD's; ours are the same in the words of `policy/v1`.

use std::collections::BTreeSet;

use axum::response::{IntoResponse, Response};
use holdfast_api::budget::{API_VERSION, GROUP};
use http::{StatusCode, header};
use serde_json::{Map, Value, json};

use super::path::Document;
use super::status;
use crate::api_client::{ApiClient, NoAnswer};

/// From the CRD's words to ours: paths and groups, names of schemas, of operations, and tags.
const WORDS: [(&str, &str); 5] = [
    ("policy.holdfast.dev", "policy"),
    ("dev.holdfast.policy.v1.", "io.k8s.api.policy.v1."),
    ("PolicyHoldfastDevV1", "PolicyV1"),
    ("policyHoldfastDev_v1", "policy_v1"),
    ("policyHoldfastDev", "policy"),
];

pub async fn serve(client: &ApiClient, document: Document) -> Response {
    let result = match document {
        Document::V3 => Ok(index()),
        Document::V3Policy => version_3(client).await,
        Document::V2 => version_2(client).await,
    };
    match result {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(why) => status::unavailable(&why),
    }
}

fn index() -> String {
    let url = json!({"serverRelativeURL": "/openapi/v3/apis/policy/v1"});
    json!({"paths": {"apis/policy/v1": url}}).to_string()
}

async fn version_3(client: &ApiClient) -> Result<String, String> {
    Ok(reworded(&fetch(client, &format!("/openapi/v3/apis/{API_VERSION}")).await?))
}

/// Of the whole API's document only what is about budgets.
async fn version_2(client: &ApiClient) -> Result<String, String> {
    let whole = fetch(client, "/openapi/v2").await?;
    let mut whole: Value = serde_json::from_str(&whole).map_err(|e| e.to_string())?;
    Ok(reworded(&part(&mut whole).to_string()))
}

async fn fetch(client: &ApiClient, path: &str) -> Result<String, String> {
    let answer = client.list(path).await.map_err(|NoAnswer(why)| why)?;
    if answer.code != StatusCode::OK {
        return Err(answer.message());
    }
    String::from_utf8(answer.body).map_err(|e| e.to_string())
}

fn part(whole: &mut Value) -> Value {
    let mut paths = Map::new();
    if let Value::Object(all) = whole["paths"].take() {
        paths.extend(
            all.into_iter().filter(|(path, _)| path.starts_with(&format!("/apis/{GROUP}/"))),
        );
    }
    let all = whole["definitions"].take();
    let mut definitions = Map::new();
    let mut wanted = BTreeSet::new();
    references(&Value::Object(paths.clone()), &mut wanted);
    while let Some(name) = wanted.pop_first() {
        if definitions.contains_key(&name) {
            continue;
        }
        if let Some(definition) = all.get(&name) {
            references(definition, &mut wanted);
            definitions.insert(name, definition.clone());
        }
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Holdfast", "version": env!("CARGO_PKG_VERSION")},
        "paths": paths,
        "definitions": definitions,
    })
}

/// The names of the definitions that this one refers to.
fn references(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get("$ref") {
                into.extend(reference.strip_prefix("#/definitions/").map(str::to_owned));
            }
            fields.values().for_each(|value| references(value, into));
        }
        Value::Array(values) => values.iter().for_each(|value| references(value, into)),
        _ => {}
    }
}

fn reworded(text: &str) -> String {
    WORDS.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_about_budgets_is_served() {
        let mut whole = json!({
            "paths": {
                "/api/v1/pods": {"$ref": "#/definitions/Pod"},
                "/apis/policy.holdfast.dev/v1/poddisruptionbudgets":
                    {"get": {"schema": {"$ref": "#/definitions/dev.holdfast.policy.v1.Budget"}}},
            },
            "definitions": {
                "Pod": {},
                "Meta": {"properties": {"self": {"$ref": "#/definitions/Meta"}}},
                "dev.holdfast.policy.v1.Budget": {"properties": {"m": {"$ref": "#/definitions/Meta"}}},
            },
        });
        let text = reworded(&part(&mut whole).to_string());
        let served: Value = serde_json::from_str(&text).unwrap();
        let names = |of: &str| served[of].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(names("paths"), ["/apis/policy/v1/poddisruptionbudgets"]);
        assert_eq!(names("definitions"), ["Meta", "io.k8s.api.policy.v1.Budget"]);
        assert!(text.contains("#/definitions/io.k8s.api.policy.v1.Budget"));
    }
}
