//! Tests of `holdfast simulate` that unit tests cannot do: the time of a large drain, and the page in a
//! browser.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use super::{Test, tools};
use crate::localkube::workspace;

const NODES: usize = 1000;
const PODS_PER_NODE: usize = 50;
const PODS_PER_REPLICA: usize = 8;
const REPLICAS_PER_BUDGET: usize = 10;
const NODES_PER_JOB: usize = 20;
const NAMESPACES: usize = 25;

impl Test<'_> {
    pub(super) fn simulate(&mut self) -> Result<()> {
        // Without optimisation it takes minutes.
        if !self.cargo("release", &["build", "--release", "--bin", "holdfast"], &[]) {
            return Ok(());
        }
        // Beside the directory of this program.
        let own = env::current_exe().context("find the directory of programs")?;
        let target = own.parent().and_then(Path::parent).context("find the target directory")?;
        let (program, dir) = (target.join("release/holdfast"), target.join("simulate-test"));
        self.summary.time("simulate", || large(&program, &dir));
        match browser() {
            Some(browser) => {
                self.summary.time("page", || page(&program, &browser, &dir));
            }
            None => {
                self.summary.not_run("page", "there is no Chromium, and none could be installed");
            }
        }
        Ok(())
    }
}

/// Drains 1,000 nodes of 50,000 pods and prints how long that took.
fn large(holdfast: &Path, dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
    let file = dir.join("large.json");
    fs::write(&file, cluster().to_string()).with_context(|| format!("write {}", file.display()))?;
    let drained: Vec<String> = (0..NODES).map(|node| format!("node-{node}")).collect();
    for manner in [None, Some("--parallel")] {
        let began = Instant::now();
        let output = Command::new(holdfast)
            .args(["simulate", "-o", "json", "--drain", &drained.join(",")])
            .args(manner)
            .arg("-f")
            .arg(&file)
            .output()
            .context("start holdfast")?;
        let took = began.elapsed().as_secs_f64();
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).context("read the report")?;
        let run = &report["runs"][0];
        println!(
            "{NODES} nodes, {} pods, {}: {took:.1} s for {} virtual seconds, {} evictions granted, {} denied",
            NODES * PODS_PER_NODE,
            manner.unwrap_or("one after the other"),
            run["atSeconds"],
            run["evictionsGranted"],
            run["evictionsDenied"]
        );
        ensure!(run["result"] == "Finished", "the drain ended as {}", run["result"]);
    }
    Ok(())
}

/// Returns as many empty nodes as full ones, and jobs of gangs on neighbouring nodes.
fn cluster() -> Value {
    let mut items = Vec::new();
    for name in ["node", "spare"] {
        items.extend((0..NODES).map(|n| {
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("{name}-{n}")},
                "status": {"allocatable": {"pods": "60", "cpu": "64"}}})
        }));
    }
    let replicas = NODES * PODS_PER_NODE / PODS_PER_REPLICA;
    for job in 0..replicas / REPLICAS_PER_BUDGET {
        let name = format!("job-{job}");
        let metadata = json!({"name": name, "namespace": format!("team-{}", job % NAMESPACES)});
        let pods = REPLICAS_PER_BUDGET * PODS_PER_REPLICA;
        items.push(json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata,
            "spec": {"replicas": pods}}));
        items.push(json!({"apiVersion": "policy.holdfast.dev/v1", "kind": "PodDisruptionBudget",
            "metadata": metadata, "spec": {"maxUnavailable": 1, "budgetScope": "Workload",
                "selector": {"matchLabels": {"job": name}}}}));
        for index in 0..pods {
            let group = format!("{name}-{}", index / PODS_PER_REPLICA);
            let mut metadata = metadata.clone();
            metadata["labels"] = json!({"job": name});
            metadata["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "controller": true}]);
            if index % PODS_PER_REPLICA == 0 {
                metadata["name"] = json!(group);
                items.push(json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
                    "metadata": metadata,
                    "spec": {"schedulingPolicy": {"gang": {"minCount": PODS_PER_REPLICA}}}}));
            }
            metadata["name"] = json!(format!("{group}-{}", index % PODS_PER_REPLICA));
            // Each node has pods of several replicas of a job, which must wait for each other.
            let node = (job * pods / PODS_PER_NODE + index % NODES_PER_JOB) % NODES;
            items.push(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
                "spec": {"nodeName": format!("node-{node}"), "schedulingGroup": {"podGroupName": group},
                    "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}));
        }
    }
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

/// Renders the page in a browser, in light and in dark colours.
fn page(holdfast: &Path, browser: &Path, dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
    let output = Command::new(holdfast)
        .current_dir(workspace())
        .args(["simulate", "-f", "examples/llm-serving.yaml", "--drain", "node-1,node-2"])
        .args(["--compare", "pod", "-o", "html"])
        .output()
        .context("start holdfast")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (written, file) = (String::from_utf8(output.stdout)?, dir.join("drain.html"));
    fs::write(&file, &written).with_context(|| format!("write {}", file.display()))?;

    let read = String::from_utf8(browse(browser, &file, dir, &["--dump-dom"])?)?;
    for mark in ["<rect", "<title>", "<tr>", "<article>"] {
        let (wanted, found) = (written.matches(mark).count(), read.matches(mark).count());
        ensure!(found == wanted && found > 0, "the browser sees {found} of {wanted} {mark}");
    }
    let mut pictures = Vec::new();
    for (name, scheme) in [("light", "1"), ("dark", "0")] {
        let picture = dir.join(format!("{name}.png"));
        let paint = format!("--screenshot={}", picture.display());
        let scheme = format!("--blink-settings=preferredColorScheme={scheme}");
        browse(browser, &file, dir, &["--window-size=1500,1400", &scheme, &paint])?;
        pictures.push(fs::read(&picture).with_context(|| format!("read {}", picture.display()))?);
        println!("painted {}", picture.display());
    }
    // The picture of an empty page has a few kilobytes.
    ensure!(pictures.iter().all(|picture| picture.len() > 20_000), "a picture is all but empty");
    ensure!(pictures[0] != pictures[1], "light and dark look the same");
    Ok(())
}

fn browse(browser: &Path, page: &Path, dir: &Path, what: &[&str]) -> Result<Vec<u8>> {
    let profile = dir.join("profile");
    let _ = fs::remove_dir_all(&profile);
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--host-resolver-rules=MAP * ~NOTFOUND", "--hide-scrollbars"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(what)
        .arg(format!("file://{}", page.display()))
        .output()
        .with_context(|| format!("start {}", browser.display()))?;
    if !output.status.success() {
        bail!("{}: {}", browser.display(), String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}

/// Returns a Chromium that is installed or that apt-get can install.
fn browser() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    tools::of_system(&names, &PACKAGES)
}

/// Returns its driver.
pub fn driver() -> Option<PathBuf> {
    tools::of_system(&["chromedriver"], &PACKAGES)
}

const PACKAGES: [&str; 2] = ["chromium", "chromium-driver"];
