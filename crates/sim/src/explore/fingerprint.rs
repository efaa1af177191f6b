//! Recognises states that have been visited, up to differences that no engine can observe.
//!
//! The parts of a state are printed by their `Debug` and hashed, so a field that is added to the
//! engine is compared without further work. Four kinds of numbers are taken out of the text and
//! replaced before they are hashed:
//!
//! - **Resource versions** by their rank among all versions of the state. Engines and API server
//!   compare versions only with each other (older, newer, equal), and every new version is above all
//!   others. So two states whose versions have the same order behave alike.
//! - **Uids** (`uid-123`) by their rank among all uids. They are compared with each other, and sort as
//!   text where they are keys. All have three digits, so text and number have the same order.
//! - **Times** by their distance from now. Engines look at distances, and at whole multiples of
//!   a second and of 250 ms. Time passes by whole seconds, so those do not change. Times more than 15
//!   minutes ago count as 15 minutes ago: no engine keeps anything longer than 10.
//! - **Read tokens** by the order of their first occurrence within the instance. They are compared for
//!   equality only, and every new token is a fresh one.
//!
//! A fingerprint has 64 bits. Among ten million states, two share one with a chance of 3 in a million.

use std::fmt::{self, Debug, Write as _};

use holdfast_core::model::Timestamp;

const LONG_AGO_MS: i64 = 15 * 60 * 1000;

/// A hash of the text of one part of a state without its numbers, and the numbers in the order of the text.
#[derive(Clone, Debug, Default)]
pub(super) struct Digest {
    text: u64,
    versions: Vec<u64>,
    uids: Vec<u64>,
    times: Vec<i64>,
}

impl Digest {
    pub(super) fn of(part: &dyn Debug) -> Self {
        let mut printer = Printer {
            text: Mixer::default(),
            next: Next::Text,
            digest: Self::default(),
            tokens: Vec::new(),
        };
        write!(printer, "{part:?}").expect("printing to memory does not fail");
        Self { text: printer.text.0, ..printer.digest }
    }
}

/// One number for a whole state.
pub(super) fn fingerprint(now: Timestamp, parts: &[&Digest]) -> u64 {
    let ranks = |numbers: fn(&Digest) -> &Vec<u64>, mixer: &mut Mixer| {
        let mut sorted: Vec<u64> = parts.iter().flat_map(|part| numbers(part)).copied().collect();
        sorted.sort_unstable();
        sorted.dedup();
        for number in parts.iter().flat_map(|part| numbers(part)) {
            mixer.add(sorted.binary_search(number).unwrap_or_default() as u64);
        }
    };
    let mut mixer = Mixer::default();
    for part in parts {
        mixer.add(part.text);
        mixer.add(part.versions.len() as u64);
        for time in &part.times {
            mixer.add((time - now.0).max(-LONG_AGO_MS).cast_unsigned());
        }
    }
    ranks(|part| &part.versions, &mut mixer);
    ranks(|part| &part.uids, &mut mixer);
    mixer.0
}

/// Receives the pieces that `Debug` prints. Derived implementations print a name, a bracket and a
/// number as three pieces.
struct Printer {
    text: Mixer,
    next: Next,
    digest: Digest,
    tokens: Vec<u64>,
}

#[derive(Clone, Copy)]
enum Next {
    Text,
    /// The opening of a value of this class.
    Open(Class),
    Number(Class),
}

#[derive(Clone, Copy)]
enum Class {
    Version,
    Time,
    Token,
}

impl fmt::Write for Printer {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        match self.next {
            Next::Text => {}
            Next::Open(class) => {
                self.next = Next::Text;
                if matches!(piece, "(" | ": ") {
                    self.next = Next::Number(class);
                }
            }
            Next::Number(class) => {
                self.next = Next::Text;
                if self.take(class, piece) {
                    return Ok(());
                }
            }
        }
        // Most pieces are none of these, and their first letter tells.
        match piece.as_bytes().first() {
            Some(b'N') if piece == "Number" => self.next = Next::Open(Class::Version),
            Some(b'T') if piece == "Timestamp" => self.next = Next::Open(Class::Time),
            Some(b'T') if piece == "Token" => self.next = Next::Open(Class::Token),
            Some(b't') if piece == "token" => self.next = Next::Open(Class::Token),
            Some(b'u') => {
                let number = piece.strip_prefix("uid-").and_then(|digits| digits.parse().ok());
                if let Some(uid) = number {
                    self.digest.uids.push(uid);
                    return Ok(());
                }
            }
            _ => {}
        }
        self.text.add_bytes(piece.as_bytes());
        Ok(())
    }
}

