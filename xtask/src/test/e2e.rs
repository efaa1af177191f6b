//! Runs the end-to-end tests. Each row of suites has its own control plane.

use std::fs;

use anyhow::{Context as _, Result};

use super::{Test, cluster::lock, rights, simulate};
use crate::localkube::{Options, Release, workspace};

/// The suites in webhook mode.
const USUAL: [&str; 7] = ["honest", "e2e", "page", "unavailable", "gangs", "outage", "instances"];

/// The suites in native mode.
const NATIVE: [&str; 2] = ["e2e", "native"];

impl Test<'_> {
    pub(super) fn end_to_end(&mut self) -> Result<()> {
        let Some(program) = self.program()? else { return Ok(()) };
        let mut environment = vec![("HOLDFAST_BIN", program.into_os_string())];
        if self.args.full {
            environment.push(("HOLDFAST_E2E_FULL", "1".into()));
        }
        let driver = self.summary.time("browser", || Ok(simulate::driver()));
        if let Some(driver) = driver.flatten() {
            environment.push(("HOLDFAST_CHROMEDRIVER", driver.into_os_string()));
        }
        if let Some(kubeconfig) = &self.args.kubeconfig {
            let kubeconfig = fs::canonicalize(kubeconfig)
                .with_context(|| format!("find {}", kubeconfig.display()))?;
            environment.push(("HOLDFAST_E2E_KUBECONFIG", kubeconfig.into_os_string()));
            self.suites(&USUAL, &environment);
            return Ok(());
        }
        let dir = workspace().join("target/localkube-test");
        let _lock = lock(&dir)?;
        let kubernetes = self.args.kubernetes;
        let usual = Options { lws: true, jobset: true, kubernetes, ..Options::default() };
        rights::clear()?;
        let mut passed = self.row(&dir, &rights::audited(&usual, "usual")?, &USUAL, &environment);
        let mut native = environment.clone();
        native.push(("HOLDFAST_E2E_NATIVE", "1".into()));
        // It takes minutes to build.
        let more = Options { descheduler: self.args.full, jobset: false, ..usual.clone() };
        passed &= self.row(&dir, &rights::audited(&more, "native")?, &NATIVE, &native);
        if usual.has_pod_groups() {
            let plain = Options { without_pod_groups: true, ..usual };
            let plain = rights::audited(&plain, "plain")?;
            passed &= self.row(&dir, &plain, &["gangs"], &environment);
        }
        let flags = ["--max-requests-inflight=20", "--max-mutating-requests-inflight=20"];
        let scarce = Options {
            apiserver_flags: flags.map(str::to_owned).into(),
            kubernetes,
            ..Options::default()
        };
        passed &= self.row(&dir, &scarce, &["overload"], &environment);
        // A part of the tests, or a release without pod groups, does not use all rights.
        if passed && self.args.filter.is_none() && kubernetes == Release::default() {
            let strict = self.args.full;
            self.summary.time("rights", || rights::check(strict));
        }
        Ok(())
    }
}
