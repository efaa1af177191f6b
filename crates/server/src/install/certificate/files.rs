//! A certificate in files that other software renews, such as cert-manager.

use std::path::{Path, PathBuf};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::super::bundle;
use super::{Certificate, Validity, certified};
use crate::error::Error;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The certificates in PEM, the leaf first.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// The CA for every `caBundle`. None: other software writes the bundles.
    pub ca: Option<PathBuf>,
}

/// The content of the files. It is compared directly, because a mounted Secret changes by links, whose times
/// do not change.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Contents {
    certificate: String,
    key: String,
    ca: String,
}

impl Files {
    pub(super) async fn read(&self) -> Result<Contents, Error> {
        Ok(Contents {
            certificate: read(&self.certificate).await?,
            key: read(&self.key).await?,
            ca: match &self.ca {
                Some(path) => read(path).await?,
                None => String::new(),
            },
        })
    }

    /// Fails while the files do not match, for example while they are being written.
    pub(super) fn parse(&self, contents: &Contents) -> Result<Certificate, Error> {
        let unusable = |path: &Path, reason: String| {
            Error::Certificate(format!("{}: {reason}", path.display()))
        };
        let chain = CertificateDer::pem_slice_iter(contents.certificate.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| unusable(&self.certificate, error.to_string()))?;
        let validity = chain.first().and_then(Validity::of);
        let validity = validity
            .ok_or_else(|| unusable(&self.certificate, "there is no certificate".to_owned()))?;
        let key = PrivateKeyDer::from_pem_slice(contents.key.as_bytes())
            .map_err(|error| unusable(&self.key, error.to_string()))?;
        if let Some(path) = &self.ca {
            let count = bundle::certificates(&contents.ca).len();
            if !(1..=bundle::PER_INSTANCE_MAX).contains(&count) {
                let max = bundle::PER_INSTANCE_MAX;
                let reason = format!("there are {count} certificates; 1 to {max} can be used");
                return Err(unusable(path, reason));
            }
        }
        let key = certified(chain, key).map_err(|error| {
            let Error::Certificate(reason) = error else { return error };
            unusable(&self.key, reason)
        })?;
        Ok(Certificate { key, ca: contents.ca.clone(), validity })
    }
}

async fn read(path: &Path) -> Result<String, Error> {
    let text = tokio::fs::read_to_string(path).await;
    text.map_err(|error| Error::Certificate(format!("{}: {error}", path.display())))
}
