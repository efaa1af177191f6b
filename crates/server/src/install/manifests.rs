//! The objects that Holdfast installs on a cluster.

use holdfast_api::crd;
use holdfast_core::model::GroupApi;
use serde_json::{Value, json};

use super::entry::client;
use super::rights::{Right, Where, are_native, of_people, rules};
use super::{EXCLUDED_NAMESPACES, MANAGED_BY, NAME, PART_OF, POD_GROUPS, SYSTEM_NAMESPACE, TURN};
use crate::connect::Identity;
use crate::webhook::TIMEOUT_SECONDS;

/// One object to install.
#[derive(Clone, Debug)]
pub struct Manifest {
    pub kind: Installed,
    pub body: Value,
}

/// The installed objects, in the order of installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installed {
    Crd,
    Namespace,
    ClusterRole,
    ClusterRoleBinding,
    /// Kubernetes adds its rules to the roles view, edit and admin of every cluster.
    ViewRole,
    EditRole,
    Role,
    RoleBinding,
    /// Binds an existing role in kube-system: Holdfast may read the authority of the front proxy.
    AuthenticationReader,
    PriorityLevel,
    FlowSchema,
    /// The `APIService` of native mode sends requests to it.
    Service,
    Webhook,
    /// Objects for `PodUnavailableBudgets`: the definition and the webhooks on these budgets and on pods.
    UnavailableCrd,
    Guard,
    /// The definitions of Holdfast's own pod groups.
    PodGroupCrd,
    WorkloadCrd,
    /// The webhooks of pod groups, on pods and on workloads.
    Placing,
    Asking,
    /// The first instance creates it, not the installer.
    Lease,
    /// The process that installs or uninstalls holds it.
    TurnLease,
}

impl Installed {
    /// Returns the name as kubectl prints it: `clusterrole/holdfast`.
    pub fn title(self) -> String {
        let singular = match self {
            Self::Crd | Self::UnavailableCrd | Self::PodGroupCrd | Self::WorkloadCrd => {
                "customresourcedefinition"
            }
            Self::Namespace => "namespace",
            Self::ClusterRole | Self::ViewRole | Self::EditRole => "clusterrole",
            Self::ClusterRoleBinding => "clusterrolebinding",
            Self::Role => "role",
            Self::RoleBinding | Self::AuthenticationReader => "rolebinding",
            Self::Service => "service",
            Self::PriorityLevel => "prioritylevelconfiguration",
            Self::FlowSchema => "flowschema",
            Self::Webhook | Self::Placing => "mutatingwebhookconfiguration",
            Self::Guard | Self::Asking => "validatingwebhookconfiguration",
            Self::Lease | Self::TurnLease => "lease",
        };
        format!("{singular}/{}", self.name())
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Crd => "poddisruptionbudgets.policy.holdfast.dev",
            Self::UnavailableCrd => "podunavailablebudgets.policy.kruise.io",
            Self::PodGroupCrd => "podgroups.scheduling.holdfast.dev",
            Self::WorkloadCrd => "workloads.scheduling.holdfast.dev",
            Self::Placing | Self::Asking => POD_GROUPS,
            Self::Namespace => SYSTEM_NAMESPACE,
            Self::ViewRole => "holdfast-view",
            Self::EditRole => "holdfast-edit",
            Self::AuthenticationReader => "holdfast-authentication-reader",
            Self::TurnLease => TURN,
            _ => NAME,
        }
    }

    /// Returns true if no other program can have created the object.
    pub fn is_in_our_domain(self) -> bool {
        matches!(self, Self::Crd | Self::PodGroupCrd | Self::WorkloadCrd)
    }

    pub fn path(self) -> String {
        const RBAC: &str = "rbac.authorization.k8s.io";
        let name = self.name();
        let (api, plural) = match self {
            Self::Namespace => return format!("/api/v1/namespaces/{name}"),
            Self::Role => return namespaced(RBAC, "roles", name),
            Self::RoleBinding => return namespaced(RBAC, "rolebindings", name),
            Self::AuthenticationReader => {
                return format!("/apis/{RBAC}/v1/namespaces/kube-system/rolebindings/{name}");
            }
            Self::Service => {
                return format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/services/{name}");
            }
            Self::Lease | Self::TurnLease => {
                return namespaced("coordination.k8s.io", "leases", name);
            }
            Self::Crd | Self::UnavailableCrd | Self::PodGroupCrd | Self::WorkloadCrd => {
                ("apiextensions.k8s.io", "customresourcedefinitions")
            }
            Self::ClusterRole | Self::ViewRole | Self::EditRole => (RBAC, "clusterroles"),
            Self::ClusterRoleBinding => (RBAC, "clusterrolebindings"),
            Self::PriorityLevel => ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
            Self::FlowSchema => ("flowcontrol.apiserver.k8s.io", "flowschemas"),
            Self::Webhook | Self::Placing => {
                ("admissionregistration.k8s.io", "mutatingwebhookconfigurations")
            }
            Self::Guard | Self::Asking => {
                ("admissionregistration.k8s.io", "validatingwebhookconfigurations")
            }
        };
        format!("/apis/{api}/v1/{plural}/{name}")
    }
}

