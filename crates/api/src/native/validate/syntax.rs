//! The syntax of label keys and values, percentages and reasons, with the messages of Kubernetes.

const LABEL_NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must \
                               start and end with an alphanumeric character";
const LABEL_NAME_EXAMPLES: &[&str] = &["MyName", "my.name", "123-abc"];
const LABEL_BYTES_MAX: usize = 63;
const SUBDOMAIN_BYTES_MAX: usize = 253;

/// Returns the errors of a label key.
pub(crate) fn label_key(key: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let parts: Vec<_> = key.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            errors.extend(subdomain(prefix).into_iter().map(|e| format!("prefix part {e}")));
            *name
        }
        _ => {
            let rule = pattern(LABEL_NAME_RULE, LABEL_NAME, LABEL_NAME_EXAMPLES);
            return vec![format!(
                "a valid label key {rule} with an optional DNS subdomain prefix and '/' \
                 (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_BYTES_MAX {
        errors.push(format!("name part {}", too_long(LABEL_BYTES_MAX)));
    }
    if !is_label_name(name) {
        let rule = pattern(LABEL_NAME_RULE, LABEL_NAME, LABEL_NAME_EXAMPLES);
        errors.push(format!("name part {rule}"));
    }
    errors
}

/// Returns the errors of a label value.
pub(super) fn label_value(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > LABEL_BYTES_MAX {
        errors.push(too_long(LABEL_BYTES_MAX));
    }
    if !value.is_empty() && !is_label_name(value) {
        errors.push(pattern(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' \
             or '.', and must start and end with an alphanumeric character",
            &format!("({LABEL_NAME})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    errors
}

/// Returns the error of a percentage that must not exceed 100.
pub(super) fn percent(text: &str) -> Option<String> {
    let digits = text.strip_suffix('%').unwrap_or_default();
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Some(pattern(
            "a valid percent string must be a numeric string followed by an ending '%'",
            "[0-9]+%",
            &["1%", "93%"],
        ));
    }
    let exceeds = digits.parse::<u64>().map_or(true, |n| n > 100);
    exceeds.then(|| "must not be greater than 100%".to_owned())
}

/// Returns the error of the reason of a condition.
pub(super) fn condition_reason(reason: &str) -> Option<String> {
    let bytes = reason.as_bytes();
    let word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    let valid = bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(word)
        && bytes.iter().all(|b| word(b) || matches!(b, b',' | b':'));
    (!valid).then(|| {
        pattern(
            "a condition reason must start with alphabetic character, optionally followed by a \
             string of alphanumeric characters or '_,:', and must end with an alphanumeric \
             character or '_'",
            "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?",
            &["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"],
        )
    })
}

pub fn subdomain(text: &str) -> Vec<String> {
    if text.is_empty() {
        return vec!["must be non-empty".to_owned()];
    }
    let mut errors = Vec::new();
    if text.len() > SUBDOMAIN_BYTES_MAX {
        errors.push(too_long(SUBDOMAIN_BYTES_MAX));
    }
    if !text.split('.').all(is_dns_label) {
        errors.push(pattern(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
             or '.', and must start and end with an alphanumeric character",
            "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
            &["example.com"],
        ));
    }
    errors
}

fn is_label_name(text: &str) -> bool {
    is_enclosed(text, |b| b.is_ascii_alphanumeric(), b"-_.")
}

fn is_dns_label(text: &str) -> bool {
    is_enclosed(text, |b| b.is_ascii_lowercase() || b.is_ascii_digit(), b"-")
}

/// Returns true if the text is not empty, has `outer` bytes at both ends, and `outer` or `inner` bytes
/// between.
fn is_enclosed(text: &str, outer: impl Fn(u8) -> bool, inner: &[u8]) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|b| outer(*b))
        && bytes.last().is_some_and(|b| outer(*b))
        && bytes.iter().all(|b| outer(*b) || inner.contains(b))
}

fn too_long(bytes_max: usize) -> String {
    format!("must be no more than {bytes_max} bytes")
}

/// Returns the message for a pattern. The comma before each `or` comes from Kubernetes.
fn pattern(rule: &str, regex: &str, examples: &[&str]) -> String {
    let examples: Vec<_> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{rule} (e.g. {}regex used for validation is '{regex}')", examples.join(" or "))
}
