//! Drains: how long it takes to drain three nodes of a real `LeaderWorkerSet`, and how often each of its groups is lost.
//!
//! ```text
//!   each run: namespace, set, budget --> drain of three of six nodes --> history --> auditor --> losses per group
//! ```

mod losses;

use std::{
    collections::BTreeSet,
    fs,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use holdfast_audit::{cluster, json};
use serde_json::{Value, json};

use super::{
    Bench,
    controller::Mode,
    history::History,
    load::{Api, until},
    report::{Comparison, Results, Target},
    stats::{max, min, percentile},
};
use crate::localkube::Identity;
use losses::Losses;

const METRIC: &str = "drain of three nodes";
const WEBHOOK: &str = "holdfast drain, webhook";
const NATIVE: &str = "holdfast drain, native";
const KUBECTL: &str = "kubectl drain";

pub fn comparisons() -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for (ours, is_ours) in [(WEBHOOK, true), (NATIVE, true), (KUBECTL, false)] {
        let longest = Target::AtMost(LONGEST.as_secs_f64());
        let row = |metrics, base, target: Option<Target>| {
            let target = target.filter(|_| is_ours);
            Comparison { metrics, ours, base, target }
        };
        comparisons.extend([
            row(METRIC, is_ours.then_some(KUBECTL), None),
            row("drain, least", None, None),
            row("drain, p90", None, None),
            row("drain, most", None, Some(longest)),
            row("one group, most times", None, Some(Target::AtMost(1.0))),
            row("groups down at once", None, Some(Target::AtMost(1.0))),
        ]);
    }
    comparisons
}

const GROUP_INDEX: &str = "leaderworkerset.sigs.k8s.io/group-index";

const NODES: usize = 6;
const DRAINED: usize = 3;
pub(super) const GROUPS: usize = 8;
pub(super) const SIZE: usize = 4;

/// The longest allowed run of `holdfast drain`. A grant that no eviction uses would delay a run by two
/// minutes.
const LONGEST: Duration = Duration::from_secs(20);

/// A longer drain has failed.
const TIMEOUT: &str = "--timeout=300s";

#[derive(Debug, Clone, Copy)]
pub struct Runs {
    pub holdfast: usize,
    pub kubectl: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Holdfast(Mode),
    /// With the same server in webhook mode.
    Kubectl,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Holdfast(Mode::Webhook) => WEBHOOK,
            Self::Holdfast(Mode::Native) => NATIVE,
            Self::Kubectl => KUBECTL,
        }
    }

    fn mode(self) -> Mode {
        match self {
            Self::Holdfast(mode) => mode,
            Self::Kubectl => Mode::Webhook,
        }
    }
}

/// The result of one drain.
struct Drained {
    seconds: f64,
    losses: Losses,
}

/// The drains of one kind.
struct Series {
    way: Way,
    drained: Vec<Drained>,
    /// The wrong results of runs.
    wrong: Vec<String>,
}

/// Runs all drains. Then fails if a run broke a rule, or if a run of `holdfast drain` was too slow or lost a group twice.
pub fn run(bench: &Bench, runs: Runs, results: &mut Results) -> Result<()> {
    create_nodes(bench)?;
    let mut series =
        [Way::Holdfast(Mode::Webhook), Way::Kubectl, Way::Holdfast(Mode::Native)].map(Series::new);
    for mode in [Mode::Webhook, Mode::Native] {
        let holdfast = bench.holdfast(mode)?;
        for round in 0..runs.holdfast.max(runs.kubectl) {
            for series in series.iter_mut().filter(|series| series.way.mode() == mode) {
                let last = if series.way == Way::Kubectl { runs.kubectl } else { runs.holdfast };
                if round < last {
                    bench.interrupt.check()?;
                    series.run(bench, round, results)?;
                }
            }
        }
        bench.retire(&holdfast, mode)?;
    }
    for series in &series {
        series.report(results);
    }
    let wrong: Vec<&String> = series.iter().flat_map(|series| &series.wrong).collect();
    ensure!(wrong.is_empty(), "{} drains went wrong: {wrong:#?}", wrong.len());
    Ok(())
}

impl Series {
    fn new(way: Way) -> Self {
        Self { way, drained: Vec::new(), wrong: Vec::new() }
    }

