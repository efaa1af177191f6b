//! Handles Ctrl-C and similar signals: child processes must be stopped before this process exits.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use anyhow::{Context as _, Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

#[derive(Clone)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on these signals only set a flag.
    pub fn catch() -> Result<Self> {
        let came = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, came.clone()).context("catch signals")?;
        }
        Ok(Self(came))
    }

    /// Fails if a signal has arrived.
    pub fn check(&self) -> Result<()> {
        if self.came() {
            bail!("interrupted");
        }
        Ok(())
    }

    pub fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
