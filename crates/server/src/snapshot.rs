//! Everything in a cluster that a decision may depend on, read once.

use holdfast_core::Kind;
use serde_json::{Value, json};

use crate::api_client::{ApiClient, NoAnswer};
use crate::connect::{ClusterOptions, connect};
use crate::discovery::Resource;
use crate::error::Error;
use crate::install::native::api_service::Standing;
use crate::watch::{Page, Source, page};

/// The objects of these kinds, and of nodes, each with its apiVersion and kind.
/// Kinds that the API server does not serve have none.
pub async fn snapshot(
    options: &ClusterOptions,
    kinds: impl IntoIterator<Item = Kind>,
) -> Result<Vec<Value>, Error> {
    let (client, _) = connect(options).await?;
    // In native mode they are the same objects as those of our own kind.
    let native = Standing::read(&client).await.is_ok_and(|standing| standing.is_ours());
    let mut sources: Vec<(String, Source)> = (kinds.into_iter())
        .filter(|kind| !(native && *kind == Kind::BuiltinBudget))
        .map(|kind| (name(&kind), Source::of(&kind)))
        .collect();
    sources.push(("Node".to_owned(), Source::BuiltIn(Resource::fixed("", "v1", "nodes"))));
    let mut objects = Vec::new();
    for (kind, source) in sources {
        let refused = |reason| Error::Unlisted { what: source.to_string(), reason };
        let found = source.find(&client).await.map_err(|NoAnswer(reason)| refused(reason))?;
        if let Some(resource) = found {
            objects.extend(list(&client, &resource, &kind).await.map_err(refused)?);
        }
    }
    Ok(objects)
}

fn name(kind: &Kind) -> String {
    match kind {
        Kind::Pod => "Pod".to_owned(),
        Kind::Budget | Kind::BuiltinBudget => "PodDisruptionBudget".to_owned(),
        Kind::UnavailableBudget => "PodUnavailableBudget".to_owned(),
        Kind::PodGroup(_) => "PodGroup".to_owned(),
        Kind::Workload(_) => "Workload".to_owned(),
        Kind::Owner(owner) => owner.kind.clone(),
    }
}

async fn list(client: &ApiClient, resource: &Resource, kind: &str) -> Result<Vec<Value>, String> {
    let api_version = resource.api_version();
    let (mut objects, mut from) = (Vec::new(), String::new());
    loop {
        let answer = page(client, resource, &from).await?;
        let page = Page::of(&answer)?;
        for item in page.items.unwrap_or_default() {
            let mut object: Value = serde_json::from_str(item.get())
                .map_err(|error| format!("cannot read the list: {error}"))?;
            object["apiVersion"] = json!(api_version);
            object["kind"] = json!(kind);
            objects.push(object);
        }
        if page.metadata.r#continue.is_empty() {
            return Ok(objects);
        }
        from = page.metadata.r#continue;
    }
}
