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
/// every conforming API server serves (KEP-5504).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ResourceVersion(pub String);

impl ResourceVersion {
    pub fn is_older_than(&self, other: &Self) -> bool {
        self.order(other) == Ordering::Less
    }

    fn order(&self, other: &Self) -> Ordering {
        // Decimal without leading zeros: the longer is the larger.
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.cmp(&other.0))
    }
}

impl From<u64> for ResourceVersion {
    fn from(n: u64) -> Self {
        Self(n.to_string())
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::ResourceVersion;

    #[test]
    fn versions_compare_as_numbers() {
        let v = |s: &str| ResourceVersion(s.to_owned());
        assert!(v("9").is_older_than(&v("10")));
        assert!(!v("10").is_older_than(&v("10")));
        assert!(!v("100").is_older_than(&v("99")));
    }
}
