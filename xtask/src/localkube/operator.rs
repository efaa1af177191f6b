//! Controllers of workloads that run outside of the cluster. Their manifests have no pods and no Services of
//! the controllers.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::{identity::Identity, pki::Pki};

/// A controller of one kind. All are made with kubebuilder, so they are alike.
pub struct Operator {
    /// The name, also of the program.
    pub name: &'static str,
    pub identity: Identity,
    /// The module, with manifests in `config/default`.
    pub module: &'static str,
    /// The package of the program in the module.
    pub package: &'static str,
    /// The name of the definition for `kubectl`.
    pub crd: &'static str,
    /// Its resource in the paths of its webhooks.
    resource: &'static str,
    /// The API group of its configuration.
    config: &'static str,
}

pub const LWS: Operator = Operator {
    name: "lws",
    identity: Identity::Lws,
    module: "sigs.k8s.io/lws",
    package: "sigs.k8s.io/lws/cmd",
    crd: "crd/leaderworkersets.leaderworkerset.x-k8s.io",
    resource: "leaderworkerset-x-k8s-io-v1-leaderworkerset",
    config: "config.lws.x-k8s.io",
};

pub const JOBSET: Operator = Operator {
    name: "jobset",
    identity: Identity::JobSet,
    module: "sigs.k8s.io/jobset",
    package: "sigs.k8s.io/jobset",
    crd: "crd/jobsets.jobset.x-k8s.io",
    resource: "jobset-x-k8s-io-v1alpha2-jobset",
    config: "config.jobset.x-k8s.io",
};

/// The files to apply, and the configuration of the controller.
pub struct Files {
    /// The directory for `kubectl apply -k`.
    pub kustomization: PathBuf,
    pub config: PathBuf,
}

impl Operator {
    pub fn create(
        &self,
        dir: &Path,
        manifests: &Path,
        pki: &Pki,
        webhook_port: u16,
    ) -> Result<Files> {
        let kustomization = dir.join(self.name);
        // The file names that the controller expects.
        let certs = kustomization.join("certs");
        fs::create_dir_all(&certs).with_context(|| format!("create {}", certs.display()))?;
        copy(&pki.cert("serving"), &certs.join("tls.crt"))?;
        copy(&pki.key("serving"), &certs.join("tls.key"))?;
        // kustomize reads no files outside of its directory.
        copy(manifests, &kustomization.join(MANIFESTS))?;

        let ca = fs::read(pki.cert("ca")).context("read the authority's certificate")?;
        write(
            &kustomization.join("kustomization.yaml"),
            &self.patched(&BASE64_STANDARD.encode(ca), webhook_port),
        )?;
        let config = kustomization.join("config.yaml");
        write(&config, &self.configuration(&certs, webhook_port))?;
        Ok(Files { kustomization, config })
    }

    /// Returns the manifests without the objects that run the controller. The webhooks point at this machine.
    fn patched(&self, ca: &str, webhook_port: u16) -> Value {
        let mut patches: Vec<Value> =
            ["Deployment", "Service", "Secret", "ConfigMap"].map(without).into();
        patches.push(json!({
            "target": {"kind": "CustomResourceDefinition"},
            // There is one version, so there is no conversion.
            "patch": json!([{"op": "remove", "path": "/spec/conversion"}]).to_string(),
        }));
        for (kind, verb) in [
            ("MutatingWebhookConfiguration", "mutate"),
            ("ValidatingWebhookConfiguration", "validate"),
        ] {
            let paths = [format!("/{verb}-{}", self.resource), format!("/{verb}--v1-pod")];
            let operations: Value =
                (0..).zip(paths).map(|(i, path)| operation(i, &path, ca, webhook_port)).collect();
            patches.push(json!({"target": {"kind": kind}, "patch": operations.to_string()}));
        }
        json!({
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [MANIFESTS],
            "patches": patches,
        })
    }

    fn configuration(&self, certs: &Path, webhook_port: u16) -> Value {
        json!({
            "apiVersion": format!("{}/v1alpha1", self.config),
            "kind": "Configuration",
            "leaderElection": {"leaderElect": false},
            "internalCertManagement": {"enable": false},
            "webhook": {"host": "127.0.0.1", "port": webhook_port, "certDir": certs},
        })
    }
}

const MANIFESTS: &str = "manifests.yaml";

/// Returns the patch of the first or the second webhook in the list. They are in the order of the module's
/// sources. With the path of another webhook, a webhook could not decode its requests.
fn operation(index: usize, path: &str, ca: &str, port: u16) -> Value {
    json!({
        "op": "replace",
        "path": format!("/webhooks/{index}/clientConfig"),
        "value": {"url": format!("https://127.0.0.1:{port}{path}"), "caBundle": ca},
    })
}

fn without(kind: &str) -> Value {
    // The name is required and ignored.
    let patch =
        json!({"$patch": "delete", "apiVersion": "any", "kind": kind, "metadata": {"name": "any"}});
    json!({"target": {"kind": kind}, "patch": patch.to_string()})
}

/// Writes JSON, which is also YAML.
fn write(path: &Path, content: &Value) -> Result<()> {
    fs::write(path, format!("{content:#}\n")).with_context(|| format!("write {}", path.display()))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("copy {}", from.display())).map(drop)
}
