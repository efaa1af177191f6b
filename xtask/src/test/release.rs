//! Uses the chart with Helm on a real API server: installs an older one, upgrades, rolls back and uninstalls.
//! No pods run here, because the test is about objects.

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::interrupt::Interrupt;
use crate::localkube::{Localkube, workspace};

/// The objects that make API servers call Holdfast. Instances write their `caBundle`.
const ENTRIES: [&str; 5] = [
    "mutatingwebhookconfiguration/holdfast",
    "mutatingwebhookconfiguration/holdfast-pod-groups",
    "validatingwebhookconfiguration/holdfast",
    "validatingwebhookconfiguration/holdfast-pod-groups",
    "crd/podunavailablebudgets.policy.kruise.io",
];

/// The values with which all of these objects exist.
const VALUES: [&str; 2] = ["podUnavailableBudgets=true", "podGroups=holdfast"];

const CRD: &str = "crd/poddisruptionbudgets.policy.holdfast.dev";

/// A column that the older release does not have.
const COLUMN: &str = "Scope";

pub fn follow(helm: &Path, localkube: &Localkube, interrupt: &Interrupt) -> Result<()> {
    let cluster = Cluster {
        helm: helm.to_owned(),
        environment: localkube.env()?,
        home: localkube.dir().join("home"),
    };
    let (chart, older) = (workspace().join("charts/holdfast"), localkube.dir().join("older-chart"));
    write_older(&chart, &older)?;
    let before = cluster.objects()?;

    cluster.helm("install", &["--create-namespace", "--set", "replicas=3"], Some(&older))?;
    let installed = cluster.objects()?.difference(&before).count();
    cluster.expect(false, 3, None).context("after helm install")?;
    println!("installed: {installed} objects");

    // As a starting instance does.
    let ca = fs::read(localkube.dir().join("pki/ca.crt")).context("read a certificate")?;
    let ca = BASE64_STANDARD.encode(ca);
    for entry in ENTRIES {
        let mut object = cluster.get(entry)?;
        for client in clients(&mut object) {
            client["caBundle"] = json!(ca);
        }
        cluster.replace(&object)?;
    }
    cluster.expect(false, 3, Some(&ca)).context("after instances wrote their certificates")?;
    interrupt.check()?;

    cluster.helm("upgrade", &[], Some(&chart))?;
    cluster.expect(true, 2, Some(&ca)).context("after helm upgrade")?;
    println!("upgraded: the definition is the new one, and every caBundle is kept");
    cluster.helm("rollback", &["1"], None)?;
    cluster.expect(false, 3, Some(&ca)).context("after helm rollback")?;
    println!("rolled back: the definition is the old one, and every caBundle is kept");
    interrupt.check()?;

    cluster.helm("uninstall", &[], None)?;
    // The deletion of definitions would delete budgets, and that of a namespace all other objects in it. So
    // Helm must not delete them.
    let kept = cluster.until_left(&before, |left| left.iter().all(|object| is_kept(object)))?;
    println!("uninstalled: {} objects are kept", kept.len());
    let definitions: Vec<&str> =
        kept.iter().filter_map(|object| object.strip_prefix("CustomResourceDefinition/")).collect();
    ensure!(definitions.len() == 4, "of the definitions these are kept: {definitions:?}");
    cluster.kubectl(&[&["delete", "crd"], &definitions[..]].concat(), "")?;
    cluster.kubectl(&["delete", "namespace", NAMESPACE], "")?;
    cluster.until_left(&before, BTreeSet::is_empty)?;
    println!("nothing is left when those are deleted");
    Ok(())
}

const NAMESPACE: &str = "holdfast-system";

/// Writes this chart as an earlier release might have had it: a definition has fewer columns.
fn write_older(chart: &Path, older: &Path) -> Result<()> {
    let status = Command::new("cp").arg("-r").args([chart, older]).status().context("run cp")?;
    ensure!(status.success(), "copy {}: {status}", chart.display());
    let change = |name: &str, change: &dyn Fn(&mut Value)| -> Result<()> {
        let path = older.join(name);
        let text = fs::read_to_string(&path).with_context(|| format!("read {name}"))?;
        let mut content: Value = serde_saphyr::from_str(&text)?;
        change(&mut content);
        // JSON is also YAML.
        fs::write(&path, content.to_string()).with_context(|| format!("write {name}"))
    };
    change("Chart.yaml", &|chart| chart["version"] = json!("0.0.1"))?;
    change("files/crds.yaml", &|definitions| {
        let name = CRD.trim_start_matches("crd/");
        let version = &mut definitions[name]["spec"]["versions"][0];
        if let Some(columns) = version["additionalPrinterColumns"].as_array_mut() {
            columns.retain(|column| column["name"] != COLUMN);
        }
    })
}

/// Returns true for objects that stay after an uninstallation: definitions, objects that kube-apiserver makes
/// from them, and the namespace.
fn is_kept(object: &str) -> bool {
    let kinds = ["CustomResourceDefinition/", "APIService/"];
    let in_namespace = ["ServiceAccount/default", "ConfigMap/kube-root-ca.crt"];
    kinds.iter().any(|kind| object.starts_with(kind))
        || object == format!("Namespace/{NAMESPACE}")
        || in_namespace.iter().any(|of| object == format!("{NAMESPACE}/{of}"))
}

