//! Mistakes that an API server would refuse, and that the engine, which has to live with whatever it
//! finds stored, would only answer with denials.

use holdfast_api::budget::IntOrString;
use holdfast_core::model::Threshold;
use serde_json::Value;

/// A workload with more pods than this is a typing error: Kubernetes is made for 150,000 in all.
const PODS_MAX: i64 = 200_000;

/// Field and message of each mistake.
pub type Mistakes = Vec<(String, String)>;

pub fn budget(value: &Value) -> Mistakes {
    let mut mistakes = Mistakes::new();
    let mut wrong = |field: &str, why: String| mistakes.push((format!("spec.{field}"), why));
    let spec = &value["spec"];
    let scope = spec["budgetScope"].as_str().unwrap_or_default();
    if !matches!(scope, "" | "Pod" | "Workload" | "PodGroup") {
        wrong("budgetScope", format!("{scope:?} is not Pod, Workload or PodGroup"));
    }
    for field in ["minAvailable", "maxUnavailable"] {
        match threshold(&spec[field]) {
            Some(Threshold::Invalid(_)) => {
                let why = format!("{} is neither a number >= 0 nor a percentage", spec[field]);
                wrong(field, why);
            }
            Some(Threshold::Percent(percent)) if percent > 100 => {
                wrong(field, format!("{percent}% is more than 100%"));
            }
            _ => {}
        }
    }
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        wrong(
            "maxUnavailable",
            "only one of minAvailable and maxUnavailable may be set".to_owned(),
        );
    }
    let policy = spec["unhealthyPodEvictionPolicy"].as_str().unwrap_or_default();
    if !matches!(policy, "" | "IfHealthyBudget" | "AlwaysAllow") {
        let why = format!("{policy:?} is not IfHealthyBudget or AlwaysAllow");
        wrong("unhealthyPodEvictionPolicy", why);
    }
    mistakes.extend(selector(&spec["selector"], "spec.selector"));
    mistakes
}

/// None if it is not set.
pub fn threshold(value: &Value) -> Option<Threshold> {
    let wire: IntOrString = serde_json::from_value(value.clone()).ok()?;
    (!value.is_null()).then(|| Threshold::from(&wire))
}

pub fn selector(value: &Value, at: &str) -> Mistakes {
    let mut mistakes = Mistakes::new();
    let expressions = value["matchExpressions"].as_array().into_iter().flatten();
    for (index, expression) in expressions.enumerate() {
        let at = format!("{at}.matchExpressions[{index}]");
        let values = expression["values"].as_array().map_or(0, Vec::len);
        match expression["operator"].as_str().unwrap_or_default() {
            "In" | "NotIn" if values == 0 => {
                mistakes.push((format!("{at}.values"), "must not be empty".to_owned()));
            }
            "Exists" | "DoesNotExist" if values > 0 => {
                mistakes.push((format!("{at}.values"), "must be empty".to_owned()));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                let why = format!("{other:?} is not In, NotIn, Exists or DoesNotExist");
                mistakes.push((format!("{at}.operator"), why));
            }
        }
        if expression["key"].as_str().unwrap_or_default().is_empty() {
            mistakes.push((format!("{at}.key"), "is missing".to_owned()));
        }
    }
    mistakes
}

pub fn pod_group(value: &Value) -> Mistakes {
    min_count(&value["spec"]["schedulingPolicy"], "spec.schedulingPolicy")
}

pub fn workload(value: &Value) -> Mistakes {
    let mut mistakes = Mistakes::new();
    for list in ["podGroups", "podGroupTemplates"] {
        let entries = value["spec"][list].as_array().into_iter().flatten();
        for (index, entry) in entries.enumerate() {
            let at = format!("spec.{list}[{index}]");
            for field in ["policy", "schedulingPolicy"] {
                mistakes.extend(min_count(&entry[field], &format!("{at}.{field}")));
            }
            if entry["name"].as_str().unwrap_or_default().is_empty() {
                mistakes.push((format!("{at}.name"), "is missing".to_owned()));
            }
        }
    }
    mistakes
}

/// Any workload controller's object.
pub fn owner(value: &Value) -> Mistakes {
    let mut mistakes = Mistakes::new();
    let spec = &value["spec"];
    for field in ["replicas", "parallelism"] {
        match spec[field].as_i64() {
            Some(n) if n < 0 => mistakes.push((format!("spec.{field}"), format!("{n} is below 0"))),
            Some(n) if n > PODS_MAX => {
                mistakes.push((format!("spec.{field}"), format!("{n} is more than {PODS_MAX}")));
            }
            _ => {}
        }
    }
    let template = &spec["leaderWorkerTemplate"];
    let at = "spec.leaderWorkerTemplate.size".to_owned();
    match template["size"].as_i64() {
        Some(n) if n < 1 => mistakes.push((at, format!("{n} is below 1"))),
        Some(n) if n.saturating_mul(spec["replicas"].as_i64().unwrap_or(1)) > PODS_MAX => {
            mistakes.push((at, format!("{n} makes more than {PODS_MAX} pods in all")));
        }
        _ => {}
    }
    mistakes
}

fn min_count(policy: &Value, at: &str) -> Mistakes {
    match &policy["gang"] {
        Value::Null => Mistakes::new(),
        gang => match gang["minCount"].as_i64() {
            Some(n) if n >= 1 => Mistakes::new(),
            Some(n) => vec![(format!("{at}.gang.minCount"), format!("{n} is below 1"))],
            None => vec![(format!("{at}.gang.minCount"), "is missing".to_owned())],
        },
    }
}
