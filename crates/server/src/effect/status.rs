//! Status writes: the compare-and-swap that records a grant.

use std::sync::Arc;

use holdfast_api::budget::{self, StatusUpdate};
use holdfast_api::{decode, unavailable};
use holdfast_core::Input;
use holdfast_core::io::WriteOutcome;
use holdfast_core::model::{Budget, BudgetKey, BudgetKind, BudgetStatus, ResourceVersion};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::{TRIES, get};
use crate::api_client::{Answer, ApiClient, NoAnswer};
use crate::discovery::Resource;
use crate::install::NAME;
use crate::metrics::Metrics;
use crate::watch::Backoff;

/// Writes statuses, in the way that this API server needs.
#[derive(Clone, Debug)]
pub struct StatusWriter {
    client: ApiClient,
    metrics: Metrics,
    forgets: Arc<OnceCell<bool>>,
}

impl StatusWriter {
    pub fn new(client: ApiClient, metrics: Metrics) -> Self {
        Self { client, metrics, forgets: Arc::default() }
    }

    /// [`holdfast_core::Command::WriteStatus`].
    pub async fn write(
        self,
        budget: BudgetKey,
        uid: String,
        version: ResourceVersion,
        status: Arc<BudgetStatus>,
    ) -> Input {
        let started = Instant::now();
        let update = StatusUpdate::new(&budget, &uid, &version, &status);
        let outcome = if self.forgets().await {
            let update = self.with_all_metadata(&budget, &update).await;
            put(&self.client, &self.metrics, &budget, &update).await
        } else {
            put(&self.client, &self.metrics, &budget, &update).await
        };
        let took = started.elapsed();
        self.metrics.status_written(outcome_name(&outcome), took);
        tracing::debug!(%budget, outcome = outcome_name(&outcome), ms = took.as_millis(), "status write");
        if let WriteOutcome::Rejected(reason) | WriteOutcome::Unknown(reason) = &outcome {
            tracing::warn!(%budget, %reason, outcome = outcome_name(&outcome), "status write failed");
        }
        Input::StatusWritten { budget, uid, outcome }
    }

    /// Whether the API server takes what a status update leaves out for given up by whoever manages it: a server-side
    /// apply would lose its labels by our first write. Those before 1.37 do.
    async fn forgets(&self) -> bool {
        let ask = || async {
            let answer = self.client.get("/version").await.map_err(|NoAnswer(why)| why)?;
            answer.json().map(is_forgetful).map_err(|error| error.to_string())
        };
        // As long as it is not known: what is right for all of them, and takes longer.
        self.forgets.get_or_try_init(ask).await.copied().unwrap_or(true)
    }

    /// The update with what the budget has beside it, if it is still the one that was decided about. If it is not,
    /// the update will be refused.
    async fn with_all_metadata(&self, budget: &BudgetKey, update: &StatusUpdate<'_>) -> Value {
        let mut whole = json!(update);
        let answer = get(&self.client, &object_path(budget)).await.ok();
        let current = answer.and_then(|answer| answer.json::<Value>().ok());
        if let Some(mut current) = current
            && current["metadata"]["resourceVersion"] == whole["metadata"]["resourceVersion"]
        {
            whole["metadata"] = current["metadata"].take();
        }
        whole
    }
}

/// What `/version` tells.
#[derive(Debug, Deserialize)]
struct Version {
    major: String,
    minor: String,
}

/// A minor version may have a plus sign behind it.
fn is_forgetful(Version { major, minor }: Version) -> bool {
    let number = |text: &str| text.trim_end_matches('+').parse::<u32>().unwrap_or(0);
    (number(&major), number(&minor)) < (1, 37)
}

/// [`holdfast_core::Command::ReadBudget`]. Asks until it is answered: the engine holds grants of this
/// budget for given until then.
pub async fn read(client: ApiClient, budget: BudgetKey, uid: String) -> Input {
    let path = object_path(&budget);
    let mut backoff = Backoff::new();
    loop {
        let reason = match client.get(&path).await {
            Ok(answer) => match found(&answer, &budget) {
                Ok(outcome) => return Input::StatusWritten { budget, uid, outcome },
                Err(reason) => reason,
            },
            Err(NoAnswer(reason)) => reason,
        };
        tracing::warn!(%budget, %reason, "cannot read the budget back yet");
        backoff.pause().await;
    }
}

