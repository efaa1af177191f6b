//! With the real listener: clients that are slow, many, or send too much.

use super::*;
use crate::decide::Decider;
use crate::runtime::Asked;
use crate::webhook;
use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

const SOON: Duration = Duration::from_secs(10);

struct Listening {
    address: SocketAddr,
    /// Nobody answers what comes here.
    evictions: mpsc::Receiver<Asked>,
    stop: watch::Sender<bool>,
}

async fn listen(bounds: Bounds) -> Listening {
    let (listener, address) = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let (asked, evictions) = mpsc::channel(1);
    let router = webhook::router(Decider::asking(asked)).route("/fine", get(|| async { "fine" }));
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(serve_within(bounds, listener, None, router, stopped));
    Listening { address, evictions, stop }
}

impl Listening {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Everything that comes back until the connection ends.
    async fn send(&self, text: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(text.as_bytes()).await.unwrap();
        rest(&mut stream).await
    }
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // It may be reset rather than closed if it has not read everything.
    let reading = tokio::time::timeout(SOON, stream.read_to_end(&mut bytes));
    let _ = reading.await.expect("the connection ends");
    String::from_utf8_lossy(&bytes).into_owned()
}

fn evict(length: usize) -> String {
    format!("POST /evict HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n")
}

const FINE: &str = "GET /fine HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn a_head_that_does_not_come_is_not_awaited_for_ever() {
    let listening = listen(Bounds { head: Duration::from_millis(300), ..BOUNDS }).await;
    for slow in ["", "POST /evict HTTP/1.1\r\nHost:"] {
        assert!(!listening.send(slow).await.contains("200"), "{slow}");
    }
    assert!(listening.send(FINE).await.ends_with("fine"));
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_awaited_for_ever() {
    let listening = listen(BOUNDS).await;
    let began = tokio::time::Instant::now();
    let answer = listening.send(&(evict(10) + "{")).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(began.elapsed() < Duration::from_secs(9), "before the webhook's timeout");
}

#[tokio::test]
async fn a_body_that_is_too_long_is_not_read() {
    let listening = listen(BOUNDS).await;
    let answer = listening.send(&evict(1024 * 1024 + 1)).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    // Of one that does not say how long it is, as much as is allowed.
    let mut stream = listening.connect().await;
    let head = "POST /evict HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("{:x}\r\n{}\r\n", 65536, " ".repeat(65536));
    for _ in 0..20 {
        if stream.write_all(chunk.as_bytes()).await.is_err() {
            break;
        }
    }
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
}

#[tokio::test]
async fn what_there_is_no_room_for_is_shed_and_never_allowed() {
    let listening = listen(BOUNDS).await;
    // As much as is taken at once, and none of it comes.
    let mut slow = Vec::new();
    for _ in 0..32 {
        let mut stream = listening.connect().await;
        stream.write_all(evict(1024 * 1024).as_bytes()).await.unwrap();
        slow.push(stream);
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let answer = listening.send(&(evict(2) + "{}")).await;
    assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
    drop(slow);
    // Their room is free again.
    let answer = listening.send(&(evict(2) + "{}").replace("Host: h", "Connection: close")).await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
}

#[tokio::test]
async fn who_stops_closes_no_idle_connection_while_requests_still_come() {
    let listening = listen(BOUNDS).await;
    let mut others = Vec::new();
    for _ in 0..40 {
        others.push(listening.connect().await);
    }
    let mut idle = listening.connect().await;
    let ask = FINE.replace("Connection: close\r\n", "");
    listening.stop.send(true).unwrap();
    tokio::time::sleep(NOTICE.saturating_sub(QUIET / 2)).await;
    for other in &mut others {
        other.write_all(ask.as_bytes()).await.unwrap();
        assert!(rest(other).await.ends_with("fine"));
        tokio::time::sleep(QUIET / 10).await;
    }
    idle.write_all(ask.as_bytes()).await.unwrap();
    let answer = rest(&mut idle).await;
    assert!(answer.contains("connection: close") && answer.ends_with("fine"), "{answer}");
    assert!(TcpStream::connect(listening.address).await.is_err(), "others are asked instead");
}

#[tokio::test]
async fn garbage_is_refused() {
    let listening = listen(BOUNDS).await;
    for body in ["", "{", "null", "[]", "\0\0\0\0", "{\"request\":null}"] {
        let head = evict(body.len()).replace("Host: h", "Connection: close");
        let answer = listening.send(&(head + body)).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{body}: {answer}");
    }
    let deep = "[".repeat(100_000);
    let head = evict(deep.len()).replace("Host: h", "Connection: close");
    assert!(listening.send(&(head + &deep)).await.starts_with("HTTP/1.1 400"));
    // Nor is another protocol spoken.
    let answer = listening.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    assert!(!answer.contains("200"), "{answer}");
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_others_to_end() {
    let listening = listen(Bounds { connections: 2, ..BOUNDS }).await;
    let (first, second) = (listening.connect().await, listening.connect().await);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut third = listening.connect().await;
    third.write_all(FINE.as_bytes()).await.unwrap();
    let mut byte = [0];
    let reading = tokio::time::timeout(Duration::from_millis(500), third.read(&mut byte));
    assert!(reading.await.is_err(), "it is not answered while the others are there");
    drop(first);
    assert!(rest(&mut third).await.ends_with("fine"));
    drop(second);
}

#[tokio::test]
async fn an_engine_that_does_not_answer_is_a_denial() {
    let mut listening = listen(BOUNDS).await;
    let review = r#"{"request":{"uid":"e1","resource":{"resource":"pods"},"subResource":"eviction",
        "namespace":"n","name":"p","userInfo":{"username":"drainer"},
        "object":{"kind":"Eviction","metadata":{"name":"p","namespace":"n"}}}}"#;
    let head = evict(review.len()).replace("Host: h", "Connection: close");
    // More than the queue holds; it is full for all of them.
    let requests: Vec<String> = (0..8).map(|_| format!("{head}{review}")).collect();
    let answers = futures_util::future::join_all(requests.iter().map(|text| listening.send(text)));
    let answers = tokio::time::timeout(SOON, answers).await.unwrap();
    for answer in answers {
        assert!(answer.contains(r#""allowed":false"#) && answer.contains("429"), "{answer}");
    }
    assert!(listening.evictions.try_recv().is_ok());
}
