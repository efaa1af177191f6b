//! What is done for gangs on the API server. Each action can be repeated, and none hits an object that has
//! taken the place of the one that it was meant for.

use std::sync::Arc;

use holdfast_api::budget;
use holdfast_api::gang::encode::{self, ApiVersion};
use holdfast_core::gang::{Action, GATE, NewGroup, PROTECTION};
use holdfast_core::model::{Condition, GroupApi, ObjectKey, TemplateRef};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::api_client::{
    APPLY_PATCH, Answer, ApiClient, MERGE_PATCH, NoAnswer, STRATEGIC_MERGE_PATCH,
};
use crate::discovery::{self, Resource};
use crate::effect::pod;
use crate::install::POD_GROUPS;
use crate::install::gang::VERSIONS;

#[derive(Clone, Debug)]
pub struct Actor {
    client: ApiClient,
    api: GroupApi,
    /// Where `PodGroups` are; found out when it is needed, and again after a failure.
    groups: Arc<Mutex<Option<Resource>>>,
}

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undone {
    /// As happens: a budget stands in the way.
    NotYet(String),
    Failed(String),
}

impl From<String> for Undone {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}

impl Actor {
    pub fn new(client: ApiClient, api: GroupApi) -> Self {
        Self { client, api, groups: Arc::default() }
    }

    pub async fn act(&self, action: &Action) -> Result<(), Undone> {
        let outcome = match action {
            Action::Lift { pod, uid } => Ok(lift(&self.client, pod, uid).await?),
            Action::Evict { pod, uid } => self.evict(pod, uid).await,
            Action::Report { group, uid, scheduled_pods, conditions } => {
                Ok(self.report(group, uid, *scheduled_pods, conditions).await?)
            }
            Action::Mark { group, uid, condition } => Ok(self.mark(group, uid, condition).await?),
            Action::Protect { group, uid, on } => Ok(self.protect(group, uid, *on).await?),
            Action::Delete { group, uid } => Ok(self.delete(group, uid).await?),
            Action::Resize { group, uid, min_count, template } => {
                Ok(self.resize(group, uid, *min_count, template.as_ref()).await?)
            }
            Action::Remake(new) => Ok(self.make(new).await?),
        };
        if matches!(outcome, Err(Undone::Failed(_))) {
            // The API server may serve another version by now.
            *self.groups.lock().await = None;
        }
        outcome
    }

    /// The `PodGroup`, after its Workload. Either may be there already.
    pub async fn make(&self, new: &NewGroup) -> Result<(), String> {
        let groups = self.groups().await?;
        let version = match self.api {
            GroupApi::Holdfast => ApiVersion::Holdfast,
            GroupApi::Kubernetes => ApiVersion::of_kubernetes(&groups.version)
                .ok_or_else(|| format!("PodGroups of {} are unknown", groups.version))?,
        };
        let namespace = &new.key.namespace;
        let workloads = Resource { plural: "workloads".to_owned(), ..groups.clone() };
        let path = workloads.namespace_path(namespace);
        let body = encode::workload(new, version);
        // Of another owner it may be as it likes: what counts is in the PodGroup.
        let workload = self.create(&path, &new.workload.name, &body).await?;
        let path = groups.namespace_path(namespace);
        let body = encode::pod_group(new, version, Some(&workload.metadata.uid));
        let group = self.create(&path, &new.key.name, &body).await?;
        if group.controller() != Some(&new.owner.uid) {
            let owner = &new.owner.name;
            return Err(format!("PodGroup {} is there, and not of {owner}", new.key));
        }
        Ok(())
    }

    /// The object as it was created, or is.
    async fn create(&self, path: &str, name: &str, body: &Value) -> Result<Made, String> {
        let answer = self.client.post(path, body).await.map_err(|NoAnswer(reason)| reason)?;
        if answer.code != StatusCode::CONFLICT {
            return done(&answer)?.json().map_err(|error| error.to_string());
        }
        let path = format!("{path}/{name}");
        let there = self.client.get(&path).await.map_err(|NoAnswer(reason)| reason)?;
        done(&there)?.json().map_err(|error| error.to_string())
    }

