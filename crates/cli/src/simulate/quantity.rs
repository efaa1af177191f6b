//! Kubernetes quantities (`500m`, `16Gi`) and durations (`90s`, `1m30s`).

use std::time::Duration;

/// In thousandths of the unit, so that `100m` is a whole number too.
pub fn parse(text: &str) -> Result<i64, String> {
    let wrong = || format!("{text:?} is not a quantity such as 2, 500m or 16Gi");
    let digits = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-')));
    let (number, suffix) = text.split_at(digits.unwrap_or(text.len()));
    let thousandths: f64 = match suffix {
        "m" => 1.0,
        "" => 1e3,
        "k" => 1e6,
        "M" => 1e9,
        "G" => 1e12,
        "T" => 1e15,
        "P" => 1e18,
        "Ki" => 1024.0 * 1e3,
        "Mi" => 1024.0_f64.powi(2) * 1e3,
        "Gi" => 1024.0_f64.powi(3) * 1e3,
        "Ti" => 1024.0_f64.powi(4) * 1e3,
        "Pi" => 1024.0_f64.powi(5) * 1e3,
        // `1e3` and the like.
        _ => match text.parse::<f64>() {
            Ok(number) => return Ok(whole(number * 1e3)),
            Err(_) => return Err(wrong()),
        },
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    Ok(whole(number * thousandths))
}

#[expect(clippy::cast_possible_truncation, reason = "beyond the range it saturates, as is meant")]
fn whole(thousandths: f64) -> i64 {
    thousandths.ceil() as i64
}

/// `30` and `30s`, `500ms`, `5m`, `1h`, and sums of these such as `1m30s`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
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
        sum += unit * number;
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
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), expected, "{text}");
        }
        for wrong in ["", "x", "1X", "1.2.3", "Gi"] {
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
        for wrong in ["", "s", "1x", "m5", "-1s"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}
