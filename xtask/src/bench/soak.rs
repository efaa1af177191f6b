//! Runs one Holdfast for a long time under steady changes. Its resource usage must not grow.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    thread::{self, ScopedJoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};

use super::{
    Bench, commit,
    controller::{Controller, Mode},
    history::History,
    load::{Api, Budgets, Load, Way},
    report::{Comparison, Results, Target},
    stats::Latencies,
};

pub const COMPARISONS: [Comparison; 1] = [Comparison {
    metrics: "soak: writes nothing, p99",
    ours: "webhook",
    base: None,
    target: Some(Target::AtMost(5.0)),
}];

const PODS: usize = 500;
const BUDGETS: usize = 20;
/// The number of pods without a budget whose eviction is requested all the time.
const STRANGERS: usize = 20;
/// Changes of pods per second.
const PER_SECOND: usize = 20;
/// Evictions per second, among these changes. Each evicted pod is replaced, which makes three more changes.
const EVICTIONS: usize = 2;
/// The duration of the last part, with ten times as many changes.
const STORM: Duration = Duration::from_mins(1);
const STORM_PER_SECOND: u32 = 200;
const STORM_CLIENTS: u32 = 4;
const BETWEEN_SAMPLES: Duration = Duration::from_secs(30);
/// Holdfast learns of a pod that is not ready any more within this time.
const LAG: Duration = Duration::from_secs(2);
/// The number of violations to print.
const SHOWN: usize = 10;

pub fn run(bench: &Bench, results: &mut Results, minutes: u64) -> Result<()> {
    let holdfast = bench.holdfast(Mode::Webhook)?;
    let webhook = commit::webhook(bench, &holdfast)?;
    let mut free = Load::new(&bench.admin, "free", Api::Holdfast, Budgets::None, 1)?;
    free.fill(STRANGERS)?;
    let mut load = Load::new(&bench.admin, "soak", Api::Holdfast, Budgets::Replicas, BUDGETS)?;
    load.fill(PODS)?;
    load.settle()?;
    let history = history(bench, &load)?;

    let (began, end) = (Instant::now(), Duration::from_secs(60 * minutes));
    let (mut latencies, mut changes) = (Latencies::default(), 0);
    let (mut granted, mut refused) = (0, 0);
    let (mut asking, mut changing) = (webhook.client(), bench.admin.client());
    let mut sampled = None;
    for second in 0.. {
        if began.elapsed() >= end {
            break;
        }
        bench.interrupt.check()?;
        if sampled.is_none_or(|last: Instant| last.elapsed() >= BETWEEN_SAMPLES) {
            sampled = Some(Instant::now());
            sample(&holdfast, results, began.elapsed(), latencies.percentile(99))?;
        }
        let evicted =
            load.disrupt(&bench.drainer, Way::Evict, EVICTIONS, EVICTIONS, Duration::from_secs(5))?;
        granted += evicted.latencies.len();
        refused += evicted.refused;
        load.fill(PODS)?;
        let flaps = (PER_SECOND - 4 * EVICTIONS) / 2;
        let flapping: Vec<String> =
            load.pods().iter().cycle().skip(second * flaps % PODS).take(flaps).cloned().collect();
        for pod in &flapping {
            for ready in [false, true] {
                load.set_ready(&mut changing, pod, ready)?;
            }
            let stranger = &free.pods()[second % STRANGERS];
            let asked = Instant::now();
            commit::ask(&mut asking, &format!("soak-{second}-{pod}"), &free.namespace, stranger)?;
            latencies.push(asked.elapsed());
        }
        changes += PER_SECOND;
        let next = Duration::from_secs(second as u64 + 1);
        thread::sleep(next.saturating_sub(began.elapsed()));
    }
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    eprintln!(
        "bench: {changes} changes in {minutes:.1} min, {granted} pods evicted, {refused} evictions refused and asked again"
    );
    ensure!(granted > 0, "no pod was evicted, so there were no grants to leak");
    storm(bench, &load, &holdfast, results)?;
    load.settle()?;
    // Longer than the lifetime of a grant whose pod is gone or never ends.
    let flown = grants_end(&holdfast)?;
    let usage = sample(&holdfast, results, began.elapsed(), latencies.percentile(99))?;
    for percent in [50, 99] {
        let value = latencies.percentile(percent);
        results.push(format!("soak: writes nothing, p{percent}"), "ms", "webhook", value);
    }
    results.push("soak: RSS at the end".to_owned(), "MiB", "webhook", usage);
    results.push("soak: grants left over".to_owned(), "", "webhook", flown);
    let violations = metric(&holdfast, "holdfast_invariant_violations_total")?;
    results.push("soak: invariants violated".to_owned(), "", "webhook", violations);
    let broken = broken_rules(history)?;
    let count = u32::try_from(broken.len()).unwrap_or(u32::MAX);
    results.push("soak: rules broken".to_owned(), "", "webhook", f64::from(count));
    load.clear()?;
    free.clear()?;
    bench.retire(&holdfast, Mode::Webhook)?;
    let shown = &broken[..broken.len().min(SHOWN)];
    ensure!(broken.is_empty(), "the auditor found {count} broken rules: {shown:#?}");
    ensure!(violations < 1.0, "the engine found {violations} broken rules itself");
    Ok(())
}

