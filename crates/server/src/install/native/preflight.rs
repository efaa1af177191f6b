//! Finds objects and admission rules that a takeover would harm, before anything is changed.

use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use super::api_service::Standing;
use super::import::{self, Budgets, Storage};
use crate::api_client::{ApiClient, NoAnswer};
use crate::error::Error;
use crate::install::rights::may_list;

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

/// Reads only metadata: the installer does not need the content of users' objects.
const METADATA_ONLY: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// Refuses with a list of all obstacles, if there are any.
pub async fn check(
    client: &ApiClient,
    standing: &Standing,
    accept_bypass: bool,
) -> Result<(), Error> {
    let mut obstacles = of_budgets(client, standing).await?;
    obstacles.extend(owned(client).await?);
    if !accept_bypass {
        obstacles.extend(bypassed(client).await?);
    }
    none(obstacles)
}

/// Repeats the fast checks when this instance has the Lease, because users may have made changes since.
pub async fn check_again(client: &ApiClient, standing: &Standing) -> Result<(), Error> {
    none(of_budgets(client, standing).await?)
}

fn none(obstacles: Vec<String>) -> Result<(), Error> {
    if obstacles.is_empty() { Ok(()) } else { Err(Error::Obstacles(obstacles)) }
}

/// Checks the present server of `policy/v1`, and the budgets.
async fn of_budgets(client: &ApiClient, standing: &Standing) -> Result<Vec<String>, Error> {
    let (built_in, _) = Storage::BuiltIn.list(client).await?;
    let (ours, _) = Storage::Ours.list(client).await?;
    let mut obstacles = Vec::new();
    if standing.is_missing() {
        let missing = "apiservice/v1.policy is missing; kube-apiserver makes it when it starts";
        obstacles.push(missing.to_owned());
    }
    if let Some(service) = standing.foreign() {
        obstacles.push(format!("policy/v1 is served by somebody else: service {service}"));
    }
    obstacles.extend(built_in.keys().filter(|(_, name)| !is_subdomain(name)).map(|(ns, name)| {
        format!(
            "budget {ns}/{name}: a custom resource cannot have this name; recreate it under another"
        )
    }));
    obstacles.extend(clashes(&built_in, &ours));
    Ok(obstacles)
}

/// Returns budgets in Holdfast's API group that users created and that differ from the built-in budget of the
/// same name.
fn clashes(built_in: &Budgets, ours: &Budgets) -> Vec<String> {
    let differ = |(key, own): (&import::Key, &Value)| {
        let other = built_in.get(key)?;
        let clash = !import::is_copy(own) && !import::is_same(own, other);
        clash.then(|| {
            format!(
                "budget {}/{}: it is in policy/v1 and in policy.holdfast.dev/v1, and the two differ; \
                 delete one of them",
                key.0, key.1
            )
        })
    };
    ours.iter().filter_map(differ).collect()
}

/// Returns objects that would lose their owner, because the uid of the owner changes.
async fn owned(client: &ApiClient) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    let mut unseen = Vec::new();
    for path in listable(client).await? {
        // Check the right first. Otherwise the audit log would show that Holdfast tried to list Secrets and
        // was refused.
        let group = path.strip_prefix("/apis/").and_then(|rest| rest.split('/').next());
        let may = may_list(client, group.unwrap_or_default(), plural(&path)).await;
        if !may.map_err(|NoAnswer(reason)| Error::Unlisted { what: path.clone(), reason })? {
            unseen.push(path);
            continue;
        }
        let mut token = String::new();
        loop {
            let page = format!("{path}?limit=500&continue={token}");
            // The kind is no longer served. Some kinds also claim to be listable and are not.
            let Ok(list) = metadata(client, &page).await? else { break };
            let items = list.items.unwrap_or_default();
            found.extend(items.iter().filter_map(|item| owned_by_budget(&path, item)));
            token = list.metadata.r#continue;
            if token.is_empty() {
                break;
            }
        }
    }
    if !unseen.is_empty() {
        tracing::warn!(
            kinds = unseen.join(", "),
            "not looked through for objects that a budget owns: no right to list them"
        );
    }
    Ok(found)
}

