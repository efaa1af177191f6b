//! Answers, and what an instance has been told once an answer has reached it.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::resources::Kind;

#[derive(Clone, Debug)]
pub struct Answer {
    pub code: u16,
    pub body: Body,
    pub told: Option<Told>,
}

#[derive(Clone, Debug)]
pub enum Body {
    Json(Value),
    Text(&'static str),
}

/// A list, as far as the instance's view is concerned.
#[derive(Clone, Debug)]
pub struct Told {
    pub kind: Kind,
    /// A list of one namespace, and not of the whole kind.
    pub snapshot: bool,
    pub last: bool,
    pub version: u64,
    /// Of this page and of those before it.
    pub items: Vec<Arc<Value>>,
}

impl Answer {
    pub fn ok(body: Value) -> Self {
        Self { code: 200, body: Body::Json(body), told: None }
    }

    pub fn status(code: u16, reason: &str, message: &str, name: &str) -> Self {
        let body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "details": {"name": name}, "code": code,
        });
        Self { code, body: Body::Json(body), told: None }
    }

    pub fn not_found(kind: Kind, name: &str) -> Self {
        let message = format!("{} {name:?} not found", kind.qualified());
        Self::status(404, "NotFound", &message, name)
    }

    /// The path leads nowhere.
    pub fn no_such_page() -> Self {
        Self { code: 404, body: Body::Text("404 page not found\n"), told: None }
    }

    pub fn expired() -> Self {
        Self::status(410, "Expired", "too old resource version", "")
    }

    pub fn text(&self) -> String {
        match &self.body {
            Body::Json(value) => value.to_string(),
            Body::Text(text) => (*text).to_owned(),
        }
    }
}
