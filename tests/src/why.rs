//! `holdfast why`, asked before evictions.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::evict::Outcome;
use crate::fixture::fixture;
use crate::world::World;

static FIRST: AtomicBool = AtomicBool::new(false);

/// From now on [`World::evict`] asks it first, and it has to agree with what the Eviction API answers.
pub fn ask_first() {
    FIRST.store(true, Ordering::Relaxed);
}

impl World {
    /// Whether this pod may go; None if nobody wants to know.
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

/// Other answers than yes and no are of no budget.
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