    fn run(&mut self, bench: &Bench, round: usize, results: &mut Results) -> Result<()> {
        let name = self.way.name();
        let namespace = format!("{}-{round}", name.replace(", ", "-").replace(' ', "-"));
        let drained = Set { bench, namespace, mode: self.way.mode() }.drain(self.way)?;
        results.push(METRIC, "s", name, drained.seconds);
        let losses = &drained.losses;
        eprintln!("bench: {name}, run {round}: {losses}");
        let mut wrong = losses.broken().to_vec();
        if let Way::Holdfast(_) = self.way {
            wrong.extend(losses.unexpected());
            if drained.seconds > LONGEST.as_secs_f64() {
                wrong.push(format!("took {:.1} s", drained.seconds));
            }
        }
        self.wrong.extend(wrong.iter().map(|what| format!("{name}, run {round}: {what}")));
        self.drained.push(drained);
        Ok(())
    }

    fn report(&self, results: &mut Results) {
        let name = self.way.name();
        let seconds: Vec<f64> = self.drained.iter().map(|drained| drained.seconds).collect();
        if seconds.is_empty() {
            return;
        }
        for (what, value) in
            [("least", min(&seconds)), ("p90", percentile(&seconds, 90)), ("most", max(&seconds))]
        {
            results.push(format!("drain, {what}"), "s", name, value);
        }
        for (what, count) in [
            ("one group, most times lost", Losses::most as fn(&Losses) -> usize),
            ("one group, most times recreated", Losses::most_recreated),
            ("groups down at once", Losses::most_down),
        ] {
            let most = self.drained.iter().map(|drained| count(&drained.losses)).max();
            let most = most.and_then(|most| u32::try_from(most).ok()).unwrap_or(u32::MAX);
            results.push(what, "", name, f64::from(most));
        }
    }
}

/// A `LeaderWorkerSet` in its own namespace, and its budget.
struct Set<'b> {
    bench: &'b Bench,
    namespace: String,
    mode: Mode,
}