async fn put(
    client: &ApiClient,
    metrics: &Metrics,
    budget: &BudgetKey,
    update: &impl Serialize,
) -> WriteOutcome {
    let path = format!("{}/status?fieldManager={NAME}", object_path(budget));
    let mut backoff = Backoff::new();
    // A try that may have been carried out unseen: later refusals then prove nothing.
    let mut maybe_written = false;
    let mut reason = String::new();
    for _ in 0..TRIES {
        match after_put(client.put(&path, update).await, budget.kind) {
            Step::Done(WriteOutcome::Rejected(why)) if maybe_written => {
                return WriteOutcome::Unknown(why);
            }
            Step::Done(outcome) => return outcome,
            Step::ReadBack { refused } => {
                if refused.is_none() {
                    metrics.conflict();
                }
                return read_back(client, budget, refused.filter(|_| !maybe_written)).await;
            }
            Step::Again { why, unseen } => {
                maybe_written |= unseen;
                reason = why;
                backoff.pause().await;
            }
        }
    }
    WriteOutcome::Unknown(reason)
}

/// What one try of the write means.
#[derive(Debug)]
enum Step {
    Done(WriteOutcome),
    /// The object changed or is gone; `refused` says that nothing was written, and why.
    ReadBack {
        refused: Option<String>,
    },
    Again {
        why: String,
        unseen: bool,
    },
}

fn after_put(result: Result<Answer, NoAnswer>, kind: BudgetKind) -> Step {
    let answer = match result {
        Ok(answer) => answer,
        Err(NoAnswer(why)) => return Step::Again { why, unseen: true },
    };
    match answer.code {
        code if code.is_success() => Step::Done(match read_object(&answer, kind) {
            Ok(budget) => WriteOutcome::Current(Box::new(budget)),
            Err(reason) => WriteOutcome::Unknown(reason),
        }),
        StatusCode::CONFLICT => Step::ReadBack { refused: None },
        // Of the object, its namespace, or our whole kind; only the object's own is an end.
        StatusCode::NOT_FOUND => Step::ReadBack { refused: Some(answer.message()) },
        // Refused before anything was done.
        StatusCode::TOO_MANY_REQUESTS => Step::Again { why: answer.message(), unseen: false },
        code if code.is_server_error() => Step::Again { why: answer.message(), unseen: true },
        _ => Step::Done(WriteOutcome::Rejected(answer.message())),
    }
}

async fn read_back(
    client: &ApiClient,
    budget: &BudgetKey,
    refused: Option<String>,
) -> WriteOutcome {
    let seen = match get(client, &object_path(budget)).await {
        Ok(answer) => found(&answer, budget),
        Err(NoAnswer(reason)) => Err(reason),
    };
    after_read_back(seen, refused)
}

fn after_read_back(seen: Result<WriteOutcome, String>, refused: Option<String>) -> WriteOutcome {
    match (seen, refused) {
        (Ok(WriteOutcome::Gone), _) => WriteOutcome::Gone,
        (_, Some(reason)) => WriteOutcome::Rejected(reason),
        (Ok(outcome), None) => outcome,
        (Err(reason), None) => WriteOutcome::Unknown(reason),
    }
}

/// What a GET of the budget shows; an error if it shows neither the object nor its absence.
fn found(answer: &Answer, budget: &BudgetKey) -> Result<WriteOutcome, String> {
    if answer.code == StatusCode::OK {
        let object = read_object(answer, budget.kind)?;
        return Ok(WriteOutcome::Current(Box::new(object)));
    }
    if answer.is_object_not_found(&budget.object.name) {
        return Ok(WriteOutcome::Gone);
    }
    Err(answer.message())
}

fn read_object(answer: &Answer, kind: BudgetKind) -> Result<Budget, String> {
    let budget = match kind {
        BudgetKind::PodDisruptionBudget => decode::budget(&answer.body),
        BudgetKind::PodUnavailableBudget => decode::unavailable_budget(&answer.body),
    };
    budget.map_err(|error| error.to_string())
}

