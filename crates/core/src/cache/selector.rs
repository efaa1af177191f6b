//! Label selectors, compiled once.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::intern::{Interner, Symbol};
use crate::model::{LabelSelector, Operator};

/// A pod's labels, sorted by key symbol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Labels(pub(super) Box<[(Symbol, Symbol)]>);

impl Labels {
    pub(crate) fn acquire(interner: &mut Interner, labels: &BTreeMap<String, String>) -> Self {
        Self::sorted(
            labels.iter().map(|(k, v)| (interner.acquire(k), interner.acquire(v))).collect(),
        )
    }

    /// The labels of a pod that is not kept: strings that no selector and no pod uses stay strangers.
    pub(crate) fn lookup(interner: &Interner, labels: &BTreeMap<String, String>) -> Self {
        Self::sorted(labels.iter().map(|(k, v)| (interner.lookup(k), interner.lookup(v))).collect())
    }

    pub(crate) fn release(&self, interner: &mut Interner) {
        for (key, value) in &self.0 {
            interner.release(*key);
            interner.release(*value);
        }
    }

    /// Whether these are the labels, which costs less than to look them up.
    pub(crate) fn are(&self, interner: &Interner, labels: &BTreeMap<String, String>) -> bool {
        let has = |(key, value): &(Symbol, Symbol)| {
            let text = |symbol| interner.text(symbol).map(|text| &**text);
            let given = text(*key).and_then(|key| labels.get(key)).map(String::as_str);
            given.is_some() && given == text(*value)
        };
        self.0.len() == labels.len() && self.0.iter().all(has)
    }

    fn sorted(mut pairs: Vec<(Symbol, Symbol)>) -> Self {
        pairs.sort_unstable();
        Self(pairs.into_boxed_slice())
    }

    pub(crate) fn texts(&self, interner: &Interner) -> BTreeMap<String, String> {
        let text = |symbol: Symbol| interner.text(symbol).map(ToString::to_string);
        self.0.iter().filter_map(|(key, value)| Some((text(*key)?, text(*value)?))).collect()
    }

    /// The value of a label, if anybody has interned both.
    pub(crate) fn value<'a>(&self, interner: &'a Interner, key: &str) -> Option<&'a Arc<str>> {
        self.get(interner.lookup(key)).and_then(|value| interner.text(value))
    }

    fn get(&self, key: Symbol) -> Option<Symbol> {
        self.0.binary_search_by_key(&key, |(k, _)| *k).ok().map(|i| self.0[i].1)
    }
}

impl LabelSelector {
    /// For the odd pod, without compiling it. One that makes no sense matches nothing.
    pub(crate) fn matches<'a>(&self, value: impl Fn(&str) -> Option<&'a str>) -> bool {
        let is = |(key, own): (&String, &String)| value(key) == Some(own);
        let holds = |r: &crate::model::Requirement| {
            let given = value(&r.key);
            let listed = given.is_some_and(|given| r.values.iter().any(|v| v == given));
            match r.operator {
                Operator::In => listed,
                Operator::NotIn => !listed,
                Operator::Exists => given.is_some(),
                Operator::DoesNotExist => given.is_none(),
                Operator::Other(_) => false,
            }
        };
        self.match_labels.iter().all(is) && self.match_expressions.iter().all(holds)
    }
}

impl LabelSelector {
    /// Whether labels may match of which some values are not known: `varies` says of which keys.
    pub(crate) fn may_match<'a>(
        &self,
        value: impl Fn(&str) -> Option<&'a str>,
        varies: impl Fn(&str) -> bool,
    ) -> bool {
        let rules_out =
            |r: &crate::model::Requirement| !varies(&r.key) || r.operator == Operator::DoesNotExist;
        let known = Self {
            match_labels: self
                .match_labels
                .iter()
                .filter(|(key, _)| !varies(key))
                .map(own)
                .collect(),
            match_expressions: self
                .match_expressions
                .iter()
                .filter(|r| rules_out(r))
                .cloned()
                .collect(),
        };
        // A label whose value varies is there.
        known.matches(|key| if varies(key) { Some("") } else { value(key) })
    }
}

