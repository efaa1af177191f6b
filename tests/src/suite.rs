//! Runs tests in parallel, and reports tests that cannot run.

use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Completion, Trial};

use crate::browser;
use crate::fixture::{self, HOW_TO_RUN, Mode, fixture};
use crate::localkube;

/// A test's name and its requirements.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    pub name: &'static str,
    pub run: fn(),
    /// The cluster must simulate nodes and pods: localkube, or kwok on another cluster.
    pub needs_nodes: bool,
    /// Another requirement that not every cluster meets.
    pub needs: Option<Need>,
    /// The test takes minutes.
    pub long: bool,
    /// Why the test does not apply to native mode.
    pub not_native: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// `LeaderWorkerSet`'s controller.
    Lws,
    /// `JobSet`'s controller.
    JobSet,
    /// A scheduler that does not schedule gangs.
    NoPodGroups,
    /// A control plane whose programs can be restarted.
    Localkube,
    /// Several API servers, whose programs can be restarted, and `LeaderWorkerSet`'s controller.
    ApiServers,
    /// The descheduler's program.
    Descheduler,
    /// Chromium, and the program that drives it.
    Browser,
}

/// `tests![drain::this, drain::that]`: the functions, whose paths are the names of the tests.
#[macro_export]
macro_rules! tests {
    ($($test:path),* $(,)?) => {
        vec![$($crate::suite::Test {
            name: stringify!($test),
            run: $test,
            needs_nodes: true,
            needs: None,
            long: false,
            not_native: None,
        }),*]
    };
}

impl Test {
    #[must_use]
    pub fn without_nodes(mut self) -> Self {
        self.needs_nodes = false;
        self
    }

    #[must_use]
    pub fn with_lws(mut self) -> Self {
        self.needs = Some(Need::Lws);
        self
    }

    #[must_use]
    pub fn with_jobset(mut self) -> Self {
        self.needs = Some(Need::JobSet);
        self
    }

    #[must_use]
    pub fn without_pod_groups(mut self) -> Self {
        self.needs = Some(Need::NoPodGroups);
        self
    }

    #[must_use]
    pub fn on_localkube(mut self) -> Self {
        self.needs = Some(Need::Localkube);
        self
    }

    #[must_use]
    pub fn on_several_apiservers(mut self) -> Self {
        self.needs = Some(Need::ApiServers);
        self
    }

    #[must_use]
    pub fn with_browser(mut self) -> Self {
        self.needs = Some(Need::Browser);
        self
    }

    #[must_use]
    pub fn with_descheduler(mut self) -> Self {
        self.needs = Some(Need::Descheduler);
        self
    }

    #[must_use]
    pub fn not_native(mut self, why: &'static str) -> Self {
        self.not_native = Some(why);
        self
    }

    #[must_use]
    pub fn long(mut self) -> Self {
        self.long = true;
        self
    }
}

type Times = Arc<Mutex<Vec<(&'static str, Duration)>>>;

/// Runs the tests. `around` starts and stops something, whatever the results are.
pub fn run<T>(
    mut args: Arguments,
    threads: usize,
    tests: &[Test],
    start: impl FnOnce() -> Result<T, String>,
    stop: impl FnOnce(T) -> Result<(), String>,
) -> ExitCode {
    args.test_threads.get_or_insert(threads);
    if args.list || !fixture::is_named() {
        return not_run(&args, tests);
    }
    let times = Times::default();
    let ready = fixture::set_up().and_then(|()| start());
    let started = match ready {
        Ok(started) => started,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let cluster = Cluster {
        plays_nodes: fixture().plays_nodes(),
        runs_lws: fixture().runs_lws(),
        runs_jobset: fixture().runs_jobset(),
    };
    let full = std::env::var_os("HOLDFAST_E2E_FULL").is_some();
    let trials = tests.iter().map(|test| trial(*test, cluster, full, times.clone())).collect();
    let conclusion = libtest_mimic::run(&args, trials);
    print_times(&times);
    let stopped = stop(started);
    if let Err(error) = &stopped {
        eprintln!("error: {error}");
    }
    if conclusion.has_failed() || stopped.is_err() {
        eprintln!("the logs are in {}", fixture().dir.join("logs").display());
        return ExitCode::FAILURE;
    }
    fixture().clean_up();
    ExitCode::SUCCESS
}

/// Reports every test as ignored: a test that needs a cluster never passes without one.
fn not_run(args: &Arguments, tests: &[Test]) -> ExitCode {
    if !args.list {
        println!("end-to-end tests are not run without a cluster: {HOW_TO_RUN}");
    }
    let fail = || Err(format!("no cluster to run on; {HOW_TO_RUN}").into());
    let trials = tests.iter().map(|test| Trial::test(test.name, fail).with_ignored_flag(true));
    libtest_mimic::run(args, trials.collect()).exit_code()
}

/// The optional features of the cluster.
#[derive(Clone, Copy)]
struct Cluster {
    plays_nodes: bool,
    runs_lws: bool,
    runs_jobset: bool,
}

impl Cluster {
    fn lacks(self, need: Need) -> Option<&'static str> {
        match need {
            Need::Lws if !self.runs_lws => Some("LeaderWorkerSet is not installed here"),
            Need::JobSet if !self.runs_jobset => Some("JobSet is not installed here"),
            Need::NoPodGroups if fixture().has_pod_groups() => {
                Some("here kube-scheduler starts gangs, and not Holdfast")
            }
            Need::Localkube if !localkube::is_there() => {
                Some("it restarts programs of the control plane, which takes localkube")
            }
            Need::ApiServers
                if !(self.runs_lws && localkube::is_there() && fixture().apiservers() > 1) =>
            {
                Some("it takes `cargo xtask localkube up --lws --apiservers 3`")
            }
            Need::Descheduler if !fixture().descheduler().exists() => Some(
                "there is no descheduler, which `cargo xtask localkube up --descheduler` brings",
            ),
            Need::Browser if !browser::is_there() => {
                Some("there is no Chromium with chromedriver, and none could be installed")
            }
            _ => None,
        }
    }
}

fn trial(test: Test, cluster: Cluster, full: bool, times: Times) -> Trial {
    let run = move || {
        if test.needs_nodes && !cluster.plays_nodes {
            let why = "no node that a test creates turns Ready here; run kwok on this cluster";
            return Ok(Completion::ignored_with(why));
        }
        if let Some(why) = test.needs.and_then(|need| cluster.lacks(need)) {
            return Ok(Completion::ignored_with(why));
        }
        if let (Some(why), Mode::Native) = (test.not_native, fixture().mode) {
            return Ok(Completion::ignored_with(why));
        }
        let began = Instant::now();
        (test.run)();
        times.lock().expect("not poisoned").push((test.name, began.elapsed()));
        Ok(Completion::Completed)
    };
    Trial::ignorable_test(test.name, run).with_ignored_flag(test.long && !full)
}

fn print_times(times: &Times) {
    let mut times = times.lock().expect("not poisoned").clone();
    times.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    println!("seconds  test");
    for (name, time) in times {
        println!("{:7.1}  {name}", time.as_secs_f64());
    }
}
