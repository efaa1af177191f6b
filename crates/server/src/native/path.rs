//! What a path of ours is about.

use holdfast_api::budget::{GROUP, PLURAL, VERSION};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Path {
    /// `/apis`.
    Groups,
    /// `/apis/policy`.
    Group,
    /// `/apis/policy/v1`.
    Resources,
    OpenApi(Document),
    Budgets(Target),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Document {
    V2,
    /// The list of version 3's documents.
    V3,
    /// Version 3's document of policy/v1.
    V3Policy,
}

/// Budgets: all, those of a namespace, one, or its status. Names are still percent-encoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub status: bool,
}

impl Path {
    pub fn parse(path: &str) -> Option<Self> {
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        Some(match segments.as_slice() {
            ["apis"] => Self::Groups,
            ["apis", "policy"] => Self::Group,
            ["apis", "policy", "v1"] => Self::Resources,
            ["openapi", "v2"] => Self::OpenApi(Document::V2),
            ["openapi", "v3"] => Self::OpenApi(Document::V3),
            ["openapi", "v3", "apis", "policy", "v1"] => Self::OpenApi(Document::V3Policy),
            ["apis", "policy", "v1", rest @ ..] => Self::Budgets(Target::parse(rest)?),
            _ => return None,
        })
    }
}

impl Target {
    fn parse(segments: &[&str]) -> Option<Self> {
        let owned = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Some(match segments {
            [PLURAL] => Self::default(),
            ["namespaces", namespace, PLURAL] => {
                Self { namespace: Some(owned(namespace)?), ..Self::default() }
            }
            ["namespaces", namespace, PLURAL, name, rest @ ..] => {
                let status = match rest {
                    [] => false,
                    ["status"] => true,
                    _ => return None,
                };
                Self { namespace: Some(owned(namespace)?), name: Some(owned(name)?), status }
            }
            _ => return None,
        })
    }

    /// Where the CRD has it.
    pub fn stored(&self) -> String {
        let mut path = format!("/apis/{GROUP}/{VERSION}/");
        if let Some(namespace) = &self.namespace {
            path.push_str("namespaces/");
            path.push_str(namespace);
            path.push('/');
        }
        path.push_str(PLURAL);
        if let Some(name) = &self.name {
            path.push('/');
            path.push_str(name);
        }
        if self.status {
            path.push_str("/status");
        }
        path
    }

    /// The budget itself, of its status too.
    pub fn object(&self) -> Self {
        Self { status: false, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(path: &str) -> Option<String> {
        match Path::parse(path)? {
            Path::Budgets(target) => Some(target.stored()),
            _ => None,
        }
    }

    #[test]
    fn budgets_are_where_the_crd_has_them() {
        let root = "/apis/policy.holdfast.dev/v1";
        for (ours, crd) in [
            ("/poddisruptionbudgets", "/poddisruptionbudgets"),
            ("/namespaces/a/poddisruptionbudgets", "/namespaces/a/poddisruptionbudgets"),
            ("/namespaces/a/poddisruptionbudgets/b", "/namespaces/a/poddisruptionbudgets/b"),
            (
                "/namespaces/a/poddisruptionbudgets/b/status",
                "/namespaces/a/poddisruptionbudgets/b/status",
            ),
        ] {
            assert_eq!(stored(&format!("/apis/policy/v1{ours}")), Some(format!("{root}{crd}")));
        }
    }

    #[test]
    fn nothing_else_is_relayed() {
        for path in [
            "/api/v1/pods",
            "/apis/policy/v1/namespaces/a/pods",
            "/apis/policy/v1/namespaces/a/poddisruptionbudgets/b/scale",
            "/apis/policy/v1/namespaces/a/poddisruptionbudgets/b/status/c",
            "/apis/policy/v1/namespaces//poddisruptionbudgets",
            "/apis/policy/v1beta1/poddisruptionbudgets",
            "/apis/policy.holdfast.dev/v1/poddisruptionbudgets",
        ] {
            assert_eq!(Path::parse(path), None, "{path}");
        }
    }
}
