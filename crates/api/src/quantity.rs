//! Amounts of a resource, such as `500m` and `1Gi`.

/// Returns true if two quantities are the same amount, in any notation. An invalid quantity only equals the
/// same text.
pub(crate) fn same(a: &str, b: &str) -> bool {
    a == b || matches!((nanos(a), nanos(b)), (Some(a), Some(b)) if a == b)
}

/// Returns the amount in thousandths, rounded up as in kube-scheduler. None if it is invalid.
pub(crate) fn thousandths(text: &str) -> Option<i64> {
    let part = 1_000_000;
    let nanos = nanos(text)?;
    let rounded = nanos.div_euclid(part) + i128::from(nanos % part != 0);
    Some(i64::try_from(rounded).unwrap_or(i64::MAX))
}

/// Returns the amount in billionths, the smallest part that Kubernetes knows.
fn nanos(text: &str) -> Option<i128> {
    let end = text.rfind(|c: char| c.is_ascii_digit() || c == '.')? + 1;
    // The digits of an exponent do not belong to the number.
    let end = text.find(['e', 'E']).filter(|e| *e < end).unwrap_or(end);
    let (number, suffix) = text.split_at(end);
    let (factor, tens) = match suffix {
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "" => (1, 0),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1_i128 << 60, 0),
        exponent => (1, exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let tens = 9_i32.checked_add(tens)?.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let scale = 10_i128.checked_pow(tens.unsigned_abs())?;
    let amount = digits.checked_mul(factor)?;
    // Round up parts below a billionth, as Kubernetes does.
    if tens < 0 {
        Some(amount.div_euclid(scale) + i128::from(amount % scale != 0))
    } else {
        amount.checked_mul(scale)
    }
}

#[cfg(test)]
mod tests {
    use super::same;

    #[test]
    fn one_amount_can_be_written_in_many_ways() {
        for (a, b) in [
            ("1", "1000m"),
            ("0.5", "500m"),
            (".5", "0.5"),
            ("1Gi", "1024Mi"),
            ("1Gi", "1073741824"),
            ("1.5Gi", "1536Mi"),
            ("1k", "1e3"),
            ("1E3", "1000"),
            ("12e-1", "1.2"),
            ("2E", "2000P"),
            ("0.1n", "1n"),
            ("x", "x"),
        ] {
            assert!(same(a, b) && same(b, a), "{a} {b}");
        }
    }

    #[test]
    fn amounts_differ() {
        for (a, b) in [
            ("1", "1001m"),
            ("1G", "1Gi"),
            ("1", "1k"),
            ("1", ""),
            ("1", "x"),
            ("1Zi", "2Zi"),
            ("1e99", "2e99"),
            ("1e", "1"),
            ("x", "y"),
        ] {
            assert!(!same(a, b) && !same(b, a), "{a} {b}");
        }
    }
}
