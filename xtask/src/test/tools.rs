//! Programs that tests need and a machine may lack.

use std::{env, ffi::OsString, path::PathBuf, process::Command};

use anyhow::{Context as _, Result};

use super::{Test, interrupt::Interrupt, run::cargo, summary::Counts};
use crate::localkube::workspace;

/// A program from crates.io, in the version that works here.
pub struct Tool {
    name: &'static str,
    version: &'static str,
    pub program: &'static str,
}

pub const FUZZ: Tool = Tool { name: "cargo-fuzz", version: "0.13.2", program: "cargo-fuzz" };
pub const DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2", program: "cargo-deny" };
pub const TYPOS: Tool = Tool { name: "typos-cli", version: "1.52.0", program: "typos" };

impl Test<'_> {
    /// Returns the environment in which a child finds this tool.
    pub(super) fn tool(&mut self, tool: &'static Tool) -> Option<[(&'static str, OsString); 1]> {
        let interrupt = &self.interrupt;
        let path = self.summary.time(tool.program, || tool.path(interrupt));
        Some([("PATH", path?)])
    }
}

impl Tool {
    /// Builds it into `target/tools`, unless it is there or installed. Returns the `PATH` for cargo.
    pub fn path(&self, interrupt: &Interrupt) -> Result<OsString> {
        let path = env::var_os("PATH").unwrap_or_default();
        if find(&[self.program]).is_some() {
            return Ok(path);
        }
        let tools = workspace().join("target/tools");
        let programs = tools.join("bin");
        if !programs.join(self.program).is_file() {
            let (crate_, root) =
                (format!("{}@{}", self.name, self.version), tools.to_string_lossy());
            let install = ["install", "--locked", "--root", &root, &crate_];
            cargo(&install, &[], interrupt, &mut Counts::default())?;
        }
        let all = [programs].into_iter().chain(env::split_paths(&path));
        env::join_paths(all).context("put the tools on PATH")
    }
}

/// Returns the first of these programs that is installed or that apt-get can install.
pub fn of_system(names: &[&str], packages: &[&str]) -> Option<PathBuf> {
    find(names).or_else(|| {
        println!("no {} here; try apt-get install {}", names[0], packages.join(" "));
        let apt = |args: &[&str]| {
            let mut command = Command::new("apt-get");
            command.args(args).env("DEBIAN_FRONTEND", "noninteractive");
            command.output().is_ok_and(|output| output.status.success())
        };
        let install =
            [&["install", "--yes", "--quiet", "--no-install-recommends"], packages].concat();
        // A new machine may have no package lists, or old ones.
        if !apt(&install) && apt(&["update"]) {
            apt(&install);
        }
        find(names)
    })
}

fn find(names: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let places: Vec<PathBuf> = env::split_paths(&path).collect();
    let mut all = names.iter().flat_map(|name| places.iter().map(move |place| place.join(name)));
    all.find(|program| program.is_file())
}
