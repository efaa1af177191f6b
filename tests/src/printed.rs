//! Installs the output of `holdfast manifests` as an administrator. Holdfast itself runs as the
//! `ServiceAccount` in it, or as a static pod as the user that the manifests name, without other rights.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::client::Client;
use crate::everything::everything;
use crate::fixture::{Mode, fixture};
use crate::gang::Shape;
use crate::kubectl::kubectl;
use crate::server::Server;
use crate::wait::until;
use crate::world::World;

const NAMESPACE: &str = "holdfast-system";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/holdfast-system/deployments/holdfast";
const SERVICES: &str = "/api/v1/namespaces/holdfast-system/services";

/// Applies the output for these flags and runs the command of its Deployment, with `more` flags of `serve`.
/// No program runs the Deployment's pods here.
#[track_caller]
pub fn start(name: &str, flags: &[&str], more: &[&str]) -> Result<Server, String> {
    apply(flags);
    // Its pods pass admission: the security level of the namespace, the quota and the priority.
    until("the Deployment has its pods", || {
        let deployment = fixture().admin.get(DEPLOYMENT).ok().body;
        if deployment["status"]["replicas"] == 2 { Ok(()) } else { Err(deployment.to_string()) }
    });
    let deployment = fixture().admin.patch(DEPLOYMENT, &json!({"spec": {"replicas": 0}})).ok().body;
    let address = free_address();
    redirect(&address);
    let advertise =
        format!("--advertise=https://holdfast.{NAMESPACE}.svc:{}/evict", port(&address));
    let mut command = command(&deployment["spec"]["template"], &address, &advertise);
    command.args(more).arg("--kubeconfig").arg(token_of());
    Server::launch(name, command)
}

/// Like [`start`], for static pods beside API servers. `user` is a kubeconfig of the user `holdfast`, who has
/// only the printed rights.
#[track_caller]
pub fn start_static(name: &str, flags: &[&str], user: &Path) -> Result<Server, String> {
    apply(&[flags, &["--static-pod=cluster"]].concat());
    let file = fixture().dir.join("static-pod.yaml");
    fs::write(&file, print(&[flags, &["--static-pod=node"]].concat())).expect("it is ours");
    // A kubelet would create it at the API server. It passes as soon as the namespace has its ServiceAccount.
    let pod = until("the static pod passes admission", || {
        let create = ["create", "--dry-run=server", "-o", "json", "-f", &file.to_string_lossy()];
        let (code, said) = kubectl(NAMESPACE, &create);
        let pod = serde_json::Deserializer::from_str(&said).into_iter::<Value>().next();
        pod.and_then(Result::ok).filter(|_| code == 0).ok_or(said)
    });
    let address = free_address();
    let ports = json!([{"name": "https", "port": port(&address), "protocol": "TCP"}]);
    let service =
        fixture().admin.patch(&format!("{SERVICES}/holdfast"), &json!({"spec": {"ports": ports}}));
    let _ = service.ok();
    let mut command = command(&pod, &address, &format!("--advertise=https://{address}/evict"));
    command.arg("--kubeconfig").arg(user);
    Server::launch(name, command)
}

/// Returns the command of a pod's container with other addresses.
fn command(pod: &Value, address: &str, advertise: &str) -> Command {
    let args = pod["spec"]["containers"][0]["args"].as_array().into_iter().flatten();
    let mut command = Command::new(&fixture().holdfast);
    for arg in args.filter_map(Value::as_str) {
        match arg.split_once('=') {
            Some(("--listen", _)) => command.arg(format!("--listen={address}")),
            Some((flag @ ("--metrics-listen" | "--page-listen"), _)) => {
                command.arg(format!("{flag}=127.0.0.1:0"))
            }
            Some(("--advertise", _)) => command.arg(advertise),
            // This file exists only on a machine with a kubelet.
            Some(("--kubeconfig", _)) => &mut command,
            _ => command.arg(arg),
        };
    }
    command.env("RUST_BACKTRACE", "1");
    command
}

/// Removes the right to install from localkube's user `holdfast`, until it is dropped.
#[derive(Debug)]
pub struct WithoutInstaller(Value);

