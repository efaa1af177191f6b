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
//! The text of a part is printed and hashed once, when the part is made; states share their parts.
//!
//! A fingerprint has 64 bits. Among ten million states, two share one with a chance of 3 in a million.

use std::fmt::{self, Debug, Write as _};

use holdfast_core::model::Timestamp;

const LONG_AGO_MS: i64 = 15 * 60 * 1000;

/// Stands in the text for a number that was taken out of it.
const NUMBER: u64 = 0x4E55_4D42;

/// A hash of the text of one part of a state without its numbers, and the numbers in the order of the text.
#[derive(Clone, Debug, Default)]
pub(super) struct Digest {
    text: u64,
    versions: Vec<u64>,
    uids: Vec<u64>,
    times: Vec<i64>,
    tokens: Vec<u64>,
}

impl Digest {
    pub(super) fn of(part: &dyn Debug) -> Self {
        let mut printer =
            Printer { text: Mixer::default(), next: Next::Text, digest: Self::default() };
        write!(printer, "{part:?}").expect("printing to memory does not fail");
        Self { text: printer.text.0, ..printer.digest }
    }

    /// A hash of the part with its numbers as they are.
    pub(super) fn exact(&self) -> u64 {
        let mut mixer = Mixer(self.text);
        for number in self.versions.iter().chain(&self.uids).chain(&self.tokens) {
            mixer.add(*number);
        }
        for time in &self.times {
            mixer.add(time.cast_unsigned());
        }
        mixer.0
    }
}

/// A state as a sequence.
pub(super) enum Part<'a> {
    Is(&'a Digest),
    /// An event of one queue does not pass for one of another.
    EndOfQueue,
    /// Tokens of one instance do not mean those of another.
    EndOfInstance,
}

/// One number for a whole state.
pub(super) fn fingerprint(now: Timestamp, parts: &[Part<'_>]) -> u64 {
    let mut mixer = Mixer::default();
    let mut tokens = Vec::new();
    for part in parts {
        match part {
            Part::EndOfQueue => mixer.add(1),
            Part::EndOfInstance => {
                mixer.add(2);
                tokens.clear();
            }
            Part::Is(digest) => {
                mixer.add(digest.text);
                for time in &digest.times {
                    mixer.add((time - now.0).max(-LONG_AGO_MS).cast_unsigned());
                }
                for token in &digest.tokens {
                    let known = tokens.iter().position(|known| known == token);
                    mixer.add(known.unwrap_or(tokens.len()) as u64);
                    tokens.extend(known.is_none().then_some(*token));
                }
            }
        }
    }
    add_ranks(&mut mixer, parts, |digest| &digest.versions);
    add_ranks(&mut mixer, parts, |digest| &digest.uids);
    mixer.0
}

fn add_ranks(mixer: &mut Mixer, parts: &[Part<'_>], numbers: fn(&Digest) -> &Vec<u64>) {
    let of = |part| match part {
        &Part::Is(digest) => numbers(digest).as_slice(),
        Part::EndOfQueue | Part::EndOfInstance => &[],
    };
    let mut sorted: Vec<u64> = parts.iter().flat_map(of).copied().collect();
    sorted.sort_unstable();
    sorted.dedup();
    for number in parts.iter().flat_map(of) {
        mixer.add(sorted.binary_search(number).unwrap_or_default() as u64);
    }
}

/// One number for two others.
pub(super) fn mix(a: u64, b: u64) -> u64 {
    let mut mixer = Mixer(a);
    mixer.add(b);
    mixer.0
}

/// Receives the pieces that `Debug` prints. Derived implementations print a name, a bracket and a
/// number as three pieces.
struct Printer {
    text: Mixer,
    next: Next,
    digest: Digest,
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
            // The auditor's objects have plain numbers as versions.
            Some(b'v') if piece == "version" => self.next = Next::Open(Class::Version),
            Some(b'N') if piece == "Number" => self.next = Next::Open(Class::Version),
            Some(b'T') if piece == "Timestamp" => self.next = Next::Open(Class::Time),
            Some(b'M') if piece == "Moment" => self.next = Next::Open(Class::Time),
            Some(b'T') if piece == "Token" => self.next = Next::Open(Class::Token),
            Some(b't') if piece == "token" => self.next = Next::Open(Class::Token),
            Some(b'u') => {
                let number = piece.strip_prefix("uid-").and_then(|digits| digits.parse().ok());
                if let Some(uid) = number {
                    self.digest.uids.push(uid);
                    self.text.add(NUMBER);
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
            Class::Token => self.digest.tokens.push(number),
        }
        self.text.add(NUMBER);
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
        fingerprint(Timestamp(now), &[Part::Is(&digest)])
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