/// Records all objects that decide whether a budget is kept.
fn history(bench: &Bench, load: &Load) -> Result<History> {
    let of = |api: &str, plural: &str| format!("/{api}/namespaces/{}/{plural}", load.namespace);
    let pods = of("api/v1", "pods");
    let groups = of("apis/scheduling.k8s.io/v1beta1", "podgroups");
    History::begin(&bench.admin, &[pods, groups, load.budget_path("")])
}

/// Returns the violations that the auditor finds: of evictions and their records, and of the statuses at the end.
fn broken_rules(history: History) -> Result<Vec<String>> {
    let audit = history.end(LAG)?;
    eprintln!("bench: the auditor saw evictions take {} pods", audit.evicted());
    ensure!(audit.evicted() > 0, "the auditor saw no eviction");
    let findings = audit.findings().into_iter().map(|(_, finding)| finding);
    Ok(findings.chain(audit.wrong_statuses()).map(|finding| finding.to_string()).collect())
}

/// Makes ten times as many changes, as fast as the API server accepts them. Measures Holdfast during and
/// after that.
fn storm(bench: &Bench, load: &Load, holdfast: &Controller, results: &mut Results) -> Result<()> {
    let before = holdfast.usage()?.rss_mib;
    let began = Instant::now();
    let flap = |client: u32| -> Result<u32> {
        let mut changing = bench.admin.client();
        let mine = load.pods().iter().skip(client as usize).step_by(STORM_CLIENTS as usize);
        for (i, pod) in (0..).zip(mine.cycle()) {
            if began.elapsed() >= STORM {
                return Ok(2 * i);
            }
            for ready in [false, true] {
                load.set_ready(&mut changing, pod, ready)?;
            }
            let due = Duration::from_secs(2) * i * STORM_CLIENTS / STORM_PER_SECOND;
            thread::sleep(due.saturating_sub(began.elapsed()));
        }
        Ok(0)
    };
    let mut peak = before;
    let changes = thread::scope(|scope| {
        let flap = &flap;
        let clients: Vec<_> = (0..STORM_CLIENTS).map(|i| scope.spawn(move || flap(i))).collect();
        while began.elapsed() < STORM {
            peak = peak.max(holdfast.usage()?.rss_mib);
            thread::sleep(Duration::from_millis(200));
        }
        let ended = clients.into_iter().map(ScopedJoinHandle::join);
        ended
            .map(|changes| changes.unwrap_or_else(|_| bail!("a client panicked")))
            .sum::<Result<u32>>()
    })?;
    thread::sleep(Duration::from_secs(10));
    let after = holdfast.usage()?.rss_mib;
    let rate = f64::from(changes) / STORM.as_secs_f64();
    for (what, unit, value) in [
        ("changes", "/s", rate),
        ("RSS before", "MiB", before),
        ("RSS at most", "MiB", peak),
        ("RSS 10 s after", "MiB", after),
    ] {
        results.push(format!("soak: storm, {what}"), unit, "webhook", value);
    }
    Ok(())
}

/// Measures RSS now, and prints a line for the waiting user.
fn sample(holdfast: &Controller, results: &mut Results, at: Duration, p99: f64) -> Result<f64> {
    let rss = holdfast.usage()?.rss_mib;
    let grants = metric(holdfast, "holdfast_grants_in_flight")?;
    let violations = metric(holdfast, "holdfast_invariant_violations_total")?;
    let minutes = at.as_secs() / 60;
    eprintln!(
        "bench: after {:>4} s: RSS {rss:.1} MiB, {grants} grants in flight, p99 {p99:.2} ms, \
         {violations} invariants violated",
        at.as_secs()
    );
    results.push(format!("soak: RSS after {minutes:>2} min"), "MiB", "webhook", rss);
    Ok(rss)
}

/// Returns how many grants are left after those of the last evictions have ended.
fn grants_end(holdfast: &Controller) -> Result<f64> {
    let deadline = Instant::now() + Duration::from_mins(3);
    loop {
        let grants = metric(holdfast, "holdfast_grants_in_flight")?;
        if grants < 1.0 || Instant::now() > deadline {
            return Ok(grants);
        }
        thread::sleep(Duration::from_secs(1));
    }
}

/// Returns the sum over all labels.
fn metric(holdfast: &Controller, name: &str) -> Result<f64> {
    let url = holdfast.addresses["health"].as_str().context("Holdfast says where it is")?;
    let host = url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).with_context(|| format!("connect to {host}"))?;
    write!(stream, "GET /metrics HTTP/1.0\r\nHost: {host}\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let lines = text.lines().filter_map(|line| line.strip_prefix(name));
    let of_it = lines.filter(|rest| rest.starts_with([' ', '{']));
    Ok(of_it.filter_map(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok()).sum())
}
