//! Reading JSON the way Go does: `null` is the zero value.

use serde::{Deserialize, Deserializer};

/// For fields whose type is not an `Option`: absent (with `#[serde(default)]`) and `null` are one.
pub(crate) fn null_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// An optional string, where Go's zero value means absent.
pub(crate) fn non_empty(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}
