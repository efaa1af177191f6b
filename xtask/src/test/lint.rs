//! Stages that check files other than Rust code.

use std::process::Command;

use super::{Test, run, tools};
use crate::localkube::workspace;

/// Go downloads it from the module proxy, and checks it against the checksum database.
const ACTIONLINT: &str = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12";

impl Test<'_> {
    pub(super) fn spelling(&mut self) {
        let Some(environment) = self.tool(&tools::TYPOS) else { return };
        let interrupt = &self.interrupt;
        self.summary.time("spelling", || {
            let mut typos = Command::new(tools::TYPOS.program);
            typos.current_dir(workspace()).envs(environment);
            run::program(typos, interrupt)
        });
    }

    pub(super) fn workflows(&mut self) {
        let interrupt = &self.interrupt;
        self.summary.time("workflows", || {
            let mut actionlint = Command::new("go");
            // A go.work around the checkout does not apply.
            actionlint.args(["run", ACTIONLINT]).current_dir(workspace()).env("GOWORK", "off");
            run::program(actionlint, interrupt)
        });
    }
}
