//! From a shell's request to the engine's verdict, in time, counted and logged.

use std::borrow::Cow;
use std::time::Duration;

use holdfast_api::printable;
use holdfast_core::Eviction;
use holdfast_core::model::{BudgetKey, Timestamp};
use holdfast_core::verdict::{CANNOT_EVICT, Cause, Denial, DenyReason, Verdict, signature};
use http::HeaderMap;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::clock::Clock;
use crate::decisions::Decisions;
use crate::exempt::Exemption;
use crate::metrics::Metrics;
use crate::runtime::Asked;
use crate::traces::{Parent, Traces};

/// Until here the engine may wait for a commit. A webhook that does not answer within ten seconds is a
/// 500 for the client, and kubectl drain gives up on those.
const DEADLINE: Duration = Duration::from_secs(9);

/// Until here it has answered. Only a runtime that is stuck is later than that.
const FALLBACK: Duration = Duration::from_millis(9200);

/// Until here it may be found out that nobody stands in the way of this one, and there is time left to
/// record it.
const LOOKING: Duration = Duration::from_secs(7);

/// Longest text told of who asked, as the engine records it, and of the request's id.
const TEXT_MAX: usize = 128;

/// An API server has no longer names.
const NAME_MAX: usize = 253;

#[derive(Clone, Debug)]
pub struct Decider {
    pub asked: mpsc::Sender<Asked>,
    pub clock: Clock,
    pub metrics: Metrics,
    /// Kept for people to look at, if they may.
    pub decisions: Option<Decisions>,
    pub traces: Traces,
}

/// When a request came, and what it is part of.
#[derive(Clone, Debug)]
pub struct Arrived {
    pub at: Instant,
    pub parent: Option<Parent>,
}

impl Arrived {
    pub fn now(headers: &HeaderMap) -> Self {
        Self { at: Instant::now(), parent: Parent::of(headers) }
    }
}

impl Decider {
    /// Whatever is asked goes here.
    #[cfg(test)]
    pub fn asking(asked: mpsc::Sender<Asked>) -> Self {
        let (clock, metrics) = (Clock::start(), Metrics::new(0));
        Self { asked, clock, metrics, decisions: None, traces: Traces::default() }
    }

    /// By when the engine has to answer a request that arrived then.
    pub fn deadline(&self, arrived: &Arrived) -> Timestamp {
        self.clock.at(arrived.at) + DEADLINE
    }

    pub async fn decide(&self, eviction: Eviction, arrived: Arrived) -> Verdict {
        self.decide_unless(eviction, arrived, std::future::ready(None)).await
    }

    /// As [`Self::decide`], for the gate of native mode. The webhook has counted and logged the eviction before, unless
    /// the gate denies it or records a grant itself.
    pub async fn confirm(&self, eviction: Eviction, arrived: Arrived) -> Verdict {
        let verdict = self.ask(eviction.clone(), arrived.at).await;
        match &verdict {
            Verdict::Allow(allowed) if allowed.grants.is_empty() => verdict,
            _ => self.tell(eviction, arrived, verdict, None),
        }
    }

    /// What shows that it is the system at work is looked at before a denial, and only then.
    pub async fn decide_unless(
        &self,
        mut eviction: Eviction,
        arrived: Arrived,
        exemption: impl Future<Output = Option<Exemption>>,
    ) -> Verdict {
        let mut verdict = self.ask(eviction.clone(), arrived.at).await;
        let mut exempt = None;
        if !verdict.is_allow() {
            let looking = tokio::time::timeout_at(arrived.at + LOOKING, exemption);
            exempt = looking.await.ok().flatten();
        }
        if let Some(exemption) = exempt {
            self.metrics.exempt(exemption.name());
            eviction.exempt = true;
            // The denied one may be on its way back out of other budgets.
            eviction.id.push_str("-exempt");
            verdict = self.ask(eviction.clone(), arrived.at).await;
        }
        self.tell(eviction, arrived, verdict, exempt)
    }

    /// Counts, logs and traces a decision. Returns the verdict with the decision's name in a denial.
    fn tell(
        &self,
        mut eviction: Eviction,
        Arrived { at: arrived, parent }: Arrived,
        mut verdict: Verdict,
        exempt: Option<Exemption>,
    ) -> Verdict {
        let took = arrived.elapsed();
        make_presentable(&mut eviction);
        self.metrics.decided(&eviction, &verdict, took);
        let told = Told::of(&verdict);
        log(&eviction, &told, exempt, took);
        if !self.traces.decided(&eviction, &told, parent.as_ref(), took) {
            self.metrics.spans_dropped(1);
        }
        if let Some(decisions) = &self.decisions {
            decisions.note(&eviction, &verdict, told);
        }
        if let Verdict::Deny(denial) = &mut verdict {
            // By which whoever reads it finds the line in the log.
            denial.message.push_str(&signature(&eviction.id));
        }
        verdict
    }