fn own((key, value): (&String, &String)) -> (String, String) {
    (key.clone(), value.clone())
}

#[derive(Clone, Debug)]
pub(crate) struct Selector {
    pub(super) requirements: Vec<Requirement>,
}

#[derive(Clone, Debug)]
pub(super) enum Requirement {
    In(Symbol, Vec<Symbol>),
    NotIn(Symbol, Vec<Symbol>),
    Exists(Symbol),
    DoesNotExist(Symbol),
}

impl Selector {
    /// Rules and messages as upstream's `LabelSelectorAsSelector`.
    pub(crate) fn compile(
        interner: &mut Interner,
        selector: &LabelSelector,
    ) -> Result<Self, String> {
        for (key, value) in &selector.match_labels {
            check_key(key)?;
            check_value(value)?;
        }
        for r in &selector.match_expressions {
            check_key(&r.key)?;
            r.values.iter().try_for_each(|value| check_value(value))?;
            match r.operator {
                Operator::In | Operator::NotIn if r.values.is_empty() => {
                    return Err("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty".to_owned());
                }
                Operator::Exists | Operator::DoesNotExist if !r.values.is_empty() => {
                    return Err("values: Invalid value: values set must be empty for exists and does not exist".to_owned());
                }
                Operator::Other(ref operator) => {
                    return Err(format!("\"{operator}\" is not a valid label selector operator"));
                }
                _ => {}
            }
        }
        let mut requirements = Vec::new();
        for (key, value) in &selector.match_labels {
            requirements
                .push(Requirement::In(interner.acquire(key), vec![interner.acquire(value)]));
        }
        for r in &selector.match_expressions {
            let key = interner.acquire(&r.key);
            let values = || r.values.iter();
            requirements.push(match r.operator {
                Operator::In => {
                    Requirement::In(key, values().map(|v| interner.acquire(v)).collect())
                }
                Operator::NotIn => {
                    Requirement::NotIn(key, values().map(|v| interner.acquire(v)).collect())
                }
                Operator::Exists => Requirement::Exists(key),
                Operator::DoesNotExist | Operator::Other(_) => Requirement::DoesNotExist(key),
            });
        }
        Ok(Self { requirements })
    }

    pub(crate) fn release(&self, interner: &mut Interner) {
        for requirement in &self.requirements {
            match requirement {
                Requirement::In(key, values) | Requirement::NotIn(key, values) => {
                    interner.release(*key);
                    for value in values {
                        interner.release(*value);
                    }
                }
                Requirement::Exists(key) | Requirement::DoesNotExist(key) => interner.release(*key),
            }
        }
    }

    pub(crate) fn matches(&self, labels: &Labels) -> bool {
        self.requirements.iter().all(|r| match r {
            Requirement::In(key, values) => labels.get(*key).is_some_and(|v| values.contains(&v)),
            Requirement::NotIn(key, values) => {
                labels.get(*key).is_none_or(|v| !values.contains(&v))
            }
            Requirement::Exists(key) => labels.get(*key).is_some(),
            Requirement::DoesNotExist(key) => labels.get(*key).is_none(),
        })
    }
}

/// `[prefix/]name`, as every label key.
fn check_key(key: &str) -> Result<(), String> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(p, n)| (Some(p), n));
    let name_ok = !name.is_empty() && is_label_text(name);
    if name_ok && prefix.is_none_or(is_dns_subdomain) {
        Ok(())
    } else {
        Err(format!(
            "key: Invalid value: \"{key}\": a label key is an optional DNS prefix and a slash, then a name"
        ))
    }
}

fn check_value(value: &str) -> Result<(), String> {
    if value.is_empty() || is_label_text(value) {
        return Ok(());
    }
    Err(format!(
        "values: Invalid value: \"{value}\": a label value has at most 63 letters, digits, '-', '_' and '.'"
    ))
}