impl WithoutInstaller {
    #[track_caller]
    #[must_use]
    pub fn make() -> Self {
        let binding = fixture().admin.get(&format!("{BINDINGS}/{INSTALLER}")).ok().body;
        let _ = fixture().admin.delete(&format!("{BINDINGS}/{INSTALLER}")).ok();
        Self(binding)
    }
}

impl Drop for WithoutInstaller {
    fn drop(&mut self) {
        self.0["metadata"] = json!({"name": INSTALLER});
        let answer = fixture().admin.post(BINDINGS, &self.0);
        if !answer.is_success() {
            eprintln!("{INSTALLER} is not back: {}", answer.message());
        }
    }
}

const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const INSTALLER: &str = "localkube:holdfast-installer";

/// Checks that one of two replicas may be evicted, and that Holdfast then denies the other.
#[track_caller]
pub fn assert_protects(name: &str) -> World {
    let world = World::new(name);
    let node = world.node("n");
    world.replica("a", 2, 2, &[&node]);
    world.replica("b", 2, 2, &[&node]);
    world.budget("job", json!({"minAvailable": 1, "budgetScope": "Workload"}));
    world.evict("a-0").assert_evicted();
    world.evict("b-0").assert_denied(&["job needs 1 healthy replica and has 1"]);
    world
}

