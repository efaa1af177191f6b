//! Decides whether two selectors can select the same pod, from the selectors alone.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_core::model::{LabelSelector, Operator};

/// Returns true if the selectors share a key, their requirements on every shared key can be met together, and either
/// both accept a value of a shared key or both have the same keys. (Kruise sees an overlap only if all keys are the
/// same, so it accepts `app=a` beside `app=a,tier=b`.)
///
/// Selectors without a shared key do not count as overlapping, although a pod may match both.
pub(super) fn overlap(a: &LabelSelector, b: &LabelSelector) -> bool {
    let (a, b) = (constraints(a), constraints(b));
    let possible = |all: &BTreeMap<_, Constraint>| all.values().all(Constraint::is_possible);
    let both: Vec<_> = a.iter().filter_map(|(key, one)| Some(one.and(b.get(key)?))).collect();
    possible(&a)
        && possible(&b)
        && !both.is_empty()
        && both.iter().all(Constraint::is_possible)
        && (both.iter().any(Constraint::takes_a_value) || a.keys().eq(b.keys()))
}

/// The requirements of a selector on one label.
#[derive(Clone)]
struct Constraint {
    may_be_absent: bool,
    values: Values,
}

#[derive(Clone)]
enum Values {
    Only(BTreeSet<String>),
    Except(BTreeSet<String>),
}

impl Constraint {
    fn new(operator: &Operator, values: &[String]) -> Self {
        let set = || values.iter().cloned().collect();
        let any = || Values::Except(BTreeSet::new());
        match operator {
            Operator::In => Self { may_be_absent: false, values: Values::Only(set()) },
            Operator::NotIn => Self { may_be_absent: true, values: Values::Except(set()) },
            Operator::Exists => Self { may_be_absent: false, values: any() },
            Operator::DoesNotExist => {
                Self { may_be_absent: true, values: Values::Only(BTreeSet::new()) }
            }
            Operator::Other(_) => Self { may_be_absent: true, values: any() },
        }
    }

    fn and(&self, other: &Self) -> Self {
        Self {
            may_be_absent: self.may_be_absent && other.may_be_absent,
            values: self.values.and(&other.values),
        }
    }

    fn takes_a_value(&self) -> bool {
        !matches!(&self.values, Values::Only(values) if values.is_empty())
    }

    fn is_possible(&self) -> bool {
        self.may_be_absent || self.takes_a_value()
    }
}

impl Values {
    fn and(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Only(a), Self::Only(b)) => Self::Only(a & b),
            (Self::Only(a), Self::Except(b)) | (Self::Except(b), Self::Only(a)) => {
                Self::Only(a - b)
            }
            (Self::Except(a), Self::Except(b)) => Self::Except(a | b),
        }
    }
}

/// Returns all requirements of the selector, by label.
fn constraints(selector: &LabelSelector) -> BTreeMap<&str, Constraint> {
    let labels = (selector.match_labels.iter())
        .map(|(key, value)| (key, Constraint::new(&Operator::In, std::slice::from_ref(value))));
    let expressions = (selector.match_expressions.iter())
        .map(|one| (&one.key, Constraint::new(&one.operator, &one.values)));
    let mut all: BTreeMap<&str, Constraint> = BTreeMap::new();
    for (key, constraint) in labels.chain(expressions) {
        let kept = all.get(key.as_str()).map(|earlier| earlier.and(&constraint));
        all.insert(key, kept.unwrap_or(constraint));
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::overlap;
    use crate::budget::LabelSelector;

    fn overlaps(a: &Value, b: &Value) -> bool {
        let read = |json: &Value| {
            serde_json::from_value::<LabelSelector>(json.clone()).expect("it is a selector").into()
        };
        assert_eq!(overlap(&read(a), &read(b)), overlap(&read(b), &read(a)), "{a} {b}");
        overlap(&read(a), &read(b))
    }

    fn labels(labels: &[(&str, &str)]) -> Value {
        let labels: Value = labels.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
        json!({"matchLabels": labels})
    }

    fn one(operator: &str, values: &[&str]) -> Value {
        json!({"matchExpressions": [{"key": "app", "operator": operator, "values": values}]})
    }

    /// The cases of Kruise for one key.
    #[test]
    fn of_one_key() {
        for (a, b, expected) in [
            (one("In", &["a", "b"]), one("In", &["b", "c"]), true),
            (one("In", &["a"]), one("In", &["b"]), false),
            (one("In", &["a"]), one("Exists", &[]), true),
            (one("In", &["a"]), one("DoesNotExist", &[]), false),
            (one("In", &["a", "b"]), one("NotIn", &["a"]), true),
            (one("In", &["a", "b"]), one("NotIn", &["a", "b", "c"]), false),
            (one("Exists", &[]), one("Exists", &[]), true),
            (one("Exists", &[]), one("NotIn", &["a"]), true),
            (one("Exists", &[]), one("DoesNotExist", &[]), false),
            (one("NotIn", &["a"]), one("NotIn", &["b"]), true),
            (one("NotIn", &["a"]), one("DoesNotExist", &[]), true),
            (one("DoesNotExist", &[]), one("DoesNotExist", &[]), true),
        ] {
            assert_eq!(overlaps(&a, &b), expected, "{a} {b}");
        }
    }

    #[test]
    fn of_several_keys() {
        let app = |value| labels(&[("app", value)]);
        let both = |app, tier| labels(&[("app", app), ("tier", tier)]);
        for (a, b, expected, why) in [
            (app("web"), app("web"), true, "the same"),
            (app("web"), app("db"), false, "another value"),
            (app("web"), labels(&[("backend", "true")]), false, "nobody can tell"),
            (both("web", "x"), both("web", "x"), true, "the same"),
            (both("web", "x"), both("web", "y"), false, "one label keeps them apart"),
            // Kruise sees no overlap, because the keys differ. But the first selector matches every pod of
            // the second.
            (app("web"), both("web", "x"), true, "one within the other"),
            (app("web"), both("db", "x"), false, "another value"),
            (both("web", "x"), labels(&[("app", "web"), ("zone", "z")]), true, "a common value"),
        ] {
            assert_eq!(overlaps(&a, &b), expected, "{a} {b}: {why}");
        }
    }

    #[test]
    fn that_share_only_the_lack_of_a_label() {
        let without = |key: &str| {
            json!({"matchLabels": {key: "x"},
                "matchExpressions": [{"key": "canary", "operator": "DoesNotExist"}]})
        };
        assert!(!overlaps(&without("app"), &without("team")), "no value is common to them");
        assert!(overlaps(&without("app"), &without("app")));
    }

    /// Kruise keeps only one requirement per key, the last.
    #[test]
    fn that_ask_more_than_once_of_a_label() {
        let twice = json!({"matchExpressions": [
            {"key": "app", "operator": "In", "values": ["a", "b"]},
            {"key": "app", "operator": "NotIn", "values": ["a"]}]});
        assert!(overlaps(&twice, &one("In", &["b"])));
        assert!(!overlaps(&twice, &one("In", &["a"])));
        let impossible = json!({"matchLabels": {"app": "a", "tier": "x"},
            "matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]});
        assert!(!overlaps(&impossible, &one("In", &["a"])), "it selects nothing");
    }

    #[test]
    fn that_are_empty() {
        assert!(!overlaps(&json!({}), &json!({})), "to Kruise, they select nothing");
        assert!(!overlaps(&json!({}), &one("Exists", &[])));
    }
}
