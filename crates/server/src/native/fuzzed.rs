//! What is read of requests, for `fuzz`.

use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use holdfast_api::native::table::Include;
use http::{HeaderMap, HeaderValue, Method, header};
use serde_json::{Value, json};

use super::document::{Document, delete_options, parameter};
use super::path::{Path, Target};
use super::status::Refusal;
use super::trust::{FrontProxy, User};
use super::{Call, accept, gate, patch, watch};
use crate::listen::PeerCertificate;

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

/// An event of a watch in every form that it may have.
pub fn watch(line: &[u8], first: &mut [bool; 3]) -> String {
    let metadata = accept::Form::Metadata("application/json".to_owned());
    let forms = [accept::Form::Plain, accept::Form::Table(Include::Object), metadata];
    let events = forms.iter().zip(first);
    let told = |event: Bytes| {
        let event: Value = serde_json::from_slice(&event).expect("a client can read it");
        format!("yes {} {}", event["type"], event["object"]["kind"])
    };
    events
        .map(|(form, first)| watch::translated(line, form, first).map_or("no".into(), told))
        .collect()
}

/// Of whoever shows no certificate nothing is believed, whatever the cluster says.
pub fn front_proxy(config_map: &[u8]) -> Result<String, String> {
    let front_proxy = FrontProxy::of(config_map)?;
    let user = front_proxy.user(&PeerCertificate(None), &HeaderMap::new());
    assert!(user.is_err(), "{user:?}");
    let verifier = front_proxy.verifier().map(drop).map_err(|e| e.to_string());
    Ok(format!("{verifier:?}"))
}

/// A common name of the front proxy.
pub const FRONT_PROXY: &str = "front-proxy-client";

pub fn remote_user(headers: &HeaderMap) -> Result<String, String> {
    // Any certificate of the authority's, as the acceptor has found it to be.
    let peer = PeerCertificate(Some(Vec::new().into()));
    let user = of_names("[]").user(&peer, headers).map_err(|e| e.to_string())?;
    assert!(!user.name.is_empty());
    Ok(format!("{} {}", user.name.len(), user.groups.len()))
}

pub fn front_proxy_certificate(certificate: &[u8]) -> Result<String, String> {
    let mut headers = HeaderMap::new();
    headers.insert("x-remote-user", HeaderValue::from_static("alice"));
    let peer = PeerCertificate(Some(certificate.to_owned().into()));
    let names = Value::from(vec![FRONT_PROXY]).to_string();
    of_names(&names).user(&peer, &headers).map(|user| user.name).map_err(|e| e.to_string())
}

/// A front proxy with these common names, as a list in JSON.
fn of_names(names: &str) -> FrontProxy {
    let config_map = json!({"data": {
        "requestheader-client-ca-file": "PEM",
        "requestheader-allowed-names": names,
        "requestheader-username-headers": r#"["X-Remote-User"]"#,
        "requestheader-group-headers": r#"["X-Remote-Group"]"#,
    }});
    FrontProxy::of(config_map.to_string().as_bytes()).expect("a cluster says so")
}

/// Whatever is wrong with it, it is the client's fault.
fn refused(refusal: Refusal) -> String {
    let response: Response = refusal.into_response();
    assert!(response.status().is_client_error(), "{response:?}");
    response.status().to_string()
}
