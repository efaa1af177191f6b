//! Annotations of `v1alpha1` that are fields in `v1beta1`.

use holdfast_core::model::Operation;

pub const PROTECT_OPERATIONS: &str = "kruise.io/pub-protect-operations";
pub const PROTECT_TOTAL_REPLICAS: &str = "pub.kruise.io/protect-total-replicas";

/// Reads a list with commas. An empty list counts as absent.
pub fn operations(text: &str) -> Result<Vec<Operation>, String> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    names
        .map(|name| {
            Operation::from_name(name)
                .ok_or_else(|| format!("invalid {PROTECT_OPERATIONS} value {name:?}"))
        })
        .collect()
}

pub fn total_replicas(text: &str) -> Result<i64, String> {
    text.parse::<i32>().map(Into::into).map_err(|_| {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        let number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let why = if number { "value out of range" } else { "invalid syntax" };
        format!(
            "failed to parse {PROTECT_TOTAL_REPLICAS}: strconv.ParseInt: parsing {text:?}: {why}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{Operation, operations, total_replicas};

    #[test]
    fn lists_of_operations() {
        for (text, expected) in [
            ("", vec![]),
            (" , ", vec![]),
            ("DELETE", vec![Operation::Delete]),
            (
                " EVICT,UPDATE ,,RESIZE",
                vec![Operation::Evict, Operation::Update, Operation::Resize],
            ),
        ] {
            assert_eq!(operations(text), Ok(expected), "{text}");
        }
        let error = operations("DELETE,delete").expect_err("names are in capitals");
        assert_eq!(error, r#"invalid kruise.io/pub-protect-operations value "delete""#);
    }

    #[test]
    fn numbers_of_replicas() {
        for (text, expected) in [("15", 15), ("+7", 7), ("-1", -1), ("2147483647", 2_147_483_647)] {
            assert_eq!(total_replicas(text), Ok(expected), "{text}");
        }
        for (text, why) in [
            ("", "invalid syntax"),
            ("five", "invalid syntax"),
            ("1.5", "invalid syntax"),
            ("2147483648", "value out of range"),
        ] {
            let expected = format!(
                "failed to parse pub.kruise.io/protect-total-replicas: strconv.ParseInt: parsing \
                 {text:?}: {why}"
            );
            assert_eq!(total_replicas(text), Err(expected));
        }
    }
}
