//! Runs the nemesis: several API servers, and faults in all parts of the control plane.

use anyhow::Result;

use super::{Test, cluster::lock};
use crate::localkube::{Options, workspace};

impl Test<'_> {
    pub(super) fn nemesis(&mut self) -> Result<()> {
        let Some(program) = self.program()? else { return Ok(()) };
        let dir = workspace().join("target/localkube-nemesis");
        let _lock = lock(&dir)?;
        let seconds = self.args.nemesis_seconds.to_string();
        let mut environment = vec![
            ("HOLDFAST_BIN", program.into_os_string()),
            ("HOLDFAST_NEMESIS_SECONDS", seconds.into()),
        ];
        // At the end the test reads the whole history from etcd.
        let flags = ["--storage-media-type=application/json", "--etcd-compaction-interval=0"];
        let options = Options {
            apiservers: 3,
            lws: true,
            kubernetes: self.args.kubernetes,
            apiserver_flags: flags.map(str::to_owned).into(),
            ..Options::default()
        };
        self.row(&dir, &options, &["nemesis"], &environment);
        environment.push(("HOLDFAST_E2E_NATIVE", "1".into()));
        self.row(&dir, &options, &["nemesis"], &environment);
        Ok(())
    }
}
