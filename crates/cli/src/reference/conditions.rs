//! docs/reference/conditions.md is written by hand, and has every reason that the engine gives.

use std::collections::BTreeSet;

use super::read;

/// `InsufficientReplicas` and the like.
fn is_reason(word: &str) -> bool {
    word.len() > 7
        && word.starts_with(|c: char| c.is_ascii_uppercase())
        && word.chars().all(|c| c.is_ascii_alphanumeric())
}

/// What stands between these marks.
fn between(text: &str, mark: char) -> BTreeSet<&str> {
    text.split(mark).skip(1).step_by(2).filter(|word| is_reason(word)).collect()
}

#[test]
fn the_page_has_every_condition_and_reason_of_the_engine() {
    let code = read("crates/core/src/namespace/status.rs");
    // Comments have quotes of their own.
    let code: String = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let page = read("docs/reference/conditions.md");
    let budgets =
        page.split("## ").find(|part| part.starts_with("Budgets")).expect("a section Budgets");
    let rows: String = budgets.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(between(&rows, '`'), between(&code, '"'));
}
