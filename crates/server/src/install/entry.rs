//! The objects that make API servers call Holdfast. Each has Holdfast's address and certificates.

use std::collections::BTreeSet;

use holdfast_core::model::GroupApi;
use serde_json::{Value, json};

use super::manifests::{self, Installed, Intercept};
use super::{NAME, SERVICE_HOST, SYSTEM_NAMESPACE, asked, gang, unavailable};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// API servers ask for a decision about evictions.
    Evictions(Intercept),
    /// API servers ask to validate `PodUnavailableBudgets`, and for a decision about changes of the pods that
    /// these protect.
    Guard,
    /// API servers ask to convert `PodUnavailableBudgets` between their versions.
    Conversion,
    /// API servers ask to put new pods into their groups, of this API.
    Placing(GroupApi),
    /// API servers ask about workloads that ask for groups.
    Asking,
}

impl Entry {
    /// Returns the other objects that make API servers call Holdfast, or have its certificate, for these
    /// features.
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

    /// Returns the URL of this object's first client, if evictions use `evict`.
    pub fn url(self, evict: &str) -> String {
        match self {
            Self::Evictions(_) => evict.to_owned(),
            Self::Guard => endpoint(evict, unavailable::BUDGETS_PATH),
            Self::Conversion => endpoint(evict, unavailable::CONVERT_PATH),
            Self::Placing(_) => endpoint(evict, gang::PLACE_PATH),
            Self::Asking => endpoint(evict, gang::WORKLOADS_PATH),
        }
    }

    /// Returns the object as this version needs it. The bundle is in base64. `now` is the present object.
    pub fn body(self, evict: &str, bundle: &Value, now: &Value) -> Value {
        match self {
            Self::Evictions(intercept) => manifests::webhook(evict, bundle, intercept).body,
            // Namespaces with budgets stay protected.
            Self::Guard => unavailable::guard(evict, bundle, &unavailable::guarded(now)),
            Self::Conversion => unavailable::crd(&self.url(evict), bundle, now),
            Self::Placing(api) => gang::placing(api, evict, bundle, &gang::placed(now)),
            Self::Asking => gang::asking(evict, bundle),
        }
    }

    /// Returns true if the object makes API servers ask about everything. Only evictions are checked, because
    /// only their webhook can be weakened on purpose.
    pub fn is_whole(self, object: &Value) -> bool {
        match self {
            Self::Evictions(intercept) => asked::is_whole(object, intercept),
            Self::Guard | Self::Conversion | Self::Placing(_) | Self::Asking => true,
        }
    }

    /// Returns the consequence of the object's deletion, for the log.
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

    /// Returns the parts of the object with addresses and certificates.
    pub fn client_configs(object: &mut Value) -> Vec<&mut Value> {
        if object["spec"].is_object() {
            return vec![&mut object["spec"]["conversion"]["webhook"]["clientConfig"]];
        }
        let webhooks = object["webhooks"].as_array_mut();
        webhooks.into_iter().flatten().map(|webhook| &mut webhook["clientConfig"]).collect()
    }

    /// Returns the first of these parts. They differ only in the path.
    pub fn client_config(object: &Value) -> &Value {
        match &object["spec"] {
            Value::Object(_) => &object["spec"]["conversion"]["webhook"]["clientConfig"],
            _ => &object["webhooks"][0]["clientConfig"],
        }
    }
}

/// Returns the client configuration for this URL. Few API servers can resolve the host name of Holdfast's own
/// Service, so it names the Service itself. If the bundle is null, other software fills it in.
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

/// Returns the URL that was given to [`client`], with its port.
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

/// Returns port and path, if the URL is one of Holdfast's Service.
fn in_service(url: &str) -> Option<(u16, &str)> {
    let rest = url.strip_prefix("https://")?.strip_prefix(SERVICE_HOST)?;
    let (port, path) = rest.split_at(rest.find('/')?);
    let port = if port.is_empty() { 443 } else { port.strip_prefix(':')?.parse().ok()? };
    Some((port, path))
}

/// Returns the URL with another path on the same host.
pub fn endpoint(evict: &str, path: &str) -> String {
    format!("{}{path}", evict.strip_suffix("/evict").unwrap_or(evict))
}

/// Returns the namespaces for which a webhook of the configuration is called.
pub fn selected(configuration: &Value, webhook: &str) -> BTreeSet<String> {
    let webhooks = configuration["webhooks"].as_array();
    let found = webhooks.into_iter().flatten().find(|found| found["name"] == webhook);
    let values = found.map(|found| &found["namespaceSelector"]["matchExpressions"][0]["values"]);
    let names = values.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}
