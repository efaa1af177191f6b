//! Reads JSON as Go does: `null` is the zero value.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer};

/// For fields whose type is not an `Option`: absent (with `#[serde(default)]`) and `null` are the same.
pub(crate) fn null_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Returns None for the empty string, which is Go's zero value.
pub(crate) fn non_empty(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// A string that is read and dropped. It borrows from the JSON unless it has escapes. Absent and `null` are
/// the empty string. A number, which a quantity may be, becomes its digits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text<'a>(Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }

    fn visit_i64<E>(self, n: i64) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(n.to_string())))
    }

    fn visit_u64<E>(self, n: u64) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(n.to_string())))
    }

    fn visit_f64<E>(self, n: f64) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(n.to_string())))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Text::default())
    }
}
