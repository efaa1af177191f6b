//! Shared code of the end-to-end tests.
//!
//! ```text
//! fixture   a cluster from environment variables, and its users
//!    |
//!  client   plain blocking requests as one user
//!    |
//!  world    a namespace and nodes of one test: groups, pods, budgets
//!    |-- evict    one eviction and its answer
//!    |-- unavailable  PodUnavailableBudgets, and the operations from which they protect
//!    |-- gang     groups of pods that start together
//!    |-- asking   workloads that ask for such groups
//!    |-- drain    a real kubectl drain
//!    |-- observer the lowest number of healthy replicas at any time, counted by the auditor
//!    |-- history  all changes of some objects, in the API server's order
//!    |-- lws      a LeaderWorkerSet, and its history as the auditor judges it
//!    '-- job      replicas under several budgets that the test replaces; `load` evicts them all the time
//!
//! localkube programs of the control plane, restarted
//! server    the `holdfast serve` process; `balancer` stands before several of them, which make a `fleet`; `printed`
//!           is one with only the rights of `holdfast manifests`
//! everything  all objects of the cluster, before and after
//! browser   a real Chromium, for the web page
//! suite     runs tests, or reports why it cannot
//! ```
//!
//! Helpers panic with the observed state: a test that cannot continue has failed.

pub mod asking;
pub mod balancer;
pub mod browser;
pub mod client;
pub mod drain;
pub mod everything;
pub mod evict;
pub mod fixture;
pub mod fleet;
pub mod gang;
pub mod history;
pub mod job;
pub mod kubectl;
pub mod load;
pub mod localkube;
pub mod lws;
pub mod object;
pub mod observer;
pub mod pod;
pub mod printed;
pub mod process;
pub mod server;
pub mod shared;
pub mod suite;
pub mod tls;
pub mod unavailable;
pub mod wait;
pub mod why;
pub mod world;

/// Runs a command of the program under test as the administrator. Returns exit code and output.
pub fn holdfast(args: &[&str]) -> (Option<i32>, String) {
    let output = std::process::Command::new(&fixture::fixture().holdfast)
        .args(args)
        .arg("--kubeconfig")
        .arg(&fixture::fixture().admin_kubeconfig)
        .output()
        .expect("holdfast starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}
