//! The certificate by which API servers verify Holdfast: created by Holdfast, or in files of other software.
//!
//! ```text
//!   rotation: computes the next step, by the wall clock     keeper: creates or reads, publishes, serves, removes
//! ```
//!
//! Holdfast stores none of its own certificates. A CA signs one leaf, and its key is dropped after that. Every
//! instance has its own CA, beside those of the other instances in each `caBundle` (`bundle`).

mod files;
pub mod keeper;
mod rotation;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

use crate::error::Error;
pub use files::Files;
pub use rotation::Validity;

/// Certificates are valid from this long before their creation, because clocks differ.
const SKEW: SignedDuration = SignedDuration::from_hours(24);

/// The source of the certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateOptions {
    /// Holdfast creates its certificates. Each is valid for this time.
    Own { lifetime: Duration },
    /// Other software provides the files, for example cert-manager.
    Files(Files),
}

#[derive(Clone, Debug)]
pub struct Certificate {
    key: Arc<CertifiedKey>,
    /// The CA for `caBundle`, in PEM.
    pub ca: String,
    pub validity: Validity,
}

impl Certificate {
    /// Creates a certificate for localhost, 127.0.0.1 and the names or addresses at which the API server
    /// calls Holdfast.
    pub fn make(hosts: &[String], now: Timestamp, lifetime: Duration) -> Result<Self, Error> {
        let failed = |error: rcgen::Error| Error::Certificate(error.to_string());
        let lifetime = SignedDuration::try_from(lifetime).unwrap_or(SignedDuration::MAX);
        // Limit the time to the range of the calendar.
        let until = now.saturating_add(lifetime).unwrap_or(Timestamp::MAX);
        let validity = Validity { from: now.saturating_sub(SKEW).unwrap_or(Timestamp::MIN), until };
        let ca_key = KeyPair::generate().map_err(failed)?;
        let mut ca_params = params(Vec::new(), "holdfast CA", validity).map_err(failed)?;
        ca_params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        ca_params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let ca = ca_params.self_signed(&ca_key).map_err(failed)?.pem();
        let issuer = Issuer::new(ca_params, ca_key);

        let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        for host in hosts {
            if !names.contains(host) {
                names.push(host.clone());
            }
        }
        let key = KeyPair::generate().map_err(failed)?;
        let mut leaf_params = params(names, "holdfast", validity).map_err(failed)?;
        leaf_params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let leaf = leaf_params.signed_by(&key, &issuer).map_err(failed)?;

        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Ok(Self { key: certified(vec![leaf.der().clone()], key)?, ca, validity })
    }
}

/// Fails if the key does not belong to the first certificate.
fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<CertifiedKey>, Error> {
    let provider = rustls::crypto::ring::default_provider();
    let certified = CertifiedKey::from_der(chain, key, &provider);
    certified.map(Arc::new).map_err(|error| Error::Certificate(error.to_string()))
}

fn params(
    names: Vec<String>,
    common_name: &str,
    validity: Validity,
) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    let date = |time: Timestamp| {
        date_time_ymd(1970, 1, 1) + Duration::from_secs(time.as_second().try_into().unwrap_or(0))
    };
    params.not_before = date(validity.from);
    params.not_after = date(validity.until);
    params.distinguished_name.push(DnType::CommonName, common_name);
    Ok(params)
}

/// The certificate that all acceptors show to new connections.
#[derive(Debug)]
pub struct Served(RwLock<Arc<CertifiedKey>>);

impl Served {
    fn new(certificate: &Certificate) -> Self {
        Self(RwLock::new(certificate.key.clone()))
    }

    fn replace(&self, certificate: &Certificate) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = certificate.key.clone();
    }

    /// Accepts clients without a certificate. With `clients` it also accepts clients with a certificate that
    /// this verifier accepts.
    pub fn acceptor(
        self: &Arc<Self>,
        clients: Option<Arc<dyn ClientCertVerifier>>,
    ) -> Result<TlsAcceptor, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Certificate(error.to_string()))?;
        let builder = match clients {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let mut tls = builder.with_cert_resolver(self.clone());
        // Do not offer h2. kube-apiserver would choose it and then use one connection, so one instance would
        // get every call. If that instance hangs, all calls wait until the connection times out.
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(tls)))
    }
}

impl ResolvesServerCert for Served {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_can_be_made_for_any_address_and_time() {
        let now = Timestamp::now();
        for host in ["127.0.0.1", "::1", "10.1.2.3", "holdfast.holdfast-system.svc"] {
            let lifetime = Duration::from_secs(10);
            let certificate = Certificate::make(&[host.to_owned()], now, lifetime).unwrap();
            Arc::new(Served::new(&certificate)).acceptor(None).unwrap();
            assert!(certificate.ca.starts_with("-----BEGIN CERTIFICATE-----"));
            // The times in the certificate.
            let read = Validity::of(certificate.key.end_entity_cert().unwrap()).unwrap();
            assert_eq!(read.until.as_second(), certificate.validity.until.as_second());
            assert_eq!(read.from.as_second(), certificate.validity.from.as_second());
        }
        let hundred_years = Duration::from_hours(100 * 365 * 24);
        assert!(Certificate::make(&[], now, hundred_years).is_ok());
    }
}
