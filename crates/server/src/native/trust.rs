//! Who is asking: only kube-apiserver's word counts, and only if it shows the front proxy's certificate.
//!
//! kube-apiserver has authenticated and authorized every request that it passes on, and names the user
//! in headers. Anybody could write those headers, so they are read only from a connection whose
//! certificate is of the authority, and has one of the names, that the cluster publishes in the
//! `ConfigMap` `kube-system/extension-apiserver-authentication`.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, StatusCode};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use serde::Deserialize;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use x509_parser::parse_x509_certificate;

use crate::api_client::{ApiClient, NoAnswer};
use crate::error::Error;
use crate::install::certificate::Served;
use crate::listen::PeerCertificate;

const PATH: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";

/// How often to see whether the cluster has another authority by now.
const REFRESH: Duration = Duration::from_secs(30);

/// What the cluster says about its front proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontProxy {
    /// PEM.
    authority: String,
    /// Common names; empty means any that the authority has signed.
    names: Vec<String>,
    user_headers: Vec<HeaderName>,
    group_headers: Vec<HeaderName>,
}

/// On whose behalf kube-apiserver asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub groups: Vec<String>,
}

/// Why a request is not listened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    #[error("no client certificate: policy/v1 is served to kube-apiserver only")]
    NoCertificate,
    #[error("the client certificate is not that of the front proxy")]
    WrongName,
    #[error("the front proxy names no user")]
    NoUser,
}

impl FrontProxy {
    pub async fn read(client: &ApiClient) -> Result<Self, Error> {
        let failed = |reason: String| Error::Refused {
            action: "read configmap/extension-apiserver-authentication in kube-system".to_owned(),
            reason,
        };
        let answer = client.get(PATH).await.map_err(|NoAnswer(reason)| failed(reason))?;
        if answer.code != StatusCode::OK {
            return Err(failed(answer.message()));
        }
        Self::of(&answer.body).map_err(failed)
    }

    pub fn of(config_map: &[u8]) -> Result<Self, String> {
        let map: ConfigMap = serde_json::from_slice(config_map).map_err(|e| e.to_string())?;
        Self::parse(map.data)
    }

    fn parse(data: Data) -> Result<Self, String> {
        let authority = data.authority.unwrap_or_default();
        if authority.is_empty() {
            return Err(
                "it names no requestheader-client-ca-file: kube-apiserver runs without aggregation"
                    .to_owned(),
            );
        }
        Ok(Self {
            authority,
            names: list(data.names.as_deref())?,
            user_headers: headers(data.user_headers.as_deref())?,
            group_headers: headers(data.group_headers.as_deref())?,
        })
    }

