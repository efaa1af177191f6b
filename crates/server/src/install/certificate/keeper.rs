//! Renews the certificate: executes the steps of `rotation`.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;

use super::super::bundle::Trusted;
use super::super::native::api_service::{Place, Standing, take_over};
use super::super::registration::{Registration, State};
use super::files::Contents;
use super::rotation::{Now, Rotation, Step};
use super::{Certificate, CertificateOptions, Served};
use crate::api_client::ApiClient;
use crate::error::Error;
use crate::metrics::Metrics;

/// An object with a `caBundle` by which API servers verify this instance.
#[derive(Debug)]
pub enum Bearer {
    Entry(Registration),
    ApiService(ApiClient, Place),
}

pub struct Keeper {
    options: CertificateOptions,
    hosts: Vec<String>,
    current: Certificate,
    /// The next certificate, which is announced but not served yet.
    next: Option<Certificate>,
    /// The CA of the certificate that was served before, until it is removed from the bundles.
    previous_ca: String,
    rotation: Rotation,
    served: Arc<Served>,
    trusted: watch::Sender<Trusted>,
    /// The content of the files when they were last read.
    contents: Option<Contents>,
    /// The certificate from the files, if it is not announced yet.
    read: Option<Certificate>,
    /// The current problem, to log it only once.
    trouble: Option<String>,
    started: Instant,
}

impl Keeper {
    pub async fn new(options: CertificateOptions, hosts: Vec<String>) -> Result<Self, Error> {
        let (current, lifetime, contents) = match &options {
            CertificateOptions::Own { lifetime } => {
                let own = Certificate::make(&hosts, Timestamp::now(), *lifetime)?;
                (own, Some(*lifetime), None)
            }
            CertificateOptions::Files(files) => {
                let contents = files.read().await?;
                (files.parse(&contents)?, None, Some(contents))
            }
        };
        Ok(Self {
            options,
            hosts,
            next: None,
            previous_ca: String::new(),
            read: None,
            rotation: Rotation::new(current.validity, lifetime),
            served: Arc::new(Served::new(&current)),
            trusted: watch::Sender::new(Trusted { cas: current.ca.clone(), ..Trusted::default() }),
            current,
            contents,
            trouble: None,
            started: Instant::now(),
        })
    }

    /// Returns the handle to the certificate that new connections get.
    pub fn served(&self) -> Arc<Served> {
        self.served.clone()
    }

    /// Returns a channel with the CAs that API servers must trust.
    pub fn trusted(&self) -> watch::Receiver<Trusted> {
        self.trusted.subscribe()
    }

    /// Renews the certificate until the task is aborted.
    pub async fn keep(mut self, bearers: Vec<Bearer>, metrics: Metrics) {
        loop {
            metrics.certificate_until(self.current.validity.until.as_second());
            tokio::time::sleep(self.rotation.pause()).await;
            let trouble = self.step(&bearers).await.err();
            if let Some(reason) = &trouble
                && self.trouble != trouble
            {
                tracing::warn!(reason, until = %self.current.validity.until, "cannot renew the certificate");
            }
            self.trouble = trouble;
        }
    }

    async fn step(&mut self, bearers: &[Bearer]) -> Result<(), String> {
        self.read().await.map_err(|error| error.to_string())?;
        match self.rotation.step(self.now(), self.read.is_some()) {
            Step::Wait => Ok(()),
            Step::Renew => {
                let next = match (&self.options, self.read.take()) {
                    (_, Some(read)) => read,
                    (CertificateOptions::Own { lifetime }, None) => {
                        Certificate::make(&self.hosts, Timestamp::now(), *lifetime)
                            .map_err(|error| error.to_string())?
                    }
                    (CertificateOptions::Files(_), None) => return Ok(()),
                };
                self.rotation.announce(next.validity);
                self.trust([&self.current.ca, &next.ca], "");
                self.next = Some(next);
                self.look(bearers).await
            }
            Step::Look => self.look(bearers).await,
            Step::Retire => {
                let previous = std::mem::take(&mut self.previous_ca);
                // Other instances may still serve a certificate from files. Its CA stays in the bundles until
                // it expires.
                let own = matches!(self.options, CertificateOptions::Own { .. });
                self.trust([&self.current.ca, ""], if own { &previous } else { "" });
                // Publish at once. The registration task would do it later.
                publish(bearers).await.map(drop)
            }
        }
    }

    /// Serves the next certificate if its CA has been published long enough.
    async fn look(&mut self, bearers: &[Bearer]) -> Result<(), String> {
        let everywhere = publish(bearers).await;
        if self.rotation.looked(self.now(), everywhere == Ok(true))
            && let Some(next) = self.next.take()
        {
            self.served.replace(&next);
            let previous = std::mem::replace(&mut self.current, next);
            self.previous_ca = previous.ca;
            tracing::info!(until = %self.current.validity.until, "another certificate is served");
        }
        everywhere.map(drop)
    }

    fn trust(&self, cas: [&str; 2], retired: &str) {
        self.trusted.send_replace(Trusted { cas: cas.concat(), retired: retired.to_owned() });
    }

