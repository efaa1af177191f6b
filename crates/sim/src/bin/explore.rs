//! Exhaustive exploration as a program, which `cargo xtask explore` builds and calls. Exit code 1
//! means that a scope breaks the promise.

use std::process::ExitCode;
use std::time::Duration;

use holdfast_sim::explore::{Limits, Outcome, SCOPES, Scope, explore, replay};
use holdfast_sim::program;

const HELP: &str = "\
Explores every schedule of small worlds (docs/simulator.md).

  --list              print the scopes
  --scope NAME        explore this scope only
  --states N          explore at most N states of each scope
  --minutes M         explore each scope for at most M minutes
  --threads N         use N threads
  --replay SCHEDULE   with --scope: run this schedule, and print its steps
";

fn main() -> ExitCode {
    program::run(HELP, || Args::parse()?.run())
}

struct Args {
    scope: Option<&'static Scope>,
    replay: Option<String>,
    list: bool,
    limits: Limits,
}

impl Args {
    fn parse() -> Result<Self, String> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let limits = Limits { states: 20_000_000, time: Duration::from_hours(10), threads };
        let mut parsed = Self { scope: None, replay: None, list: false, limits };
        for (name, value) in program::flags(&["--list"])? {
            parsed.set(&name, &value)?;
        }
        Ok(parsed)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let flag = (name, value);
        match name {
            "--list" => self.list = true,
            "--scope" => {
                let scope = Scope::named(value);
                self.scope = Some(scope.ok_or_else(|| format!("there is no scope {value}"))?);
            }
            "--replay" => self.replay = Some(value.to_owned()),
            "--threads" => self.limits.threads = program::number(flag)?,
            "--states" => self.limits.states = program::number(flag)?,
            "--minutes" => self.limits.time = Duration::from_mins(program::number(flag)?),
            _ => return Err(format!("{name}?")),
        }
        Ok(())
    }

    /// Whether the promise holds.
    fn run(self) -> Result<bool, String> {
        if self.list {
            for scope in SCOPES {
                println!("{:<18} {}\n{:18} {scope}", scope.name, scope.about, "");
            }
            return Ok(true);
        }
        if let Some(schedule) = &self.replay {
            let scope = self.scope.ok_or("--replay needs --scope")?;
            let replayed = replay(scope.name, schedule);
            replayed.lines.iter().for_each(|line| println!("{line}"));
            let violation = replayed.violation.as_deref().unwrap_or("the promise holds");
            println!("{violation}");
            return Ok(replayed.violation.is_none());
        }
        let wanted = |scope: &&Scope| self.scope.is_none_or(|only| only.name == scope.name);
        let mut held = true;
        for scope in SCOPES.iter().filter(wanted) {
            held &= tell(scope, &explore(scope, self.limits));
        }
        Ok(held)
    }
}

/// Prints the figures, and a violation as a test.
fn tell(scope: &Scope, outcome: &Outcome) -> bool {
    let seconds = outcome.took.as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a rate, for people")]
    let rate = outcome.states as f64 / seconds.max(0.001);
    println!(
        "{:<18} {:>9} states, {:>10} transitions, depth {:>2}, {}, {seconds:.1} s, {rate:.0} states/s",
        scope.name,
        outcome.states,
        outcome.transitions,
        outcome.depth,
        if outcome.complete { "complete" } else { "not complete" },
    );
    let Some(found) = &outcome.found else { return true };
    println!("\n{} after {} steps:", found.violation, found.schedule.0.len());
    let schedule = found.schedule.to_string();
    for line in replay(scope.name, &schedule).lines {
        println!("  {line}");
    }
    println!("\n  replay(\"{}\", \"{schedule}\")\n", scope.name);
    false
}