    async fn ask(&self, eviction: Eviction, arrived: Instant) -> Verdict {
        let (reply, verdict) = oneshot::channel();
        let ask = async {
            self.asked.send(Asked { eviction, reply }).await.ok()?;
            verdict.await.ok()
        };
        match tokio::time::timeout_at(arrived + FALLBACK, ask).await {
            Ok(Some(verdict)) => verdict,
            Ok(None) => not_recorded("Holdfast is stopping."),
            Err(_) => not_recorded("Holdfast could not decide in time."),
        }
    }
}

fn not_recorded(why: &str) -> Verdict {
    Verdict::Deny(Denial {
        reason: DenyReason::NotRecorded,
        message: format!("{CANNOT_EVICT} {why}"),
        causes: vec![Cause { budget: None, message: why.to_owned() }],
    })
}

/// A verdict in words, for all who tell of it.
#[derive(Clone, Debug)]
pub struct Told {
    pub verdict: &'static str,
    pub reason: String,
    /// Those that granted it, or that stand in the way.
    pub budgets: Vec<String>,
    /// In units of its budgets.
    pub cost: i64,
}

impl Told {
    pub fn of(verdict: &Verdict) -> Self {
        match verdict {
            Verdict::Allow(allowed) => Self {
                verdict: "allow",
                reason: format!("{:?}", allowed.reason),
                budgets: allowed.grants.iter().map(|(budget, _)| budget.to_string()).collect(),
                cost: allowed.grants.iter().map(|(_, cost)| cost).sum(),
            },
            Verdict::Deny(denial) => {
                let budgets = denial.causes.iter().filter_map(|cause| cause.budget.as_ref());
                Self {
                    verdict: "deny",
                    reason: format!("{:?}", denial.reason),
                    budgets: budgets.map(BudgetKey::to_string).collect(),
                    cost: 0,
                }
            }
        }
    }
}

/// Whoever reaches the port writes into a review what they like. What is told of it, in logs, in traces and on the
/// page, is no line of somebody else's, and what is kept of it is short.
fn make_presentable(Eviction { id, pod, requester, .. }: &mut Eviction) {
    let texts = [
        (id, TEXT_MAX),
        (&mut pod.namespace, NAME_MAX),
        (&mut pod.name, NAME_MAX),
        (requester, TEXT_MAX),
    ];
    for (text, max) in texts {
        text.truncate(text.floor_char_boundary(max));
        if let Cow::Owned(clean) = printable(text) {
            *text = clean;
        }
    }
}

/// Every decision, once.
fn log(eviction: &Eviction, told: &Told, exempt: Option<Exemption>, took: Duration) {
    tracing::info!(
        eviction = %eviction.id,
        operation = eviction.operation.name(),
        pod = %eviction.pod,
        requester = %eviction.requester,
        dry_run = eviction.dry_run,
        verdict = told.verdict,
        reason = told.reason,
        exempt = exempt.map(Exemption::name),
        budgets = told.budgets.join(","),
        cost = told.cost,
        ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        "decided"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decisions::Decision;
    use crate::metrics::sample::eviction;
    use holdfast_core::model::{ObjectKey, Operation};

    /// What whoever looks is told of it.
    async fn told(eviction: Eviction) -> Decision {
        let (asked, _) = mpsc::channel(1);
        let decisions = Decisions::default();
        let decider = Decider { decisions: Some(decisions.clone()), ..Decider::asking(asked) };
        decider.decide(eviction, Arrived::now(&HeaderMap::new())).await;
        decisions.after(0).remove(0)
    }

    #[tokio::test]
    async fn a_request_is_told_of_as_it_is() {
        let mut eviction = eviction(Operation::Evict, &"p".repeat(NAME_MAX));
        eviction.requester = "system:serviceaccount:n:größer".to_owned();
        let decision = told(eviction.clone()).await;
        assert_eq!(decision.id, eviction.id);
        assert_eq!(decision.pod, eviction.pod.to_string());
        assert_eq!(decision.by, eviction.requester);
    }

    #[tokio::test]
    async fn of_a_forged_one_neither_lines_of_its_own_nor_long_ones() {
        const FORGED: &str = "x\r\n2026-01-01T00:00:00Z INFO decided verdict=\"allow\"\u{1b}[2J";
        let mut eviction = eviction(Operation::Evict, FORGED);
        eviction.pod.namespace = FORGED.to_owned();
        eviction.requester = FORGED.to_owned();
        let decision = told(eviction.clone()).await;
        for text in [decision.pod, decision.by] {
            assert!(text.contains("decided") && !text.contains(char::is_control), "{text:?}");
        }

        // Of letters that have two bytes each, none is cut in half.
        let long = "ä".repeat(100_000);
        eviction.id = "1".repeat(100_000);
        eviction.pod = ObjectKey::new(long.as_str(), long.as_str());
        eviction.requester = long;
        let decision = told(eviction).await;
        assert_eq!((decision.id.len(), decision.by.len()), (TEXT_MAX, TEXT_MAX));
        assert_eq!(decision.pod.len(), 2 * (NAME_MAX - 1) + "/".len());
    }
}