fn owned_by_budget(path: &str, item: &Value) -> Option<String> {
    let metadata = &item["metadata"];
    let owners = metadata["ownerReferences"].as_array()?;
    let is_budget = |owner: &&Value| {
        let group = owner["apiVersion"].as_str().and_then(|version| version.split('/').next());
        owner["kind"] == "PodDisruptionBudget" && group == Some("policy")
    };
    let owner = owners.iter().find(is_budget)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = plural(path);
    Some(format!(
        "{kind} {}/{}: owned by budget {}, whose uid will change; the object would be collected",
        text(&metadata["namespace"]),
        text(&metadata["name"]),
        text(&owner["name"]),
    ))
}

fn plural(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    metadata: ListMeta,
    /// Go writes an empty list as null.
    items: Option<Vec<Value>>,
}

#[derive(Default, Deserialize)]
struct ListMeta {
    #[serde(default)]
    r#continue: String,
}

async fn metadata(client: &ApiClient, path: &str) -> Result<Result<List, StatusCode>, Error> {
    let failed = |reason| Error::Unlisted { what: path.to_owned(), reason };
    let mut request = http::Request::new(Vec::new());
    *request.uri_mut() = path.parse().map_err(|_| failed("no path".to_owned()))?;
    let accept = http::HeaderValue::from_static(METADATA_ONLY);
    request.headers_mut().insert(http::header::ACCEPT, accept);
    let response = client.send(request).await.map_err(|NoAnswer(why)| failed(why))?;
    let answer = crate::api_client::read(response).await.map_err(|NoAnswer(why)| failed(why))?;
    if answer.code != StatusCode::OK {
        return Ok(Err(answer.code));
    }
    answer.json().map(Ok).map_err(|e| failed(e.to_string()))
}

