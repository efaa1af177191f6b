//! Runs the commands of the docs.

use anyhow::Result;

use super::{
    Test,
    cluster::{clear, lock},
};
use crate::{docs, localkube::workspace};

impl Test<'_> {
    /// Blocks that need a cluster run only on localkube, because they begin with its start.
    pub(super) fn docs(&mut self) -> Result<()> {
        let Some(program) = self.program()? else { return Ok(()) };
        let target = workspace().join("target");
        let (dir, cluster) = (target.join("docs-test"), target.join("localkube-docs"));
        let _lock = lock(&cluster)?;
        let interrupt = &self.interrupt;
        self.summary.time("docs", || docs::without_cluster(&program, &dir, interrupt));
        if self.args.kubeconfig.is_none() {
            self.summary.time("quickstart", || {
                clear(&cluster)?;
                let ran = docs::on_localkube(&program, &dir, &cluster, interrupt);
                clear(&cluster)?;
                ran
            });
        }
        Ok(())
    }
}
