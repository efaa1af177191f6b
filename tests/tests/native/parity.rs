//! Runs the same script against kube-apiserver's own `policy/v1` and against Holdfast's. Output and exit
//! codes of kubectl must be equal.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};

use holdfast_e2e::drain::Drain;
use holdfast_e2e::evict::CANNOT_EVICT;
use holdfast_e2e::fixture::fixture;
use holdfast_e2e::pod::Pod;
use holdfast_e2e::server::Server;
use holdfast_e2e::world::World;
use serde_json::json;

use super::remove;

/// A command line of kubectl, and its input.
struct Step {
    line: &'static str,
    input: &'static str,
}

const fn step(line: &'static str) -> Step {
    Step { line, input: "" }
}

const fn with(line: &'static str, input: &'static str) -> Step {
    Step { line, input }
}

const WEB: &str = r#"
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, labels: {tier: front}, annotations: {note: "one"}}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
"#;
const WEB_CHANGED: &str = r#"
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, labels: {tier: back}}
spec: {maxUnavailable: 25%, selector: {matchLabels: {app: web, more: "yes"}}}
"#;
const REPLACEMENT: &str = "
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 3, selector: {matchLabels: {app: web}}, unhealthyPodEvictionPolicy: AlwaysAllow}
";
const STALE: &str = r#"
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, resourceVersion: "1"}
spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}
"#;
const UNKNOWN_FIELD: &str = "
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: unknown}
spec: {minAvailable: 1, minimumAvailable: 2, selector: {}}
";
const TWICE: &str = r#"{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "twice"},
 "spec": {"minAvailable": 1, "minAvailable": 2, "selector": {}}}"#;
const BOTH: &str = "
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: both}
spec: {minAvailable: 1, maxUnavailable: 1, selector: {matchLabels: {app: web}}}
";
const NOT_A_PERCENTAGE: &str = "
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: percent}
spec: {minAvailable: half, selector: {}}
";
const SEVERAL_WRONG: &str = r#"
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: several}
spec:
  minAvailable: -1
  unhealthyPodEvictionPolicy: Never
  selector: {matchExpressions: [{key: app, operator: In}, {key: "no spaces", operator: Exists, values: [x]}]}
"#;
const OLD_VERSION: &str = "
apiVersion: policy/v1beta1
kind: PodDisruptionBudget
metadata: {name: old}
spec: {minAvailable: 1}
";
const APPLIED: &str = "
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: applied, labels: {by: one}}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
";
const APPLIED_BY_ANOTHER: &str = "
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: applied}
spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}
";

const SHOWN: &str =
    "-o=jsonpath={.metadata.labels} {.metadata.annotations.note} {.metadata.generation} {.spec}";

const SCRIPT: &[Step] = &[
    with("create -f -", WEB),
    with("create -f -", WEB),
    step("create pdb min --selector app=a --min-available 1"),
    step("create pdb max --selector app=b --max-unavailable 30%"),
    step("create pdb dry --selector app=c --min-available 1 --dry-run=server"),
    step("create pdb Upper --selector app=c --min-available 101%"),
    step("get pdb dry"),
    step("get pdb"),
    step("get pdb web -o name"),
    step("get pdb -l tier=front -o name"),
    step("get pdb --field-selector metadata.name=web -o name"),
    step("get pdb --chunk-size 1 -o name"),
    step("get pdb web SHOWN"),
    step("get poddisruptionbudgets.v1.policy web -o name"),
    with("create -f -", BOTH),
    with("create -f -", NOT_A_PERCENTAGE),
    with("create -f -", SEVERAL_WRONG),
    with("create -f -", OLD_VERSION),
    with("create -f -", UNKNOWN_FIELD),
    with("create --validate=warn -f -", UNKNOWN_FIELD),
    with("create --validate=ignore -f -", TWICE),
    with("create --validate=strict -f -", TWICE),
    step("get pdb unknown twice -o name"),
    with("apply -f -", WEB),
    with("apply -f -", WEB_CHANGED),
    with("apply -f -", WEB_CHANGED),
    step("get pdb web SHOWN"),
    with("diff -f -", WEB_CHANGED),
    with("apply --server-side -f -", APPLIED),
    with("apply --server-side -f -", APPLIED),
    with("apply --server-side --field-manager=another -f -", APPLIED_BY_ANOTHER),
    with("apply --server-side --field-manager=another --force-conflicts -f -", APPLIED_BY_ANOTHER),
    step("get pdb applied SHOWN"),
    step(
        "get pdb applied --show-managed-fields -o=jsonpath={range .metadata.managedFields[*]}{.manager}{.operation}{.apiVersion}{.subresource}{end}",
    ),
    with("replace -f -", REPLACEMENT),
    step("get pdb web SHOWN"),
    with("replace -f -", STALE),
    step("patch pdb web -p {\"spec\":{\"minAvailable\":4}}"),
    step("patch pdb web -p {\"spec\":{\"selector\":{\"matchLabels\":{\"only\":\"this\"}}}}"),
    step(
        "patch pdb web --type=merge -p {\"spec\":{\"selector\":{\"matchLabels\":{\"app\":\"web\"}}}}",
    ),
    step(
        "patch pdb web --type=json -p [{\"op\":\"replace\",\"path\":\"/spec/minAvailable\",\"value\":5}]",
    ),
    step(
        "patch pdb web --type=json -p [{\"op\":\"replace\",\"path\":\"/spec/nothing\",\"value\":5}]",
    ),
    step("patch pdb web -p {\"spec\":{\"maxUnavailable\":1}}"),
    step("patch pdb web --type=merge -p {\"spec\":{\"minAvailable\":\"200%\"}}"),
    step(
        "patch pdb web --type=json -p [{\"op\":\"add\",\"path\":\"/spec/maxUnavailable\",\"value\":5}]",
    ),
    step(
        "patch pdb web --subresource=status --type=merge -p {\"status\":{\"disruptedPods\":{\"p\":\"2026-01-01T00:00:00Z\"}}}",
    ),
    step("patch pdb none -p {\"spec\":{\"minAvailable\":4}}"),
    step("get pdb web SHOWN"),
    step("label pdb web color=blue"),
    step("annotate pdb web note=two"),
    step("annotate pdb web note=three"),
    step("get pdb web SHOWN"),
    step("get pdb none"),
    step("get pdb web --subresource=status -o name"),
    step("explain pdb.spec.minAvailable"),
    step("api-resources --api-group=policy --no-headers"),
    step("auth can-i create poddisruptionbudgets.policy"),
    step("delete pdb min --dry-run=server"),
    step("delete pdb min"),
    step("delete pdb min"),
    step("delete pdb -l color=blue"),
    step("delete pdb --all"),
    step("get pdb"),
];

