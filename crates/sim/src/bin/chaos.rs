//! The simulator as a program, which `cargo xtask sim` builds and calls. Exit code 1 means that
//! something did not hold.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use holdfast_sim::chaos::{Fault, Plan, Profile, Soak, minimise, report, run, soak};
use holdfast_sim::program;

const USAGE: &str = "--seed N | --seeds N [--from N] | --minutes M | --planted TRIALS
[--profile swarm|native|lite|scale] [--without FAULT,...] [--skip STEP,FROM-TO,...]";

fn main() -> ExitCode {
    program::exit_code(Args::parse().and_then(Args::run), USAGE)
}

struct Args {
    plan: Plan,
    mode: Mode,
    from: u64,
}

enum Mode {
    Replay,
    Seeds(u64),
    Minutes(u64),
    Planted(u64),
}

impl Args {
    fn parse() -> Result<Self, String> {
        let mut plan = Plan::new(0, Profile::Swarm);
        let (mut mode, mut from) = (None, 0);
        for (name, value) in program::flags(&[])? {
            let number = || program::number((&name, &value));
            match name.as_str() {
                "--seed" => (plan.seed, mode) = (number()?, Some(Mode::Replay)),
                "--seeds" => mode = Some(Mode::Seeds(number()?)),
                "--minutes" => mode = Some(Mode::Minutes(number()?)),
                "--planted" => mode = Some(Mode::Planted(number()?)),
                "--from" => from = number()?,
                "--profile" => {
                    plan.profile =
                        Profile::parse(&value).ok_or_else(|| format!("profile {value}?"))?;
                }
                "--without" => {
                    for name in value.split(',') {
                        let fault = Fault::parse(name).ok_or_else(|| format!("fault {name}?"))?;
                        plan.without.insert(fault);
                    }
                }
                "--skip" => plan.skip = parse_steps(&value)?,
                _ => return Err(format!("{name}?")),
            }
        }
        Ok(Self { plan, mode: mode.ok_or("what to run?")?, from })
    }

    fn run(self) -> Result<bool, String> {
        let started = Instant::now();
        let soak = |seeds: u64, within: Duration| {
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            let seeds = self.from..self.from.saturating_add(seeds);
            soak(self.plan.profile, seeds, threads, || started.elapsed() >= within)
        };
        match self.mode {
            Mode::Replay => {
                print!("{}", report(&self.plan));
                Ok(run(&self.plan, false).violation.is_none())
            }
            Mode::Seeds(seeds) => Ok(tell(&soak(seeds, Duration::MAX), self.plan.profile, started)),
            Mode::Minutes(minutes) => {
                let within = Duration::from_mins(minutes);
                Ok(tell(&soak(u64::MAX, within), self.plan.profile, started))
            }
            Mode::Planted(trials) => planted(trials),
        }
    }
}

/// Prints the counts, and a small reproduction of what failed.
fn tell(soak: &Soak, profile: Profile, started: Instant) -> bool {
    let (faults, checks): (u64, u64) = (soak.faults.values().sum(), soak.checks.values().sum());
    println!(
        "{} seeds of {profile}, {faults} faults, {checks} checks in {:.0} s",
        soak.seeds,
        started.elapsed().as_secs_f64()
    );
    for fault in Fault::ALL {
        let count = soak.faults.get(fault).copied().unwrap_or(0);
        println!("{count:>10} {fault:<18} {}", fault.what());
    }
    for (invariant, count) in &soak.checks {
        println!("{count:>10} {:<18} {}", invariant.to_string(), invariant.what());
    }
    for (seed, violation) in &soak.failed {
        println!("seed {seed} fails: {violation}");
    }
    if let Some((seed, _)) = soak.failed.first() {
        let (smaller, _) = minimise(&Plan::new(*seed, profile));
        print!("\nseed {seed}, smaller:\n{}", report(&smaller));
        println!("cargo xtask sim {smaller}");
    }
    soak.failed.is_empty()
}

#[cfg(feature = "planted-bugs")]
#[expect(clippy::unnecessary_wraps, reason = "without the feature it is an error")]
fn planted(trials: u64) -> Result<bool, String> {
    let table = holdfast_sim::chaos::planted::table(trials);
    println!("{table}");
    Ok(table.all_found())
}

#[cfg(not(feature = "planted-bugs"))]
fn planted(_: u64) -> Result<bool, String> {
    Err("--planted needs the feature planted-bugs".to_owned())
}

fn parse_steps(text: &str) -> Result<std::collections::BTreeSet<usize>, String> {
    let number = |text: &str| text.parse::<usize>().map_err(|_| format!("step {text}?"));
    let mut steps = std::collections::BTreeSet::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        steps.extend(number(from)?..=number(to)?);
    }
    Ok(steps)
}