impl Printer {
    /// Whether it was a number of this class.
    fn take(&mut self, class: Class, digits: &str) -> bool {
        let Ok(number) = digits.parse::<u64>() else { return false };
        match class {
            Class::Version => self.digest.versions.push(number),
            Class::Time => self.digest.times.push(number.cast_signed()),
            Class::Token => {
                let known = self.tokens.iter().position(|token| *token == number);
                let index = known.unwrap_or(self.tokens.len());
                if known.is_none() {
                    self.tokens.push(number);
                }
                self.text.add(index as u64);
            }
        }
        true
    }
}

/// Multiplies to 128 bits and folds, as wyhash does.
#[derive(Default)]
struct Mixer(u64);

impl Mixer {
    fn add_bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.add(u64::from_le_bytes(*word));
        }
        // Seven bytes are left at most, and the length is above them.
        let (pairs, odd) = rest.as_chunks::<2>();
        let mut last = bytes.len() as u64;
        for pair in pairs {
            last = last << 16 | u64::from(u16::from_le_bytes(*pair));
        }
        for byte in odd {
            last = last << 8 | u64::from(*byte);
        }
        self.add(last);
    }

    fn add(&mut self, word: u64) {
        let a = u128::from(self.0 ^ 0x9E37_79B9_7F4A_7C15);
        let product = a.wrapping_mul(u128::from(word ^ 0xD6E8_FEB8_6659_FD93));
        #[expect(clippy::cast_possible_truncation, reason = "the two halves are folded")]
        let folded = (product as u64) ^ ((product >> 64) as u64);
        self.0 = folded.rotate_left(23) ^ word;
    }
}

#[cfg(test)]
mod tests {
    use holdfast_core::io::PodReadOutcome;
    use holdfast_core::model::ResourceVersion;
    use holdfast_core::{Command, Input};

    use super::*;
    use crate::name::Name as _;

    fn print(now: i64, part: &dyn Debug) -> u64 {
        let digest = Digest::of(part);
        fingerprint(Timestamp(now), &[&digest])
    }

    fn versions(list: &[u64]) -> Vec<ResourceVersion> {
        list.iter().map(|n| ResourceVersion::from(*n)).collect()
    }

    #[test]
    fn versions_count_by_their_order() {
        let same = print(0, &versions(&[5, 9, 7]));
        assert_eq!(print(0, &versions(&[100, 400, 300])), same);
        assert_ne!(print(0, &versions(&[5, 9, 9])), same);
        assert_ne!(print(0, &versions(&[5, 7, 9])), same);
    }

    #[test]
    fn uids_count_by_their_order_and_other_text_counts_as_it_is() {
        assert_eq!(print(0, &["uid-101", "uid-103"]), print(0, &["uid-104", "uid-109"]));
        assert_ne!(print(0, &["uid-101", "uid-103"]), print(0, &["uid-104", "uid-104"]));
        assert_ne!(print(0, &["a"]), print(0, &["b"]));
    }

    #[test]
    fn times_count_by_their_distance() {
        let at = |now: i64, then: i64| print(now, &Timestamp(then));
        assert_eq!(at(5000, 6000), at(8000, 9000));
        assert_ne!(at(5000, 6000), at(8000, 9001));
        assert_eq!(at(2_000_000, 1000), at(3_000_000, 1000), "both long ago");
    }

    #[test]
    fn tokens_count_by_their_first_occurrence() {
        let read = |token| Command::ReadPod { token, pod: "p".object_key() };
        let answer = |token| Input::PodRead { token, outcome: PodReadOutcome::NotFound };
        assert_eq!(print(0, &(read(3), answer(4))), print(0, &(read(7), answer(9))));
        assert_ne!(print(0, &(read(3), answer(4))), print(0, &(read(3), answer(3))));
    }
}