impl Set<'_> {
    fn drain(self, way: Way) -> Result<Drained> {
        self.create()?;
        let concerned = self.groups_on(&drained())?;
        // Native mode stores its budgets there too.
        let budgets = format!(
            "/apis/policy.holdfast.dev/v1/namespaces/{}/poddisruptionbudgets",
            self.namespace
        );
        let [pods, stateful_sets, sets] = self.paths();
        let history = History::begin(&self.bench.admin, &[pods, stateful_sets, sets, budgets])?;
        let began = Instant::now();
        let output = self.command(way).output().context("start the drain")?;
        let seconds = began.elapsed().as_secs_f64();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let log = self.bench.localkube.dir().join(format!("logs/{}.log", self.namespace));
        fs::write(&log, text(&output.stdout) + &text(&output.stderr))?;
        if !output.status.success() {
            bail!("{}: {}: {}", way.name(), output.status, text(&output.stderr));
        }
        self.wait_healthy()?;
        // Only evictions disrupt groups, so Holdfast knows of every disruption at once.
        let losses = Losses::of(&history.end(Duration::ZERO)?, concerned);
        for node in drained() {
            let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}");
            let list = self.bench.admin.client().get(&path)?.ok()?.json();
            ensure!(list["items"] == json!([]), "{}: {node} is not empty", way.name());
        }
        self.clear()?;
        Ok(Drained { seconds, losses })
    }

    fn command(&self, way: Way) -> Command {
        let localkube = &self.bench.localkube;
        let mut command = match way {
            Way::Holdfast(_) => Command::new(&self.bench.program),
            Way::Kubectl => Command::new(localkube.program("kubectl")),
        };
        command
            .arg("drain")
            .args(drained())
            .args(["--ignore-daemonsets", TIMEOUT])
            .env("KUBECONFIG", localkube.kubeconfig(Identity::Admin))
            .env("HOME", localkube.dir().join("home"))
            .stdin(Stdio::null());
        command
    }

    /// Returns when all pods are Ready and the budget counts all groups.
    fn create(&self) -> Result<()> {
        let mut client = self.bench.admin.client();
        for node in (0..NODES).map(node) {
            let patch = json!({"spec": {"unschedulable": null}});
            client.patch(&format!("/api/v1/nodes/{node}"), &patch)?.ok()?;
        }
        let namespace = &self.namespace;
        client.post("/api/v1/namespaces", &json!({"metadata": {"name": namespace}}))?.ok()?;
        let account = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
        until("the namespace has its ServiceAccount", || Ok(client.get(&account)?.code == 200))?;
        let path = format!("/apis/leaderworkerset.x-k8s.io/v1/namespaces/{namespace}");
        client.post(&format!("{path}/leaderworkersets"), &leader_worker_set())?.ok()?;
        self.wait_healthy()?;
        let api = match self.mode {
            Mode::Webhook => Api::Holdfast,
            Mode::Native => Api::Policy,
        };
        let path = format!("/apis/{}/namespaces/{namespace}/{}", api.version(), api.resource());
        client.post(&path, &budget(api))?.ok()?;
        until("the budget counts all groups", || {
            let budget = client.get(&format!("{path}/serve"))?.ok()?.json();
            Ok(budget["status"]["currentHealthyReplicas"] == GROUPS)
        })
    }

    fn wait_healthy(&self) -> Result<()> {
        let everything = cluster::every_replica(&self.namespace);
        until("all groups are healthy", || {
            let lists =
                self.paths().iter().map(|path| self.list(path)).collect::<Result<Vec<_>>>()?;
            let healthy = cluster::healthy(lists.iter().flatten(), &everything);
            Ok(healthy == GROUPS && lists[0].len() == GROUPS * SIZE)
        })
    }

    /// Returns the groups with a pod on these nodes.
    fn groups_on(&self, nodes: &[String]) -> Result<BTreeSet<usize>> {
        let [pods, ..] = self.paths();
        let is_there = |pod: &&Value| nodes.iter().any(|node| pod["spec"]["nodeName"] == **node);
        let index = |pod: &Value| pod["metadata"]["labels"][GROUP_INDEX].as_str()?.parse().ok();
        Ok(self.list(&pods)?.iter().filter(is_there).filter_map(index).collect())
    }

    fn list(&self, path: &str) -> Result<Vec<Value>> {
        Ok(json::items(self.bench.admin.client().get(path)?.ok()?.json()))
    }

    /// Returns the collections that decide whether groups are healthy, the pods first.
    fn paths(&self) -> [String; 3] {
        let of = |api: &str, plural: &str| format!("/{api}/namespaces/{}/{plural}", self.namespace);
        [
            of("api/v1", "pods"),
            of("apis/apps/v1", "statefulsets"),
            of("apis/leaderworkerset.x-k8s.io/v1", "leaderworkersets"),
        ]
    }

    fn clear(&self) -> Result<()> {
        let mut client = self.bench.admin.client();
        let namespace = format!("/api/v1/namespaces/{}", self.namespace);
        client.delete(&namespace)?.ok()?;
        until("the namespace is gone", || Ok(client.get(&namespace)?.code == 404))
    }
}

fn create_nodes(bench: &Bench) -> Result<()> {
    let mut client = bench.admin.client();
    for node in (0..NODES).map(node) {
        let labels = json!({"kubernetes.io/hostname": node});
        let node = json!({"metadata": {"name": node, "labels": labels}});
        client.post("/api/v1/nodes", &node)?.ok()?;
    }
    Ok(())
}

fn node(index: usize) -> String {
    format!("drain-{index}")
}

fn drained() -> Vec<String> {
    (0..DRAINED).map(node).collect()
}

/// Returns the object. Pods start at once and take a second to end, because `LeaderWorkerSet` overlooks pods
/// that are gone at once.
fn leader_worker_set() -> Value {
    json!({
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "serve"},
        "spec": {"replicas": GROUPS, "leaderWorkerTemplate": {
            "size": SIZE,
            "workerTemplate": {
                "metadata": {
                    "labels": {"app": "serve"},
                    "annotations": {"localkube/lingers": "1s"},
                },
                "spec": {"containers": [{"name": "main", "image": "example.com/main"}]},
            },
        }},
    })
}

fn budget(api: Api) -> Value {
    json!({
        "apiVersion": api.version(),
        "kind": api.kind(),
        "metadata": {"name": "serve"},
        "spec": {
            "maxUnavailable": 1,
            "budgetScope": "Workload",
            "selector": {"matchLabels": {"app": "serve"}},
        },
    })
}