    async fn evict(&self, pod: &ObjectKey, uid: &str) -> Result<(), Undone> {
        let ObjectKey { namespace, name } = pod;
        let body = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        });
        let path = format!("{}/eviction", pod::path(pod));
        let answer = self.client.post(&path, &body).await;
        let answer = answer.map_err(|NoAnswer(reason)| Undone::Failed(reason))?;
        match answer.code {
            StatusCode::TOO_MANY_REQUESTS => Err(Undone::NotYet(answer.message())),
            _ => Ok(unless_gone(&answer)?),
        }
    }

    /// A list is replaced as a whole, and only if it is still what was read.
    async fn report(
        &self,
        group: &ObjectKey,
        uid: &str,
        scheduled_pods: i64,
        conditions: &[Condition],
    ) -> Result<(), String> {
        let path = self.groups().await?.object_path(&group.namespace, &group.name);
        let mut patch = json!({
            "metadata": {"uid": uid},
            "status": {"scheduledPods": scheduled_pods},
        });
        if !conditions.is_empty() {
            let Some(object) = self.read(&path).await? else { return Ok(()) };
            let known = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
            patch["status"]["conditions"] = merged(known, conditions)?.into();
            patch["metadata"]["resourceVersion"] = object["metadata"]["resourceVersion"].clone();
        }
        self.patch(&format!("{path}/status"), MERGE_PATCH, &patch).await
    }

    /// By server-side apply: the conditions of others stay.
    async fn mark(
        &self,
        group: &ObjectKey,
        uid: &str,
        condition: &Condition,
    ) -> Result<(), String> {
        let groups = self.groups().await?;
        let body = json!({
            "apiVersion": groups.api_version(),
            "kind": "PodGroup",
            "metadata": {"namespace": group.namespace, "name": group.name, "uid": uid},
            "status": {"conditions": [budget::Condition::from(condition)]},
        });
        let path = groups.object_path(&group.namespace, &group.name);
        let path = format!("{path}/status?fieldManager={POD_GROUPS}&force=true");
        self.patch(&path, APPLY_PATCH, &body).await
    }

    async fn protect(&self, group: &ObjectKey, uid: &str, on: bool) -> Result<(), String> {
        let groups = self.groups().await?;
        protect(&self.client, &groups.object_path(&group.namespace, &group.name), uid, on).await
    }

    async fn delete(&self, group: &ObjectKey, uid: &str) -> Result<(), String> {
        let groups = self.groups().await?;
        let path = groups.object_path(&group.namespace, &group.name);
        let answer = self.client.delete_only(&path, json!({"uid": uid})).await;
        unless_gone(&answer.map_err(|NoAnswer(reason)| reason)?)
    }

    async fn resize(
        &self,
        group: &ObjectKey,
        uid: &str,
        min_count: i64,
        template: Option<&TemplateRef>,
    ) -> Result<(), String> {
        let groups = self.groups().await?;
        if let Some(template) = template {
            self.resize_template(&groups, &group.namespace, template, min_count).await?;
        }
        let patch = json!({
            "metadata": {"uid": uid},
            "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}},
        });
        let path = groups.object_path(&group.namespace, &group.name);
        self.patch(&path, MERGE_PATCH, &patch).await
    }

    async fn resize_template(
        &self,
        groups: &Resource,
        namespace: &str,
        template: &TemplateRef,
        min_count: i64,
    ) -> Result<(), String> {
        let workloads = Resource { plural: "workloads".to_owned(), ..groups.clone() };
        let path = workloads.object_path(namespace, &template.workload);
        let Some(object) = self.read(&path).await? else { return Ok(()) };
        let mut templates = object["spec"]["podGroupTemplates"].clone();
        let found = templates.as_array_mut().into_iter().flatten();
        for found in found.filter(|found| found["name"] == template.template) {
            if found["schedulingPolicy"]["gang"].is_null() {
                continue;
            }
            found["schedulingPolicy"]["gang"]["minCount"] = json!(min_count);
        }
        if templates == object["spec"]["podGroupTemplates"] {
            return Ok(());
        }
        let version = &object["metadata"]["resourceVersion"];
        let patch = json!({
            "metadata": {"resourceVersion": version},
            "spec": {"podGroupTemplates": templates},
        });
        self.patch(&path, MERGE_PATCH, &patch).await
    }

    /// None: it is gone.
    async fn read(&self, path: &str) -> Result<Option<Value>, String> {
        let answer = self.client.get(path).await.map_err(|NoAnswer(reason)| reason)?;
        if answer.code == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        done(&answer)?.json().map(Some).map_err(|error| error.to_string())
    }

    async fn patch(&self, path: &str, kind: &'static str, patch: &Value) -> Result<(), String> {
        let answer = self.client.patch(path, kind, patch).await;
        unless_gone(&answer.map_err(|NoAnswer(reason)| reason)?)
    }

    async fn groups(&self) -> Result<Resource, String> {
        if self.api == GroupApi::Holdfast {
            return Ok(own("podgroups"));
        }
        let mut groups = self.groups.lock().await;
        if let Some(found) = &*groups {
            return Ok(found.clone());
        }
        let found = discovery::find(&self.client, "scheduling.k8s.io", VERSIONS, "PodGroup").await;
        let found = found.map_err(|NoAnswer(reason)| reason)?;
        let found = found.ok_or("PodGroups of scheduling.k8s.io are not served any more")?;
        *groups = Some(found.clone());
        Ok(found)
    }
}

