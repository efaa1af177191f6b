//! An installation from what `holdfast manifests` prints, by whoever may: Holdfast itself gets the
//! `ServiceAccount` in it, and no other right.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::fixture::fixture;
use crate::kubectl::kubectl;
use crate::server::Server;
use crate::wait::until;

const NAMESPACE: &str = "holdfast-system";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/holdfast-system/deployments/holdfast";
const SERVICES: &str = "/api/v1/namespaces/holdfast-system/services";

/// Applies what is printed with these flags and starts what its Deployment would, which nobody runs here,
/// with `more` flags of `serve`.
#[track_caller]
pub fn start(name: &str, flags: &[&str], more: &[&str]) -> Result<Server, String> {
    apply(flags);
    let deployment = fixture().admin.get(DEPLOYMENT).ok().body;
    let args = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    let args = args.as_array().into_iter().flatten().filter_map(Value::as_str);
    let address = free_address();
    redirect(&address);
    let advertise =
        format!("--advertise=https://holdfast.{NAMESPACE}.svc:{}/evict", port(&address));
    let mut command = Command::new(&fixture().holdfast);
    // Where it listens is all that differs.
    for arg in args {
        match arg.split_once('=') {
            Some(("--listen", _)) => command.arg(format!("--listen={address}")),
            Some((flag @ ("--metrics-listen" | "--page-listen"), _)) => {
                command.arg(format!("{flag}=127.0.0.1:0"))
            }
            Some(("--advertise", _)) => command.arg(&advertise),
            _ => command.arg(arg),
        };
    }
    command.args(more).arg("--kubeconfig").arg(token_of()).env("RUST_BACKTRACE", "1");
    Server::launch(name, command)
}

/// Of an installation that was just removed.
#[track_caller]
pub fn await_namespace_gone() {
    until("the namespace is gone", || {
        let code = fixture().admin.get(&format!("/api/v1/namespaces/{NAMESPACE}")).code;
        if code == 404 { Ok(()) } else { Err(code.to_string()) }
    });
}

#[track_caller]
fn apply(flags: &[&str]) {
    let output = Command::new(&fixture().holdfast).arg("manifests").args(flags).output();
    let output = output.expect("holdfast can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    await_namespace_gone();
    let file = fixture().dir.join("printed.yaml");
    fs::write(&file, output.stdout).expect("the directory is ours");
    let (code, said) = kubectl("", &["apply", "-f", &file.to_string_lossy()]);
    assert_eq!(code, 0, "{said}");
    // Its pods pass admission: the namespace's level of security, the quota and the priority.
    until("the Deployment has its pods", || {
        let deployment = fixture().admin.get(DEPLOYMENT).ok().body;
        if deployment["status"]["replicas"] == 2 { Ok(()) } else { Err(deployment.to_string()) }
    });
    let _ = fixture().admin.patch(DEPLOYMENT, &json!({"spec": {"replicas": 0}})).ok();
}

/// There is no kube-proxy here: the Service leads to this machine instead of to pods.
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

/// A kubeconfig with a token of the `ServiceAccount`.
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

/// Bound and released.
fn free_address() -> String {
    let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    address.expect("there is a free port").to_string()
}

fn port(address: &str) -> u16 {
    let port = address.rsplit(':').next().and_then(|port| port.parse().ok());
    port.expect("an address has a port")
}
