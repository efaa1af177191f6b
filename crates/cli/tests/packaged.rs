//! Tests that the committed manifests and the chart are the output of the program.
//!
//! `cargo xtask fix` writes them again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use holdfast_server::package::chart;
use serde_json::Value;

const HINT: &str = "`cargo xtask fix` writes it anew";

#[test]
fn the_plain_manifests_are_what_is_printed() {
    let printed: [(&str, &[&str]); 4] = [
        ("webhook.yaml", &[]),
        ("native.yaml", &["--mode=native"]),
        ("native-static-pod/cluster.yaml", &["--mode=native", "--static-pod=cluster"]),
        ("native-static-pod/node.yaml", &["--mode=native", "--static-pod=node"]),
    ];
    for (file, flags) in printed {
        let head = format!("# Printed by `holdfast manifests {}`\n", flags.join(" "));
        same(&root().join("deploy").join(file), &(head.replace(" `\n", "`\n") + &manifests(flags)));
    }
}

#[test]
fn the_chart_takes_its_objects_from_the_program() {
    for (file, content) in chart::files() {
        let head = "# Written by the test `packaged` of crates/cli\n";
        let content = serde_saphyr::to_string(&content).expect("it can be written");
        same(&root().join("charts/holdfast/files").join(file), &(head.to_owned() + &content));
    }
}

/// A chart can only use its own files, so it has a copy.
#[test]
fn the_alerts_of_the_chart_are_those_of_deploy() {
    let alerts = fs::read_to_string(root().join("deploy/alerts.yaml")).expect("there are alerts");
    same(&root().join("charts/holdfast/files/alerts.yaml"), &alerts);
}

#[test]
fn the_chart_has_the_version_of_the_program() {
    let chart = read(&root().join("charts/holdfast/Chart.yaml"));
    for field in ["version", "appVersion"] {
        assert_eq!(chart[field], env!("CARGO_PKG_VERSION"), "{field}");
    }
}

/// Helm checks values against the schema. A value that the schema lacks would be refused or not checked.
#[test]
fn the_schema_of_the_chart_knows_every_value_and_no_other() {
    let values = read(&root().join("charts/holdfast/values.yaml"));
    let mut schema = read(&root().join("charts/holdfast/values.schema.json"));
    // `global` is a value of Helm itself, for a chart that includes this chart.
    let global = schema["properties"].as_object_mut().and_then(|known| known.remove("global"));
    assert!(global.is_some(), "the chart cannot be part of another");
    compare("values", &values, &schema);
}

fn compare(at: &str, value: &Value, schema: &Value) {
    let Some(properties) = schema["properties"].as_object() else { return };
    assert_eq!(schema["additionalProperties"], false, "{at} would take misspelt values");
    let names = |object: &Value| -> Vec<String> {
        object.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(value), names(&schema["properties"]), "{at}");
    for (name, schema) in properties {
        compare(&format!("{at}.{name}"), &value[name], schema);
    }
}

#[test]
fn nothing_runs_with_more_than_it_needs() {
    for flags in [&[][..], &["--mode=native"], &["--mode=native", "--static-pod=node"]] {
        let objects: Vec<Value> = serde_saphyr::from_multiple(&manifests(flags)).expect("YAML");
        let pods = objects.iter().filter_map(|object| match object["kind"].as_str() {
            Some("Deployment") => Some(&object["spec"]["template"]["spec"]),
            Some("Pod") => Some(&object["spec"]),
            _ => None,
        });
        for pod in pods {
            assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
            assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
            let container = &pod["containers"][0];
            assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
            assert_eq!(container["securityContext"]["capabilities"]["drop"][0], "ALL");
            let args = container["args"].as_array().expect("arguments");
            assert!(args.iter().all(|arg| arg != "--install"));
            understood(args);
        }
    }
}

/// Checks that the program accepts these arguments: it must fail only because the kubeconfig does not exist.
fn understood(args: &[Value]) {
    let args = args.iter().filter_map(Value::as_str).filter(|arg| !arg.contains("listen="));
    let output = Command::new(env!("CARGO_BIN_EXE_holdfast"))
        .args(args.filter(|arg| !arg.starts_with("--kubeconfig")))
        .args(["--listen=127.0.0.1:0", "--metrics-listen=127.0.0.1:0"])
        .args(["--kubeconfig", "/nonexistent/kubeconfig"])
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("/nonexistent/kubeconfig: "), "{said}");
}

fn manifests(flags: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_holdfast"))
        .arg("manifests")
        .args(flags)
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn same(path: &Path, wanted: &str) {
    if std::env::var_os("HOLDFAST_WRITE").is_some() {
        fs::create_dir_all(path.parent().expect("a directory")).expect("it can be made");
        fs::write(path, wanted).expect("it can be written");
    }
    let found = fs::read_to_string(path).unwrap_or_default();
    let line = found.lines().zip(wanted.lines()).position(|(a, b)| a != b);
    assert!(found == wanted, "{} differs, from line {line:?} on: {HINT}", path.display());
}

fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).expect("it is there");
    serde_saphyr::from_str(&text).expect("YAML")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