    /// Accepts clients without a certificate too: the webhook is called by such.
    pub fn verifier(&self) -> Result<Arc<dyn ClientCertVerifier>, Error> {
        let failed = |reason: String| Error::Certificate(format!("of the front proxy: {reason}"));
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(self.authority.as_bytes()) {
            let certificate = certificate.map_err(|e| failed(e.to_string()))?;
            roots.add(certificate).map_err(|e| failed(e.to_string()))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .allow_unauthenticated()
            .build()
            .map_err(|e| failed(e.to_string()))
    }

    pub fn user(&self, peer: &PeerCertificate, headers: &HeaderMap) -> Result<User, Distrust> {
        let Some(certificate) = &peer.0 else { return Err(Distrust::NoCertificate) };
        let is_named = |name: &String| self.names.contains(name);
        if !self.names.is_empty() && !common_names(certificate).iter().any(is_named) {
            return Err(Distrust::WrongName);
        }
        let text = |value: &http::HeaderValue| value.to_str().map(str::to_owned).ok();
        let named = self.user_headers.iter().find_map(|name| headers.get(name).and_then(text));
        let Some(name) = named.filter(|name| !name.is_empty()) else {
            return Err(Distrust::NoUser);
        };
        let groups = (self.group_headers.iter())
            .flat_map(|name| headers.get_all(name).iter().filter_map(text))
            .collect();
        Ok(User { name, groups })
    }
}

/// What is believed now, and the acceptor that goes with it; both change when the cluster's word does.
pub struct Trust {
    pub front_proxy: watch::Sender<Arc<FrontProxy>>,
    pub acceptor: watch::Sender<TlsAcceptor>,
}

impl Trust {
    /// Follows the cluster's word for ever.
    pub async fn keep(self, client: ApiClient, served: Arc<Served>) {
        loop {
            tokio::time::sleep(REFRESH).await;
            let renewed = match FrontProxy::read(&client).await {
                Ok(now) if now == **self.front_proxy.borrow() => continue,
                Ok(now) => now
                    .verifier()
                    .and_then(|verifier| Ok((Arc::new(now), served.acceptor(Some(verifier))?))),
                Err(error) => Err(error),
            };
            match renewed {
                Ok((now, acceptor)) => {
                    tracing::info!("the cluster has another front proxy authority");
                    self.acceptor.send_replace(acceptor);
                    self.front_proxy.send_replace(now);
                }
                // What was believed stays: without it nobody could be served at all.
                Err(error) => tracing::debug!(%error, "cannot refresh the front proxy authority"),
            }
        }
    }
}

#[derive(Deserialize)]
struct ConfigMap {
    #[serde(default)]
    data: Data,
}

#[derive(Default, Deserialize)]
struct Data {
    #[serde(rename = "requestheader-client-ca-file")]
    authority: Option<String>,
    #[serde(rename = "requestheader-allowed-names")]
    names: Option<String>,
    #[serde(rename = "requestheader-username-headers")]
    user_headers: Option<String>,
    #[serde(rename = "requestheader-group-headers")]
    group_headers: Option<String>,
}

fn headers(text: Option<&str>) -> Result<Vec<HeaderName>, String> {
    let parse = |name: &String| name.parse().map_err(|_| format!("{name:?} is no header name"));
    list(text)?.iter().map(parse).collect()
}

/// A JSON array of strings, as kube-apiserver writes its lists of flags.
fn list(text: Option<&str>) -> Result<Vec<String>, String> {
    let text = text.filter(|text| !text.is_empty()).unwrap_or("[]");
    serde_json::from_str(text).map_err(|e| format!("{text:?} is no list: {e}"))
}

fn common_names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, parsed)) = parse_x509_certificate(certificate) else { return Vec::new() };
    let names = parsed.subject().iter_common_name();
    names.filter_map(|name| name.as_str().ok().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair};

    fn front_proxy(names: &str) -> FrontProxy {
        let data = Data {
            authority: Some("pem".to_owned()),
            names: Some(names.to_owned()),
            user_headers: Some(r#"["X-Remote-User"]"#.to_owned()),
            group_headers: Some(r#"["X-Remote-Group"]"#.to_owned()),
        };
        FrontProxy::parse(data).unwrap()
    }

    fn peer(common_name: &str) -> PeerCertificate {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, common_name);
        let key = KeyPair::generate().unwrap();
        PeerCertificate(Some(params.self_signed(&key).unwrap().der().clone()))
    }

    fn asked(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn headers_are_believed_from_the_front_proxy_alone() {
        let proxy = front_proxy(r#"["front-proxy-client"]"#);
        let headers =
            asked(&[("x-remote-user", "alice"), ("x-remote-group", "a"), ("x-remote-group", "b")]);
        let alice = User { name: "alice".to_owned(), groups: vec!["a".to_owned(), "b".to_owned()] };
        assert_eq!(proxy.user(&peer("front-proxy-client"), &headers), Ok(alice));
        assert_eq!(proxy.user(&peer("mallory"), &headers), Err(Distrust::WrongName));
        assert_eq!(proxy.user(&PeerCertificate(None), &headers), Err(Distrust::NoCertificate));
        let nobody = asked(&[("x-remote-user", "")]);
        assert_eq!(proxy.user(&peer("front-proxy-client"), &nobody), Err(Distrust::NoUser));
        assert_eq!(
            proxy.user(&peer("front-proxy-client"), &HeaderMap::new()),
            Err(Distrust::NoUser)
        );
    }

    #[test]
    fn without_names_the_authority_is_enough() {
        let headers = asked(&[("x-remote-user", "alice")]);
        assert!(front_proxy("[]").user(&peer("any"), &headers).is_ok());
    }

    #[test]
    fn a_cluster_without_aggregation_is_told() {
        let error = FrontProxy::parse(Data::default()).unwrap_err();
        assert!(error.contains("requestheader-client-ca-file"), "{error}");
    }
}
