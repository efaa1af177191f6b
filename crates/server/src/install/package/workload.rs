//! The objects that run Holdfast: a Deployment and its related objects, or a static pod.

use serde_json::{Value, json};

use super::super::manifests::labels;
use super::super::{NAME, SYSTEM_NAMESPACE};
use super::{Choice, args};

pub const PORT: u16 = 9443;
pub const HEALTH_PORT: u16 = 9444;

/// The user of the image, without rights.
const USER: u32 = 65532;

/// The time for load balancers to notice before the pod stops, for requests in progress, and for its last
/// writes.
const PRE_STOP_SECONDS: u32 = 5;
const GRACE_SECONDS: u32 = 30;

pub fn objects(choice: Choice, image: &str, replicas: u32) -> Vec<Value> {
    vec![
        json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": metadata(),
        }),
        quota(),
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata(),
            "spec": {
                "selector": pod_labels(),
                // Native mode uses the first port.
                "ports": [
                    {"name": "https", "port": 443, "targetPort": "https", "protocol": "TCP"},
                    {"name": "health", "port": HEALTH_PORT, "targetPort": "health", "protocol": "TCP"},
                ],
            },
        }),
        network_policy(),
        // A built-in budget: in webhook mode Holdfast does not decide in its own namespace.
        json!({
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata(),
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": pod_labels()}},
        }),
        deployment(choice, image, replicas),
    ]
}

/// Some providers allow pods of system priority outside of kube-system only with a quota.
fn quota() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": metadata(),
        "spec": {
            "hard": {"pods": "32"},
            "scopeSelector": {"matchExpressions": [{
                "scopeName": "PriorityClass",
                "operator": "In",
                "values": ["system-cluster-critical"],
            }]},
        },
    })
}

/// API servers are not pods that a rule could select. So every client may reach these two ports, and no
/// other.
fn network_policy() -> Value {
    let port = |name: &str| json!({"port": name, "protocol": "TCP"});
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(),
        "spec": {
            "podSelector": {"matchLabels": pod_labels()},
            "policyTypes": ["Ingress"],
            "ingress": [{"ports": [port("https"), port("health")]}],
        },
    })
}

fn deployment(choice: Choice, image: &str, replicas: u32) -> Value {
    let evict = super::evict(&super::Run::Deployment { image: String::new(), replicas });
    let mut container = container(image, &args(choice, &evict, "0.0.0.0"));
    container["ports"] = json!([
        {"name": "https", "containerPort": PORT, "protocol": "TCP"},
        {"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"},
    ]);
    container["lifecycle"] = json!({"preStop": {"sleep": {"seconds": PRE_STOP_SECONDS}}});
    let apart = json!({
        "labelSelector": {"matchLabels": pod_labels()},
        "topologyKey": "kubernetes.io/hostname",
    });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(),
        "spec": {
            "replicas": replicas,
            // Add an instance before removing one, because evictions are refused while none is ready.
            "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "selector": {"matchLabels": pod_labels()},
            "template": {
                "metadata": {"labels": pod_labels()},
                "spec": {
                    "serviceAccountName": NAME,
                    "priorityClassName": "system-cluster-critical",
                    "terminationGracePeriodSeconds": GRACE_SECONDS,
                    "securityContext": pod_security(),
                    "affinity": {"podAntiAffinity": {
                        // It is only preferred, for clusters of one node, and for updates on clusters of two.
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"weight": 100, "podAffinityTerm": apart},
                        ],
                    }},
                    "topologySpreadConstraints": [{
                        "maxSkew": 1,
                        "topologyKey": "topology.kubernetes.io/zone",
                        "whenUnsatisfiable": "ScheduleAnyway",
                        "labelSelector": {"matchLabels": pod_labels()},
                    }],
                    "containers": [container],
                },
            },
        },
    })
}

pub fn static_pod(choice: Choice, image: &str, evict: &str) -> Value {
    const KUBECONFIG: &str = "/etc/kubernetes/holdfast.conf";
    let mut args = args(choice, evict, "127.0.0.1");
    args.push(format!("--kubeconfig={KUBECONFIG}"));
    let mut container = container(image, &args);
    for (probe, _) in PROBES {
        let get = &mut container[probe]["httpGet"];
        get["host"] = json!("127.0.0.1");
        get["port"] = json!(HEALTH_PORT);
    }
    container["volumeMounts"] =
        json!([{"name": "kubeconfig", "mountPath": KUBECONFIG, "readOnly": true}]);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(),
        "spec": {
            "hostNetwork": true,
            "priorityClassName": "system-node-critical",
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "securityContext": pod_security(),
            "containers": [container],
            "volumes": [{
                "name": "kubeconfig",
                "hostPath": {"path": KUBECONFIG, "type": "File"},
            }],
        },
    })
}

const PROBES: [(&str, &str); 2] = [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")];

fn container(image: &str, args: &[String]) -> Value {
    let mut container = json!({
        "name": NAME,
        "image": image,
        "args": args,
        "resources": {
            // 150,000 pods and 5,000 budgets take some 100 MB (BENCHMARKING.md).
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"memory": "1Gi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
    });
    for (probe, path) in PROBES {
        container[probe] = json!({"httpGet": {"path": path, "port": "health"}, "periodSeconds": 5});
    }
    // A restart does not help an instance that is only slow.
    container["livenessProbe"]["failureThreshold"] = json!(6);
    container
}

fn pod_security() -> Value {
    json!({
        "runAsNonRoot": true,
        "runAsUser": USER,
        "runAsGroup": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}

fn metadata() -> Value {
    json!({"name": NAME, "namespace": SYSTEM_NAMESPACE, "labels": labels()})
}

fn pod_labels() -> Value {
    json!({"app.kubernetes.io/name": NAME})
}
