//! The CA certificates by which the API server verifies the instances: the CAs of all instances in one
//! bundle.
//!
//! Every instance creates its own CA, so no key is stored or shared, and adds its CA to the bundle. It
//! removes its own old CAs. CAs of instances that no longer run are removed when the bundle is full.

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::parse_x509_certificate;

/// Limit of CAs of one instance: the served one and the next one.
pub const PER_INSTANCE_MAX: usize = 2;

/// The number of newest CAs to keep: those of the eight instances that may run, and of some earlier ones.
pub const CERTIFICATES_MAX: usize = 24;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// The changes that this instance wants in a bundle. PEM with any number of certificates.
#[derive(Clone, Debug, Default)]
pub struct Trusted {
    pub cas: String,
    /// CAs that this instance no longer serves.
    pub retired: String,
}

/// Returns the bundle with this instance's CAs, oldest first. It returns the same text if nothing changes.
pub fn merged(bundle: &str, trusted: &Trusted, now: Timestamp) -> String {
    let retired: Vec<_> = certificates(&trusted.retired).into_iter().filter_map(der).collect();
    let is_retired = |pem: &str| der(pem).is_some_and(|der| retired.contains(&der));
    let held = certificates(bundle);
    if contains(bundle, &trusted.cas) && !held.iter().any(|pem| is_retired(pem)) {
        return bundle.to_owned();
    }
    let keep = |pem: &&str| is_in_force(pem, now) && !is_retired(pem);
    let mut all: Vec<&str> = held.into_iter().filter(keep).collect();
    all.extend(certificates(&trusted.cas).into_iter().filter(|pem| !contains(bundle, pem)));
    let newest = all.len().saturating_sub(CERTIFICATES_MAX);
    all[newest..].iter().flat_map(|pem| [pem, "\n"]).collect()
}

pub fn contains(bundle: &str, cas: &str) -> bool {
    let held: Vec<_> = certificates(bundle).into_iter().filter_map(der).collect();
    certificates(cas).into_iter().filter_map(der).all(|own| held.contains(&own))
}

/// Returns the text of each certificate, with its markers.
pub fn certificates(bundle: &str) -> Vec<&str> {
    let whole = |begin: usize| {
        let text = &bundle[begin..];
        text.find(END).map(|end| &text[..end + END.len()])
    };
    bundle.match_indices(BEGIN).filter_map(|(begin, _)| whole(begin)).collect()
}

/// Returns true if the certificate can be read and has not expired. An API server cannot use others either.
fn is_in_force(pem: &str, now: Timestamp) -> bool {
    der(pem).is_some_and(|der| {
        parse_x509_certificate(&der)
            .is_ok_and(|(_, parsed)| parsed.validity().not_after.timestamp() > now.as_second())
    })
}

fn der(pem: &str) -> Option<CertificateDer<'static>> {
    CertificateDer::from_pem_slice(pem.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::install::certificate::Certificate;

    fn ca() -> String {
        let lifetime = Duration::from_hours(24);
        Certificate::make(&["127.0.0.1".to_owned()], Timestamp::now(), lifetime).unwrap().ca
    }

    fn with(bundle: &str, ca: &str, now: Timestamp) -> String {
        merged(bundle, &Trusted { cas: ca.to_owned(), ..Trusted::default() }, now)
    }

    #[test]
    fn every_instance_finds_its_own_beside_the_others() {
        let now = Timestamp::now();
        let (a, b) = (ca(), ca());
        let alone = with("", &a, now);
        assert!(contains(&alone, &a) && !contains(&alone, &b));
        let both = with(&alone, &b, now);
        assert!(contains(&both, &a) && contains(&both, &b));
        assert_eq!(with(&both, &a, now), both, "nothing to add");
        assert_eq!(certificates(&both).len(), 2);
    }

    #[test]
    fn one_follows_another_and_those_of_others_stay() {
        let now = Timestamp::now();
        let (other, old, new) = (ca(), ca(), ca());
        let before = with(&with("", &other, now), &old, now);
        let during = with(&before, &format!("{old}{new}"), now);
        assert_eq!(certificates(&during).len(), 3);
        let trusted = Trusted { cas: new.clone(), retired: old.clone() };
        let after = merged(&during, &trusted, now);
        assert_eq!(certificates(&after).len(), 2);
        assert!(contains(&after, &other) && contains(&after, &new));
        assert_eq!(merged(&after, &trusted, now), after, "nothing to take out");
    }

    #[test]
    fn the_oldest_and_the_expired_fall_out() {
        let now = Timestamp::now();
        let all: Vec<String> = (0..=CERTIFICATES_MAX).map(|_| ca()).collect();
        let bundle = all.iter().fold(String::new(), |bundle, ca| with(&bundle, ca, now));
        assert_eq!(certificates(&bundle).len(), CERTIFICATES_MAX);
        assert!(!contains(&bundle, &all[0]) && contains(&bundle, &all[1]));

        let in_two_days = now + jiff::SignedDuration::from_hours(2 * 24);
        assert_eq!(certificates(&with(&bundle, &all[0], in_two_days)).len(), 1);
        let garbled = format!("{BEGIN}\nnothing\n{END}\n");
        assert_eq!(certificates(&with(&garbled, &all[0], now)).len(), 1);
    }
}
