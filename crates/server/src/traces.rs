//! OpenTelemetry traces, if asked for: one span for each decision, sent to a collector as OTLP over HTTP, in JSON.
//!
//! By hand: it is one kind of span and one POST, and the libraries for it are many.
//!
//! A decision is part of the trace of whoever asked, if the request says so (`traceparent`), as an API server with
//! tracing does. Else its trace is named after the decision, so that the id in a denial's message finds it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_core::Eviction;
use http::{HeaderMap, Uri};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::decide::Told;
use crate::metrics::Metrics;

/// Spans wait here while others are sent. Some 500 bytes each; beyond it they are dropped and counted.
const QUEUE: usize = 1024;

/// In one request.
const BATCH: usize = 256;

/// How long the first of a batch waits for others.
const WAIT: Duration = Duration::from_secs(1);

/// For a request: a collector is near.
const PATIENCE: Duration = Duration::from_secs(5);

/// Off by default.
#[derive(Clone, Debug, Default)]
pub struct Traces {
    queue: Option<mpsc::Sender<Value>>,
}

/// What a request is part of: W3C's `traceparent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    trace: String,
    span: String,
    sampled: bool,
}

impl Parent {
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let header = headers.get("traceparent")?.to_str().ok()?;
        let parts: Vec<&str> = header.split('-').collect();
        let [_, trace, span, flags, ..] = parts[..] else { return None };
        let is_hex = |text: &str, length: usize| {
            text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        if !(is_hex(trace, 32) && is_hex(span, 16) && is_hex(flags, 2)) {
            return None;
        }
        let sampled = u8::from_str_radix(flags, 16).is_ok_and(|flags| flags & 1 == 1);
        Some(Self { trace: trace.to_owned(), span: span.to_owned(), sampled })
    }
}

impl Traces {
    /// To `http://HOST:PORT/v1/traces` from now on.
    pub fn start(collector: Uri, metrics: Metrics) -> Self {
        let (queue, spans) = mpsc::channel(QUEUE);
        tokio::spawn(send(collector, metrics, spans));
        Self { queue: Some(queue) }
    }

    /// Whether nothing was lost.
    pub fn decided(
        &self,
        eviction: &Eviction,
        told: &Told,
        parent: Option<&Parent>,
        took: Duration,
    ) -> bool {
        let Some(queue) = &self.queue else { return true };
        if parent.is_some_and(|parent| !parent.sampled) {
            return true;
        }
        queue.try_send(span(eviction, told, parent, took)).is_ok()
    }
}

fn span(eviction: &Eviction, told: &Told, parent: Option<&Parent>, took: Duration) -> Value {
    // As many digits as a trace's name has. A request's id is random, and has them.
    let digits = eviction.id.chars().filter(char::is_ascii_hexdigit).chain(std::iter::repeat('0'));
    let own: String = digits.take(32).collect();
    let end = SystemTime::now();
    let nanos = |time: SystemTime| {
        time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
    };
    let text = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    let mut span = json!({
        "traceId": parent.map_or(own.as_str(), |parent| &parent.trace),
        "spanId": &own[..16],
        "name": format!("decide {}", eviction.operation.name()),
        // A server's answer to a request.
        "kind": 2,
        "startTimeUnixNano": nanos(end.checked_sub(took).unwrap_or(end)),
        "endTimeUnixNano": nanos(end),
        "attributes": [
            text("holdfast.decision", &eviction.id),
            text("holdfast.verdict", told.verdict),
            text("holdfast.reason", &told.reason),
            text("holdfast.budgets", &told.budgets.join(",")),
            text("k8s.namespace.name", &eviction.pod.namespace),
            text("k8s.pod.name", &eviction.pod.name),
            text("user.name", &eviction.requester),
            {"key": "holdfast.dry_run", "value": {"boolValue": eviction.dry_run}},
        ],
    });
    if let Some(parent) = parent {
        span["parentSpanId"] = json!(parent.span);
    }
    span
}