/// Returns the paths of all namespaced kinds that can be listed.
async fn listable(client: &ApiClient) -> Result<Vec<String>, Error> {
    #[derive(Deserialize)]
    struct Groups {
        groups: Vec<Group>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Group {
        preferred_version: Version,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Version {
        group_version: String,
    }
    #[derive(Deserialize)]
    struct Resources {
        resources: Vec<Resource>,
    }
    #[derive(Deserialize)]
    struct Resource {
        name: String,
        namespaced: bool,
        verbs: Vec<String>,
    }
    let groups: Groups = ask(client, "/apis").await?;
    let mut roots = vec!["/api/v1".to_owned()];
    roots.extend(
        groups.groups.iter().map(|g| format!("/apis/{}", g.preferred_version.group_version)),
    );
    let mut paths = Vec::new();
    for root in roots {
        // An aggregated server that does not answer cannot return its objects.
        let Ok(list) = ask::<Resources>(client, &root).await else { continue };
        let wanted = |r: &&Resource| {
            r.namespaced && !r.name.contains('/') && r.verbs.iter().any(|verb| verb == "list")
        };
        paths.extend(list.resources.iter().filter(wanted).map(|r| format!("{root}/{}", r.name)));
    }
    Ok(paths)
}

/// Returns admission rules about built-in budgets that requests would bypass: kube-apiserver does not apply
/// its admission to requests of an aggregated server.
async fn bypassed(client: &ApiClient) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    for (kind, rules) in [
        ("validatingwebhookconfigurations", webhook_rules as fn(&Value) -> Vec<Value>),
        ("mutatingwebhookconfigurations", webhook_rules),
        ("validatingadmissionpolicies", policy_rules),
        ("mutatingadmissionpolicies", policy_rules),
    ] {
        let list = ask_list(client, &format!("{ADMISSION}/{kind}")).await?;
        found.extend(
            list.iter()
                .filter(|item| rules(item).iter().any(is_about_budgets))
                .map(|item| bypass(kind, item, "will not see budgets any more")),
        );
    }
    let quotas = ask_list(client, "/api/v1/resourcequotas").await?;
    let counts = |item: &&Value| {
        let hard = item["spec"]["hard"].as_object();
        hard.is_some_and(|hard| {
            hard.keys().any(|key| key.starts_with("count/poddisruptionbudgets.policy"))
        })
    };
    found.extend(
        quotas
            .iter()
            .filter(counts)
            .map(|q| bypass("resourcequotas", q, "will not count budgets any more")),
    );
    Ok(found)
}

fn bypass(kind: &str, item: &Value, what: &str) -> String {
    let text = |field: &str| item["metadata"][field].as_str().unwrap_or_default();
    let namespace = text("namespace");
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!(
        "{kind} {namespace}{slash}{} {what} (--accept-bypass goes on all the same)",
        text("name")
    )
}

fn webhook_rules(item: &Value) -> Vec<Value> {
    let webhooks = item["webhooks"].as_array().cloned().unwrap_or_default();
    webhooks.iter().flat_map(|w| w["rules"].as_array().cloned().unwrap_or_default()).collect()
}

fn policy_rules(item: &Value) -> Vec<Value> {
    item["spec"]["matchConstraints"]["resourceRules"].as_array().cloned().unwrap_or_default()
}

fn is_about_budgets(rule: &Value) -> bool {
    let names = |field: &str, wanted: &[&str]| {
        let all = rule[field].as_array();
        all.is_some_and(|all| all.iter().any(|v| wanted.contains(&v.as_str().unwrap_or_default())))
    };
    names("apiGroups", &["policy", "*"])
        && names("resources", &["poddisruptionbudgets", "poddisruptionbudgets/status", "*", "*/*"])
}

async fn ask_list(client: &ApiClient, path: &str) -> Result<Vec<Value>, Error> {
    let failed = |reason| Error::Unlisted { what: path.to_owned(), reason };
    let answer = client.list(path).await.map_err(|NoAnswer(why)| failed(why))?;
    match answer.code {
        StatusCode::OK => {
            let list: List = answer.json().map_err(|e| failed(e.to_string()))?;
            Ok(list.items.unwrap_or_default())
        }
        // This release does not serve the kind.
        StatusCode::NOT_FOUND => Ok(Vec::new()),
        _ => Err(failed(answer.message())),
    }
}

async fn ask<T: for<'a> Deserialize<'a>>(client: &ApiClient, path: &str) -> Result<T, Error> {
    let failed = |reason| Error::Unlisted { what: path.to_owned(), reason };
    let answer = client.get(path).await.map_err(|NoAnswer(why)| failed(why))?;
    if answer.code != StatusCode::OK {
        return Err(failed(answer.message()));
    }
    answer.json().map_err(|e| failed(e.to_string()))
}

/// Returns true for a DNS-1123 subdomain. Names of custom resources must be one.
fn is_subdomain(name: &str) -> bool {
    let label = |label: &str| {
        let inner =
            label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        inner && !label.is_empty() && !label.starts_with('-') && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_of_custom_resources() {
        for name in ["a", "web-1", "a.b-c.d"] {
            assert!(is_subdomain(name), "{name}");
        }
        for name in ["Web", "a_b", "a..b", "-a", "a:b", ""] {
            assert!(!is_subdomain(name), "{name}");
        }
    }

    #[test]
    fn rules_about_budgets_are_found() {
        let rule = |groups: &[&str], resources: &[&str]| {
            is_about_budgets(&json!({"apiGroups": groups, "resources": resources}))
        };
        assert!(rule(&["policy"], &["poddisruptionbudgets"]));
        assert!(rule(&["*"], &["*"]));
        assert!(!rule(&[""], &["pods/eviction"]));
        assert!(!rule(&["policy"], &["evictions"]));
    }

    #[test]
    fn owners_are_found_by_group_and_kind() {
        let item = |api: &str| {
            json!({"metadata": {"namespace": "n", "name": "x",
                "ownerReferences": [{"apiVersion": api, "kind": "PodDisruptionBudget", "name": "b"}]}})
        };
        let found = owned_by_budget("/api/v1/configmaps", &item("policy/v1")).unwrap();
        assert!(found.starts_with("configmaps n/x: owned by budget b"), "{found}");
        assert_eq!(owned_by_budget("/api/v1/configmaps", &item("other/v1")), None);
    }
}