/// Tries what an attacker with these credentials would try first, and expects refusals.
#[track_caller]
pub fn assert_refused_beyond(kubeconfig: &Path) {
    let taken = Client::intruder(kubeconfig).expect("it can be used");
    let (core, rbac) = ("/api/v1", "/apis/rbac.authorization.k8s.io/v1");
    let webhooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    let crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/poddisruptionbudgets.policy.holdfast.dev";
    let built_in = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let system = format!("{core}/namespaces/{NAMESPACE}");
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases");
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let webhook = json!({"metadata": {"name": "other"}, "webhooks": []});
    let role = json!({"metadata": {"name": "other"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    let eviction = json!({"metadata": {"name": "b-0"}});
    let budget = json!({"metadata": {"name": "x"}, "spec": {"minAvailable": 1}});
    let nothing = json!({});
    let mut answers = vec![
        taken.get(&format!("{core}/secrets")),
        taken.get(&format!("{system}/secrets")),
        taken.get(&format!("{core}/configmaps")),
        taken.get(&format!("{core}/namespaces/kube-system/configmaps/kube-root-ca.crt")),
        taken.get(&format!("{webhooks}/other")),
        taken.put(&format!("{webhooks}/other"), &webhook),
        taken.post(webhooks, &webhook),
        taken.delete(&format!("{webhooks}/holdfast")),
        taken.post(&format!("{system}/pods"), &pod),
        taken.delete(&format!("{system}/pods/p")),
        taken.post(&format!("{system}/pods/b-0/exec?command=sh"), &nothing),
        taken.post(
            &format!("{system}/serviceaccounts/holdfast/token"),
            &json!({"spec": {"audiences": []}}),
        ),
        taken.post(&format!("{rbac}/clusterroles"), &role),
        taken.put(&format!("{rbac}/clusterroles/holdfast"), &role),
        taken.patch(&format!("{core}/nodes/n"), &json!({"spec": {"unschedulable": true}})),
        taken.delete(&format!("{core}/namespaces/default")),
        taken.patch(crd, &nothing),
        taken.delete(crd),
        taken.get(&format!("{services}/v1.apps")),
        taken.put(&format!("{services}/v1.apps"), &nothing),
        taken.post(services, &nothing),
        taken.patch(&format!("{services}/v1.policy"), &nothing),
        taken.delete(&format!("{services}/v1.policy")),
        taken.get(&format!("{leases}/other")),
        taken.delete(&format!("{leases}/holdfast")),
        // Users may write these, and Holdfast forwards their writes. It cannot write them on its own.
        taken.post(built_in, &budget),
        taken.patch(&format!("{built_in}/x"), &nothing),
        taken.delete(built_in),
    ];
    let stored = "/apis/policy.holdfast.dev/v1/namespaces/default/poddisruptionbudgets";
    match fixture().mode {
        Mode::Webhook => answers.extend([
            taken.post(stored, &budget),
            taken.delete(stored),
            taken.put(&format!("{services}/v1.policy"), &nothing),
        ]),
        // In native mode these objects are the storage of policy/v1, which Holdfast may write.
        Mode::Native => answers.extend([
            taken.post(&format!("{system}/services"), &nothing),
            taken.put(&format!("{system}/services/holdfast"), &nothing),
            taken.get(&format!("{system}/services/other")),
            taken.get(&format!("{core}/services")),
            taken.post(&format!("{system}/resourcequotas"), &nothing),
        ]),
    }
    for (i, answer) in answers.iter().enumerate() {
        assert_eq!(answer.code, 403, "request {i}: {}", answer.message());
    }
    // If Holdfast starts gangs, it may evict pods. This pod does not exist.
    let expected = if Shape::of_cluster() == Shape::Holdfast { 404 } else { 403 };
    let answer = taken.post(&format!("{system}/pods/b-0/eviction"), &eviction);
    assert_eq!(answer.code, expected, "{}", answer.message());
}

/// Waits until only the objects of `before` and of the test itself are left after an uninstallation.
#[track_caller]
pub fn await_nothing_left(before: &BTreeSet<String>, of_test: &str) {
    until("nothing of ours is left", || {
        let mut left = everything();
        left.retain(|object| !before.contains(object) && !object.contains(of_test));
        let left = Vec::from_iter(left);
        if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
    });
}

/// Waits until the namespace of the uninstallation is gone.
#[track_caller]
pub fn await_namespace_gone() {
    until("the namespace is gone", || {
        let code = fixture().admin.get(&format!("/api/v1/namespaces/{NAMESPACE}")).code;
        if code == 404 { Ok(()) } else { Err(code.to_string()) }
    });
}

#[track_caller]
fn apply(flags: &[&str]) {
    await_namespace_gone();
    let file = fixture().dir.join("printed.yaml");
    fs::write(&file, print(flags)).expect("the directory is ours");
    let (code, said) = kubectl("", &["apply", "-f", &file.to_string_lossy()]);
    assert_eq!(code, 0, "{said}");
}

#[track_caller]
fn print(flags: &[&str]) -> Vec<u8> {
    let output = Command::new(&fixture().holdfast).arg("manifests").args(flags).output();
    let output = output.expect("holdfast can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Points the Service at this machine instead of pods, because there is no kube-proxy.
#[track_caller]
fn redirect(address: &str) {
    let admin = &fixture().admin;
    let _ = admin.delete(&format!("{SERVICES}/holdfast")).ok();
    let service = json!({
        "metadata": {"name": "holdfast", "labels": {"app.kubernetes.io/part-of": "holdfast"}},
        "spec": {
            "type": "ExternalName",
            "externalName": "localhost",
            "ports": [{"name": "https", "port": port(address)}],
        },
    });
    let _ = admin.post(SERVICES, &service).ok();
}

/// Returns a kubeconfig with a token of the `ServiceAccount`.
#[track_caller]
pub fn token_of() -> PathBuf {
    let (code, token) = kubectl(NAMESPACE, &["create", "token", "holdfast"]);
    assert_eq!(code, 0, "{token}");
    let (code, config) =
        kubectl(NAMESPACE, &["config", "view", "--raw", "--flatten", "--minify", "-o", "json"]);
    assert_eq!(code, 0, "{config}");
    let mut config: Value = serde_json::from_str(&config).expect("it is JSON");
    config["users"][0]["user"] = json!({"token": token.trim()});
    let path = fixture().dir.join("printed.kubeconfig");
    fs::write(&path, config.to_string()).expect("the directory is ours");
    path
}

/// Returns an address that was bound and released.
fn free_address() -> String {
    let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    address.expect("there is a free port").to_string()
}

fn port(address: &str) -> u16 {
    let port = address.rsplit(':').next().and_then(|port| port.parse().ok());
    port.expect("an address has a port")
}
