//! An API server for tests of installing and uninstalling.
//!
//! Its objects are those written at their paths. Rights come from the existing roles. Every request takes
//! some time, so that concurrent work interleaves at every step.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::response::IntoResponse;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::base::Base;
use super::bundle::Trusted;
use super::manifests::{Installed, Intercept};
use super::registration::Registration;
use super::rights::{Needs, needed};
use super::{Entry, SYSTEM_NAMESPACE};
use crate::api_client::ApiClient;

const TAKES: Duration = Duration::from_millis(10);

/// The time until a deleted namespace is gone.
const GOING: Duration = Duration::from_secs(5);

pub const POLICY: &str = "/apis/apiregistration.k8s.io/v1/apiservices/v1.policy";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Admin,
    /// A user who may install, and may use the Lease only by an installed role.
    Installer,
    /// A user with the rights that `holdfast manifests` prints.
    Server,
}

#[derive(Clone, Default)]
pub struct Fake(Arc<Mutex<Cluster>>);

#[derive(Default)]
pub struct Cluster {
    objects: BTreeMap<String, Value>,
    pub away: bool,
    /// Since when the namespace is being deleted.
    going: Option<Instant>,
    version: u64,
    /// Requests for which the user had no right.
    pub refused: Vec<String>,
    /// Events that happen just before a request.
    events: Vec<(String, Event)>,
}

type Event = Box<dyn FnOnce(&mut Cluster) + Send>;

impl Fake {
    pub fn new() -> Self {
        let fake = Self::default();
        fake.lock().put(POLICY, json!({"metadata": {"name": "v1.policy"}, "spec": {}}));
        fake
    }

    pub fn lock(&self) -> MutexGuard<'_, Cluster> {
        self.0.lock().unwrap()
    }

    pub fn client(&self, who: Who) -> ApiClient {
        let fake = self.clone();
        let answer = move |request: Request| {
            let fake = fake.clone();
            async move {
                tokio::time::sleep(TAKES).await;
                let (head, body) = request.into_parts();
                let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                let (code, answer) = fake.lock().answer(who, &head.method, head.uri.path(), body);
                (code, axum::Json(answer)).into_response()
            }
        };
        ApiClient::new(kube::Client::new(Router::new().fallback(answer), "default"))
    }

    /// Runs `event` just before the first request of this kind, such as `DELETE /api/v1/...`.
    pub fn before(&self, request: &str, event: impl FnOnce(&mut Cluster) + Send + 'static) {
        self.lock().events.push((request.to_owned(), Box::new(event)));
    }
}

pub fn base(native: bool) -> Base {
    let rights = needed(Needs { native, installing: true, ..Needs::default() });
    Base { rights, gangs: None, native }
}

pub fn registration(client: ApiClient, intercept: Intercept) -> Registration {
    Registration {
        client,
        url: "https://127.0.0.1:9443/evict".to_owned(),
        trusted: watch::channel(Trusted::default()).1,
        base: Arc::new(base(intercept != Intercept::Outside)),
        entry: Entry::Evictions(intercept),
    }
}

impl Cluster {
    pub fn has(&self, kind: Installed) -> bool {
        self.objects.contains_key(&kind.path())
    }

    pub fn get(&mut self, path: &str) -> &mut Value {
        self.objects.get_mut(path).unwrap()
    }

    /// Stores an object with a new version and, if it is new, a uid.
    pub fn put(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        let uid = self.objects.get(path).map(|before| before["metadata"]["uid"].clone());
        object["metadata"]["uid"] = uid.unwrap_or_else(|| json!(format!("u{}", self.version)));
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects.insert(path.to_owned(), object.clone());
        object
    }

    pub fn remove(&mut self, kind: Installed) {
        self.objects.remove(&kind.path());
    }

    /// Adds the namespace. If `labels` is null, another program has created it.
    pub fn put_namespace(&mut self, labels: &Value) {
        let metadata = json!({"name": SYSTEM_NAMESPACE, "labels": labels});
        self.put(&Installed::Namespace.path(), json!({"metadata": metadata}));
    }

    pub fn hold_turn(&mut self, holder: &str) {
        let (kind, spec) = (Installed::TurnLease, json!({"holderIdentity": holder}));
        let metadata = json!({"name": kind.name()});
        self.put(&kind.path(), json!({"metadata": metadata, "spec": spec}));
    }

    pub fn end_namespace(&mut self) {
        self.get(&Installed::Namespace.path())["metadata"]["deletionTimestamp"] = json!("now");
        self.going = Some(Instant::now());
    }

