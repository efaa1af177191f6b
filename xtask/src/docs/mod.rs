//! `cargo xtask docs`: the pages that are made from the code; and what holds of all pages.
//!
//! ```text
//! page:  fences, headings and links of a page
//! links: every link leads somewhere                              (a test, here)
//! run:   every command of a page is run, or says why it is not   (stages of `cargo xtask test`)
//! ```
//!
//! A block of commands begins with one of
//!
//! | fence | |
//! |---|---|
//! | `sh` | is run without a cluster, in every run |
//! | `sh localkube` | is run on the cluster of the quickstart, after it |
//! | `sh localkube last` | at the very end |
//! | `sh no-run=REASON` | is not |
//!
//! with `exit=N` or `exit=any` behind it if its last command is not meant to end with 0. A block of `yaml` with `file=PATH` is
//! that file.

mod links;
mod page;
mod run;

use anyhow::{Context as _, Result};

use crate::localkube::cargo;
pub use run::{on_localkube, without_cluster};

#[derive(clap::Args)]
pub struct Args {}

/// The tests that compare write instead.
pub fn run(_: &Args) -> Result<bool> {
    let status = cargo()
        .args(["test", "--quiet", "--package=holdfast", "--bin=holdfast", "reference::"])
        .env("HOLDFAST_WRITE", "1")
        .status()
        .context("start cargo")?;
    Ok(status.success())
}
