//! TLS connections to Holdfast's port, as the API server opens them, and in other ways.

use std::path::Path;
use std::sync::Arc;

use k8s_openapi::ByteString;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio_rustls::TlsConnector;

use crate::fixture::fixture;

/// Trusts the CA that the API server trusts. With `shown` it presents that certificate of localkube.
#[track_caller]
pub fn connector(shown: Option<&str>) -> TlsConnector {
    let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/holdfast";
    let webhook = fixture().admin.get(path).ok().body;
    let bundle: Value = webhook["webhooks"][0]["clientConfig"]["caBundle"].clone();
    let ByteString(pem) = serde_json::from_value(bundle).expect("the bundle is in base64");
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        roots.add(certificate.expect("the bundle is PEM")).expect("it is a certificate");
    }
    let builder = ClientConfig::builder().with_root_certificates(roots);
    let config = match shown {
        None => builder.with_no_client_auth(),
        Some(name) => {
            let (certificate, key) = pair(&fixture().dir.join("pki"), name);
            builder.with_client_auth_cert(vec![certificate], key).expect("they belong together")
        }
    };
    TlsConnector::from(Arc::new(config))
}

fn pair(pki: &Path, name: &str) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let file = |extension: &str| pki.join(format!("{name}.{extension}"));
    let certificate = CertificateDer::from_pem_file(file("crt")).expect("localkube has made it");
    let key = PrivateKeyDer::from_pem_file(file("key")).expect("localkube has made it");
    (certificate, key)
}
