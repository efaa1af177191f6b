//! The system at work, which no `PodUnavailableBudget` stands in the way of (semantics 9). It is known
//! by what is being taken down, and not by who asks.
//!
//! Looked at live, and only when a request is about to be denied. What cannot be read exempts nothing.

use std::time::Duration;

use holdfast_api::admission::{Circumstances, Toleration};
use holdfast_core::model::ControllerRef;
use http::StatusCode;
use jiff::Timestamp;
use serde::Deserialize;

use crate::api_client::{Answer, ApiClient};
use crate::effect::scale::ScaleReader;

/// For all reads together: whoever asks waits for them.
const PATIENCE: Duration = Duration::from_secs(1);

/// What shows that it is the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exemption {
    NamespaceEnds,
    OwnerGone,
    OwnerEnds,
    NodeGone,
    /// By a taint `NoExecute` that the pod does not tolerate, or no longer.
    DrivenOut,
}

impl Exemption {
    /// For metrics and the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::NamespaceEnds => "namespace-terminating",
            Self::OwnerGone => "owner-gone",
            Self::OwnerEnds => "owner-terminating",
            Self::NodeGone => "node-gone",
            Self::DrivenOut => "no-execute-taint",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Exemptions {
    client: ApiClient,
    /// Knows where owners of any kind are.
    scales: ScaleReader,
}

impl Exemptions {
    pub fn new(client: ApiClient) -> Self {
        let scales = ScaleReader::new(client.clone());
        Self { client, scales }
    }

    pub async fn look(&self, namespace: &str, pod: &Circumstances) -> Option<Exemption> {
        let looks = async {
            tokio::join!(self.namespace(namespace), self.owner(namespace, pod), self.node(pod))
        };
        let (namespace, owner, node) = tokio::time::timeout(PATIENCE, looks).await.ok()?;
        namespace.or(owner).or(node)
    }

    async fn namespace(&self, name: &str) -> Option<Exemption> {
        let answer = self.client.get(&format!("/api/v1/namespaces/{name}")).await.ok()?;
        let ends = match found(&answer, name)? {
            Found::Gone => true,
            Found::Object(object) => object.metadata.deletion_timestamp.is_some(),
        };
        ends.then_some(Exemption::NamespaceEnds)
    }

    async fn owner(&self, namespace: &str, pod: &Circumstances) -> Option<Exemption> {
        let owner = pod.controller.as_ref()?;
        let resource = self.scales.resource(owner).await.ok()??;
        let path = resource.object_path(namespace, &owner.name);
        let mut answer = self.client.get(&path).await.ok()?;
        if answer.code == StatusCode::FORBIDDEN && resource.has_scale {
            // We may read no more than this of most kinds. It does not say whether the owner is ending.
            answer = self.client.get(&format!("{path}/scale")).await.ok()?;
        }
        of_owner(&answer, owner)
    }

    async fn node(&self, pod: &Circumstances) -> Option<Exemption> {
        if pod.node.is_empty() {
            return None;
        }
        let answer = self.client.get(&format!("/api/v1/nodes/{}", pod.node)).await.ok()?;
        match found(&answer, &pod.node)? {
            Found::Gone => Some(Exemption::NodeGone),
            Found::Object(node) => {
                let now = Timestamp::now();
                let mut taints = node.spec.taints.iter().filter(|t| t.effect == "NoExecute");
                taints.any(|taint| !taint.is_tolerated(pod, now)).then_some(Exemption::DrivenOut)
            }
        }
    }
}

fn of_owner(answer: &Answer, owner: &ControllerRef) -> Option<Exemption> {
    match found(answer, &owner.name)? {
        Found::Gone => Some(Exemption::OwnerGone),
        Found::Object(object) if object.metadata.uid != owner.uid => Some(Exemption::OwnerGone),
        Found::Object(object) => object.metadata.deletion_timestamp.map(|_| Exemption::OwnerEnds),
    }
}

enum Found {
    Object(Box<Object>),
    Gone,
}

/// None: it shows neither the object nor its absence.
fn found(answer: &Answer, name: &str) -> Option<Found> {
    if answer.code == StatusCode::OK {
        return answer.json().ok().map(|object| Found::Object(Box::new(object)));
    }
    answer.is_object_not_found(name).then_some(Found::Gone)
}

/// As much of any object as is looked at.
#[derive(Debug, Deserialize)]
struct Object {
    metadata: Meta,
    #[serde(default)]
    spec: Spec,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    #[serde(default)]
    uid: String,
    deletion_timestamp: Option<String>,
}

/// Of a node.
#[derive(Debug, Default, Deserialize)]
struct Spec {
    #[serde(default)]
    taints: Vec<Taint>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Taint {
    key: String,
    #[serde(default)]
    value: String,
    effect: String,
    time_added: Option<Timestamp>,
}

impl Taint {
    fn is_tolerated(&self, pod: &Circumstances, now: Timestamp) -> bool {
        // Of several, upstream goes by the first.
        let Some(first) = pod.tolerations.iter().find(|toleration| self.matches(toleration)) else {
            return false;
        };
        let Some(seconds) = first.toleration_seconds else { return true };
        // Nobody but the node controller says since when. A pod that tolerates it for a while only will be
        // driven out in any case.
        let Some(since) = self.time_added else { return false };
        now.duration_since(since).as_secs() < seconds
    }