fn namespaced(api: &str, plural: &str, name: &str) -> String {
    format!("/apis/{api}/v1/namespaces/{SYSTEM_NAMESPACE}/{plural}/{name}")
}

/// Returns everything except the namespace, which is created first, and the webhooks, which follow when
/// Holdfast can answer.
pub fn base(identity: &Identity, rights: &[Right], gangs: Option<GroupApi>) -> Vec<Manifest> {
    let mut manifests = vec![
        Manifest { kind: Installed::Crd, body: labelled(crd::crd()) },
        Manifest { kind: Installed::ClusterRole, body: role("ClusterRole", rights) },
        Manifest { kind: Installed::ClusterRoleBinding, body: binding("ClusterRole", identity) },
        people(Installed::ViewRole, are_native(rights)),
        people(Installed::EditRole, are_native(rights)),
        Manifest { kind: Installed::Role, body: role("Role", rights) },
        Manifest { kind: Installed::RoleBinding, body: binding("Role", identity) },
        Manifest { kind: Installed::PriorityLevel, body: priority_level() },
        Manifest { kind: Installed::FlowSchema, body: flow_schema(identity) },
    ];
    if gangs == Some(GroupApi::Holdfast) {
        manifests.extend([
            Manifest { kind: Installed::WorkloadCrd, body: labelled(crd::workloads()) },
            Manifest { kind: Installed::PodGroupCrd, body: labelled(crd::pod_groups()) },
        ]);
    }
    manifests
}

/// Returns the additional role binding of native mode.
pub fn native(identity: &Identity) -> Manifest {
    let mut body = binding("Role", identity);
    let name = Installed::AuthenticationReader.name();
    body["metadata"]["name"] = json!(name);
    body["metadata"]["namespace"] = json!("kube-system");
    body["roleRef"]["name"] = json!("extension-apiserver-authentication-reader");
    Manifest { kind: Installed::AuthenticationReader, body }
}

/// Returns the Service for a process that runs beside the API server and not in the cluster.
pub fn service(host: &str, port: u16) -> Manifest {
    let body = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata_in(Where::System),
        "spec": {
            "type": "ExternalName",
            "externalName": host,
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        },
    });
    Manifest { kind: Installed::Service, body }
}

pub fn namespace() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": SYSTEM_NAMESPACE, "labels": labels()},
    })
}

/// The evictions for which API servers call the webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intercept {
    /// In webhook mode: all except those in the namespaces of Holdfast and of the control plane.
    Outside,
    /// In native mode: all. A kube-apiserver that starts serves evictions before its aggregator sends
    /// `policy/v1` to Holdfast. Its eviction handler then finds the built-in budgets, which are out of date.
    All,
}

/// Returns the webhook configuration. The bundle is in base64.
pub fn webhook(url: &str, ca_bundle: &Value, intercept: Intercept) -> Manifest {
    let mut body = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": metadata(),
        "webhooks": [{
            "name": "evictions.holdfast.dev",
            "clientConfig": client(url, ca_bundle),
            "rules": [{
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "resources": ["pods/eviction"],
                "operations": ["CREATE"],
                "scope": "Namespaced",
            }],
            // Without an answer the API server refuses the eviction: an allow without a record would break
            // the budget.
            "failurePolicy": "Fail",
            // The webhook mutates, to pin an allowed eviction to its pod. It is called only once, because the
            // answer is a record.
            "reinvocationPolicy": "Never",
            "sideEffects": "NoneOnDryRun",
            "timeoutSeconds": TIMEOUT_SECONDS,
            "matchPolicy": "Equivalent",
            "admissionReviewVersions": ["v1"],
        }],
    });
    let webhook = &mut body["webhooks"][0];
    match intercept {
        Intercept::Outside => {
            webhook["namespaceSelector"] = json!({"matchExpressions": [{
                "key": "kubernetes.io/metadata.name",
                "operator": "NotIn",
                "values": EXCLUDED_NAMESPACES,
            }]});
        }
        Intercept::All => {}
    }
    Manifest { kind: Installed::Webhook, body }
}

pub fn labels() -> Value {
    json!({MANAGED_BY: NAME, PART_OF: NAME})
}

pub fn metadata() -> Value {
    json!({"name": NAME, "labels": labels()})
}

pub fn metadata_of(kind: Installed) -> Value {
    json!({"name": kind.name(), "labels": labels()})
}

fn metadata_in(place: Where) -> Value {
    let mut metadata = metadata();
    if place == Where::System {
        metadata["namespace"] = json!(SYSTEM_NAMESPACE);
    }
    metadata
}

