//! Replicas and sources as text, the form in which a budget's status remembers them. Names of Kubernetes objects
//! have no slashes.

use crate::model::{GroupApi, TemplateRef};
use crate::replica::{GroupCount, ReplicaKey, Source};

impl ReplicaKey {
    /// None for a group by label, which never has a size of its own.
    pub(crate) fn encode(&self) -> Option<String> {
        Some(match self {
            Self::Lws { group_key } => format!("lws/{group_key}"),
            Self::PodGroup { name } => format!("podgroup/{name}"),
            Self::AnnotatedGroup { name } => format!("annotation/{name}"),
            Self::WorkloadEntry { .. } | Self::Labelled { .. } => return None,
        })
    }

    pub(crate) fn decode(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once('/')?;
        let name = name.to_owned();
        Some(match kind {
            "lws" => Self::Lws { group_key: name },
            "podgroup" => Self::PodGroup { name },
            "annotation" => Self::AnnotatedGroup { name },
            _ => return None,
        })
    }
}

impl Source {
    /// None for an unknown source, of which there is nothing to remember.
    pub(crate) fn encode(&self) -> Option<String> {
        Some(match self {
            Self::Entry { api, workload, entry } => {
                format!("Workload/{}/{workload}/{entry}", encode_api(*api))
            }
            Self::Lws { name } => format!("LeaderWorkerSet/{name}"),
            Self::Job { name } => format!("Job/{name}"),
            Self::JobSet { name, .. } => format!("JobSet/{name}"),
            Self::StatefulSet { name } => format!("StatefulSet/{name}"),
            Self::Groups(GroupCount::Template(api, TemplateRef { workload, template })) => {
                format!("PodGroupsOfTemplate/{}/{workload}/{template}", encode_api(*api))
            }
            Self::Groups(GroupCount::Controller(api, uid)) => {
                format!("PodGroupsOfController/{}/{uid}", encode_api(*api))
            }
            Self::Unknown => return None,
        })
    }

    pub(crate) fn decode(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split('/').collect();
        let own = |text: &str| text.to_owned();
        Some(match parts[..] {
            ["Workload", api, workload, entry] => {
                Self::Entry { api: decode_api(api)?, workload: own(workload), entry: own(entry) }
            }
            ["LeaderWorkerSet", name] => Self::Lws { name: own(name) },
            ["Job", name] => Self::Job { name: own(name) },
            ["JobSet", name] => Self::JobSet { name: own(name), otherwise: None },
            ["StatefulSet", name] => Self::StatefulSet { name: own(name) },
            ["PodGroupsOfTemplate", api, workload, template] => {
                let template = TemplateRef { workload: own(workload), template: own(template) };
                Self::Groups(GroupCount::Template(decode_api(api)?, template))
            }
            ["PodGroupsOfController", api, uid] => {
                Self::Groups(GroupCount::Controller(decode_api(api)?, own(uid)))
            }
            _ => return None,
        })
    }
}

fn encode_api(api: GroupApi) -> &'static str {
    match api {
        GroupApi::Kubernetes => "kubernetes",
        GroupApi::Holdfast => "holdfast",
    }
}

fn decode_api(text: &str) -> Option<GroupApi> {
    match text {
        "kubernetes" => Some(GroupApi::Kubernetes),
        "holdfast" => Some(GroupApi::Holdfast),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let template = TemplateRef { workload: "w".to_owned(), template: "t".to_owned() };
        for source in [
            Source::Entry {
                api: GroupApi::Holdfast,
                workload: "w".to_owned(),
                entry: "e".to_owned(),
            },
            Source::Lws { name: "x".to_owned() },
            Source::Job { name: "x".to_owned() },
            Source::JobSet { name: "x".to_owned(), otherwise: None },
            Source::StatefulSet { name: "x".to_owned() },
            Source::Groups(GroupCount::Template(GroupApi::Kubernetes, template)),
            Source::Groups(GroupCount::Controller(GroupApi::Holdfast, "u".to_owned())),
        ] {
            let text = source.encode().unwrap();
            assert_eq!(Source::decode(&text), Some(source), "{text}");
        }
        for key in [
            ReplicaKey::Lws { group_key: "k".to_owned() },
            ReplicaKey::PodGroup { name: "g".to_owned() },
            ReplicaKey::AnnotatedGroup { name: "g".to_owned() },
        ] {
            let text = key.encode().unwrap();
            assert_eq!(ReplicaKey::decode(&text), Some(key), "{text}");
        }
        assert_eq!(Source::decode("DaemonSet/x"), None);
        assert_eq!(ReplicaKey::decode("x"), None);
    }
}
