//! The output of `kubectl get`: a `Table` of `meta.k8s.io/v1`. The columns are those of Kubernetes, and with
//! `-o wide` also the counts of replicas. An API server can print a custom resource too, but it leaves out a
//! missing value where a built-in budget prints `N/A`.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::budget::KIND;

/// The query parameter `includeObject`: the object in each row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Include {
    None,
    #[default]
    Metadata,
    Object,
}

/// Returns the table of one budget of `policy/v1`, or of a list. A watch sends `columns` only once.
pub fn table(value: &Value, include: Include, columns: bool, now: Timestamp) -> Value {
    let (metadata, rows) = match value["items"].as_array() {
        Some(items) => (
            pick(&value["metadata"], &["resourceVersion", "continue", "remainingItemCount"]),
            items.iter().map(|item| row(item, include, now)).collect(),
        ),
        None => (pick(&value["metadata"], &["resourceVersion"]), vec![row(value, include, now)]),
    };
    json!({
        "apiVersion": "meta.k8s.io/v1",
        "kind": "Table",
        "metadata": metadata,
        "columnDefinitions": if columns { column_definitions() } else { Value::Null },
        "rows": rows,
    })
}

struct Column {
    name: &'static str,
    kind: &'static str,
    format: &'static str,
    description: &'static str,
    /// Above 0: printed only with `-o wide`.
    priority: i32,
}

impl Column {
    const fn new(name: &'static str, kind: &'static str, description: &'static str) -> Self {
        Self { name, kind, format: "", description, priority: 0 }
    }

    const fn wide(name: &'static str, kind: &'static str, description: &'static str) -> Self {
        Self { name, kind, format: "", description, priority: 1 }
    }
}

/// The columns, in the order of the cells in [`row`].
const COLUMNS: [Column; 9] = [
    Column {
        format: "name",
        ..Column::new(
            "Name",
            "string",
            "Name must be unique within a namespace. Is required when creating resources, although \
             some resources may allow a client to request the generation of an appropriate name \
             automatically. Name is primarily intended for creation idempotence and configuration \
             definition. Cannot be updated. More info: \
             https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
        )
    },
    Column::new("Min Available", "string", "The minimum number of pods that must be available."),
    Column::new("Max Unavailable", "string", "The maximum number of pods that may be unavailable."),
    Column::new(
        "Allowed Disruptions",
        "integer",
        "Calculated number of pods that may be disrupted at this time.",
    ),
    Column::new(
        "Age",
        "string",
        "CreationTimestamp is a timestamp representing the server time when this object was \
         created. It is not guaranteed to be set in happens-before order across separate \
         operations. Clients may not set this value. It is represented in RFC3339 form and is in \
         UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: \
         https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata",
    ),
    Column::wide("Scope", "string", "The unit that is counted: Pod or Workload."),
    Column::wide("Healthy Replicas", "integer", "Units that are healthy now."),
    Column::wide("Desired Replicas", "integer", "Units that have to stay healthy."),
    Column::wide("Expected Replicas", "integer", "Units that there should be."),
];

fn column_definitions() -> Value {
    COLUMNS
        .iter()
        .map(|column| {
            json!({
                "name": column.name,
                "type": column.kind,
                "format": column.format,
                "description": column.description,
                "priority": column.priority,
            })
        })
        .collect()
}

fn row(budget: &Value, include: Include, now: Timestamp) -> Value {
    let (spec, status) = (&budget["spec"], &budget["status"]);
    let count = |field: &str| status[field].as_i64().unwrap_or(0);
    let cells: [Value; COLUMNS.len()] = [
        budget["metadata"]["name"].as_str().unwrap_or("").into(),
        threshold(&spec["minAvailable"]).into(),
        threshold(&spec["maxUnavailable"]).into(),
        count("disruptionsAllowed").into(),
        age(&budget["metadata"]["creationTimestamp"], now).into(),
        scope(&spec["budgetScope"]).into(),
        count("currentHealthyReplicas").into(),
        count("desiredHealthyReplicas").into(),
        count("expectedReplicas").into(),
    ];
    json!({"cells": cells, "object": object(budget, include)})
}

