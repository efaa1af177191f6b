//! Every field of the custom resources, out of their definitions.

use std::fmt::Write as _;

use holdfast_api::crd;
use serde_json::Value;

use super::cell;

pub fn page() -> String {
    let mut text = "# API\n\nMade from the CustomResourceDefinitions by `cargo xtask fix`; `kubectl explain` says the \
        same. What the fields do to a decision: [semantics](../semantics.md).\n"
        .to_owned();
    for definition in [crd::crd(), crd::unavailable(), crd::workloads(), crd::pod_groups()] {
        let (group, names) = (&definition["spec"]["group"], &definition["spec"]["names"]);
        for version in definition["spec"]["versions"].as_array().into_iter().flatten() {
            let schema = &version["schema"]["openAPIV3Schema"];
            let _ = write!(
                text,
                "\n## {} of {}/{}\n\n{}\n\n| field | type | |\n|---|---|---|\n",
                word(&names["kind"]),
                word(group),
                word(&version["name"]),
                word(&schema["description"]),
            );
            for part in ["spec", "status"] {
                fields(&mut text, part, &schema["properties"][part]);
            }
        }
    }
    text
}

fn fields(text: &mut String, path: &str, schema: &Value) {
    let row = [format!("`{path}`"), kind(schema), word(&schema["description"]).to_owned()];
    let _ = writeln!(text, "| {} |", row.map(|column| cell(&column)).join(" | "));
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        fields(text, &format!("{path}.{name}"), field);
    }
    for (name, field) in schema["items"]["properties"].as_object().into_iter().flatten() {
        fields(text, &format!("{path}[].{name}"), field);
    }
    for (name, field) in
        schema["additionalProperties"]["properties"].as_object().into_iter().flatten()
    {
        fields(text, &format!("{path}.*.{name}"), field);
    }
}

fn kind(schema: &Value) -> String {
    if schema["x-kubernetes-int-or-string"] == true {
        return "number or text".to_owned();
    }
    let choices =
        schema["enum"].as_array().into_iter().flatten().map(|choice| format!("`{}`", word(choice)));
    let choices: Vec<String> = choices.collect();
    match word(&schema["type"]) {
        _ if !choices.is_empty() => choices.join(", "),
        "array" => format!("list of {}", kind(&schema["items"])),
        "object" if schema["additionalProperties"].is_object() => {
            format!("map to {}", kind(&schema["additionalProperties"]))
        }
        other => other.to_owned(),
    }
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