pub fn kubectl_says_the_same_of_both() {
    let built_in = run();
    let server = Server::start("parity").expect("it starts");
    let ours = run();
    let mut differences = Vec::new();
    for ((step, built_in), ours) in SCRIPT.iter().zip(&built_in).zip(&ours) {
        if built_in != ours {
            let line = step.line;
            differences.push(format!("kubectl {line}\n--- built-in\n{built_in}\n--- ours\n{ours}"));
        }
    }
    remove(server);
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n\n"));
}

/// kubectl drain with budgets of scope Pod: the evicted and the denied pods and the exit code.
pub fn a_drain_ends_the_same_under_both() {
    let built_in = drains();
    let server = Server::start("parity-drain").expect("it starts");
    let ours = drains();
    remove(server);
    assert_eq!(built_in, ours);
}

fn drains() -> Vec<String> {
    let world = World::new("parity-drain");
    let (node, spare) = (world.node("n"), world.node("spare"));
    for pod in ["a", "b", "c"] {
        world.pod(&Pod::new(pod).on(&node));
        world.wait_ready(pod);
    }
    world.budget("job", json!({"minAvailable": 2}));
    world.wait_status("job", "has room for one", |status| status["disruptionsAllowed"] == 1);
    let drain = |node: &str, more: &[&str]| {
        let (code, output) = Drain::start(node, more).finish();
        let told = |line: &&str| {
            // The order of these lines varies.
            line.contains(" evicted") || line.contains(CANNOT_EVICT) || line.contains("timeout")
        };
        let mut lines: BTreeSet<String> = BTreeSet::new();
        for line in output.lines().filter(told) {
            lines.insert(line.split(['"', '/']).next().unwrap_or_default().to_owned());
        }
        format!("exit {code:?}, {} left: {lines:?}", world.pods().len())
    };
    vec![
        drain(&node, &["--dry-run=server"]),
        drain(&spare, &[]),
        drain(&node, &["--timeout=7s"]),
        {
            world.edit_budget("job", &json!({"minAvailable": 0}));
            world
                .wait_status("job", "has room for all", |status| status["disruptionsAllowed"] == 2);
            drain(&node, &[])
        },
    ]
}

fn run() -> Vec<String> {
    let world = World::new("parity");
    SCRIPT.iter().map(|step| kubectl(&world.namespace, step)).collect()
}

/// Returns exit code and output, without parts that differ between runs.
fn kubectl(namespace: &str, step: &Step) -> String {
    let fixture = fixture();
    let args = step.line.split(' ').map(|arg| if arg == "SHOWN" { SHOWN } else { arg });
    let mut child = Command::new(&fixture.kubectl)
        .args(["--namespace", namespace])
        .args(args)
        .env("KUBECONFIG", &fixture.admin_kubeconfig)
        .env("HOME", fixture.dir.join("home"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kubectl starts");
    let mut input = child.stdin.take().expect("it is piped");
    // kubectl may end before it has read everything.
    let _ = input.write_all(step.input.as_bytes());
    drop(input);
    let output = child.wait_with_output().expect("kubectl ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(namespace, "NAMESPACE");
    let code = output.status.code().unwrap_or(-1);
    let stdout = text(&output.stdout);
    let lines: Vec<String> = stdout.lines().map(without_age).collect();
    format!("exit {code}\n{}\n{}", lines.join("\n"), text(&output.stderr))
}

/// Removes the last column of a table.
fn without_age(line: &str) -> String {
    let is_age = |word: &str| {
        let digits = word.strip_suffix('s').or_else(|| word.strip_suffix('m'));
        digits.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit() || b == b'm'))
    };
    match line.rsplit_once(' ') {
        Some((rest, age)) if is_age(age) => format!("{} AGE", rest.trim_end()),
        _ => line.to_owned(),
    }
}
