//! Renders the chart with Helm and compares the objects with those of `holdfast manifests`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::{
    Test,
    cluster::{clear, lock},
    release,
};
use crate::localkube::{self, Localkube, Options, workspace};

/// Without a cluster, this build of Helm assumes an old version.
const KUBERNETES: &str = "--kube-version=1.37.0";

/// Flags, and the values with the same meaning.
const CHOICES: [(&[&str], &[&str]); 6] = [
    (&[], &[]),
    (&["--mode=native"], &["mode=native"]),
    (&["--mode=native", "--accept-bypass"], &["mode=native", "acceptBypass=true"]),
    (
        &["--pod-unavailable-budgets", "--pod-groups=kubernetes"],
        &["podUnavailableBudgets=true", "podGroups=kubernetes"],
    ),
    (
        &["--mode=native", "--pod-unavailable-budgets", "--pod-groups=holdfast"],
        &["mode=native", "podUnavailableBudgets=true", "podGroups=holdfast"],
    ),
    (
        &["--clear-stale-disruption-targets", "--page", "--image=r.example/h:v1", "--replicas=3"],
        &[
            "clearStaleDisruptionTargets=true",
            "page=true",
            "image.repository=r.example/h",
            "image.tag=v1",
            "replicas=3",
        ],
    ),
];

/// Values that the schema refuses.
const REFUSED: [&str; 5] =
    ["mode=other", "replicas=0", "podgroups=holdfast", "image.digest=1", "extraArgs={install}"];

/// Parts that are off by default, and a text that they render.
const MORE: [(&str, &str); 9] = [
    ("serviceMonitor.enabled=true", "kind: ServiceMonitor"),
    (
        "prometheusRule.enabled=true,prometheusRule.groups[0].name=own,prometheusRule.groups[0].rules[0].alert=x",
        "name: own",
    ),
    ("image.pullSecrets[0].name=secret", "name: secret"),
    ("tolerations[0].operator=Exists", "operator: Exists"),
    ("tlsSecret=own", "secretName: own"),
    ("extraArgs={--log-level=debug}", "--log-level=debug"),
    ("prometheusRule.enabled=true", "alert: HoldfastDown"),
    (
        "networkPolicy.from[0].ipBlock.cidr=10.0.0.0/28",
        "from:\n        - ipBlock:\n            cidr: 10.0.0.0/28\n    - ports:\n        - port: health",
    ),
    ("global.of=another-chart", "kind: Deployment"),
];

/// Values, and a text that is not rendered with them.
const LESS: [(&str, &str); 2] =
    [("priorityClassName=", "kind: ResourceQuota"), ("priorityClassName=", "priorityClassName")];

impl Test<'_> {
    pub(super) fn chart(&mut self) -> Result<()> {
        let Some(holdfast) = self.program()? else { return Ok(()) };
        let Some(helm) = self.summary.time("helm", localkube::helm) else { return Ok(()) };
        self.summary.time("chart", || compare(&helm, &holdfast));
        let dir = workspace().join("target/localkube-chart");
        let _lock = lock(&dir)?;
        let options = Options { kubernetes: self.args.kubernetes, ..Options::default() };
        let started = self.summary.time("localkube", || {
            clear(&dir)?;
            Localkube::up(&dir, &options)
        });
        if let Some((localkube, _)) = started {
            let interrupt = &self.interrupt;
            self.summary.time("release", || release::follow(&helm, &localkube, interrupt));
        }
        self.summary.time("down", || clear(&dir));
        Ok(())
    }
}

fn compare(helm: &Path, holdfast: &Path) -> Result<()> {
    let helm = Helm { program: helm.to_owned(), chart: workspace().join("charts/holdfast") };
    helm.run(&["lint", "--strict", "--namespace", "holdfast-system"], &[])?;
    for (flags, values) in CHOICES {
        let output = Command::new(holdfast).arg("manifests").args(flags).output();
        let printed = by_name(&text(output.context("run holdfast")?)?)?;
        let rendered = by_name(&helm.template(values)?)?;
        for name in printed.keys().chain(rendered.keys()) {
            let (printed, rendered) = (printed.get(name), rendered.get(name));
            ensure!(
                printed == rendered,
                "{name} differs with {values:?}\nprinted: {printed:#?}\nrendered: {rendered:#?}"
            );
        }
        println!("{:<60} {} objects", values.join(","), printed.len());
    }
    for value in REFUSED {
        ensure!(helm.template(&[value]).is_err(), "the chart takes {value}");
    }
    for (value, wanted) in MORE {
        let rendered = helm.template(&[value])?;
        by_name(&rendered).with_context(|| format!("with {value}"))?;
        ensure!(rendered.contains(wanted), "{value} does not render {wanted:?}");
    }
    for (value, unwanted) in LESS {
        let rendered = helm.template(&[value])?;
        ensure!(!rendered.contains(unwanted), "{value} renders {unwanted:?}");
    }
    let elsewhere = ["template", "holdfast", KUBERNETES, "--namespace", "default"];
    ensure!(helm.run(&elsewhere, &[]).is_err(), "the chart goes into another namespace");
    Ok(())
}

struct Helm {
    program: PathBuf,
    chart: PathBuf,
}

impl Helm {
    fn template(&self, values: &[&str]) -> Result<String> {
        self.run(&["template", "holdfast", KUBERNETES, "--namespace", "holdfast-system"], values)
    }

    fn run(&self, args: &[&str], values: &[&str]) -> Result<String> {
        let values = values.iter().flat_map(|value| ["--set", value]);
        let output = Command::new(&self.program).args(args).arg(&self.chart).args(values).output();
        text(output.with_context(|| format!("start {}", self.program.display()))?)
    }
}

/// Returns the objects by name, without those that only one side has: the namespace, which Helm creates,
/// tests, and Helm's own annotation.
fn by_name(documents: &str) -> Result<BTreeMap<String, Value>> {
    let mut objects = BTreeMap::new();
    for mut object in serde_saphyr::from_multiple::<Value>(documents)? {
        let metadata = &mut object["metadata"];
        if let Some(annotations) = metadata["annotations"].as_object_mut() {
            if annotations.contains_key("helm.sh/hook") {
                continue;
            }
            annotations.remove("helm.sh/resource-policy");
            if annotations.is_empty() {
                metadata.as_object_mut().map(|metadata| metadata.remove("annotations"));
            }
        } else {
            metadata.as_object_mut().map(|metadata| metadata.remove("annotations"));
        }
        let name = format!("{}/{}", object["kind"], object["metadata"]["name"]);
        if object["kind"] != "Namespace" && objects.insert(name.clone(), object).is_some() {
            bail!("{name} is there twice");
        }
    }
    Ok(objects)
}

fn text(output: Output) -> Result<String> {
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