    async fn read(&mut self) -> Result<(), Error> {
        let CertificateOptions::Files(files) = &self.options else { return Ok(()) };
        let contents = files.read().await?;
        if self.contents.as_ref() != Some(&contents) {
            self.read = Some(files.parse(&contents)?);
            self.contents = Some(contents);
        }
        Ok(())
    }

    fn now(&self) -> Now {
        Now { wall: Timestamp::now(), uptime: self.started.elapsed() }
    }
}

/// Changes every bundle that lacks the CA. Returns true if no bundle lacked it.
async fn publish(bearers: &[Bearer]) -> Result<bool, String> {
    let mut everywhere = true;
    for bearer in bearers {
        everywhere &= bearer.publish().await?;
    }
    Ok(everywhere)
}

impl Bearer {
    async fn publish(&self) -> Result<bool, String> {
        match self {
            // If there is no registration, no API server calls this instance through it.
            Self::Entry(registration) => {
                registration.check(|_| {}).await.map(|state| state != State::Readded)
            }
            Self::ApiService(client, place) => {
                let ours = Standing::read(client).await.map_err(|error| error.to_string())?;
                if ours.is_ours() {
                    take_over(client, place).await.map_err(|error| error.to_string())?;
                }
                Ok(true)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::super::Files;
    use super::*;

    const LIFETIME: Duration = Duration::from_hours(1);

    /// A directory for this test, removed at its end.
    struct Dir(std::path::PathBuf);

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn write(dir: &Path, name: &str, text: &str) {
        std::fs::write(dir.join(name), text).unwrap();
    }

    /// Returns a self-signed certificate and its key.
    fn pair() -> (String, String) {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    fn leaf(served: &Served) -> Vec<u8> {
        let key = served.0.read().unwrap();
        key.end_entity_cert().unwrap().to_vec()
    }

    #[tokio::test(start_paused = true)]
    async fn files_are_served_as_they_change_and_stay_as_they_were_while_they_are_wrong() {
        let dir = Dir(std::env::temp_dir().join(format!("holdfast-tls-{}", std::process::id())));
        std::fs::create_dir_all(&dir.0).unwrap();
        let path = |name: &str| dir.0.join(name);
        let files = Files { certificate: path("crt"), key: path("key"), ca: Some(path("ca")) };
        let options = CertificateOptions::Files(files);
        assert!(Keeper::new(options.clone(), Vec::new()).await.is_err(), "there are none");
        let ((one, one_key), (two, two_key)) = (pair(), pair());
        for (name, text) in [("crt", &one), ("key", &one_key), ("ca", &one)] {
            write(&dir.0, name, text);
        }
        let keeper = Keeper::new(options, Vec::new()).await.unwrap();
        let (served, trusted) = (keeper.served(), keeper.trusted());
        let first = leaf(&served);
        let metrics = Metrics::new(0);
        let task = tokio::spawn(keeper.keep(Vec::new(), metrics.clone()));
        let pass = || tokio::time::sleep(Duration::from_mins(2));

        // A half-written state: the key does not belong to the certificate.
        write(&dir.0, "crt", &two);
        write(&dir.0, "ca", &two);
        pass().await;
        assert_eq!(leaf(&served), first);
        assert_eq!(trusted.borrow().cas, one);

        write(&dir.0, "key", &two_key);
        pass().await;
        assert_ne!(leaf(&served), first);
        // Another instance may not have read it yet.
        assert_eq!(trusted.borrow().cas, two);
        assert_eq!(trusted.borrow().retired, "");
        assert!(metrics.render().contains("holdfast_certificate_expiry_timestamp_seconds "));
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn both_are_known_from_before_the_next_is_served_until_after_it_is() {
        let options = CertificateOptions::Own { lifetime: LIFETIME };
        let mut keeper = Keeper::new(options, Vec::new()).await.unwrap();
        let (served, trusted) = (keeper.served(), keeper.trusted());
        let (first, old) = (leaf(&served), trusted.borrow().cas.clone());
        // As after a long sleep of the machine: the certificate has expired.
        let long_ago = Timestamp::now() - jiff::SignedDuration::from_hours(48);
        let past = Certificate::make(&[], long_ago, LIFETIME).unwrap();
        keeper.rotation = Rotation::new(past.validity, Some(LIFETIME));

        keeper.step(&[]).await.unwrap();
        assert_eq!(leaf(&served), first, "not before it is known");
        let both = trusted.borrow().cas.clone();
        assert!(both.starts_with(&old) && both.len() > old.len());
        tokio::time::sleep(Duration::from_secs(1)).await;
        keeper.step(&[]).await.unwrap();
        assert_ne!(leaf(&served), first);
        assert_eq!(trusted.borrow().cas, both, "handshakes may be under way");
        tokio::time::sleep(Duration::from_mins(1)).await;
        keeper.step(&[]).await.unwrap();
        assert_eq!(trusted.borrow().retired, old);
        assert_eq!(format!("{old}{}", trusted.borrow().cas), both);
    }
}
