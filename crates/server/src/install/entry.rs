//! The objects by which API servers find us, each with our address and our certificates in it.

use std::collections::BTreeSet;

use holdfast_core::model::GroupApi;
use serde_json::{Value, json};

use super::manifests::{self, Installed, Intercept};
use super::{NAME, SERVICE_HOST, SYSTEM_NAMESPACE, asked, gang, unavailable};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Evictions come to be decided.
    Evictions(Intercept),
    /// `PodUnavailableBudgets` come to be validated, and changes of the pods that they guard to be
    /// decided.
    Guard,
    /// `PodUnavailableBudgets` come to be converted from version to version.
    Conversion,
    /// Pods come to be put into their groups, of this API.
    Placing(GroupApi),
    /// Workloads come that ask for groups.
    Asking,
}

impl Entry {
    /// What else sends requests to us, or keeps our certificate, where these are served.
    pub fn beside_evictions(unavailable: bool, gangs: Option<GroupApi>) -> Vec<Self> {
        let unavailable = unavailable.then_some([Self::Conversion, Self::Guard]);
        let gangs = gangs.map(|api| [Self::Placing(api), Self::Asking]);
        unavailable.into_iter().chain(gangs).flatten().collect()
    }

    pub fn object(self) -> Installed {
        match self {
            Self::Evictions(_) => Installed::Webhook,
            Self::Guard => Installed::Guard,
            Self::Conversion => Installed::UnavailableCrd,
            Self::Placing(_) => Installed::Placing,
            Self::Asking => Installed::Asking,
        }
    }

    /// What its first client is called at, where evictions go to this URL.
    pub fn url(self, evict: &str) -> String {
        match self {
            Self::Evictions(_) => evict.to_owned(),
            Self::Guard => endpoint(evict, unavailable::BUDGETS_PATH),
            Self::Conversion => endpoint(evict, unavailable::CONVERT_PATH),
            Self::Placing(_) => endpoint(evict, gang::PLACE_PATH),
            Self::Asking => endpoint(evict, gang::WORKLOADS_PATH),
        }
    }

    /// As this version wants it. The bundle is in base64; `now` is the object as it stands.
    pub fn body(self, evict: &str, bundle: &Value, now: &Value) -> Value {
        match self {
            Self::Evictions(intercept) => manifests::webhook(evict, bundle, intercept).body,
            // Whoever was guarded goes on being so.
            Self::Guard => unavailable::guard(evict, bundle, &unavailable::guarded(now)),
            Self::Conversion => unavailable::crd(&self.url(evict), bundle, now),
            Self::Placing(api) => gang::placing(api, evict, bundle, &gang::placed(now)),
            Self::Asking => gang::asking(evict, bundle),
        }
    }

    /// Whether nothing that it is for passes unasked; of evictions alone, which somebody may want to let pass.
    pub fn is_whole(self, object: &Value) -> bool {
        match self {
            Self::Evictions(intercept) => asked::is_whole(object, intercept),
            Self::Guard | Self::Conversion | Self::Placing(_) | Self::Asking => true,
        }
    }

    /// What is wrong when it is gone while we run.
    pub fn loss(self) -> &'static str {
        match self {
            Self::Evictions(Intercept::All) => {
                "deleted: dry runs of evictions, and all evictions that a kube-apiserver gets while it starts, are \
                 not asked about until `serve --install`, or applying the manifests again, puts it back"
            }
            Self::Evictions(Intercept::Outside) => {
                "deleted: evictions pass without being asked about until `serve --install`, or applying the \
                 manifests again, puts it back"
            }
            Self::Guard => {
                "not there: PodUnavailableBudgets are not validated, and guard pods from evictions only, \
                 until `serve --install` puts it back"
            }
            Self::Conversion => "deleted, and all PodUnavailableBudgets with it",
            Self::Placing(_) => {
                "not there: new pods get no groups until `serve --install` puts it back"
            }
            Self::Asking => {
                "not there: the first pods of workloads that ask for groups may get none, until \
                 `serve --install` puts it back"
            }
        }
    }

    /// Where addresses and certificates are.
    pub fn client_configs(object: &mut Value) -> Vec<&mut Value> {
        if object["spec"].is_object() {
            return vec![&mut object["spec"]["conversion"]["webhook"]["clientConfig"]];
        }
        let webhooks = object["webhooks"].as_array_mut();
        webhooks.into_iter().flatten().map(|webhook| &mut webhook["clientConfig"]).collect()
    }

    /// The first of them. They differ in nothing but the path.
    pub fn client_config(object: &Value) -> &Value {
        match &object["spec"] {
            Value::Object(_) => &object["spec"]["conversion"]["webhook"]["clientConfig"],
            _ => &object["webhooks"][0]["clientConfig"],
        }
    }
}

/// How API servers call this URL. The host of our own Service is a name that few of them can resolve:
/// they find the Service itself. A bundle of null is for others to fill in.
pub fn client(url: &str, bundle: &Value) -> Value {
    let mut client = match in_service(url) {
        None => json!({"url": url}),
        Some((port, path)) => json!({"service": {
            "namespace": SYSTEM_NAMESPACE,
            "name": NAME,
            "port": port,
            "path": path,
        }}),
    };
    if !bundle.is_null() {
        client["caBundle"] = bundle.clone();
    }
    client
}

/// The URL that was given to [`client`], with the port in it.
pub fn address(client: &Value) -> Option<String> {
    let service = &client["service"];
    if service.is_null() {
        return client["url"].as_str().map(str::to_owned);
    }
    let is_ours = service["namespace"] == SYSTEM_NAMESPACE && service["name"] == NAME;
    let path = service["path"].as_str().unwrap_or_default();
    let port = service["port"].as_u64().unwrap_or(443);
    is_ours.then(|| format!("https://{SERVICE_HOST}:{port}{path}"))
}

/// Port and path, if it is a URL of our Service.
fn in_service(url: &str) -> Option<(u16, &str)> {
    let rest = url.strip_prefix("https://")?.strip_prefix(SERVICE_HOST)?;
    let (port, path) = rest.split_at(rest.find('/')?);
    let port = if port.is_empty() { 443 } else { port.strip_prefix(':')?.parse().ok()? };
    Some((port, path))
}

/// Another path on the same host.
pub fn endpoint(evict: &str, path: &str) -> String {
    format!("{}{path}", evict.strip_suffix("/evict").unwrap_or(evict))
}

/// The namespaces that a webhook of the configuration is called in.
pub fn selected(configuration: &Value, webhook: &str) -> BTreeSet<String> {
    let webhooks = configuration["webhooks"].as_array();
    let found = webhooks.into_iter().flatten().find(|found| found["name"] == webhook);
    let values = found.map(|found| &found["namespaceSelector"]["matchExpressions"][0]["values"]);
    let names = values.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}
