//! A client that can reach Holdfast's port and is not kube-apiserver.

use std::time::Duration;

use holdfast_e2e::client::RUNTIME;
use holdfast_e2e::server::Server;
use holdfast_e2e::tls::connector;
use holdfast_e2e::world::World;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::remove;

const LIMIT: Duration = Duration::from_secs(10);
const MASTER: &str = "X-Remote-User: system:apiserver\r\nX-Remote-Group: system:masters\r\n";

pub fn only_the_front_proxy_is_believed() {
    let server = Server::start("trust").expect("it starts");
    let world = World::new("trust");
    let node = world.node("n");
    world.replica("a", 1, 1, &[&node]);
    let before = world.budget("job", json!({"minAvailable": 1, "budgetScope": "Workload"}));
    let budgets = format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets", world.namespace);
    let ask = |shown: Option<&str>, headers: &str| {
        let request = format!("GET {budgets} HTTP/1.0\r\nHost: holdfast\r\n{headers}\r\n");
        exchange(&server.webhook(), shown, &request)
    };

    // The port accepts every connection, and every client can set these headers.
    for (shown, headers) in [
        (None, ""),
        (None, MASTER),
        (Some("front-proxy-wrong-name"), MASTER),
        (Some("front-proxy-client"), ""),
    ] {
        let (code, body) = ask(shown, headers).expect("the connection is accepted");
        assert_eq!((code, &body["reason"]), (401, &json!("Unauthorized")), "{shown:?}: {body:#}");
    }
    assert!(
        ask(Some("front-proxy-wrong-ca"), MASTER).is_err(),
        "of an authority that is not its own"
    );
    for verb in ["PUT", "PATCH", "DELETE"] {
        let request = format!(
            "{verb} {budgets}/job/status HTTP/1.0\r\nHost: holdfast\r\n{MASTER}Content-Type: application/json\r\n\
             Content-Length: 2\r\n\r\n{{}}"
        );
        let (code, body) = exchange(&server.webhook(), None, &request).expect("it is answered");
        assert_eq!(code, 401, "{verb}: {body:#}");
    }
    assert_eq!(world.status("job"), before);

    // With the front proxy's certificate: users see budgets, and only the API server sees the gate.
    let names = |headers: &str| {
        let (code, body) = ask(Some("front-proxy-client"), headers).expect("it is accepted");
        assert_eq!(code, 200, "{body:#}");
        let items = body["items"].as_array().cloned().unwrap_or_default();
        items.iter().map(|item| item["metadata"]["name"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names("X-Remote-User: alice\r\n"), ["\"job\""]);
    let masters = "X-Remote-User: alice\r\nX-Remote-Group: system:masters\r\n";
    assert_eq!(names(masters), ["\"job\""]);
    assert_eq!(names("X-Remote-User: system:apiserver\r\n"), ["\"job\""]);
    assert_eq!(names(MASTER), ["\"HoldfastGate\""]);
    assert_eq!(world.healthy_replicas(), 1);
    remove(server);
}

/// Returns status code and body, or why there was no answer.
fn exchange(address: &str, shown: Option<&str>, request: &str) -> Result<(u16, Value), String> {
    let connector = connector(shown);
    let talk = async {
        let stream = TcpStream::connect(address).await.map_err(|e| e.to_string())?;
        let name = ServerName::try_from("localhost").map_err(|e| e.to_string())?;
        let mut stream = connector.connect(name, stream).await.map_err(|e| e.to_string())?;
        stream.write_all(request.as_bytes()).await.map_err(|e| e.to_string())?;
        let mut answer = Vec::new();
        // A peer may close without a TLS goodbye.
        let read = stream.read_to_end(&mut answer).await;
        let text = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| format!("{read:?}"))?;
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        let code = code.ok_or_else(|| head.to_owned())?;
        Ok((code, serde_json::from_str(body).unwrap_or_default()))
    };
    RUNTIME.block_on(async { tokio::time::timeout(LIMIT, talk).await }).expect("it ends in time")
}