fn object(budget: &Value, include: Include) -> Value {
    // An annotation marks the end of a watch's first part. The client must get it.
    let ends_initial_events =
        budget["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true";
    match include {
        Include::None if !ends_initial_events => Value::Null,
        Include::None | Include::Metadata => json!({
            "apiVersion": "meta.k8s.io/v1",
            "kind": "PartialObjectMetadata",
            "metadata": budget["metadata"],
        }),
        Include::Object => {
            // Items of a list have no kind. Here they are separate objects, so they need one.
            let mut object = budget.as_object().cloned().unwrap_or_default();
            object.insert("apiVersion".to_owned(), "policy/v1".into());
            object.insert("kind".to_owned(), KIND.into());
            Value::Object(object)
        }
    }
}

fn threshold(value: &Value) -> String {
    match value {
        Value::Null => "N/A".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn scope(value: &Value) -> &str {
    match value.as_str() {
        None => "Pod",
        Some("PodGroup") => "Workload",
        Some(scope) => scope,
    }
}

fn age(created: &Value, now: Timestamp) -> String {
    created
        .as_str()
        .and_then(|text| text.parse::<Timestamp>().ok())
        .map_or_else(|| "<unknown>".to_owned(), |created| human(now.duration_since(created)))
}

/// Formats a duration with two or three significant figures, as Go's `HumanDuration`. A clock may be one
/// second late.
fn human(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    let years = days / 365;
    let two = |n: i64, unit: &str, rest: i64, rest_unit: &str| {
        if rest == 0 { format!("{n}{unit}") } else { format!("{n}{unit}{rest}{rest_unit}") }
    };
    if seconds < -1 {
        "<invalid>".to_owned()
    } else if seconds < 2 * 60 {
        format!("{}s", seconds.max(0))
    } else if minutes < 10 {
        two(minutes, "m", seconds % 60, "s")
    } else if minutes < 3 * 60 {
        format!("{minutes}m")
    } else if hours < 8 {
        two(hours, "h", minutes % 60, "m")
    } else if hours < 48 {
        format!("{hours}h")
    } else if days < 8 {
        two(days, "d", hours % 24, "h")
    } else if days < 2 * 365 {
        format!("{days}d")
    } else if days < 8 * 365 {
        two(years, "y", days % 365, "d")
    } else {
        format!("{years}y")
    }
}

fn pick(metadata: &Value, fields: &[&str]) -> Map<String, Value> {
    fields
        .iter()
        .filter_map(|field| Some(((*field).to_owned(), metadata.get(field)?.clone())))
        .filter(|(_, value)| !value.is_null() && *value != "")
        .collect()
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::{Value, json};

    use super::{COLUMNS, Include, human, table};

    const NOW: &str = "2026-11-15T20:00:00Z";

    fn of(value: &Value, include: Include) -> Value {
        table(value, include, true, NOW.parse().expect(NOW))
    }

    fn budget() -> Value {
        json!({
            "metadata": {"name": "web", "namespace": "shop", "resourceVersion": "7",
                "creationTimestamp": "2026-11-15T19:55:30Z"},
            "spec": {"minAvailable": 2, "budgetScope": "PodGroup"},
            "status": {"disruptionsAllowed": 1, "currentHealthyReplicas": 3,
                "desiredHealthyReplicas": 2, "expectedReplicas": 4},
        })
    }

    #[test]
    fn one_budget() {
        let table = of(&budget(), Include::default());
        assert_eq!(table["metadata"], json!({"resourceVersion": "7"}));
        let names: Vec<_> = COLUMNS.iter().map(|column| (column.name, column.priority)).collect();
        assert_eq!(
            names,
            [
                ("Name", 0),
                ("Min Available", 0),
                ("Max Unavailable", 0),
                ("Allowed Disruptions", 0),
                ("Age", 0),
                ("Scope", 1),
                ("Healthy Replicas", 1),
                ("Desired Replicas", 1),
                ("Expected Replicas", 1),
            ]
        );
        assert_eq!(
            table["columnDefinitions"][1],
            json!({"name": "Min Available", "type": "string", "format": "", "priority": 0,
                "description": "The minimum number of pods that must be available."})
        );
        assert_eq!(
            table["rows"],
            json!([{
                "cells": ["web", "2", "N/A", 1, "4m30s", "Workload", 3, 2, 4],
                "object": {
                    "apiVersion": "meta.k8s.io/v1",
                    "kind": "PartialObjectMetadata",
                    "metadata": budget()["metadata"],
                },
            }])
        );
    }

    #[test]
    fn a_list() {
        let list = json!({
            "metadata": {"resourceVersion": "9", "continue": "c", "remainingItemCount": 3,
                "selfLink": "/x"},
            "items": [{"spec": {"maxUnavailable": "30%"}}, budget()],
        });
        let table = table(&list, Include::None, false, NOW.parse().expect(NOW));
        assert_eq!(
            table,
            json!({
                "apiVersion": "meta.k8s.io/v1",
                "kind": "Table",
                "metadata": {"resourceVersion": "9", "continue": "c", "remainingItemCount": 3},
                "columnDefinitions": null,
                "rows": [
                    {"cells": ["", "N/A", "30%", 0, "<unknown>", "Pod", 0, 0, 0], "object": null},
                    {"cells": ["web", "2", "N/A", 1, "4m30s", "Workload", 3, 2, 4], "object": null},
                ],
            })
        );
        let empty = of(&json!({"metadata": {"continue": ""}, "items": []}), Include::Object);
        assert_eq!((&empty["metadata"], &empty["rows"]), (&json!({}), &json!([])));
    }

    #[test]
    fn whole_objects_say_what_they_are() {
        let mut expected = budget();
        expected["apiVersion"] = "policy/v1".into();
        expected["kind"] = "PodDisruptionBudget".into();
        assert_eq!(of(&budget(), Include::Object)["rows"][0]["object"], expected);
    }

    #[test]
    fn the_end_of_the_initial_events_is_always_told() {
        let bookmark = json!({"metadata": {"resourceVersion": "7",
            "annotations": {"k8s.io/initial-events-end": "true"}}});
        let table = of(&bookmark, Include::None);
        assert_eq!(table["rows"][0]["object"]["metadata"], bookmark["metadata"]);
    }

    #[test]
    fn nonsense_is_printed_somehow() {
        for value in [
            json!(null),
            json!([1]),
            json!("x"),
            json!({"items": [null, 3, []], "metadata": 1}),
            json!({"metadata": [], "spec": "x", "status": {"disruptionsAllowed": "many"}}),
            json!({"metadata": {"creationTimestamp": "soon"}, "spec": {"minAvailable": [1.5]}}),
        ] {
            for include in [Include::None, Include::Metadata, Include::Object] {
                assert_eq!(of(&value, include)["kind"], "Table", "{value}");
            }
        }
    }

    #[test]
    fn ages_are_cut_as_go_cuts_them() {
        const DAY: i64 = 24 * 3600;
        for (secs, expected) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (121, "2m1s"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (10_860, "3h1m"),
            (28_799, "7h59m"),
            (28_800, "8h"),
            (2 * DAY - 1, "47h"),
            (2 * DAY, "2d"),
            (2 * DAY + 3600, "2d1h"),
            (8 * DAY - 1, "7d23h"),
            (8 * DAY, "8d"),
            (730 * DAY - 1, "729d"),
            (730 * DAY, "2y"),
            (731 * DAY, "2y1d"),
            (2919 * DAY, "7y364d"),
            (2920 * DAY, "8y"),
            (36_500 * DAY, "100y"),
        ] {
            assert_eq!(human(SignedDuration::from_secs(secs)), expected, "{secs}");
        }
        assert_eq!(human(SignedDuration::from_millis(-1999)), "0s");
    }
}
