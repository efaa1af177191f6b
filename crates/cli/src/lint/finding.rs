//! Findings, and the forms in which they are told.

use serde::Serialize;
use serde_json::{Value, json};

use super::code::{Code, Severity};
use crate::page::Page;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Findings {
    schema_version: u32,
    findings: Vec<Finding>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    pub code: Code,
    pub severity: Severity,
    #[serde(flatten)]
    pub object: Subject,
    pub message: String,
    pub fix: &'static str,
}

/// What a finding is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// From 1, within the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document: Option<usize>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
}

impl Subject {
    fn place(&self) -> Option<String> {
        let file = self.file.as_ref()?;
        Some(match self.document {
            Some(document) => format!("{file}: document {document}"),
            None => file.clone(),
        })
    }

    fn title(&self) -> String {
        if self.kind.is_empty() {
            return self.place().unwrap_or_default();
        }
        format!("{} {}/{}", self.kind, self.namespace, self.name)
    }
}

impl Finding {
    pub fn new(code: Code, object: Subject, message: impl Into<String>) -> Self {
        Self { code, severity: code.severity(), object, message: message.into(), fix: code.fix() }
    }
}

impl Findings {
    /// The worst first.
    pub fn new(mut findings: Vec<Finding>) -> Self {
        findings.sort_by(|a, b| {
            let key = |f: &Finding| (std::cmp::Reverse(f.severity), f.code, f.object.clone());
            key(a).cmp(&key(b))
        });
        Self { schema_version: 1, findings }
    }

    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }

    pub fn into_vec(self) -> Vec<Finding> {
        self.findings
    }

    #[cfg(test)]
    pub fn codes(&self) -> Vec<Code> {
        self.findings.iter().map(|finding| finding.code).collect()
    }

    /// Each object once; of all namespaces, each with its own.
    pub fn names(&self, namespaces: bool) -> Vec<String> {
        let objects = self.findings.iter().filter(|finding| !finding.object.name.is_empty());
        let name = |f: &Finding| {
            let Subject { kind, namespace, name, .. } = &f.object;
            let namespace = if namespaces { format!("{namespace}/") } else { String::new() };
            format!("{}/{namespace}{name}", kind.to_ascii_lowercase())
        };
        let mut names: Vec<String> = objects.map(name).collect();
        names.sort();
        names.dedup();
        names
    }

    pub fn text(&self, colour: bool) -> String {
        let mut page = Page::new(colour);
        for finding in &self.findings {
            let Finding { code, severity, object, message, fix } = finding;
            let severity = page.paint_good(*severity == Severity::Info, severity.name());
            page.line(&format!("{severity} {}: {}", code.id(), object.title()));
            page.item("  ", message);
            page.item("  fix: ", fix);
            if let Some(place) = object.place().filter(|place| *place != object.title()) {
                page.item("  at: ", &place);
            }
            page.line("");
        }
        let number = |severity| self.findings.iter().filter(|f| f.severity == severity).count();
        let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        page.line(&format!(
            "{}, {}, {} info",
            count(number(Severity::Error), "error"),
            count(number(Severity::Warning), "warning"),
            number(Severity::Info)
        ));
        page.into_text()
    }

    pub fn sarif(&self) -> Value {
        let rule = |code: &Code| {
            json!({
                "id": code.id(),
                "name": format!("{code:?}"),
                "shortDescription": {"text": code.what()},
                "help": {"text": code.fix()},
                "defaultConfiguration": {"level": code.severity().level()},
            })
        };
        let result = |finding: &Finding| {
            let object = &finding.object;
            let mut location = json!({});
            if let Some(file) = &object.file {
                location["physicalLocation"] = json!({"artifactLocation": {"uri": file}});
            }
            if !object.name.is_empty() {
                location["logicalLocations"] =
                    json!([{"fullyQualifiedName": object.title(), "kind": "resource"}]);
            }
            json!({
                "ruleId": finding.code.id(),
                "ruleIndex": finding.code as usize,
                "level": finding.severity.level(),
                "message": {"text": format!("{}: {}. Fix: {}", object.title(), finding.message, finding.fix)},
                "locations": [location],
            })
        };
        json!({
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [{
                "tool": {"driver": {
                    "name": "holdfast",
                    "version": env!("CARGO_PKG_VERSION"),
                    "rules": Code::ALL.iter().map(rule).collect::<Vec<_>>(),
                }},
                "results": self.findings.iter().map(result).collect::<Vec<_>>(),
            }],
        })
    }
}
