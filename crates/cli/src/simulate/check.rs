//! Mistakes that an API server would refuse, and that the engine, which has to live with whatever it
//! finds stored, would only answer with denials.

use holdfast_api::budget::IntOrString;
use holdfast_core::model::Threshold;
use serde_json::Value;

use super::strict;

/// More pods than this are a typing error: Kubernetes is made for 150,000.
pub const PODS_MAX: i64 = 200_000;

/// Field and message of each mistake.
pub type Mistakes = Vec<(String, String)>;

pub fn budget(value: &Value) -> Mistakes {
    let mut mistakes = strict::budget(value);
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

fn selector(value: &Value, at: &str) -> Mistakes {
    let mut mistakes = Mistakes::new();
    strict::selector(value, at, &mut mistakes);
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

/// Any workload controller's object. How many pods it may have is seen when they are made.
pub fn owner(value: &Value) -> Mistakes {
    let mut mistakes = strict::templates(value);
    let spec = &value["spec"];
    let mut count = |value: &Value, at: String, least: i64| match value {
        Value::Null => {}
        value => match value.as_i64() {
            Some(n) if n < least => mistakes.push((at, format!("{n} is below {least}"))),
            Some(_) => {}
            None => mistakes.push((at, format!("{value} is not a number of pods"))),
        },
    };
    // The decoder reads spec.replicas itself, and says so if it cannot.
    if let Some(replicas) = spec["replicas"].as_i64() {
        count(&replicas.into(), "spec.replicas".to_owned(), 0);
    }
    count(&spec["parallelism"], "spec.parallelism".to_owned(), 0);
    let size = &spec["leaderWorkerTemplate"]["size"];
    count(size, "spec.leaderWorkerTemplate.size".to_owned(), 1);
    for (index, job) in spec["replicatedJobs"].as_array().into_iter().flatten().enumerate() {
        let at = format!("spec.replicatedJobs[{index}]");
        count(&job["replicas"], format!("{at}.replicas"), 0);
        let parallelism = &job["template"]["spec"]["parallelism"];
        count(parallelism, format!("{at}.template.spec.parallelism"), 0);
    }
    mistakes
}

/// How many pods a workload asks for. A job without pods counts as one: it is made as well.
pub fn pods_of(owner: &Value) -> i64 {
    let spec = &owner["spec"];
    let number = |value: &Value| value.as_i64().unwrap_or(1).max(0);
    match (owner["kind"].as_str().unwrap_or_default(), &spec["replicatedJobs"]) {
        ("JobSet", Value::Array(jobs)) => jobs
            .iter()
            .map(|job| {
                let parallelism = number(&job["template"]["spec"]["parallelism"]).max(1);
                number(&job["replicas"]).saturating_mul(parallelism)
            })
            .fold(0, i64::saturating_add),
        ("Job", _) => number(&spec["parallelism"]),
        ("LeaderWorkerSet", _) => {
            let size = number(&spec["leaderWorkerTemplate"]["size"]).max(1);
            number(&spec["replicas"]).saturating_mul(size)
        }
        _ => number(&spec["replicas"]),
    }
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
