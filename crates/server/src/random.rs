//! Random numbers: names that no other process has, and choices that only have to differ.
//!
//! A simulation draws all of them from its seed.

use std::cell::Cell;
use std::fmt::Write as _;
use std::hash::{BuildHasher, Hasher, RandomState};

use crate::error::Error;

thread_local! {
    static SEEDED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// From now on every number that this thread draws follows from the seed.
#[cfg(any(test, feature = "simulation"))]
pub fn seed(seed: u64) {
    SEEDED.set(Some(seed));
}

/// Sixteen hexadecimal digits.
pub fn hex() -> Result<String, Error> {
    if let Some(drawn) = draw_seeded() {
        return Ok(format!("{drawn:016x}"));
    }
    let mut random = [0; 8];
    let provider = rustls::crypto::ring::default_provider();
    let filled = provider.secure_random.fill(&mut random);
    filled.map_err(|_| Error::Internal("the system gives no random numbers".to_owned()))?;
    Ok(random.iter().fold(String::new(), |mut text, byte| {
        // Writing into a String does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// Between 0 and 1.
pub fn fraction() -> f64 {
    let bits = draw() >> 40;
    f64::from(u32::try_from(bits).unwrap_or(0)) / f64::from(1_u32 << 24)
}

/// Evenly from `0..end`, which must not be empty.
pub fn below(end: usize) -> usize {
    let end = u64::try_from(end).unwrap_or(u64::MAX);
    usize::try_from(draw() % end).unwrap_or_default()
}

/// The standard library's only source of randomness is the keys of a hasher.
fn draw() -> u64 {
    draw_seeded().unwrap_or_else(|| RandomState::new().build_hasher().finish())
}

/// `splitmix64`.
fn draw_seeded() -> Option<u64> {
    let state = SEEDED.get()?.wrapping_add(0x9e37_79b9_7f4a_7c15);
    SEEDED.set(Some(state));
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    Some(mixed ^ (mixed >> 31))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_are_alike() {
        assert_ne!(hex().unwrap(), hex().unwrap());
        assert!((0.0..1.0).contains(&fraction()));
        assert!(below(3) < 3);
    }

    #[test]
    fn a_seed_decides_every_number() {
        let drawn = |of| {
            seed(of);
            (hex().unwrap(), below(1000), fraction().to_bits())
        };
        let first = drawn(7);
        assert_eq!(drawn(7), first);
        assert_ne!(drawn(8), first);
    }
}
