//! The API server: what a request does to the store, and what it is answered.

mod answer;
mod discovery;
mod list;
mod write;

use std::collections::BTreeMap;

use http::Method;
use serde_json::{Value, json};

pub use answer::{Answer, Told};

use crate::fault::Fault;
use crate::resources::{Path, Target};
use crate::world::{Process, World};

/// One request.
#[derive(Clone, Debug)]
pub struct Call {
    pub method: Method,
    /// As it is in the request, for the trace.
    pub text: String,
    pub path: Path,
    pub query: BTreeMap<String, String>,
    pub body: Value,
}

impl Call {
    pub fn new(method: Method, uri: &http::Uri, body: &[u8]) -> Self {
        let pairs = uri.query().unwrap_or_default().split('&');
        let query = pairs
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        Self {
            method,
            text: uri.to_string(),
            path: Path::parse(uri.path()),
            query,
            body: serde_json::from_slice(body).unwrap_or(Value::Null),
        }
    }

    pub fn target(&self) -> Option<&Target> {
        match &self.path {
            Path::Objects(target) => Some(target),
            _ => None,
        }
    }

    pub fn is_watch(&self) -> bool {
        self.query.contains_key("watch")
    }

    pub fn is_list(&self) -> bool {
        let whole = self.target().is_some_and(|target| target.name.is_none());
        self.method == Method::GET && whole && !self.is_watch()
    }

    pub fn is_discovery(&self) -> bool {
        matches!(self.path, Path::Group(_) | Path::GroupVersion(..))
    }
}

/// Carries the request out.
pub fn execute(world: &mut World, process: Process, call: &Call) -> Answer {
    match &call.path {
        Path::Group(group) => discovery::group(world, process, group),
        Path::GroupVersion(group, version) => {
            discovery::group_version(world, process, group, version)
        }
        Path::Other(path) => other(world, process, call, path),
        Path::Objects(target) if is_unserved(world, process, target.kind.group) => {
            Answer::no_such_page()
        }
        Path::Objects(target) => match (&call.method, &target.name) {
            (&Method::GET, None) => list::list(world, process, call, target),
            (&Method::GET, Some(name)) => read(world, target, name),
            (&Method::POST, _) => write::create(world, call, target),
            (&Method::PUT, Some(name)) => write::replace(world, process, call, target, name),
            (&Method::PATCH, Some(name)) => write::patch(world, call, target, name),
            _ => Answer::status(405, "MethodNotAllowed", "not allowed", ""),
        },
    }
}

/// From which version a watch goes on, or why it does not.
pub fn open_watch(world: &World, process: Process, call: &Call) -> Result<u64, Answer> {
    let Some(target) = call.target() else { return Err(Answer::no_such_page()) };
    if is_unserved(world, process, target.kind.group) {
        return Err(Answer::no_such_page());
    }
    let from = call.query.get("resourceVersion").and_then(|v| v.parse().ok()).unwrap_or(0);
    if world.store.is_compacted(target.kind, from) {
        return Err(Answer::expired());
    }
    Ok(from)
}

fn is_unserved(world: &World, process: Process, group: &str) -> bool {
    let kinds = crate::resources::all().filter(|kind| kind.group == group);
    let mut until =
        kinds.filter_map(|kind| world.holds_until(Fault::Undiscovered, process.instance, kind));
    until.next().is_some()
}

fn read(world: &World, target: &Target, name: &str) -> Answer {
    let namespace = target.namespace.as_deref().unwrap_or_default();
    match world.store.get(target.kind, namespace, name) {
        Some(object) => Answer::ok(Value::clone(object)),
        None => Answer::not_found(target.kind, name),
    }
}

fn other(world: &mut World, process: Process, call: &Call, path: &str) -> Answer {
    match path {
        "/version" => {
            if let Some(seat) = world.seat(process) {
                seat.knows_version = true;
            }
            Answer::ok(json!({"major": "1", "minor": "37"}))
        }
        "/apis/authentication.k8s.io/v1/selfsubjectreviews" => {
            let user = "system:serviceaccount:holdfast-system:holdfast";
            Answer::ok(json!({"status": {"userInfo": {"username": user}}}))
        }
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" => {
            let mut review = call.body.clone();
            review["status"] = json!({"allowed": true});
            Answer { code: 201, ..Answer::ok(review) }
        }
        _ => Answer::no_such_page(),
    }
}
