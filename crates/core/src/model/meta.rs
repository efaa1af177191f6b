use std::cmp::Ordering;
use std::fmt;

/// Namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    pub namespace: String,
    pub name: String,
}

impl ObjectKey {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// API group and kind, without the version: owners are recognised across versions, as upstream does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKind {
    pub group: String,
    pub kind: String,
}

impl GroupKind {
    pub fn new(group: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { group: group.into(), kind: kind.into() }
    }

    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.kind)
        } else {
            write!(f, "{}.{}", self.kind, self.group)
        }
    }
}

/// The owner reference with `controller: true`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ControllerRef {
    pub group_kind: GroupKind,
    /// The version part of the reference's apiVersion; needed only to find the `/scale` endpoint.
    pub version: String,
    pub name: String,
    pub uid: String,
}

/// `metadata.resourceVersion`: opaque as a precondition, comparable as the decimal number that
/// every conforming API server serves (KEP-5504). The default is the empty one: of no object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResourceVersion(Form);

/// Numbers are kept as such: they come with every object, and are compared more than written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Form {
    Number(u64),
    /// Whatever a number would not be written as.
    Text(Box<str>),
}

impl ResourceVersion {
    pub fn is_older_than(&self, other: &Self) -> bool {
        self.order(other) == Ordering::Less
    }

    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Form::Text(text) if text.is_empty())
    }

    fn order(&self, other: &Self) -> Ordering {
        if let (Form::Number(a), Form::Number(b)) = (&self.0, &other.0) {
            return a.cmp(b);
        }
        // Decimal without leading zeros: the longer is the larger.
        let (a, b) = (self.to_string(), other.to_string());
        a.len().cmp(&b.len()).then_with(|| a.cmp(&b))
    }
}

impl Default for ResourceVersion {
    fn default() -> Self {
        Self(Form::Text(Box::default()))
    }
}

impl From<u64> for ResourceVersion {
    fn from(n: u64) -> Self {
        Self(Form::Number(n))
    }
}

impl From<&str> for ResourceVersion {
    fn from(text: &str) -> Self {
        let canonical = text == "0" || text.starts_with(|c: char| matches!(c, '1'..='9'));
        match text.parse() {
            Ok(n) if canonical => Self(Form::Number(n)),
            _ => Self(Form::Text(text.into())),
        }
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Number(n) => write!(f, "{n}"),
            Form::Text(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ResourceVersion;

    #[test]
    fn versions_compare_as_numbers_of_any_length() {
        let v = |s: &str| ResourceVersion::from(s);
        let ascending = ["", "0", "9", "10", "99", "18446744073709551615", "18446744073709551616"];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(v(a).is_older_than(&v(b)), i < j, "{a} {b}");
                assert_eq!(v(a) == v(b), i == j, "{a} {b}");
            }
        }
    }

    #[test]
    fn versions_are_written_as_they_were_read() {
        for text in ["", "0", "7", "007", "+7", "-7", " 7", "abc", "18446744073709551616"] {
            assert_eq!(ResourceVersion::from(text).to_string(), text);
        }
        assert_eq!(ResourceVersion::from("7"), ResourceVersion::from(7));
        assert!(ResourceVersion::default().is_empty());
        assert_eq!(size_of::<ResourceVersion>(), 16);
    }
}
