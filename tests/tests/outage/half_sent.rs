//! An admission request of which only a part has been sent.

use std::time::Duration;

use holdfast_e2e::client::RUNTIME;
use holdfast_e2e::tls::connector;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

const LIMIT: Duration = Duration::from_secs(20);

pub struct HalfSent {
    stream: TlsStream<TcpStream>,
    rest: Vec<u8>,
}

impl HalfSent {
    /// Sends the head and half of the body.
    pub fn begin(address: &str, namespace: &str, pod: &str) -> Self {
        let review = json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "6b9a3c1e-0000-4000-8000-e2e0e2e0e2e0",
                "resource": {"group": "", "version": "v1", "resource": "pods"},
                "subResource": "eviction",
                "operation": "CREATE",
                "namespace": namespace,
                "name": pod,
                "userInfo": {"username": "drainer"},
                "object": {
                    "apiVersion": "policy/v1",
                    "kind": "Eviction",
                    "metadata": {"name": pod, "namespace": namespace},
                },
            },
        });
        let body = review.to_string().into_bytes();
        let (first, rest) = body.split_at(body.len() / 2);
        let head = format!(
            "POST /evict HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        let connector = connector(None);
        let stream = RUNTIME.block_on(async {
            let stream = TcpStream::connect(address).await.expect("it listens");
            let name = ServerName::try_from("localhost").expect("it is a name");
            let mut stream =
                connector.connect(name, stream).await.expect("the certificate is good");
            stream.write_all(head.as_bytes()).await.expect("the server reads");
            stream.write_all(first).await.expect("the server reads");
            stream.flush().await.expect("the server reads");
            // Wait until it has arrived. Before that, the request is not in progress.
            tokio::time::sleep(Duration::from_millis(300)).await;
            stream
        });
        Self { stream, rest: rest.to_vec() }
    }

    /// Sends the rest and reads the answer.
    pub fn finish(mut self) -> Value {
        let answer = RUNTIME.block_on(async {
            self.stream.write_all(&self.rest).await.expect("the server still reads");
            self.stream.flush().await.expect("the server still reads");
            let mut answer = Vec::new();
            let read = self.stream.read_to_end(&mut answer);
            // A peer that closes without a TLS goodbye has still answered.
            let _ = tokio::time::timeout(LIMIT, read).await.expect("it answers and closes");
            String::from_utf8_lossy(&answer).into_owned()
        });
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }
}
