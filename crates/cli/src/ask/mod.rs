//! Questions to a cluster: what they share.
//!
//! ```text
//!   API server --Reader--> lists --decode--> Engine (the one that serves) --view, dry runs--> answers
//! ```
//!
//! Nothing is written, and no server of Holdfast's has to run: the engine is fed here with what it would
//! see there.

mod cluster;
#[cfg(test)]
pub mod documents;
mod flags;
mod pods;
#[cfg(test)]
pub mod sample;
mod selector;
mod table;

pub use cluster::{Builtins, Cluster, Given};
pub use flags::{ClusterArgs, Output, emit};
pub use pods::{controller_kind, node_ready};
pub use selector::Selector;
pub use table::Table;

use std::time::Duration;

use holdfast_core::model::{BudgetKey, BudgetKind, BudgetSpec, Threshold};

/// `maxUnavailable 1`; both of a budget that has both.
pub fn threshold(spec: &BudgetSpec) -> String {
    let text = |threshold: &Threshold| match threshold {
        Threshold::Count(n) => n.to_string(),
        Threshold::Percent(percent) => format!("{percent}%"),
        Threshold::Invalid(_) => "invalid".to_owned(),
    };
    let min = spec.min_available.as_ref().map(|min| format!("minAvailable {}", text(min)));
    let max = spec.max_unavailable.as_ref().map(|max| format!("maxUnavailable {}", text(max)));
    let both: Vec<String> = [min, max].into_iter().flatten().collect();
    if both.is_empty() { "none".to_owned() } else { both.join(", ") }
}

/// As the API has it.
pub fn kind_name(budget: &BudgetKey) -> &'static str {
    match budget.kind {
        BudgetKind::PodDisruptionBudget => "PodDisruptionBudget",
        BudgetKind::PodUnavailableBudget => "PodUnavailableBudget",
    }
}

/// `45s`, `1m30s`, `2h5m`.
pub fn age(time: Duration) -> String {
    let secs = time.as_secs();
    match (secs / 3600, secs / 60 % 60, secs % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, 0) => format!("{m}m"),
        (0, m, s) => format!("{m}m{s}s"),
        (h, 0, _) => format!("{h}h"),
        (h, m, _) => format!("{h}h{m}m"),
    }
}

/// In an order with `web-2` before `web-10`.
pub fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = vec![(String::new(), 0_u64)];
    let mut in_number = false;
    for c in name.chars() {
        let digit = c.to_digit(10).map(u64::from);
        if in_number && digit.is_none() {
            parts.push((String::new(), 0));
        }
        in_number = digit.is_some();
        if let Some((text, number)) = parts.last_mut() {
            match digit {
                Some(digit) => *number = number.saturating_mul(10).saturating_add(digit),
                None => text.push(c),
            }
        }
    }
    parts
}

/// `1 replica`, `3 replicas`.
pub fn count(n: i64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_in_names_are_ordered_as_numbers() {
        let mut names = ["g-10", "g-2-b", "g-2", "f", "g-2-10", "g-2-9", "10"];
        names.sort_by_key(|name| super::natural(name));
        assert_eq!(names, ["10", "f", "g-2", "g-2-9", "g-2-10", "g-2-b", "g-10"]);
    }
}