/// In shape Holdfast.
pub fn own(plural: &str) -> Resource {
    Resource::fixed(holdfast_api::gang::GROUP, holdfast_api::gang::VERSION, plural)
}

/// Removes the gate from this very pod.
pub async fn lift(client: &ApiClient, pod: &ObjectKey, uid: &str) -> Result<(), String> {
    let patch = json!({
        "metadata": {"uid": uid},
        "spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]},
    });
    let answer = client.patch(&pod::path(pod), STRATEGIC_MERGE_PATCH, &patch).await;
    unless_gone(&answer.map_err(|NoAnswer(reason)| reason)?)
}

/// Adds or removes our finalizer, among others'.
pub async fn protect(client: &ApiClient, path: &str, uid: &str, on: bool) -> Result<(), String> {
    let answer = client.get(path).await.map_err(|NoAnswer(reason)| reason)?;
    if answer.code == StatusCode::NOT_FOUND {
        return Ok(());
    }
    let object: Made = done(&answer)?.json().map_err(|error| error.to_string())?;
    let Metadata { uid: found, resource_version, mut finalizers, .. } = object.metadata;
    if found != uid || on == finalizers.iter().any(|one| one == PROTECTION) {
        return Ok(());
    }
    finalizers.retain(|one| one != PROTECTION);
    if on {
        finalizers.push(PROTECTION.to_owned());
    }
    let patch =
        json!({"metadata": {"resourceVersion": resource_version, "finalizers": finalizers}});
    let answer = client.patch(path, MERGE_PATCH, &patch).await;
    unless_gone(&answer.map_err(|NoAnswer(reason)| reason)?)
}

#[derive(Debug, Deserialize)]
struct Made {
    metadata: Metadata,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    uid: String,
    resource_version: String,
    #[serde(default)]
    finalizers: Vec<String>,
    #[serde(default)]
    owner_references: Vec<Reference>,
}

#[derive(Debug, Deserialize)]
struct Reference {
    uid: String,
    #[serde(default)]
    controller: bool,
}

impl Made {
    fn controller(&self) -> Option<&String> {
        let mut owners = self.metadata.owner_references.iter();
        owners.find(|owner| owner.controller).map(|owner| &owner.uid)
    }
}

/// These conditions among others.
fn merged(mut known: Vec<Value>, new: &[Condition]) -> Result<Vec<Value>, String> {
    for condition in new {
        let new = serde_json::to_value(budget::Condition::from(condition));
        let new = new.map_err(|error| error.to_string())?;
        match known.iter_mut().find(|known| known["type"] == new["type"]) {
            Some(known) => *known = new,
            None => known.push(new),
        }
    }
    Ok(known)
}

fn done(answer: &Answer) -> Result<&Answer, String> {
    if answer.code.is_success() { Ok(answer) } else { Err(answer.message()) }
}

/// What is gone, or is another by now, needs nothing any more; if it changed, the next plan has it again.
fn unless_gone(answer: &Answer) -> Result<(), String> {
    match answer.code {
        StatusCode::NOT_FOUND | StatusCode::CONFLICT => Ok(()),
        _ => done(answer).map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_core::model::{ConditionStatus, Timestamp};

    #[test]
    fn conditions_of_others_stay() {
        let condition = Condition {
            kind: "PodGroupScheduled".to_owned(),
            status: ConditionStatus::True,
            reason: "Scheduled".to_owned(),
            message: "all".to_owned(),
            observed_generation: 1,
            last_transition: Timestamp::from_secs(0),
        };
        let theirs = json!({"type": "Theirs", "status": "True"});
        let first = merged(vec![theirs.clone()], std::slice::from_ref(&condition)).unwrap();
        assert_eq!(first.len(), 2);
        assert_eq!(first[0], theirs);
        assert_eq!(first[1]["lastTransitionTime"], "1970-01-01T00:00:00Z");
        let turned = Condition { status: ConditionStatus::Unknown, ..condition };
        let second = merged(first, &[turned]).unwrap();
        assert_eq!((second.len(), &second[1]["status"]), (2, &json!("Unknown")));
    }

    #[test]
    fn what_is_gone_needs_nothing() {
        let answer = |code: u16| Answer {
            code: StatusCode::from_u16(code).unwrap(),
            body: br#"{"message":"no"}"#.to_vec(),
        };
        for code in [200, 201, 404, 409] {
            assert_eq!(unless_gone(&answer(code)), Ok(()));
        }
        assert_eq!(unless_gone(&answer(422)), Err("no (422)".to_owned()));
    }
}
