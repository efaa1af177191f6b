//! The webhook's certificate, made at every start.
//!
//! Nothing is stored: the key never leaves the process, and every start adds the new CA to those of the
//! other instances (`bundle`). A process that runs for a year has to be restarted before the
//! certificate ends.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::danger::ClientCertVerifier;
use tokio_rustls::TlsAcceptor;

use crate::error::Error;

pub struct Certificate {
    leaf: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    /// PEM, for `caBundle`.
    pub ca: String,
}

impl Certificate {
    /// For localhost, 127.0.0.1 and the names or addresses that the API server calls us by.
    pub fn make(hosts: &[String]) -> Result<Self, Error> {
        let failed = |error: rcgen::Error| Error::Certificate(error.to_string());
        let ca_key = KeyPair::generate().map_err(failed)?;
        let mut ca_params = params(Vec::new(), "holdfast CA").map_err(failed)?;
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
        let mut leaf_params = params(names, "holdfast").map_err(failed)?;
        leaf_params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let leaf = leaf_params.signed_by(&key, &issuer).map_err(failed)?;

        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Ok(Self { leaf: leaf.der().clone(), key, ca })
    }

    /// Takes connections of clients that show no certificate, and with `clients` of those too that
    /// show one which this verifier accepts.
    pub fn acceptor(
        &self,
        clients: Option<Arc<dyn ClientCertVerifier>>,
    ) -> Result<TlsAcceptor, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| {
                let builder = match clients {
                    Some(verifier) => builder.with_client_cert_verifier(verifier),
                    None => builder.with_no_client_auth(),
                };
                builder.with_single_cert(vec![self.leaf.clone()], self.key.clone_key())
            })
            .map_err(|error| Error::Certificate(error.to_string()))?;
        // Not h2, which kube-apiserver would choose: it has one connection then, so that one instance
        // gets every call, and one that hangs holds up all of them until its connection is given up.
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(tls)))
    }
}

/// Valid from yesterday, for clocks that differ, for a year.
fn params(names: Vec<String>, common_name: &str) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    let day = |days: i64| {
        let span = jiff::Span::new().days(days);
        let date = today.checked_add(span).unwrap_or(today);
        let [month, day] = [date.month(), date.day()].map(i8::unsigned_abs);
        date_time_ymd(date.year().into(), month, day)
    };
    params.not_before = day(-1);
    params.not_after = day(365);
    params.distinguished_name.push(DnType::CommonName, common_name);
    Ok(params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_can_be_made_for_any_address() {
        for host in ["127.0.0.1", "::1", "10.1.2.3", "holdfast.holdfast-system.svc"] {
            let certificate = Certificate::make(&[host.to_owned()]).unwrap();
            certificate.acceptor(None).unwrap();
            assert!(certificate.ca.starts_with("-----BEGIN CERTIFICATE-----"));
        }
    }
}