    fn answer(
        &mut self,
        who: Who,
        method: &Method,
        path: &str,
        body: Value,
    ) -> (StatusCode, Value) {
        let request = format!("{method} {path}");
        if let Some(at) = self.events.iter().position(|(of, _)| *of == request) {
            let (_, event) = self.events.remove(at);
            event(self);
        }
        self.let_go();
        if self.away {
            return status(StatusCode::SERVICE_UNAVAILABLE, "away", path);
        }
        if path.ends_with("/selfsubjectaccessreviews") {
            let asked = &body["spec"]["resourceAttributes"];
            let role =
                if asked["namespace"] == "" { Installed::ClusterRole } else { Installed::Role };
            let is_system = asked["name"] == SYSTEM_NAMESPACE;
            let allowed = if is_system { who != Who::Server } else { self.has(role) };
            return (StatusCode::OK, json!({"status": {"allowed": allowed}}));
        }
        if let Some(discovered) = self.discover(path) {
            return discovered;
        }
        if !self.may(who, path) {
            self.refused.push(request);
            return status(StatusCode::FORBIDDEN, "forbidden", path);
        }
        if path.ends_with("/poddisruptionbudgets") {
            return self.list(path);
        }
        match *method {
            Method::GET => match self.objects.get(path) {
                Some(object) => (StatusCode::OK, object.clone()),
                None => not_found(path),
            },
            Method::POST => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default();
                let path = format!("{path}/{name}");
                if self.objects.contains_key(&path) {
                    return status(StatusCode::CONFLICT, "already exists", &path);
                }
                self.create(&path, body)
            }
            Method::PATCH => match self.objects.get(path).cloned() {
                Some(now) if is_other(&now, &body["metadata"]) => {
                    status(StatusCode::CONFLICT, "changed", path)
                }
                Some(mut object) => {
                    json_patch::merge(&mut object, &body);
                    (StatusCode::OK, self.put(path, object))
                }
                None => self.create(path, body),
            },
            Method::PUT => match self.objects.get(path) {
                None => not_found(path),
                Some(now) if is_other(now, &body["metadata"]) => {
                    status(StatusCode::CONFLICT, "changed", path)
                }
                Some(_) => (StatusCode::OK, self.put(path, body)),
            },
            _ => self.delete(path, &body["preconditions"]),
        }
    }

    fn may(&self, who: Who, path: &str) -> bool {
        match who {
            Who::Admin => true,
            _ if path.contains("/leases") => self.has(Installed::Role),
            Who::Installer => true,
            Who::Server => self.has(Installed::ClusterRole) && path != Installed::Namespace.path(),
        }
    }

    fn discover(&self, path: &str) -> Option<(StatusCode, Value)> {
        let found = match path {
            "/apis/policy.holdfast.dev" => json!({"versions": [{"version": "v1"}]}),
            "/apis/policy.holdfast.dev/v1" => {
                let budgets =
                    json!({"name": "poddisruptionbudgets", "kind": "PodDisruptionBudget"});
                json!({"resources": [budgets]})
            }
            _ => return None,
        };
        Some(if self.has(Installed::Crd) { (StatusCode::OK, found) } else { not_found(path) })
    }

    /// Returns an empty list. A watch ends at once. If `policy/v1` is taken over, no server answers for it.
    fn list(&self, path: &str) -> (StatusCode, Value) {
        let built_in = path.starts_with("/apis/policy/");
        if built_in && !self.objects[POLICY]["spec"]["service"].is_null() {
            return status(StatusCode::SERVICE_UNAVAILABLE, "nobody answers", path);
        }
        if !built_in && !self.has(Installed::Crd) {
            return not_found(path);
        }
        (StatusCode::OK, json!({"metadata": {"resourceVersion": "1"}, "items": []}))
    }

    fn create(&mut self, path: &str, body: Value) -> (StatusCode, Value) {
        let namespace = Installed::Namespace.path();
        if path.contains(&format!("/namespaces/{SYSTEM_NAMESPACE}/")) {
            if !self.objects.contains_key(&namespace) {
                return not_found(&namespace);
            }
            if self.going.is_some() {
                let (code, mut answer) = status(StatusCode::FORBIDDEN, "being terminated", path);
                answer["details"]["causes"] = json!([{"reason": "NamespaceTerminating"}]);
                return (code, answer);
            }
        }
        (StatusCode::CREATED, self.put(path, body))
    }

    fn delete(&mut self, path: &str, preconditions: &Value) -> (StatusCode, Value) {
        match self.objects.get(path) {
            None => return not_found(path),
            Some(now) if is_other(now, preconditions) => {
                return status(StatusCode::CONFLICT, "precondition", path);
            }
            Some(_) => {}
        }
        if path == Installed::Namespace.path() {
            self.end_namespace();
        } else {
            self.objects.remove(path);
        }
        (StatusCode::OK, json!({}))
    }

    /// Removes the objects of a deleted namespace when its time is over.
    fn let_go(&mut self) {
        if self.going.is_some_and(|since| since.elapsed() > GOING) {
            let within = format!("/namespaces/{SYSTEM_NAMESPACE}");
            self.objects.retain(|path, _| !path.contains(&within));
            self.going = None;
        }
    }
}

/// Returns true if the object is another one than expected.
fn is_other(now: &Value, meant: &Value) -> bool {
    let differs = |part: &str| !meant[part].is_null() && meant[part] != now["metadata"][part];
    differs("uid") || differs("resourceVersion")
}

fn not_found(path: &str) -> (StatusCode, Value) {
    status(StatusCode::NOT_FOUND, "not found", path)
}

fn status(code: StatusCode, message: &str, path: &str) -> (StatusCode, Value) {
    let name = path.rsplit('/').next();
    let reason = if code == StatusCode::NOT_FOUND { "NotFound" } else { "Other" };
    (code, json!({"message": message, "reason": reason, "details": {"name": name}}))
}
