//! The simulator as a program, which `cargo xtask sim` builds and calls. Exit code 1 means that
//! something did not hold.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use holdfast_sim::chaos::{Fault, Plan, Profile, Soak, minimise, report, run, soak};
use holdfast_sim::program;

const HELP: &str = "\
Runs simulated worlds, each decided by a seed (docs/simulator.md). One of these says what to run:

  --seed N                 this seed; print what it chose, and everything that happened
  --seeds N                so many seeds; print counts by fault and by invariant
  --minutes M              seeds for so many minutes
  --planted TRIALS         plant bugs into the engine, one after the other, and print how many seeds it takes to find
                           each (needs the feature planted-bugs)

  --profile PROFILE        swarm (the default), native, unavailable, lite or scale
  --from N                 with --seeds and --minutes: the first seed
  --without FAULT,...      with --seed: faults to leave out
  --skip STEP,FROM-TO,...  with --seed: steps to leave out
  --bug BUG,...            with --planted: these bugs only
";

fn main() -> ExitCode {
    program::run(HELP, || Args::parse()?.run())
}

struct Args {
    plan: Plan,
    mode: Mode,
    from: u64,
    /// Names of planted bugs; none for all.
    bugs: Vec<String>,
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
        let (mut mode, mut from, mut bugs) = (None, 0, Vec::new());
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
                "--bug" => bugs = value.split(',').map(str::to_owned).collect(),
                "--skip" => plan.skip = parse_steps(&value)?,
                _ => return Err(format!("{name}?")),
            }
        }
        Ok(Self { plan, mode: mode.ok_or("what to run?")?, from, bugs })
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
            Mode::Planted(trials) => planted(trials, &self.bugs),
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
fn planted(trials: u64, names: &[String]) -> Result<bool, String> {
    use holdfast_core::planted::Bug;
    let named = |name: &String| Bug::ALL.iter().find(|bug| format!("{bug:?}") == *name);
    if let Some(unknown) = names.iter().find(|name| named(name).is_none()) {
        return Err(format!("bug {unknown}?"));
    }
    let mut bugs: Vec<Bug> = names.iter().filter_map(named).copied().collect();
    if bugs.is_empty() {
        bugs = Bug::ALL.to_vec();
    }
    let table = holdfast_sim::chaos::planted::table(&bugs, trials);
    println!("{table}");
    Ok(table.all_found())
}

#[cfg(not(feature = "planted-bugs"))]
fn planted(_: u64, _: &[String]) -> Result<bool, String> {
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