/// Returns the parts with addresses and certificates of a webhook configuration or a definition.
fn clients(object: &mut Value) -> Vec<&mut Value> {
    if object["spec"].is_object() {
        return vec![&mut object["spec"]["conversion"]["webhook"]["clientConfig"]];
    }
    let webhooks = object["webhooks"].as_array_mut().into_iter().flatten();
    webhooks.map(|webhook| &mut webhook["clientConfig"]).collect()
}

/// Access by kubectl and Helm as the administrator.
struct Cluster {
    helm: PathBuf,
    environment: Vec<(&'static str, String)>,
    home: PathBuf,
}

impl Cluster {
    /// Checks the version of the definition, the number of replicas, and that one certificate is everywhere.
    fn expect(&self, new: bool, replicas: usize, ca: Option<&str>) -> Result<()> {
        let definition = self.get(CRD)?;
        let columns = &definition["spec"]["versions"][0]["additionalPrinterColumns"];
        let names = columns.as_array().into_iter().flatten().map(|column| &column["name"]);
        let names: Vec<&Value> = names.collect();
        ensure!(names.iter().any(|name| **name == COLUMN) == new, "{CRD} has columns {names:?}");
        let deployment = self.get("deployment/holdfast")?;
        let found = &deployment["spec"]["replicas"];
        ensure!(*found == replicas, "there are {found} replicas and not {replicas}");
        for entry in ENTRIES {
            let mut object = self.get(entry)?;
            let clients = clients(&mut object);
            ensure!(!clients.is_empty(), "{entry} asks nobody");
            for client in clients {
                ensure!(client["caBundle"].as_str() == ca, "the caBundle of {entry}: {client}");
            }
        }
        Ok(())
    }

    /// Waits until the new objects, those that are not in `before`, are as expected.
    fn until_left(
        &self,
        before: &BTreeSet<String>,
        is_right: impl Fn(&BTreeSet<String>) -> bool,
    ) -> Result<BTreeSet<String>> {
        const PATIENCE: Duration = Duration::from_mins(1);
        let began = Instant::now();
        loop {
            let left = self.objects()?.difference(before).cloned().collect();
            if is_right(&left) {
                return Ok(left);
            }
            if began.elapsed() > PATIENCE {
                bail!("this is left: {left:#?}");
            }
            thread::sleep(Duration::from_secs(1));
        }
    }

    /// Returns all objects as `[namespace/]kind/name`, without those that the control plane creates and
    /// deletes itself.
    fn objects(&self) -> Result<BTreeSet<String>> {
        const FLEETING: [&str; 4] =
            ["events", "events.events.k8s.io", "leases.coordination.k8s.io", "componentstatuses"];
        let kinds = self.kubectl(&["api-resources", "--verbs=list", "--output=name"], "")?;
        let kinds: Vec<&str> = kinds.lines().filter(|kind| !FLEETING.contains(kind)).collect();
        let get = ["get", "--all-namespaces", "--ignore-not-found", "--output=json"];
        let all = self.kubectl(&[&get, &[&*kinds.join(",")][..]].concat(), "")?;
        let all: Value = serde_json::from_str(&all)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let name = |object: &Value| {
            let (metadata, kind) = (&object["metadata"], text(&object["kind"]));
            let namespace = metadata["namespace"].as_str().map(|of| format!("{of}/"));
            format!("{}{kind}/{}", namespace.unwrap_or_default(), text(&metadata["name"]))
        };
        Ok(all["items"].as_array().into_iter().flatten().map(name).collect())
    }

    fn get(&self, object: &str) -> Result<Value> {
        let get = ["get", "--namespace", NAMESPACE, "--output=json", object];
        Ok(serde_json::from_str(&self.kubectl(&get, "")?)?)
    }

    fn replace(&self, object: &Value) -> Result<()> {
        let replace = ["replace", "--field-manager=holdfast", "--filename=-"];
        self.kubectl(&replace, &object.to_string()).map(drop)
    }

    fn kubectl(&self, args: &[&str], input: &str) -> Result<String> {
        self.run(Command::new("kubectl").args(args), input)
    }

    /// Runs Helm for the release, which has the name of the chart.
    fn helm(&self, verb: &str, args: &[&str], chart: Option<&Path>) -> Result<()> {
        let mut command = Command::new(&self.helm);
        command.args([verb, "holdfast"]).args(chart).args(["--namespace", NAMESPACE]).args(args);
        if chart.is_some() {
            command.args(VALUES.iter().flat_map(|value| ["--set", value]));
        }
        self.run(&mut command, "").map(drop)
    }

    fn run(&self, command: &mut Command, input: &str) -> Result<String> {
        let mut child = command
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("HOME", &self.home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {command:?}"))?;
        let mut stdin = child.stdin.take().context("its input is piped")?;
        stdin.write_all(input.as_bytes()).context("write its input")?;
        drop(stdin);
        let output = child.wait_with_output()?;
        ensure!(
            output.status.success(),
            "{:?}: {}",
            command.get_args().collect::<Vec<_>>(),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
    }
}
