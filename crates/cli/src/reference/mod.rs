//! The pages of docs/reference that are made from the code, and what else in docs/ and deploy/ speaks of it.
//!
//! `cargo xtask fix` writes them; without that, these tests compare.

mod api;
mod conditions;
mod flags;
mod metrics;
mod watching;

use std::fs;
use std::path::PathBuf;

use clap::CommandFactory as _;

/// Set by `cargo xtask fix`.
const WRITE: &str = "HOLDFAST_WRITE";

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[track_caller]
fn is_current(page: &str, text: &str) {
    let path = format!("docs/reference/{page}");
    if std::env::var_os(WRITE).is_some() {
        fs::write(repository().join(&path), text).unwrap();
    }
    assert!(read(&path) == text, "{path} is not as the code has it: run `cargo xtask fix`");
}

#[test]
fn flags_are_those_of_the_program() {
    is_current("flags.md", &flags::page(crate::Cli::command()));
}

#[test]
fn metrics_are_those_of_the_server() {
    is_current("metrics.md", &metrics::page());
}

#[test]
fn fields_are_those_of_the_definitions() {
    is_current("api.md", &api::page());
}

/// Within a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ").trim().to_owned()
}
