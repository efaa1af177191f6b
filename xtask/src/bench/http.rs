//! An HTTP/1.1 client for load: blocking, with one kept connection per client, and with little overhead.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, bail};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use serde_json::Value;

/// Evictions may wait ten seconds for the webhook, and the machine may be busy.
const TIMEOUT: Duration = Duration::from_mins(1);

pub const JSON: &str = "application/json";
pub const MERGE_PATCH: &str = "application/merge-patch+json";

/// A server, and the identity of the client.
#[derive(Clone)]
pub struct Server {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
    token: Option<String>,
}

impl Server {
    /// Connects to the API server as one of localkube's users.
    pub fn of_kubeconfig(path: &Path) -> Result<Self> {
        let text = fs::read(path).with_context(|| format!("read {}", path.display()))?;
        let config: Value = serde_json::from_slice(&text)?;
        let cluster = &config["clusters"][0]["cluster"];
        let text =
            |value: &Value| value.as_str().map(str::to_owned).context("a kubeconfig of ours");
        let url = text(&cluster["server"])?;
        let address = url.strip_prefix("https://").context("an https address")?.parse()?;
        let ca = fs::read(text(&cluster["certificate-authority"])?).context("read the CA")?;
        let token = text(&config["users"][0]["user"]["token"])?;
        Ok(Self { address, tls: tls(&ca)?, token: Some(token) })
    }

    /// Connects to a server without a token, such as a webhook.
    pub fn at(address: SocketAddr, ca_pem: &[u8]) -> Result<Self> {
        Ok(Self { address, tls: tls(ca_pem)?, token: None })
    }

    pub fn client(&self) -> Client {
        Client { server: self.clone(), connection: None }
    }

    /// Opens a request whose answer does not end and returns its lines. It uses HTTP/1.0 to get the lines
    /// without chunks.
    pub fn stream(&self, path: &str) -> Result<(Connection, TcpStream)> {
        let (mut connection, socket) = self.connect()?;
        socket.set_read_timeout(None)?;
        let head = self.head("GET", path, "1.0", JSON, 0);
        connection.get_mut().write_all(head.as_bytes())?;
        let (code, _) = read_head(&mut connection)?;
        if code != 200 {
            bail!("watch {path}: {code}");
        }
        Ok((connection, socket))
    }

    fn connect(&self) -> Result<(Connection, TcpStream)> {
        let socket = TcpStream::connect(self.address).context("connect")?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.set_write_timeout(Some(TIMEOUT))?;
        let tls = ClientConnection::new(self.tls.clone(), ServerName::from(self.address.ip()))?;
        let other = socket.try_clone()?;
        Ok((BufReader::with_capacity(32 * 1024, StreamOwned::new(tls, socket)), other))
    }

    fn head(&self, method: &str, path: &str, http: &str, content: &str, length: usize) -> String {
        let authorization =
            self.token.as_ref().map_or(String::new(), |t| format!("Authorization: Bearer {t}\r\n"));
        format!(
            "{method} {path} HTTP/{http}\r\nHost: {}\r\n{authorization}Accept: {JSON}\r\n\
             Content-Type: {content}\r\nContent-Length: {length}\r\n\r\n",
            self.address
        )
    }
}

pub type Connection = BufReader<StreamOwned<ClientConnection, TcpStream>>;

/// One client, one connection.
pub struct Client {
    server: Server,
    connection: Option<Connection>,
}

pub struct Answer {
    pub code: u16,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Returns itself if the request succeeded.
    pub fn ok(self) -> Result<Self> {
        match self.code {
            200..300 => Ok(self),
            code => Err(anyhow!("{code}: {}", String::from_utf8_lossy(&self.body))),
        }
    }
}

impl Client {
    pub fn get(&mut self, path: &str) -> Result<Answer> {
        self.send("GET", path, JSON, b"")
    }

    pub fn post(&mut self, path: &str, body: &Value) -> Result<Answer> {
        self.send("POST", path, JSON, body.to_string().as_bytes())
    }

    pub fn put(&mut self, path: &str, body: &Value) -> Result<Answer> {
        self.send("PUT", path, JSON, body.to_string().as_bytes())
    }

    pub fn patch(&mut self, path: &str, body: &Value) -> Result<Answer> {
        self.send("PATCH", path, MERGE_PATCH, body.to_string().as_bytes())
    }

    pub fn delete(&mut self, path: &str) -> Result<Answer> {
        self.send("DELETE", path, JSON, br#"{"gracePeriodSeconds":0}"#)
    }

    /// Sends a request. After an error it is unknown whether the request was executed. The next request opens
    /// a new connection.
    pub fn send(&mut self, method: &str, path: &str, content: &str, body: &[u8]) -> Result<Answer> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.server.connect()?.0,
        };
        let head = self.server.head(method, path, "1.1", content, body.len());
        let request = [head.as_bytes(), body].concat();
        let answer =
            exchange(&mut connection, &request).with_context(|| format!("{method} {path}"));
        if answer.is_ok() {
            self.connection = Some(connection);
        }
        answer
    }
}

fn exchange(connection: &mut Connection, request: &[u8]) -> Result<Answer> {
    connection.get_mut().write_all(request)?;
    connection.get_mut().flush()?;
    let (code, length) = read_head(connection)?;
    let mut body = Vec::new();
    match length {
        Length::Known(length) => {
            body.resize(length, 0);
            connection.read_exact(&mut body)?;
        }
        Length::Chunked => while read_chunk(connection, &mut body)? {},
    }
    Ok(Answer { code, body })
}

enum Length {
    Known(usize),
    Chunked,
}

fn read_head(connection: &mut Connection) -> Result<(u16, Length)> {
    let mut line = String::new();
    connection.read_line(&mut line)?;
    let code = line.split(' ').nth(1).and_then(|code| code.parse().ok());
    let code = code.with_context(|| format!("no HTTP answer: {line:?}"))?;
    let mut length = Length::Known(0);
    loop {
        line.clear();
        connection.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = Length::Known(value.trim().parse()?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            length = Length::Chunked;
        }
    }
    Ok((code, length))
}

/// Reads a chunk. Returns true if another one follows.
fn read_chunk(connection: &mut Connection, body: &mut Vec<u8>) -> Result<bool> {
    let mut line = String::new();
    connection.read_line(&mut line)?;
    let size = usize::from_str_radix(line.trim_end(), 16).context("the size of a chunk")?;
    let start = body.len();
    body.resize(start + size, 0);
    connection.read_exact(&mut body[start..])?;
    line.clear();
    connection.read_line(&mut line)?;
    Ok(size > 0)
}

fn tls(ca_pem: &[u8]) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for cert in CertificateDer::pem_slice_iter(ca_pem) {
        roots.add(cert.context("read a CA certificate")?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
