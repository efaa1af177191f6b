//! Checks whether a component is ready, with a minimal HTTP client: one GET, one status.

use std::{
    fs::File,
    io::{BufReader, ErrorKind, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::Path,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Probe {
    pub port: u16,
    pub path: String,
    pub scheme: Scheme,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scheme {
    Http,
    Https,
}

/// The trusted authorities of the components' certificates.
pub struct Prober(Arc<ClientConfig>);

impl Prober {
    pub fn new(ca: &Path) -> Result<Self> {
        let file = File::open(ca).with_context(|| format!("open {}", ca.display()))?;
        let mut roots = RootCertStore::empty();
        for cert in CertificateDer::pem_reader_iter(BufReader::new(file)) {
            roots.add(cert.with_context(|| format!("read {}", ca.display()))?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }

    /// Fails with the reason if the component does not answer 200.
    pub fn check(&self, probe: &Probe) -> Result<()> {
        const TIMEOUT: Duration = Duration::from_secs(2);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, probe.port));
        let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let answer = match probe.scheme {
            Scheme::Http => get(stream, &probe.path)?,
            Scheme::Https => {
                let server = ServerName::from(address.ip());
                let tls = ClientConnection::new(self.0.clone(), server)?;
                get(StreamOwned::new(tls, stream), &probe.path)?
            }
        };
        let status = answer.split(' ').nth(1).unwrap_or_default();
        if status != "200" {
            bail!("{} answers: {}", probe.path, answer.trim());
        }
        Ok(())
    }
}

fn get(mut stream: impl Read + Write, path: &str) -> Result<String> {
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        // A server may close a TLS connection without a goodbye. The answer is complete.
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {}
        Err(error) => return Err(error.into()),
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
