//! Compares the simulator's API server with a real one: the same random requests must give the same answers
//! and the same watch events. The results of the simulator depend on this.
//!
//! Holdfast does not run here, but its kinds are defined.

mod plain;
mod real;
mod sequence;

use std::process::{Command, ExitCode};

use holdfast_e2e::fixture::fixture;
use holdfast_e2e::suite::{self, Test};
use holdfast_e2e::wait::until;
use holdfast_e2e::{server, tests};
use libtest_mimic::Arguments;

const CRD: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../crates/api/crds/poddisruptionbudgets.policy.holdfast.dev.yaml"
);
const CRD_PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/\
    poddisruptionbudgets.policy.holdfast.dev";

pub fn run() -> ExitCode {
    let mut tests = tests![sequence::random_requests_are_answered_alike];
    let long = tests![sequence::many_random_requests_are_answered_alike];
    tests.extend(long.into_iter().map(Test::long));
    let tests: Vec<Test> = tests.into_iter().map(Test::without_nodes).collect();
    suite::run(Arguments::from_args(), 1, &tests, start, |()| stop())
}

fn start() -> Result<(), String> {
    server::uninstall()?;
    let fixture = fixture();
    let applied = Command::new(&fixture.kubectl)
        .arg("--kubeconfig")
        .arg(&fixture.admin_kubeconfig)
        .args(["apply", "-f", CRD])
        .status()
        .map_err(|e| format!("run kubectl: {e}"))?;
    if !applied.success() {
        return Err(format!("kubectl apply -f {CRD}: {applied}"));
    }
    until("the kind is served", || {
        let path = "/apis/policy.holdfast.dev/v1/poddisruptionbudgets";
        let answer = fixture.admin.get(path);
        if answer.is_success() { Ok(()) } else { Err(answer.message().to_owned()) }
    });
    Ok(())
}

fn stop() -> Result<(), String> {
    let answer = fixture().admin.delete(CRD_PATH);
    if answer.is_success() { Ok(()) } else { Err(answer.message().to_owned()) }
}
