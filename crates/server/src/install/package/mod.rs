//! An installation as objects to apply: `holdfast manifests`, `deploy/` and the chart.
//!
//! It has the objects that `serve --install` applies, and the objects that run Holdfast. Only the certificate
//! is not known in advance, and the instance adds it to the webhooks' `caBundle` itself. So the instance
//! needs no right to install.

pub mod chart;
mod workload;

use holdfast_core::model::GroupApi;
use serde_json::{Value, json};

use super::manifests::{self, Intercept};
use super::rights::{self, Needs, Right};
use super::{Entry, NAME, SERVICE_HOST, SYSTEM_NAMESPACE};
use crate::connect::Identity;

/// What to install.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub struct Choice {
    pub native: bool,
    /// Take over policy/v1 even if admission rules about budgets will no longer see them.
    pub accept_bypass: bool,
    pub unavailable: bool,
    pub gangs: Option<GroupApi>,
    pub clearing: bool,
    /// Serve a web page on the pod's loopback address.
    pub page: bool,
}

/// How Holdfast runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Run {
    Deployment {
        image: String,
        replicas: u32,
    },
    /// As a static pod on every node with an API server, which calls it on loopback.
    StaticPods,
}

/// Returns the objects in an order in which they can be applied: objects that make API servers call Holdfast
/// come last.
pub fn objects(choice: Choice, run: &Run) -> Vec<Value> {
    let identity = identity(run);
    let mut objects = vec![namespace(run)];
    let base = manifests::base(&identity, &rights(choice), choice.gangs);
    objects.extend(base.into_iter().map(|manifest| manifest.body));
    if choice.native {
        objects.push(manifests::native(&identity).body);
    }
    match run {
        Run::Deployment { image, replicas } => {
            objects.extend(workload::objects(choice, image, *replicas));
        }
        // In native mode the APIService needs a Service with the address.
        Run::StaticPods if choice.native => {
            objects.push(manifests::service("localhost", workload::PORT).body);
        }
        Run::StaticPods => {}
    }
    objects.extend(entries(choice).into_iter().map(|entry| asking(entry, &evict(run))));
    objects
}

/// Returns the file for the kubelets of nodes with an API server.
pub fn static_pod(choice: Choice, image: &str) -> Value {
    workload::static_pod(choice, image, &evict(&Run::StaticPods))
}

/// Returns the arguments of the server.
fn args(choice: Choice, evict: &str, listen: &str) -> Vec<String> {
    let mode = if choice.native { "native" } else { "webhook" };
    let gangs = match choice.gangs {
        None => "off",
        Some(GroupApi::Kubernetes) => "kubernetes",
        Some(GroupApi::Holdfast) => "holdfast",
    };
    let mut args = vec![
        "serve".to_owned(),
        format!("--mode={mode}"),
        format!("--listen={listen}:{}", workload::PORT),
        format!("--metrics-listen={listen}:{}", workload::HEALTH_PORT),
        format!("--advertise={evict}"),
        format!("--pod-groups={gangs}"),
        "--log-format=json".to_owned(),
    ];
    let flags = [
        (choice.native, "--claim-policy"),
        (choice.native && choice.accept_bypass, "--accept-bypass"),
        (choice.clearing, "--clear-stale-disruption-targets"),
        // Only kubectl port-forward can reach it.
        (choice.page, "--page-listen=127.0.0.1:9445"),
    ];
    args.extend(flags.iter().filter(|(on, _)| *on).map(|(_, flag)| (*flag).to_owned()));
    args
}

fn rights(choice: Choice) -> Vec<Right> {
    let Choice { native, accept_bypass, unavailable, gangs, clearing, page } = choice;
    let claiming = native && !accept_bypass;
    rights::needed(Needs {
        clearing,
        native,
        claiming,
        installing: native,
        unavailable,
        gangs,
        page,
    })
}

/// Returns the objects that make API servers call Holdfast, or have its certificate.
fn entries(choice: Choice) -> Vec<Entry> {
    // In native mode the webhook covers everything from the start: until `policy/v1` is Holdfast's, nothing
    // else enforces the budgets.
    let intercept = if choice.native { Intercept::All } else { Intercept::Outside };
    let mut entries = Entry::beside_evictions(choice.unavailable, choice.gangs);
    entries.push(Entry::Evictions(intercept));
    entries
}

fn asking(entry: Entry, evict: &str) -> Value {
    entry.body(evict, &Value::Null, &Value::Null)
}

fn identity(run: &Run) -> Identity {
    match run {
        Run::Deployment { .. } => {
            Identity::ServiceAccount { namespace: SYSTEM_NAMESPACE.into(), name: NAME.into() }
        }
        Run::StaticPods => Identity::User(NAME.into()),
    }
}

/// Returns the URL that API servers call.
fn evict(run: &Run) -> String {
    match run {
        Run::Deployment { .. } => format!("https://{SERVICE_HOST}:443/evict"),
        Run::StaticPods => format!("https://127.0.0.1:{}/evict", workload::PORT),
    }
}

fn namespace(run: &Run) -> Value {
    let mut namespace = manifests::namespace();
    if let Run::Deployment { .. } = run {
        namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = json!("restricted");
    }
    namespace
}
