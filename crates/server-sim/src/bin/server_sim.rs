//! `server-sim`: runs seeds, and prints what went wrong.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use holdfast_server_sim::fault::Fault;
use holdfast_server_sim::{Report, run};

#[derive(Debug, Parser)]
#[command(about = "Runs the real server against an in-memory API server with faults")]
struct Args {
    /// Run this seed, and print everything that happened
    #[arg(long, value_name = "N", conflicts_with_all = ["seeds", "minutes"])]
    seed: Option<u64>,
    /// Run so many seeds
    #[arg(long, value_name = "N", default_value_t = 100)]
    seeds: u64,
    /// Run seeds for so many minutes
    #[arg(long, value_name = "M")]
    minutes: Option<u64>,
    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    from: u64,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if std::env::var_os("RUST_LOG").is_some() {
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    }
    if let Some(seed) = args.seed {
        let report = run(seed);
        println!("{}", report.params);
        print!("{}", report.trace);
        return conclude(&report);
    }
    let mut total = Total::default();
    let began = Instant::now();
    let is_over = |count: u64| match args.minutes {
        Some(minutes) => began.elapsed().as_secs() >= 60 * minutes,
        None => count >= args.seeds,
    };
    while !is_over(total.seeds) {
        let report = run(args.from + total.seeds);
        total.add(&report);
        if let Some(violation) = &report.violation {
            println!("seed {}: {violation}", report.params.seed);
        }
    }
    total.print(began.elapsed().as_secs_f64());
    if total.violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn conclude(report: &Report) -> ExitCode {
    match &report.violation {
        Some(violation) => {
            println!("seed {}: {violation}", report.params.seed);
            ExitCode::FAILURE
        }
        None => ExitCode::SUCCESS,
    }
}

#[derive(Debug, Default)]
struct Total {
    seeds: u64,
    exact: u64,
    violations: u64,
    allowed: u64,
    denied: u64,
    failed: u64,
    carried_out: u64,
    virtual_ms: u64,
    struck: BTreeMap<Fault, u64>,
}

impl Total {
    fn add(&mut self, report: &Report) {
        self.seeds += 1;
        self.exact += u64::from(report.params.is_exact());
        self.violations += u64::from(report.violation.is_some());
        self.allowed += report.allowed;
        self.denied += report.denied;
        self.failed += report.failed;
        self.carried_out += report.carried_out;
        self.virtual_ms += report.virtual_ms;
        for (fault, count) in &report.struck {
            *self.struck.entry(*fault).or_default() += count;
        }
    }

    fn print(&self, seconds: f64) {
        for fault in Fault::ALL {
            println!("{:>10} {fault:?}", self.struck.get(fault).copied().unwrap_or(0));
        }
        let Self { seeds, exact, allowed, denied, failed, carried_out, violations, .. } = self;
        println!(
            "{seeds} seeds ({exact} exact), {} virtual minutes, {seconds:.1} s",
            self.virtual_ms / 60_000
        );
        println!(
            "evictions: {allowed} allowed, {carried_out} carried out, {denied} denied, {failed} without answer"
        );
        println!("violations: {violations}");
    }
}
