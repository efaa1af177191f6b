//! Runs an earlier revision beside this one, in both modes.

use anyhow::Result;

use super::{Test, cluster::lock, previous};
use crate::localkube::{Options, workspace};

impl Test<'_> {
    pub(super) fn upgrade(&mut self) -> Result<()> {
        let (revision, interrupt) = (&self.args.from, &self.interrupt);
        let built = self.summary.time("previous", || previous::build(revision, interrupt));
        let Some(previous) = built else { return Ok(()) };
        let Some(program) = self.program()? else { return Ok(()) };
        let dir = workspace().join("target/localkube-upgrade");
        let _lock = lock(&dir)?;
        let mut environment = vec![
            ("HOLDFAST_BIN", program.into_os_string()),
            ("HOLDFAST_PREVIOUS_BIN", previous.into_os_string()),
        ];
        let kubernetes = self.args.kubernetes;
        let options = Options { lws: true, kubernetes, ..Options::default() };
        self.row(&dir, &options, &["upgrade"], &environment);
        environment.push(("HOLDFAST_E2E_NATIVE", "1".into()));
        self.row(&dir, &options, &["upgrade"], &environment);
        Ok(())
    }
}