async fn send(collector: Uri, metrics: Metrics, mut spans: mpsc::Receiver<Value>) {
    while let Some(first) = spans.recv().await {
        let mut batch = vec![first];
        let more = async {
            while batch.len() < BATCH {
                let Some(span) = spans.recv().await else { break };
                batch.push(span);
            }
        };
        // Full, or not by then.
        let _ = tokio::time::timeout(WAIT, more).await;
        let count = batch.len();
        let sent = tokio::time::timeout(PATIENCE, post(&collector, &request(&batch))).await;
        let trouble = match sent {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        metrics.spans_dropped(count);
        tracing::debug!(%collector, trouble, count, "cannot send traces");
    }
}

fn request(spans: &[Value]) -> Value {
    let text = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    let version = env!("CARGO_PKG_VERSION");
    json!({"resourceSpans": [{
        "resource": {"attributes": [text("service.name", "holdfast"), text("service.version", version)]},
        "scopeSpans": [{"scope": {"name": "holdfast"}, "spans": spans}],
    }]})
}

/// One request on a connection of its own: at most one a second.
async fn post(collector: &Uri, body: &Value) -> std::io::Result<()> {
    let (host, body) = (collector.host().unwrap_or_default(), body.to_string());
    let port = collector.port_u16().unwrap_or(80);
    let mut stream = TcpStream::connect((host.trim_matches(['[', ']']), port)).await?;
    let path = collector.path();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await?;
    match answer.strip_prefix(b"HTTP/1.1 2").or(answer.strip_prefix(b"HTTP/1.0 2")) {
        Some(_) => Ok(()),
        None => Err(std::io::Error::other(String::from_utf8_lossy(&answer).into_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::sample::eviction;
    use holdfast_core::model::Operation;
    use holdfast_core::verdict::{AllowReason, Allowed, Verdict};
    use tokio::net::TcpListener;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn allow() -> Told {
        let reason = AllowReason::NotCovered;
        Told::of(&Verdict::Allow(Allowed { reason, uid: None, grants: Vec::new() }))
    }

    fn parent(header: &str) -> Option<Parent> {
        let mut headers = HeaderMap::new();
        headers.insert("traceparent", header.parse().unwrap());
        Parent::of(&headers)
    }

    /// What a collector was sent; it answers with this.
    async fn collector(answer: &'static str) -> (Uri, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let sent = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut text = vec![0; 65536];
            let mut length = 0;
            // To the end of the one span.
            while !text[..length].ends_with(b"}]}]}") {
                length += stream.read(&mut text[length..]).await.unwrap();
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8_lossy(&text[..length]).into_owned()
        });
        (format!("http://{address}/v1/traces").parse().unwrap(), sent)
    }

    #[test]
    fn parents_are_read_or_left_alone() {
        let read = parent(PARENT).unwrap();
        assert_eq!((read.span.as_str(), read.sampled), ("00f067aa0ba902b7", true));
        assert!(!parent(&PARENT.replace("-01", "-00")).unwrap().sampled);
        for wrong in ["", "00-x-y-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b-01"] {
            assert_eq!(parent(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_trace_is_the_callers_or_named_after_the_decision() {
        let asked = eviction(Operation::Evict, "p");
        let alone = span(&asked, &allow(), None, Duration::from_millis(1));
        assert_eq!(alone["traceId"], "3f2a91c07a0e00000000000000000000");
        assert_eq!(alone.get("parentSpanId"), None);
        let within = span(&asked, &allow(), parent(PARENT).as_ref(), Duration::from_millis(1));
        assert_eq!(within["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(
            (&within["parentSpanId"], &within["spanId"]),
            (&json!("00f067aa0ba902b7"), &json!("3f2a91c07a0e0000"))
        );
        assert_eq!(within["name"], "decide EVICT");
    }

    #[tokio::test]
    async fn decisions_reach_the_collector_and_what_does_not_is_counted() {
        let asked = eviction(Operation::Evict, "p");
        let took = Duration::from_millis(1);
        let (address, sent) = collector("HTTP/1.1 200 OK\r\n\r\n").await;
        let metrics = Metrics::new(0);
        let traces = Traces::start(address, metrics.clone());
        assert!(traces.decided(
            &asked,
            &allow(),
            parent(&PARENT.replace("-01", "-00")).as_ref(),
            took
        ));
        assert!(traces.decided(&asked, &allow(), None, took));
        let sent = sent.await.unwrap();
        assert!(sent.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{sent}");
        let (_, body) = sent.split_once("\r\n\r\n").unwrap();
        let body: Value = serde_json::from_str(body).unwrap();
        let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
        assert_eq!(spans.len(), 1, "one was not to be sampled");
        assert!(!metrics.render().contains("holdfast_spans_dropped_total 1"));

        let (address, refused) = collector("HTTP/1.1 503 Unavailable\r\n\r\n").await;
        let traces = Traces::start(address, metrics.clone());
        traces.decided(&asked, &allow(), None, took);
        refused.await.unwrap();
        while !metrics.render().contains("holdfast_spans_dropped_total 1") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(
            Traces::default().decided(&asked, &allow(), None, took),
            "off, and nothing is lost"
        );
    }
}
