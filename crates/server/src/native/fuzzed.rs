//! What is read of requests, for `fuzz`.

use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, Method, header};
use serde_json::Value;

use super::document::{Document, delete_options, parameter};
use super::path::{Path, Target};
use super::status::Refusal;
use super::trust::User;
use super::{Call, accept, gate, patch};

pub fn call(content_type: &'static str, body: &[u8]) -> Call {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    Call {
        user: User { name: "alice".to_owned(), groups: Vec::new() },
        method: Method::POST,
        target: Target::default(),
        query: String::new(),
        headers,
        body: Bytes::copy_from_slice(body),
    }
}

/// An error is the code of the answer.
pub fn document(content_type: &'static str, body: &[u8]) -> Result<Value, String> {
    let call = call(content_type, body);
    let _ = delete_options(&call);
    let _ = gate::asked_about(&call);
    let document = Document::read(&call).map_err(refused)?;
    let value = document.value();
    let stored: Value = serde_json::from_slice(&document.stored()).map_err(|e| e.to_string())?;
    assert!(stored.is_object());
    Ok(value)
}

pub fn patch(kind: &str, current: &Value, by: &Value) -> Option<Value> {
    let kind = if kind == "merge" { patch::MERGE } else { patch::JSON_PATCH };
    patch::apply(kind, current, by).ok()
}

pub fn path(text: &str) -> String {
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    format!("{:?} {:?}", Path::parse(path), parameter(query, "watch"))
}

pub fn accept(headers: &HeaderMap) -> String {
    format!("{:?}", accept::negotiate(headers, "includeObject=None"))
}

/// Whatever is wrong with it, it is the client's fault.
fn refused(refusal: Refusal) -> String {
    let response: Response = refusal.into_response();
    assert!(response.status().is_client_error(), "{response:?}");
    response.status().to_string()
}