    fn matches(&self, toleration: &Toleration) -> bool {
        let Toleration { key, operator, value, effect, .. } = toleration;
        let covers =
            (effect.is_empty() || *effect == self.effect) && (key.is_empty() || *key == self.key);
        covers
            && match operator.as_str() {
                "" | "Equal" => *value == self.value,
                // Exists; and what we do not know exempts nothing.
                _ => true,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_core::model::GroupKind;

    fn answer(code: u16, body: &str) -> Answer {
        Answer { code: StatusCode::from_u16(code).unwrap(), body: body.as_bytes().to_vec() }
    }

    #[test]
    fn an_owner_exempts_when_it_is_gone_or_going() {
        let owner = ControllerRef {
            group_kind: GroupKind::new("apps", "ReplicaSet"),
            version: "v1".to_owned(),
            name: "web".to_owned(),
            uid: "u".to_owned(),
        };
        let look = |code, body| of_owner(&answer(code, body), &owner);
        assert_eq!(look(200, r#"{"metadata":{"uid":"u"}}"#), None);
        assert_eq!(look(200, r#"{"metadata":{"uid":"other"}}"#), Some(Exemption::OwnerGone));
        let ending = r#"{"metadata":{"uid":"u","deletionTimestamp":"2026-01-01T00:00:00Z"}}"#;
        assert_eq!(look(200, ending), Some(Exemption::OwnerEnds));
        let gone = r#"{"reason":"NotFound","details":{"name":"web"}}"#;
        assert_eq!(look(404, gone), Some(Exemption::OwnerGone));
        // What shows nothing exempts nothing.
        assert_eq!(look(404, "404 page not found"), None);
        assert_eq!(look(403, "{}"), None);
        assert_eq!(look(503, "{}"), None);
    }

    fn tolerated(taint: &str, tolerations: &str) -> bool {
        let taint: Taint = serde_json::from_str(taint).unwrap();
        let tolerations = serde_json::from_str(tolerations).unwrap();
        let pod = Circumstances { tolerations, ..Circumstances::default() };
        taint.is_tolerated(&pod, "2026-01-01T00:05:00Z".parse().unwrap())
    }

    #[test]
    fn tolerations_are_matched_as_the_taint_manager_does() {
        let taint = r#"{"key":"gpu","value":"bad","effect":"NoExecute"}"#;
        for (tolerations, expected) in [
            ("[]", false),
            (r#"[{"operator":"Exists"}]"#, true),
            (r#"[{"key":"gpu","operator":"Exists","effect":"NoExecute"}]"#, true),
            (r#"[{"key":"gpu","operator":"Exists","effect":"NoSchedule"}]"#, false),
            (r#"[{"key":"gpu","value":"bad"}]"#, true),
            (r#"[{"key":"gpu","operator":"Equal","value":"good"}]"#, false),
            (r#"[{"key":"other","operator":"Exists"}]"#, false),
        ] {
            assert_eq!(tolerated(taint, tolerations), expected, "{tolerations}");
        }
    }

    #[test]
    fn a_toleration_for_a_while_ends() {
        let since =
            |time: &str| format!(r#"{{"key":"k","effect":"NoExecute","timeAdded":"{time}"}}"#);
        let five_minutes = r#"[{"key":"k","operator":"Exists","tolerationSeconds":300}]"#;
        assert!(tolerated(&since("2026-01-01T00:00:01Z"), five_minutes));
        assert!(!tolerated(&since("2026-01-01T00:00:00Z"), five_minutes));
        assert!(!tolerated(r#"{"key":"k","effect":"NoExecute"}"#, five_minutes));
        let two =
            r#"[{"key":"k","operator":"Exists","tolerationSeconds":60},{"operator":"Exists"}]"#;
        assert!(!tolerated(&since("2026-01-01T00:03:00Z"), two), "the first of them counts");
    }
}
