//! Kubernetes quantities (`500m`, `16Gi`) and durations (`90s`, `1m30s`).

use std::time::Duration;

/// A drain that takes longer to start or end a pod than this is a typing error.
const TIME_MAX: Duration = Duration::from_hours(24);
/// Every try is an event, so that a very short time would take very long to simulate.
const RETRY_MIN: Duration = Duration::from_millis(100);

/// In thousandths of the unit, so that `100m` is a whole number too. What is less is rounded up, and
/// what is more than can be counted is the most that can be.
pub fn parse(text: &str) -> Result<i64, String> {
    let wrong = || format!("{text:?} is not a quantity such as 2, 500m or 16Gi");
    let signless = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = signless.find(|c: char| !(c.is_ascii_digit() || c == '.'));
    let (number, suffix) = signless.split_at(digits.unwrap_or(signless.len()));
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let unit = unit(suffix).ok_or_else(wrong)?;
    if text.starts_with('-') && number > 0.0 {
        return Err(format!("{text:?} is below 0"));
    }
    // An exponent may be so large that 0 of it is not a number.
    Ok(if number == 0.0 { 0 } else { whole(number * unit * 1e3) })
}

fn unit(suffix: &str) -> Option<f64> {
    Some(match suffix {
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024.0,
        "Mi" => 1024.0_f64.powi(2),
        "Gi" => 1024.0_f64.powi(3),
        "Ti" => 1024.0_f64.powi(4),
        "Pi" => 1024.0_f64.powi(5),
        "Ei" => 1024.0_f64.powi(6),
        // `1e3` and the like.
        _ => 10.0_f64.powi(suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
    })
}

#[expect(clippy::cast_possible_truncation, reason = "beyond the range it saturates, as is meant")]
fn whole(thousandths: f64) -> i64 {
    // 0.1 is a little more than a tenth, and must not become one thousandth more.
    let nearest = thousandths.round();
    let is_near = (thousandths - nearest).abs() < 1e-9 * nearest;
    (if is_near { nearest } else { thousandths.ceil() }) as i64
}

/// For `--startup` and `--grace-period`.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text)?;
    if time > TIME_MAX { Err("is more than 24h".to_owned()) } else { Ok(time) }
}

/// For `--retry`.
pub fn parse_retry(text: &str) -> Result<Duration, String> {
    let time = parse_time(text)?;
    if time < RETRY_MIN { Err("is less than 100ms".to_owned()) } else { Ok(time) }
}

/// `30` and `30s`, `500ms`, `5m`, `1h`, and sums of these such as `1m30s`.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a time such as 30s, 1m30s or 2h".to_owned();
    let (mut sum, mut rest) = (Duration::ZERO, text);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: u32 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "ms" => Duration::from_millis(1),
            "" | "s" => Duration::from_secs(1),
            "m" => Duration::from_mins(1),
            "h" => Duration::from_hours(1),
            _ => return Err(wrong()),
        };
        rest = &rest[letters..];
        sum = sum.saturating_add(unit.saturating_mul(number));
    }
    if text.is_empty() { Err(wrong()) } else { Ok(sum) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_kubernetes_reads_them() {
        let cases = [
            ("2", Ok(2000)),
            ("500m", Ok(500)),
            ("0.1", Ok(100)),
            ("1Ki", Ok(1_024_000)),
            ("16Gi", Ok(17_179_869_184_000)),
            ("1e3", Ok(1_000_000)),
            ("1G", Ok(1_000_000_000_000)),
            ("1.1", Ok(1100)),
            ("100n", Ok(1)),
            ("50u", Ok(1)),
            ("2000u", Ok(2)),
            ("1P", Ok(1_000_000_000_000_000_000)),
            ("1E", Ok(i64::MAX)),
            ("1Ei", Ok(i64::MAX)),
            ("9e18", Ok(i64::MAX)),
            ("0e999", Ok(0)),
            ("-0", Ok(0)),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), expected, "{text}");
        }
        for wrong in
            ["", "x", "1X", "1.2.3", "Gi", "NaN", "inf", "1e", "1einf", "-1", "-1e3", "--1", " 1"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_are_sums_of_parts() {
        let cases =
            [("30", 30_000), ("90s", 90_000), ("1m30s", 90_000), ("500ms", 500), ("2h", 7_200_000)];
        for (text, millis) in cases {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse_time("24h"), Ok(Duration::from_hours(24)));
        assert!(parse_time("25h").is_err() && parse_time("4294967295h4294967295h").is_err());
        assert!(parse_retry("99ms").is_err() && parse_retry("100ms").is_ok());
        for wrong in ["", "s", "1x", "m5", "-1s"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}