fn object_path(budget: &BudgetKey) -> String {
    let BudgetKey { kind, object } = budget;
    resource(*kind).object_path(&object.namespace, &object.name)
}

/// Where budgets of this kind are, as we read and write them.
pub fn resource(kind: BudgetKind) -> Resource {
    match kind {
        BudgetKind::PodDisruptionBudget => {
            Resource::fixed(budget::GROUP, budget::VERSION, budget::PLURAL)
        }
        BudgetKind::PodUnavailableBudget => {
            Resource::fixed(unavailable::GROUP, unavailable::VERSION, unavailable::PLURAL)
        }
    }
}

fn outcome_name(outcome: &WriteOutcome) -> &'static str {
    match outcome {
        WriteOutcome::Current(_) => "current",
        WriteOutcome::Gone => "gone",
        WriteOutcome::Rejected(_) => "rejected",
        WriteOutcome::Unknown(_) => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: &str = r#"{"metadata":{"name":"b","namespace":"n","uid":"u","resourceVersion":"5"},
        "spec":{},"status":{}}"#;
    const GONE: &str = r#"{"reason":"NotFound","message":"gone","details":{"name":"b"}}"#;

    fn answer(code: u16, body: &str) -> Answer {
        Answer { code: StatusCode::from_u16(code).unwrap(), body: body.as_bytes().to_vec() }
    }

    fn step(code: u16, body: &str) -> String {
        match after_put(Ok(answer(code, body)), BudgetKind::PodDisruptionBudget) {
            Step::Done(outcome) => outcome_name(&outcome).to_owned(),
            Step::ReadBack { refused } => format!("read back, refused: {}", refused.is_some()),
            Step::Again { unseen, .. } => format!("again, unseen: {unseen}"),
        }
    }

    #[test]
    fn what_an_answer_to_the_write_means() {
        assert_eq!(step(200, BUDGET), "current");
        assert_eq!(step(200, "{}"), "unknown");
        assert_eq!(step(409, "{}"), "read back, refused: false");
        assert_eq!(step(404, GONE), "read back, refused: true");
        for code in [400, 403, 405, 413, 422] {
            assert_eq!(step(code, "{}"), "rejected");
        }
        assert_eq!(step(429, "{}"), "again, unseen: false");
        for code in [500, 503, 504] {
            assert_eq!(step(code, "{}"), "again, unseen: true");
        }
        let silence =
            after_put(Err(NoAnswer("timeout".to_owned())), BudgetKind::PodDisruptionBudget);
        assert!(matches!(silence, Step::Again { unseen: true, .. }));
    }

    #[test]
    fn an_api_server_that_forgets_is_told_by_its_version() {
        let forgets =
            |minor: &str| is_forgetful(Version { major: "1".to_owned(), minor: minor.to_owned() });
        assert!(forgets("33") && forgets("36") && forgets("36+") && forgets("?"));
        assert!(!forgets("37") && !forgets("37+") && !forgets("101"));
    }

    #[test]
    fn each_kind_has_its_own_path_and_is_read_as_what_it_is() {
        let key = BudgetKey::unavailable("n", "b");
        let path = "/apis/policy.kruise.io/v1beta1/namespaces/n/podunavailablebudgets/b";
        assert_eq!(object_path(&key), path);
        let path = "/apis/policy.holdfast.dev/v1/namespaces/n/poddisruptionbudgets/b";
        assert_eq!(object_path(&BudgetKey::pdb("n", "b")), path);
        assert_eq!(read_object(&answer(200, BUDGET), key.kind).unwrap().key, key);
    }

    #[test]
    fn only_the_objects_own_absence_is_gone() {
        let budget = BudgetKey::pdb("n", "b");
        let read = |code, body| found(&answer(code, body), &budget);
        let end = |code, body, refused: Option<&str>| {
            outcome_name(&after_read_back(read(code, body), refused.map(str::to_owned)))
        };
        assert_eq!(end(404, GONE, Some("404")), "gone");
        assert_eq!(end(404, "404 page not found", Some("404")), "rejected");
        assert_eq!(end(200, BUDGET, Some("404")), "rejected");
        assert_eq!(end(200, BUDGET, None), "current");
        assert_eq!(end(404, GONE, None), "gone");
        assert_eq!(end(403, "{}", None), "unknown");
    }
}
