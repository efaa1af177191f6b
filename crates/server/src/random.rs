//! Names that nobody else has.

use std::fmt::Write as _;

use crate::error::Error;

/// Sixteen hexadecimal digits.
pub fn hex() -> Result<String, Error> {
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

#[cfg(test)]
mod tests {
    #[test]
    fn no_two_are_alike() {
        assert_ne!(super::hex().unwrap(), super::hex().unwrap());
    }
}
