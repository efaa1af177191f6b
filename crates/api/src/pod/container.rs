//! Containers: their spec, their status, and whether the two agree.

use serde::Deserialize;

use super::Pod;
use crate::lenient::{Text, null_default};
use crate::quantity;

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Container<'a> {
    #[serde(borrow, default)]
    pub name: Text<'a>,
    #[serde(borrow, default)]
    pub image: Text<'a>,
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub resources: Resources<'a>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContainerStatus<'a> {
    #[serde(borrow, default)]
    pub name: Text<'a>,
    #[serde(borrow, default)]
    pub image: Text<'a>,
    #[serde(rename = "imageID", borrow, default)]
    pub image_id: Text<'a>,
    #[serde(borrow, default, deserialize_with = "null_default")]
    resources: Resources<'a>,
    /// The requests that the node has accepted.
    #[serde(borrow, default, deserialize_with = "null_default")]
    allocated_resources: Amounts<'a>,
}

/// The resources that can be changed in place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Resources<'a> {
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub requests: Amounts<'a>,
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub limits: Amounts<'a>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Amounts<'a> {
    #[serde(borrow, default)]
    pub cpu: Text<'a>,
    #[serde(borrow, default)]
    pub memory: Text<'a>,
}

impl Pod<'_> {
    /// Returns the containers of the spec, each with its status.
    pub(super) fn containers(
        &self,
    ) -> impl Iterator<Item = (&Container<'_>, Option<&ContainerStatus<'_>>)> {
        let statuses = &self.status.container_statuses;
        self.spec.containers.iter().map(move |container| {
            (container, statuses.iter().find(|status| *status.name == *container.name))
        })
    }
}

/// Returns true if the status shows the spec: the kubelet has seen it and runs these images with these
/// resources.
pub(super) fn is_applied(pod: &Pod<'_>) -> bool {
    let seen = pod.status.observed_generation.is_none_or(|seen| seen >= pod.metadata.generation);
    seen && !pod.status.conditions.resizing
        && pod.containers().all(|(container, status)| {
            status.is_some_and(|status| {
                runs_image(container, status) && has_resources(&container.resources, status)
            })
        })
}

fn runs_image(container: &Container<'_>, status: &ContainerStatus<'_>) -> bool {
    same_image(&container.image, &status.image)
        || digest(&container.image).is_some_and(|wanted| digest(&status.image_id) == Some(wanted))
}

fn has_resources(wanted: &Resources<'_>, status: &ContainerStatus<'_>) -> bool {
    shows(&status.allocated_resources, &wanted.requests)
        && shows(&status.resources.requests, &wanted.requests)
        && shows(&status.resources.limits, &wanted.limits)
}

/// Old kubelets show no resources. No kubelet shows resources that were not requested.
fn shows(shown: &Amounts<'_>, wanted: &Amounts<'_>) -> bool {
    let one = |shown: &str, wanted: &str| {
        shown.is_empty() || wanted.is_empty() || quantity::same(shown, wanted)
    };
    one(&shown.cpu, &wanted.cpu) && one(&shown.memory, &wanted.memory)
}

/// Returns true if two names mean the same image: `nginx` is `docker.io/library/nginx:latest`. If there is a
/// digest, the tag does not count.
pub(super) fn same_image(a: &str, b: &str) -> bool {
    a == b || canonical(a) == canonical(b)
}

/// The part after `@`, which names the content of an image.
pub(super) fn digest(image: &str) -> Option<&str> {
    image.split_once('@').map(|(_, digest)| digest)
}

/// Returns the repository, and the digest or tag.
fn canonical(image: &str) -> (&str, &str) {
    let (name, digest) = image.split_once('@').unwrap_or((image, ""));
    let colon = name.rfind(':').filter(|colon| !name[*colon..].contains('/'));
    let (repository, tag) = colon.map_or((name, "latest"), |at| (&name[..at], &name[at + 1..]));
    let hub =
        ["docker.io/", "index.docker.io/"].iter().find_map(|hub| repository.strip_prefix(hub));
    let repository = hub.unwrap_or(repository);
    let repository = repository.strip_prefix("library/").unwrap_or(repository);
    (repository, if digest.is_empty() { tag } else { digest })
}

#[cfg(test)]
mod tests {
    use super::same_image;

    #[test]
    fn names_of_one_image() {
        for (a, b, same) in [
            ("nginx", "docker.io/library/nginx:latest", true),
            ("nginx:1.27", "docker.io/library/nginx:1.27", true),
            ("acme/web:1", "docker.io/acme/web:1", true),
            ("localhost:5000/web", "localhost:5000/web:latest", true),
            ("web:1@sha256:aa", "docker.io/library/web@sha256:aa", true),
            ("nginx:1.27", "nginx:1.28", false),
            ("nginx:1.27", "nginx", false),
            ("quay.io/nginx:1", "nginx:1", false),
            ("localhost:5000/web", "localhost:5001/web", false),
            ("web@sha256:aa", "web@sha256:bb", false),
            ("web@sha256:aa", "web:1", false),
        ] {
            assert_eq!(same_image(a, b), same, "{a} {b}");
            assert_eq!(same_image(b, a), same, "{b} {a}");
        }
    }
}