fn is_label_text(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let outer = |c: char| c.is_ascii_alphanumeric();
    text.len() <= 63 && text.chars().all(inner) && text.starts_with(outer) && text.ends_with(outer)
}

fn is_dns_subdomain(text: &str) -> bool {
    let outer = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let label = |part: &str| {
        part.starts_with(outer)
            && part.ends_with(outer)
            && part.chars().all(|c| outer(c) || c == '-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

/// A selector as people write it, for messages: `app=web,tier in (a, b)`.
pub(crate) fn display(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else { return "<none>".to_owned() };
    let labels = selector.match_labels.iter().map(|(k, v)| format!("{k}={v}"));
    let expressions = selector.match_expressions.iter().map(|r| {
        let values = r.values.join(", ");
        match &r.operator {
            Operator::In => format!("{} in ({values})", r.key),
            Operator::NotIn => format!("{} notin ({values})", r.key),
            Operator::Exists => r.key.clone(),
            Operator::DoesNotExist => format!("!{}", r.key),
            Operator::Other(operator) => format!("{} {operator} ({values})", r.key),
        }
    });
    let parts: Vec<String> = labels.chain(expressions).collect();
    if parts.is_empty() { "<all>".to_owned() } else { parts.join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::SelectorIndex;
    use crate::model::Requirement as Expression;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    fn expression(key: &str, operator: Operator, values: &[&str]) -> LabelSelector {
        let values = values.iter().map(|v| (*v).to_owned()).collect();
        LabelSelector {
            match_expressions: vec![Expression { key: key.to_owned(), operator, values }],
            ..Default::default()
        }
    }

    #[test]
    fn operators_match_as_upstream_and_the_index_finds_all_that_match() {
        let pods: [&[(&str, &str)]; 4] =
            [&[], &[("app", "web")], &[("app", "db"), ("tier", "a")], &[("x", "y")]];
        let table = [
            (LabelSelector::default(), [true, true, true, true]),
            (
                LabelSelector { match_labels: map(&[("app", "web")]), ..Default::default() },
                [false, true, false, false],
            ),
            (expression("app", Operator::In, &["web", "db"]), [false, true, true, false]),
            (expression("app", Operator::NotIn, &["web"]), [true, false, true, true]),
            (expression("app", Operator::Exists, &[]), [false, true, true, false]),
            (expression("app", Operator::DoesNotExist, &[]), [true, false, false, true]),
        ];
        for (selector, expected) in table {
            let mut interner = Interner::default();
            let compiled = Selector::compile(&mut interner, &selector).unwrap();
            let mut index = SelectorIndex::default();
            index.insert(&7, &compiled);
            for (pod, expected) in pods.iter().zip(expected) {
                let labels = Labels::acquire(&mut interner, &map(pod));
                assert_eq!(compiled.matches(&labels), expected, "{selector:?} on {pod:?}");
                if expected {
                    assert_eq!(index.candidates(&labels).collect::<Vec<_>>(), [&7]);
                }
                let stranger = Labels::lookup(&interner, &map(pod));
                assert_eq!(compiled.matches(&stranger), expected);
            }
            index.remove(&7, &compiled);
            let labels = Labels::acquire(&mut interner, &map(&[("app", "web")]));
            assert_eq!(index.candidates(&labels).count(), 0);
        }
    }

    #[test]
    fn wrong_selectors_are_refused() {
        let mut interner = Interner::default();
        for selector in [
            expression("app", Operator::In, &[]),
            expression("app", Operator::Exists, &["x"]),
            expression("app", Operator::Other("Near".to_owned()), &["x"]),
            expression("a/b/c", Operator::Exists, &[]),
            expression("UPPER/a", Operator::Exists, &[]),
            expression("", Operator::Exists, &[]),
            expression("app", Operator::In, &["-x"]),
        ] {
            assert!(Selector::compile(&mut interner, &selector).is_err());
        }
    }
}