fn labelled(mut crd: Value) -> Value {
    crd["metadata"]["labels"][MANAGED_BY] = json!(NAME);
    crd
}

/// Returns a `ClusterRole`, or a `Role` for rights in Holdfast's own namespace.
fn role(kind: &str, rights: &[Right]) -> Value {
    let place = if kind == "Role" { Where::System } else { Where::Cluster };
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": metadata_in(place),
        "rules": rules(rights, place),
    })
}

/// Returns a role for users with the role view, edit or admin of a namespace. kube-controller-manager adds
/// its rules to those roles.
pub fn people(kind: Installed, native: bool) -> Manifest {
    let edit = kind == Installed::EditRole;
    let mut metadata = metadata_of(kind);
    // edit includes view, and admin includes edit.
    let to = if edit { "edit" } else { "view" };
    metadata["labels"][format!("rbac.authorization.k8s.io/aggregate-to-{to}")] = json!("true");
    let body = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": metadata,
        "rules": of_people(edit, native),
    });
    Manifest { kind, body }
}

pub fn binding(role: &str, identity: &Identity) -> Value {
    let place = if role == "Role" { Where::System } else { Where::Cluster };
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": format!("{role}Binding"),
        "metadata": metadata_in(place),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": NAME},
        "subjects": [match identity {
            Identity::User(name) => {
                json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name})
            }
            Identity::ServiceAccount { namespace, name } => {
                json!({"kind": "ServiceAccount", "namespace": namespace, "name": name})
            }
        }],
    })
}

/// An eviction keeps its seat while it waits for Holdfast, and Holdfast's write needs a seat too. With a
/// shared pool a large drain would wait for itself. So Holdfast has a level without lending: lent seats come
/// back within ten seconds, and the webhook times out in that time. Twenty shares are some 45 seats of an API
/// server with default limits, for writes of milliseconds. Requests beyond that queue, because Holdfast would
/// have to repeat a refused write.
pub fn priority_level() -> Value {
    json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "PriorityLevelConfiguration",
        "metadata": metadata(),
        "spec": {
            "type": "Limited",
            "limited": {
                "nominalConcurrencyShares": 20,
                "lendablePercent": 0,
                // There is one client, so one flow and one queue.
                "limitResponse": {
                    "type": "Queue",
                    "queuing": {"queues": 1, "handSize": 1, "queueLengthLimit": 1000},
                },
            },
        },
    })
}

pub fn flow_schema(identity: &Identity) -> Value {
    let subject = match identity {
        Identity::User(name) => json!({"kind": "User", "user": {"name": name}}),
        Identity::ServiceAccount { namespace, name } => json!({
            "kind": "ServiceAccount",
            "serviceAccount": {"namespace": namespace, "name": name},
        }),
    };
    json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "FlowSchema",
        "metadata": metadata(),
        "spec": {
            "priorityLevelConfiguration": {"name": NAME},
            // Before the built-in schemas, which begin at 100. The exempt schema comes first.
            "matchingPrecedence": 90,
            "rules": [{
                "subjects": [subject],
                "resourceRules": [{
                    "verbs": ["*"],
                    "apiGroups": ["*"],
                    "resources": ["*"],
                    "namespaces": ["*"],
                    "clusterScope": true,
                }],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            }],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::super::rights::{Needs, needed};
    use super::*;

    #[test]
    fn what_is_installed() {
        let identity = Identity::User("holdfast".to_owned());
        let mut manifests =
            base(&identity, &needed(Needs { unavailable: true, ..Needs::default() }), None);
        manifests.push(webhook("https://127.0.0.1:9443/evict", &json!("Q0E="), Intercept::Outside));
        // The snapshot of the CRD is in the crate that owns it.
        let text: Vec<String> = manifests
            .iter()
            .filter(|manifest| manifest.kind != Installed::Crd)
            .map(|m| {
                format!("# {}\n{}", m.kind.path(), serde_json::to_string_pretty(&m.body).unwrap())
            })
            .collect();
        insta::assert_snapshot!(text.join("\n"));
    }

    #[test]
    fn every_object_is_named_and_labelled() {
        let account = Identity::ServiceAccount {
            namespace: "holdfast-system".into(),
            name: "holdfast".into(),
        };
        let gangs = Some(GroupApi::Holdfast);
        let all =
            Needs { clearing: true, native: true, unavailable: true, gangs, ..Needs::default() };
        let mut manifests = base(&account, &needed(all), gangs);
        manifests.push(webhook("https://127.0.0.1:9443/evict", &json!("Q0E="), Intercept::Outside));
        for Manifest { kind, body } in manifests {
            assert_eq!(body["metadata"]["name"], kind.name(), "{}", kind.title());
            assert_eq!(body["metadata"]["labels"][MANAGED_BY], NAME, "{}", kind.title());
        }
    }
}
