//! Tests of the program: exit codes, and what it prints to stdout and stderr.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Output;

const LLM_SERVING: &str = "../../examples/llm-serving.yaml";
const TWO_REPLICAS: &str = "../../examples/two-replicas.yaml";

fn simulate(arguments: &[&str], stdin: &str) -> Output {
    let mut child = super::program::start(&[&["simulate"], arguments].concat());
    child.stdin.take().expect("piped").write_all(stdin.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn a_drain_that_finishes_ends_with_0_and_data_alone_on_stdout() {
    let output = simulate(&["-f", LLM_SERVING, "--drain", "node-1", "-o", "json"], "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("only JSON");
    assert_eq!(report["schemaVersion"], 1);
    assert_eq!(report["runs"][0]["result"], "Finished");
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn a_drain_that_would_block_for_ever_ends_with_1() {
    let manifests = std::fs::read_to_string(LLM_SERVING).expect("it is there");
    let manifests = manifests.replace("minAvailable: 9", "minAvailable: 100%");
    let output = simulate(&["-f", "-", "--drain", "node-1"], &manifests);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("it can never allow one"));
}

#[test]
fn mistakes_end_with_2_and_leave_stdout_empty() {
    let manifests = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web}\n\
                     spec: {minAvailable: many}\n";
    let output = simulate(&["-f", "-", "-f", "nowhere.yaml", "--drain", "n"], manifests);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stdout), "");
    let told = text(&output.stderr);
    assert!(told.starts_with("error: the input has 2 mistakes:\n"), "{told}");
    assert!(told.contains("  nowhere.yaml: No such file"), "{told}");
    assert!(told.contains("  stdin: document 1: spec.minAvailable: \"many\""), "{told}");
}

#[test]
fn unknown_kinds_are_noted_on_stderr() {
    let manifests = std::fs::read_to_string(TWO_REPLICAS).expect("it is there");
    let manifests =
        format!("{manifests}---\napiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\n");
    let output = simulate(&["-f", "-", "--drain", "node-1"], &manifests);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stderr), "note: ignored objects of other kinds: Secret (1)\n");
}

#[test]
fn a_directory_stands_for_the_manifests_in_it() {
    let directory = std::env::temp_dir().join(format!("holdfast-simulate-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("created");
    for (name, from) in [("a.yaml", TWO_REPLICAS), ("notes.txt", LLM_SERVING)] {
        std::fs::copy(PathBuf::from(from), directory.join(name)).expect("copied");
    }
    let file = directory.display().to_string();
    let output = simulate(&["-f", &file, "--drain", "node-1"], "");
    std::fs::remove_dir_all(&directory).expect("removed");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(
        text(&output.stdout).contains("Budget inference") && !text(&output.stdout).contains("llm")
    );
}

#[test]
fn without_input_or_nodes_it_says_what_is_missing() {
    for arguments in [&["--drain", "n"][..], &["-f", TWO_REPLICAS][..]] {
        let output = simulate(arguments, "");
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains("required"), "{}", text(&output.stderr));
    }
}

#[test]
fn times_beyond_what_can_be_simulated_are_refused_by_flag() {
    for (flag, time) in [("--retry", "0"), ("--startup", "25h"), ("--grace-period", "99999999h")] {
        let output = simulate(&["-f", TWO_REPLICAS, "--drain", "node-1", flag, time], "");
        assert_eq!(output.status.code(), Some(2), "{flag}");
        assert!(text(&output.stderr).contains(flag), "{}", text(&output.stderr));
    }
}
