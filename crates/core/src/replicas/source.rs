//! Where the number of expected replicas comes from (semantics 4).

use crate::cache::GroupCount;
use crate::model::{GroupApi, Owner, TemplateRef};

/// Where the number of expected replicas comes from, in the order of semantics 4.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    Entry {
        api: GroupApi,
        workload: String,
        entry: String,
    },
    Lws {
        name: String,
    },
    Job {
        name: String,
    },
    /// Counts if each child Job is one replica; else the `PodGroups` are counted.
    JobSet {
        name: String,
        otherwise: Option<GroupCount>,
    },
    StatefulSet {
        name: String,
    },
    Groups(GroupCount),
    Unknown,
}

impl Source {
    /// API group, kind and name of the owner that says the number, if it is one.
    pub(crate) fn owner(&self) -> Option<(&'static str, &'static str, &str)> {
        Some(match self {
            Self::Lws { name } => (Owner::LWS_GROUP, "LeaderWorkerSet", name),
            Self::Job { name } => ("batch", "Job", name),
            Self::JobSet { name, .. } => (Owner::JOBSET_GROUP, "JobSet", name),
            Self::StatefulSet { name } => ("apps", "StatefulSet", name),
            Self::Entry { .. } | Self::Groups(_) | Self::Unknown => return None,
        })
    }
}

/// The form in which a budget's status remembers a source. Names of Kubernetes objects have no slashes.
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
        assert_eq!(Source::decode("DaemonSet/x"), None);
    }
}
