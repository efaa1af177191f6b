//! Runs `holdfast why` before evictions.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::evict::Outcome;
use crate::fixture::fixture;
use crate::world::World;

static FIRST: AtomicBool = AtomicBool::new(false);

/// From now on [`World::evict`] runs it first, and it must agree with the answer of the Eviction API.
pub fn ask_first() {
    FIRST.store(true, Ordering::Relaxed);
}

impl World {
    /// Returns whether this pod may be evicted. None if this check is off.
    pub(crate) fn foretell(&self, pod: &str) -> Option<bool> {
        if !FIRST.load(Ordering::Relaxed) {
            return None;
        }
        let status = Command::new(&fixture().holdfast)
            .args(["why", &format!("pod/{pod}"), "-n", &self.namespace, "--kubeconfig"])
            .arg(&fixture().admin_kubeconfig)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("holdfast starts");
        // 2: there is no such pod.
        match status.code() {
            Some(0) => Some(true),
            Some(1) => Some(false),
            _ => None,
        }
    }
}

/// Checks the prediction. Answers other than yes and no do not come from budgets.
#[track_caller]
pub(crate) fn assert_foretold(pod: &str, foretold: Option<bool>, outcome: &Outcome) {
    let answer = match outcome.code {
        201 => true,
        429 => false,
        _ => return,
    };
    if let Some(foretold) = foretold {
        assert_eq!(foretold, answer, "`holdfast why {pod}` said so before: {outcome:#?}");
    }
}
