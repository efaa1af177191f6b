//! RFC 3339 times with whole seconds, as the API uses them.

use holdfast_core::model::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A time on the wire, such as `2026-11-15T20:00:00Z`. Reads any RFC 3339 time, with fractions and
/// offsets; writes UTC and whole seconds. `null` reads as the epoch, as Go's zero time is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Timestamp);

impl From<Timestamp> for Time {
    fn from(time: Timestamp) -> Self {
        Self(time)
    }
}

impl From<Time> for Timestamp {
    fn from(time: Time) -> Self {
        time.0
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format(self.0))
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Option::<String>::deserialize(deserializer)? {
            None => Ok(Self::default()),
            Some(text) => parse(&text).map(Self).map_err(de::Error::custom),
        }
    }
}

/// Formats a time. A time outside of the range of RFC 3339 becomes the nearest possible time.
pub fn format(time: Timestamp) -> String {
    let secs = time
        .as_secs()
        .clamp(jiff::Timestamp::MIN.as_second().max(YEAR_0_SECS), jiff::Timestamp::MAX.as_second());
    jiff::Timestamp::from_second(secs).unwrap_or_default().to_string()
}

pub fn parse(text: &str) -> Result<Timestamp, String> {
    let time: jiff::Timestamp =
        text.parse().map_err(|_| format!("{text:?} is not an RFC 3339 time"))?;
    Ok(Timestamp(time.as_millisecond()))
}

/// 0000-01-01T00:00:00Z: RFC 3339 has no earlier years.
const YEAR_0_SECS: i64 = -62_167_219_200;

#[cfg(test)]
mod tests {
    use super::{Timestamp, format, parse};

    #[test]
    fn times_round_trip_in_whole_seconds() {
        for (read, written) in [
            ("2026-11-15T20:00:00Z", "2026-11-15T20:00:00Z"),
            ("2026-11-15T20:00:00.999999Z", "2026-11-15T20:00:00Z"),
            ("2026-11-15T21:00:00+01:00", "2026-11-15T20:00:00Z"),
            ("1969-12-31T23:59:59Z", "1969-12-31T23:59:59Z"),
        ] {
            assert_eq!(format(parse(read).expect(read)), written);
        }
    }

    #[test]
    fn nonsense_is_an_error_and_never_a_panic() {
        for text in ["", "soon", "2026-11-15", "2026-13-01T00:00:00Z"] {
            let error = parse(text).expect_err(text);
            assert!(error.contains("is not an RFC 3339 time"), "{error}");
        }
        assert_eq!(format(Timestamp(i64::MIN)), "0000-01-01T00:00:00Z");
        assert!(format(Timestamp(i64::MAX)).starts_with("9999-12-"));
    }
}
