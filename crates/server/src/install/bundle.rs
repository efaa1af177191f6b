//! The certificates by which the API server knows the instances: one CA of each, side by side.
//!
//! Every instance makes its own at start, so no key is ever stored or shared, and adds it to what is
//! there. Those of instances that are gone fall out as new ones come.

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::parse_x509_certificate;

/// The newest that are kept: of the instances that run, and of some that ran.
pub const CERTIFICATES_MAX: usize = 8;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// The bundle with this CA in it, oldest first. As it was, if it holds the CA already.
pub fn merged(bundle: &str, ca: &str, now: Timestamp) -> String {
    if contains(bundle, ca) {
        return bundle.to_owned();
    }
    let mut all: Vec<&str> =
        certificates(bundle).into_iter().filter(|pem| is_in_force(pem, now)).collect();
    all.extend(certificates(ca));
    let newest = all.len().saturating_sub(CERTIFICATES_MAX);
    all[newest..].iter().flat_map(|pem| [pem, "\n"]).collect()
}

pub fn contains(bundle: &str, ca: &str) -> bool {
    let held: Vec<_> = certificates(bundle).into_iter().filter_map(der).collect();
    certificates(ca).into_iter().filter_map(der).all(|own| held.contains(&own))
}

/// Each certificate's text, from marker to marker.
fn certificates(bundle: &str) -> Vec<&str> {
    let whole = |begin: usize| {
        let text = &bundle[begin..];
        text.find(END).map(|end| &text[..end + END.len()])
    };
    bundle.match_indices(BEGIN).filter_map(|(begin, _)| whole(begin)).collect()
}

/// What cannot be read is no use to the API server either.
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
    use super::*;
    use crate::install::certificate::Certificate;

    fn ca() -> String {
        Certificate::make(&["127.0.0.1".to_owned()]).unwrap().ca
    }

    #[test]
    fn every_instance_finds_its_own_beside_the_others() {
        let now = Timestamp::now();
        let (a, b) = (ca(), ca());
        let alone = merged("", &a, now);
        assert!(contains(&alone, &a) && !contains(&alone, &b));
        let both = merged(&alone, &b, now);
        assert!(contains(&both, &a) && contains(&both, &b));
        assert_eq!(merged(&both, &a, now), both, "nothing to add");
        assert_eq!(certificates(&both).len(), 2);
    }

    #[test]
    fn the_oldest_and_the_expired_fall_out() {
        let now = Timestamp::now();
        let all: Vec<String> = (0..=CERTIFICATES_MAX).map(|_| ca()).collect();
        let bundle = all.iter().fold(String::new(), |bundle, ca| merged(&bundle, ca, now));
        assert_eq!(certificates(&bundle).len(), CERTIFICATES_MAX);
        assert!(!contains(&bundle, &all[0]) && contains(&bundle, &all[1]));

        let in_two_years = now + jiff::SignedDuration::from_hours(2 * 365 * 24);
        assert_eq!(certificates(&merged(&bundle, &all[0], in_two_years)).len(), 1);
        let garbled = format!("{BEGIN}\nnothing\n{END}\n");
        assert_eq!(certificates(&merged(&garbled, &all[0], now)).len(), 1);
    }
}
