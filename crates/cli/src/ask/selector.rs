//! Label selectors as kubectl's `-l` has them.

use std::collections::BTreeMap;

use holdfast_core::model::{LabelSelector, Operator, Requirement};
use serde_json::Value;

use crate::simulate::labels::meets;

/// `app=web,tier!=cache,zone in (a,b),!canary`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector(LabelSelector);

impl Selector {
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        meets(&self.0, labels)
    }

    /// Any object, as the API has it.
    pub fn matches_object(&self, object: &Value) -> bool {
        let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        self.matches(&labels.map(|(key, value)| (key.clone(), text(value))).collect())
    }
}

impl std::str::FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = split(text).into_iter().map(str::trim);
        let requirements = parts.filter(|part| !part.is_empty()).map(requirement);
        let match_expressions = requirements.collect::<Result<_, _>>()?;
        Ok(Self(LabelSelector { match_labels: BTreeMap::new(), match_expressions }))
    }
}

/// At commas, but for those in brackets.
fn split(text: &str) -> Vec<&str> {
    let mut inside = false;
    let parts = text.split(move |c| {
        inside = (inside || c == '(') && c != ')';
        c == ',' && !inside
    });
    parts.collect()
}

fn requirement(text: &str) -> Result<Requirement, String> {
    let wrong = || format!("{text:?} is no requirement such as app=web, !canary or zone in (a,b)");
    let one = |value: &str| vec![value.trim().to_owned()];
    let (key, operator, values) = if let Some((key, value)) = text.split_once("!=") {
        (key, Operator::NotIn, one(value))
    } else if let Some((key, value)) = text.split_once('=') {
        (key, Operator::In, one(value.trim_start_matches('=')))
    } else if let Some(list) = text.strip_suffix(')') {
        let (head, list) = list.split_once('(').ok_or_else(wrong)?;
        let (key, word) = head.trim().rsplit_once(' ').ok_or_else(wrong)?;
        let operator = match word {
            "in" => Operator::In,
            "notin" => Operator::NotIn,
            _ => return Err(wrong()),
        };
        (key, operator, list.split(',').map(|value| value.trim().to_owned()).collect())
    } else if let Some(key) = text.strip_prefix('!') {
        (key, Operator::DoesNotExist, Vec::new())
    } else {
        (text, Operator::Exists, Vec::new())
    };
    let key = key.trim();
    if key.is_empty() || key.contains(|c: char| c.is_whitespace() || "!=(),".contains(c)) {
        return Err(wrong());
    }
    Ok(Requirement { key: key.to_owned(), operator, values })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_kubectl_reads_them() {
        let labels: BTreeMap<String, String> =
            [("app", "web"), ("zone", "b")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let matches = |text: &str| text.parse::<Selector>().map(|s| s.matches(&labels));
        for yes in [
            "app=web",
            "app==web,zone in (a, b)",
            "app",
            "!canary",
            "tier!=x",
            "",
            "zone notin (a)",
        ] {
            assert_eq!(matches(yes), Ok(true), "{yes}");
        }
        for no in ["app=api", "app!=web", "!app", "canary", "zone in (a,c)", "app=web,zone=a"] {
            assert_eq!(matches(no), Ok(false), "{no}");
        }
        for wrong in ["=x", "zone of (a)", "(a)", "a b"] {
            assert!(matches(wrong).is_err(), "{wrong}");
        }
    }
}
