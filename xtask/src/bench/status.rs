//! The cost of keeping statuses up to date, for the controller of Kubernetes and for Holdfast, with the same
//! load.

use std::{
    io::BufRead as _,
    net::{Shutdown, TcpStream},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::{
    Bench,
    controller::{Controller, Mode},
    http::Server,
    is_chosen,
    load::{Api, Budgets, Load, Way},
    report::{Comparison, Results, Target},
    stats::Latencies,
};

pub const COMPARISONS: [Comparison; 4] = [
    Comparison {
        metrics: "CPU in all",
        ours: "holdfast",
        base: Some("upstream"),
        target: Some(Target::AtMost(0.2)),
    },
    Comparison {
        metrics: "RSS",
        ours: "holdfast",
        base: Some("upstream"),
        target: Some(Target::AtMost(0.25)),
    },
    Comparison { metrics: "CPU of", ours: "holdfast", base: Some("upstream"), target: None },
    Comparison { metrics: "settled", ours: "holdfast", base: Some("upstream"), target: None },
];

const CLIENTS: usize = 16;
const FLAPS: usize = 10;
/// The time between two timed changes, so that each is measured alone.
const APART: Duration = Duration::from_millis(1200);

/// The variants, in the order of a round.
pub const VARIANTS: [&str; 2] = ["upstream", "holdfast"];

pub fn run(bench: &Bench, only: &[String], results: &mut Results) -> Result<()> {
    let sizes: &[usize] = if bench.quick { &[500] } else { &[500, 5000] };
    for _ in 0..bench.repeat {
        for pods in sizes {
            for budgets in [1, 100] {
                for name in VARIANTS.into_iter().filter(|name| is_chosen(only, name)) {
                    bench.interrupt.check()?;
                    cell(bench, results, *pods, budgets, name)?;
                }
            }
        }
    }
    Ok(())
}

/// Starts one controller and runs the whole load.
fn cell(
    bench: &Bench,
    results: &mut Results,
    pods: usize,
    budgets: usize,
    name: &'static str,
) -> Result<()> {
    let ours = name == "holdfast";
    let (api, controller) = if ours {
        (Api::Holdfast, bench.holdfast(Mode::Webhook)?)
    } else {
        (Api::Policy, Controller::upstream(&bench.localkube)?)
    };
    let load_name = format!("{pods} pods, {budgets} budgets");
    let mut used = controller.usage()?.cpu_seconds;
    let start = used;
    let mut phase = |results: &mut Results, what: &str| -> Result<()> {
        let now = controller.usage()?.cpu_seconds;
        results.push(format!("CPU of {what}, {load_name}"), "s", name, now - used);
        used = now;
        Ok(())
    };

    let mut load = Load::new(&bench.admin, "status", api, Budgets::Pods, budgets)?;
    load.fill(pods)?;
    load.settle()?;
    phase(results, "creation")?;

    let latencies = settle_times(bench, &load)?;
    load.flap_all(500)?;
    load.settle()?;
    phase(results, "flaps")?;
    for percent in [50, 99] {
        let value = latencies.percentile(percent);
        results.push(format!("settled p{percent}, {load_name}"), "ms", name, value);
    }

    let evicted =
        load.disrupt(&bench.drainer, Way::Evict, CLIENTS, pods / 5, Duration::from_mins(5))?;
    load.settle()?;
    phase(results, "evictions")?;
    eprintln!("bench: evicted {} in {:.1} s", evicted.latencies.len(), evicted.seconds);

    let usage = controller.usage()?;
    results.push(format!("CPU in all, {load_name}"), "s", name, usage.cpu_seconds - start);
    results.push(format!("RSS, {load_name}"), "MiB", name, usage.rss_mib);
    load.clear()?;
    if ours {
        bench.retire(&controller, Mode::Webhook)?;
    }
    Ok(())
}

/// Returns the times from a change of a pod's readiness to the status that counts it.
fn settle_times(bench: &Bench, load: &Load) -> Result<Latencies> {
    let mut watch = Watch::open(&bench.admin, &load.budget_path("?watch=true"))?;
    let mut client = bench.admin.client();
    let mut latencies = Latencies::default();
    for pod in load.pods().iter().take(FLAPS) {
        let budget = load.budget_of(pod);
        let path = load.budget_path(&format!("/{budget}"));
        let before = client.get(&path)?.ok()?.json()["status"]["currentHealthy"]
            .as_i64()
            .context("a budget with a status")?;
        for (ready, healthy) in [(false, before - 1), (true, before)] {
            thread::sleep(APART);
            let began = Instant::now();
            load.set_ready(&mut client, pod, ready)?;
            let settled = watch.await_healthy(&budget, healthy)?;
            latencies.push(settled.duration_since(began));
        }
    }
    Ok(latencies)
}

/// Watch events with their arrival times.
struct Watch {
    events: Receiver<(Instant, Value)>,
    socket: TcpStream,
}

impl Watch {
    fn open(server: &Server, path: &str) -> Result<Self> {
        let (connection, socket) = server.stream(path)?;
        let (sender, events) = mpsc::channel();
        thread::spawn(move || {
            for line in connection.lines().map_while(Result::ok) {
                let arrived = Instant::now();
                let event = serde_json::from_str(&line).unwrap_or_default();
                if sender.send((arrived, event)).is_err() {
                    break;
                }
            }
        });
        Ok(Self { events, socket })
    }

    fn await_healthy(&mut self, budget: &str, healthy: i64) -> Result<Instant> {
        loop {
            let Ok((at, event)) = self.events.recv_timeout(Duration::from_secs(30)) else {
                bail!("no status of {budget} counts {healthy} healthy pods within 30 s");
            };
            let object = &event["object"];
            if object["metadata"]["name"] == budget
                && object["status"]["currentHealthy"].as_i64() == Some(healthy)
            {
                return Ok(at);
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // This ends the reading thread.
        self.socket.shutdown(Shutdown::Both).ok();
    }
}
