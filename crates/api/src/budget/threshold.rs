//! `minAvailable` and `maxUnavailable`: a number or a percentage.

use holdfast_core::model::Threshold;
use serde::{Deserialize, Serialize};

/// The value as written in the object. Nothing is refused here: a budget with an invalid threshold must reach
/// the engine, which allows nothing and reports the reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    Int(i64),
    String(String),
    Other(serde_json::Value),
}

impl From<&IntOrString> for Threshold {
    /// Converts like `GetScaledValueFromIntOrPercent` of Kubernetes, with the same messages. It is stricter
    /// in cases that Kubernetes refuses by validation.
    fn from(value: &IntOrString) -> Self {
        match value {
            IntOrString::Int(n) if *n < 0 => invalid("must be greater than or equal to 0"),
            IntOrString::Int(n) if *n > i64::from(i32::MAX) => {
                invalid(&format!("invalid value {n}: value out of range"))
            }
            IntOrString::Int(n) => Self::Count(*n),
            IntOrString::String(text) => percent(text),
            IntOrString::Other(_) => invalid("invalid type: neither int nor percentage"),
        }
    }
}

fn percent(text: &str) -> Threshold {
    let Some(digits) = text.strip_suffix('%') else {
        return invalid("invalid type: string is not a percentage");
    };
    let wrong = |why: &str| {
        invalid(&format!("invalid value {text:?}: strconv.Atoi: parsing {digits:?}: {why}"))
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return wrong("invalid syntax");
    }
    digits
        .parse::<i32>()
        .map_or_else(|_| wrong("value out of range"), |n| Threshold::Percent(n.into()))
}

fn invalid(why: &str) -> Threshold {
    Threshold::Invalid(format!("invalid value for IntOrString: {why}"))
}

#[cfg(test)]
mod tests {
    use super::{IntOrString, Threshold};

    #[test]
    fn thresholds_are_numbers_or_percentages() {
        let invalid =
            |why: &str| Threshold::Invalid(format!("invalid value for IntOrString: {why}"));
        let atoi = |digits: &str, why: &str| {
            invalid(&format!(
                "invalid value \"{digits}%\": strconv.Atoi: parsing \"{digits}\": {why}"
            ))
        };
        let cases = [
            ("0", Threshold::Count(0)),
            ("3", Threshold::Count(3)),
            ("2147483647", Threshold::Count(2_147_483_647)),
            ("2147483648", invalid("invalid value 2147483648: value out of range")),
            ("-1", invalid("must be greater than or equal to 0")),
            (r#""30%""#, Threshold::Percent(30)),
            (r#""007%""#, Threshold::Percent(7)),
            (r#""150%""#, Threshold::Percent(150)),
            (r#""30""#, invalid("invalid type: string is not a percentage")),
            (r#""""#, invalid("invalid type: string is not a percentage")),
            (r#""%""#, atoi("", "invalid syntax")),
            (r#""x%""#, atoi("x", "invalid syntax")),
            (r#""-5%""#, atoi("-5", "invalid syntax")),
            (r#""1.5%""#, atoi("1.5", "invalid syntax")),
            (r#""99999999999%""#, atoi("99999999999", "value out of range")),
            ("1.5", invalid("invalid type: neither int nor percentage")),
            ("true", invalid("invalid type: neither int nor percentage")),
            ("18446744073709551616", invalid("invalid type: neither int nor percentage")),
        ];
        for (json, expected) in cases {
            let value: IntOrString = serde_json::from_str(json).expect(json);
            assert_eq!(Threshold::from(&value), expected, "{json}");
        }
    }
}
