//! Names of what we create: readable, and never the same for two things.

use sha2::{Digest, Sha256};

/// What a DNS subdomain may have.
const NAME_MAX: usize = 253;

/// More than fifty bits.
const HASH_LENGTH: usize = 12;

/// As Kubernetes makes up names: no vowels, so no words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// `<readable>-<hash>`. The hash is over `identity`, so that cutting what is readable makes no two alike.
pub(super) fn name(readable: &str, identity: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in identity {
        // A part cannot end where the next begins.
        hasher.update(part.len().to_le_bytes());
        hasher.update(part.as_bytes());
    }
    let digest = hasher.finalize();
    let hash: String = digest
        .iter()
        .take(HASH_LENGTH)
        .map(|byte| char::from(ALPHABET[usize::from(byte % 27)]))
        .collect();
    format!("{}-{hash}", cut(readable))
}

/// Whether it is the name of something that is readable as this, whatever its identity.
pub(super) fn is_name_of(name: &str, readable: &str) -> bool {
    let parts = name.rsplit_once('-');
    parts.is_some_and(|(before, hash)| before == cut(readable) && hash.len() == HASH_LENGTH)
}

/// So that the hash has room.
fn cut(readable: &str) -> &str {
    let mut end = readable.len().min(NAME_MAX - HASH_LENGTH - 1);
    while !readable.is_char_boundary(end) {
        end -= 1;
    }
    readable[..end].trim_end_matches(['-', '.'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn is_subdomain(name: &str) -> bool {
        let label = |label: &str| {
            !label.is_empty()
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        name.len() <= NAME_MAX && name.split('.').all(label)
    }

    #[test]
    fn long_names_stay_apart() {
        let long = format!("{}.{}", "a".repeat(200), "b".repeat(52));
        assert_eq!(long.len(), NAME_MAX);
        let mut names = BTreeSet::new();
        for uid in ["u1", "u2"] {
            for slot in 0..2000 {
                let slot = slot.to_string();
                let name = name(&format!("{long}-{slot}"), &["StatefulSet", uid, &slot]);
                assert!(is_subdomain(&name), "{name}");
                assert!(names.insert(name));
            }
        }
    }

    #[test]
    fn what_is_cut_ends_well() {
        for at in [".", "-", "-."] {
            let readable = format!("{}{at}{}", "a".repeat(240 - at.len()), "b".repeat(20));
            assert!(is_subdomain(&name(&readable, &["u"])));
        }
        assert_ne!(name("a", &["bc", "d"]), name("a", &["b", "cd"]));
    }
}
