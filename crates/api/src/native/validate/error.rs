//! Errors of single fields, and the answer of an API server with all of them.

use std::collections::HashSet;
use std::fmt::{self, Write};

use serde::Serialize;
use serde_json::{Value, json};

use crate::budget::KIND;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    pub reason: Reason,
    /// The path of the field, such as `spec.selector.matchExpressions[0].key`.
    pub field: String,
    /// The message without the path.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Duplicate,
    Forbidden,
    Invalid,
    NotSupported,
    Required,
    TooLong,
}

impl Reason {
    /// Returns the reason as in a Status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Required => "FieldValueRequired",
            Self::TooLong => "FieldValueTooLong",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Duplicate => "Duplicate value",
            Self::Forbidden => "Forbidden",
            Self::Invalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Required => "Required value",
            Self::TooLong => "Too long",
        }
    }
}

/// Returns the answer 422 for the budget of this name.
pub fn invalid(name: &str, errors: &[FieldError]) -> Value {
    let what = format!("{KIND}.policy {} is invalid", quote(name));
    let message = match errors {
        [] => what,
        errors => format!("{what}: {}", aggregate(errors)),
    };
    let causes: Vec<_> = errors
        .iter()
        .map(|error| {
            json!({
                "reason": error.reason.as_str(),
                "message": error.message,
                "field": error.field,
            })
        })
        .collect();
    let mut details = json!({"group": "policy", "kind": KIND, "causes": causes});
    if !name.is_empty() {
        details["name"] = name.into();
    }
    json!({
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": "Invalid",
        "details": details,
        "code": 422,
    })
}

/// Joins all errors into one sentence, without repetitions.
pub(crate) fn aggregate(errors: &[FieldError]) -> String {
    let mut seen = HashSet::new();
    let messages: Vec<_> =
        errors.iter().map(FieldError::to_string).filter(|m| seen.insert(m.clone())).collect();
    match messages.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl FieldError {
    /// `value` is the printed value.
    pub(crate) fn invalid(field: String, value: &str, detail: &str) -> Self {
        Self::new(Reason::Invalid, field, &[value, detail])
    }

    pub(crate) fn not_supported(field: String, value: &str, supported: &[&str]) -> Self {
        let supported: Vec<_> = supported.iter().map(|value| quote(value)).collect();
        let detail = format!("supported values: {}", supported.join(", "));
        Self::new(Reason::NotSupported, field, &[&as_json(&value), &detail])
    }

    pub(crate) fn duplicate(field: String, value: &str) -> Self {
        Self::new(Reason::Duplicate, field, &[&quote(value)])
    }

    pub(crate) fn required(field: String, detail: &str) -> Self {
        Self::new(Reason::Required, field, &[detail])
    }

    pub(crate) fn forbidden(field: String, detail: &str) -> Self {
        Self::new(Reason::Forbidden, field, &[detail])
    }

    pub(crate) fn too_long(field: String, bytes_max: usize) -> Self {
        let detail = format!("may not be more than {bytes_max} bytes");
        Self::new(Reason::TooLong, field, &[&detail])
    }

    fn new(reason: Reason, field: String, parts: &[&str]) -> Self {
        let mut message = reason.words().to_owned();
        for part in parts.iter().filter(|part| !part.is_empty()) {
            message.push_str(": ");
            message.push_str(part);
        }
        Self { reason, field, message }
    }
}

/// Quotes a string as Go does (`%q`).
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            _ if is_printable(c) => quoted.push(c),
            _ => escape(&mut quoted, c),
        }
    }
    quoted.push('"');
    quoted
}

/// Prints other values as Go does: JSON that is safe in HTML.
pub(crate) fn as_json(value: &impl Serialize) -> String {
    let mut json = serde_json::to_string(value).unwrap_or_default();
    for (c, escaped) in [
        ('<', "\\u003c"),
        ('>', "\\u003e"),
        ('&', "\\u0026"),
        ('\u{2028}', "\\u2028"),
        ('\u{2029}', "\\u2029"),
    ] {
        if json.contains(c) {
            json = json.replace(c, escaped);
        }
    }
    json
}

/// Rust and Go agree on this, except for combining marks, which Go prints.
fn is_printable(c: char) -> bool {
    c == '\'' || c.escape_debug().len() == 1
}

fn escape(quoted: &mut String, c: char) {
    let code = u32::from(c);
    let written = match code {
        0..0x80 => write!(quoted, "\\x{code:02x}"),
        0x80..0x1_0000 => write!(quoted, "\\u{code:04x}"),
        _ => write!(quoted, "\\U{code:08x}"),
    };
    written.expect("a String takes everything");
}
