//! Checks licences, sources and security advisories of the dependencies with cargo-deny.

use super::{Test, tools};
use crate::localkube;

impl Test<'_> {
    pub(super) fn deny(&mut self) {
        let Some(environment) = self.tool(&tools::DENY) else { return };
        let check = ["deny", "check", "licenses", "bans", "sources"];
        self.cargo("deny", &check, &environment);
        // The advisories are on GitHub, which is not a package registry.
        let mut fetch = localkube::cargo();
        fetch.args(["deny", "fetch", "db"]).envs(environment.clone());
        match fetch.output() {
            Ok(output) if output.status.success() => {
                let check = ["deny", "check", "--disable-fetch", "advisories"];
                self.cargo("advisories", &check, &environment);
            }
            fetched => {
                let said = fetched.map(|output| output.stderr).unwrap_or_default();
                let said = String::from_utf8_lossy(&said);
                let said = said.lines().rfind(|line| !line.trim().is_empty());
                let why = said.unwrap_or("cargo deny fetch db failed");
                self.summary.not_run("advisories", why);
            }
        }
    }
}
