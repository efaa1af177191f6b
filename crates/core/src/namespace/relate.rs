//! Kruise's annotation on pods that names their `PodUnavailableBudget`. Nothing here goes by it; other tools
//! look at it. As Kruise does, it is written where there is none.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::units::is_unavailable;
use super::{Context, Namespace};
use crate::cache::PodEntry;
use crate::io::Command;
use crate::model::ObjectKey;
use crate::timer::Due;

/// A budget over thousands of pods is no reason to write them all at once.
const AT_A_TIME: usize = 2;
const PACE: Duration = Duration::from_millis(100);
/// By then those that were written are seen to be; the others are tried again. Nothing hangs on it.
const AGAIN: Duration = Duration::from_mins(5);

/// Pods to be told, and those that were.
#[derive(Clone, Debug, Default)]
pub(super) struct Relating {
    due: BTreeSet<Arc<str>>,
    told: BTreeSet<Arc<str>>,
}

impl Namespace {
    /// A pod or a budget has come: there may be something to write.
    pub(super) fn relate_soon(&mut self, cx: &mut Context<'_>, name: &str) {
        let Some(pod) = self.cache.pod(name).filter(|pod| unrelated(pod).is_some()) else { return };
        let Relating { due, told } = &mut self.relating;
        let idle = due.is_empty();
        if !told.contains(&pod.name) && due.insert(pod.name.clone()) && idle {
            cx.timers.at(cx.now + PACE, &self.name, Due::Relate);
        }
    }

    pub(super) fn relate(&mut self, cx: &mut Context<'_>) {
        let Relating { due, told } = &mut self.relating;
        if due.is_empty() {
            due.append(told);
        }
        for _ in 0..AT_A_TIME {
            let Some(name) = due.pop_first() else { break };
            let Some(pod) = self.cache.pod(&name) else { continue };
            let Some(budget) = unrelated(pod) else { continue };
            if cx.leads {
                cx.send(Command::Relate {
                    pod: ObjectKey::new(&*self.name, &*name),
                    uid: pod.pod.uid.to_string(),
                    budget: budget.to_owned(),
                });
            }
            told.insert(name);
        }
        let next = match (due.is_empty(), told.is_empty()) {
            (false, _) => PACE,
            (true, false) => AGAIN,
            (true, true) => return,
        };
        cx.timers.at(cx.now + next, &self.name, Due::Relate);
    }
}

/// The budget that the pod's annotation should name.
fn unrelated(pod: &PodEntry) -> Option<&str> {
    let budget = pod.budgets.iter().find(|id| is_unavailable(id))?;
    (pod.is_running() && !pod.pod.facts.related()).then_some(budget.object.name.as_str())
}
