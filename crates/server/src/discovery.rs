//! Which version of an API this server serves, and under which resource name.

use http::StatusCode;
use serde::Deserialize;

use crate::api_client::{ApiClient, NoAnswer};

/// Where a resource lives: `/apis/apps/v1` and `deployments`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    pub group: String,
    pub version: String,
    pub plural: String,
    pub has_scale: bool,
}

impl Resource {
    pub fn fixed(group: &str, version: &str, plural: &str) -> Self {
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            has_scale: false,
        }
    }

    pub fn path(&self) -> String {
        format!("{}/{}", group_version_path(&self.group, &self.version), self.plural)
    }

    pub fn namespace_path(&self, namespace: &str) -> String {
        let root = group_version_path(&self.group, &self.version);
        format!("{root}/namespaces/{namespace}/{}", self.plural)
    }

    pub fn object_path(&self, namespace: &str, name: &str) -> String {
        format!("{}/{name}", self.namespace_path(namespace))
    }

    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// As upstream writes it in messages: `daemonsets.apps`, `replicationcontrollers`.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }
}

/// Find the resource of a kind in `group`. Of the served versions, those in `preferred` are tried in that order;
/// an empty list means the server's own preference. None: not served, which is no error.
pub async fn find(
    client: &ApiClient,
    group: &str,
    preferred: &[&str],
    kind: &str,
) -> Result<Option<Resource>, NoAnswer> {
    let served = if group.is_empty() {
        vec!["v1".to_owned()]
    } else {
        let path = format!("/apis/{group}");
        match ask::<ApiGroup>(client, &path).await? {
            Some(answer) => answer.versions_by_preference(),
            None => return Ok(None),
        }
    };
    let candidates: Vec<&str> = if preferred.is_empty() {
        served.iter().map(String::as_str).collect()
    } else {
        preferred.iter().copied().filter(|v| served.iter().any(|s| s == v)).collect()
    };
    for version in candidates {
        let path = group_version_path(group, version);
        let Some(list) = ask::<ResourceList>(client, &path).await? else { continue };
        if let Some(resource) = list.pick(group, version, kind) {
            return Ok(Some(resource));
        }
    }
    Ok(None)
}

fn group_version_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

async fn ask<T: for<'a> Deserialize<'a>>(
    client: &ApiClient,
    path: &str,
) -> Result<Option<T>, NoAnswer> {
    let answer = client.get(path).await?;
    match answer.code {
        StatusCode::OK => answer
            .json()
            .map(Some)
            .map_err(|e| NoAnswer(format!("cannot read the discovery document {path}: {e}"))),
        StatusCode::NOT_FOUND => Ok(None),
        _ => Err(NoAnswer(format!("discovery of {path}: {}", answer.message()))),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApiGroup {
    versions: Vec<GroupVersion>,
    preferred_version: Option<GroupVersion>,
}

#[derive(Deserialize)]
struct GroupVersion {
    version: String,
}

impl ApiGroup {
    fn versions_by_preference(self) -> Vec<String> {
        let mut versions: Vec<String> = self.versions.into_iter().map(|v| v.version).collect();
        if let Some(preferred) = self.preferred_version {
            versions.sort_by_key(|version| *version != preferred.version);
        }
        versions
    }
}

#[derive(Deserialize)]
struct ResourceList {
    resources: Vec<ApiResource>,
}

#[derive(Deserialize)]
struct ApiResource {
    name: String,
    kind: String,
}

impl ResourceList {
    fn pick(&self, group: &str, version: &str, kind: &str) -> Option<Resource> {
        // Subresources are listed beside the resources, as `deployments/scale`.
        let is_it = |r: &&ApiResource| r.kind == kind && !r.name.contains('/');
        let found = self.resources.iter().find(is_it)?;
        let scale = format!("{}/scale", found.name);
        let has_scale = self.resources.iter().any(|resource| resource.name == scale);
        Some(Resource { has_scale, ..Resource::fixed(group, version, &found.name) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apps() -> ResourceList {
        serde_json::from_str(
            r#"{"resources":[
                {"name":"daemonsets","kind":"DaemonSet"},
                {"name":"daemonsets/status","kind":"DaemonSet"},
                {"name":"deployments","kind":"Deployment"},
                {"name":"deployments/scale","kind":"Scale"}]}"#,
        )
        .unwrap()
    }

    #[test]
    fn finds_by_kind_and_tells_whether_it_scales() {
        let deployment = apps().pick("apps", "v1", "Deployment").unwrap();
        assert!(deployment.has_scale);
        assert_eq!(
            deployment.object_path("default", "web"),
            "/apis/apps/v1/namespaces/default/deployments/web"
        );
        let daemon_set = apps().pick("apps", "v1", "DaemonSet").unwrap();
        assert!(!daemon_set.has_scale);
        assert_eq!(daemon_set.qualified(), "daemonsets.apps");
        assert_eq!(apps().pick("apps", "v1", "Scale"), None);
    }

    #[test]
    fn core_resources_live_under_api() {
        let pods = Resource::fixed("", "v1", "pods");
        assert_eq!(pods.path(), "/api/v1/pods");
        assert_eq!(pods.qualified(), "pods");
    }
}
