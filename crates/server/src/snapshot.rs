//! Everything in a cluster that a decision may depend on, read once.

use std::time::Duration;

use holdfast_core::model::ControllerRef;
use holdfast_core::{Config, Input, Kind};
use serde_json::{Value, json};

use crate::api_client::{ApiClient, NoAnswer};
use crate::connect::{ClusterOptions, connect};
use crate::discovery::Resource;
use crate::effect::scale::ScaleReader;
use crate::error::Error;
use crate::install::NAME;
use crate::install::native::api_service::Standing;
use crate::serve::{Features, engine_config};
use crate::watch::{Page, Source, page};

/// A cluster that is only looked at.
#[derive(Debug)]
pub struct Reader {
    client: ApiClient,
    scales: ScaleReader,
    /// Holdfast serves `policy/v1` itself.
    native: bool,
    features: Features,
    /// No single request takes longer.
    limit: Duration,
}

/// All objects of a kind, each with its apiVersion and kind.
#[derive(Clone, Debug)]
pub struct Listed {
    /// None: nodes.
    pub kind: Option<Kind>,
    /// That of the list; empty if the kind is not served.
    pub version: String,
    pub objects: Vec<Value>,
}

impl Reader {
    pub async fn connect(options: &ClusterOptions, limit: Duration) -> Result<Self, Error> {
        let (client, _) = connect(options).await?;
        // Who may not read it has not installed native mode.
        let native = Standing::read(&client).await.is_ok_and(|standing| standing.is_ours());
        let (scales, features) = (ScaleReader::new(client.clone()), Features::default());
        Ok(Self { client, scales, native, features, limit })
    }

    pub(crate) fn client(&self) -> &ApiClient {
        &self.client
    }

    /// Budgets of Holdfast's hold nobody back: its webhook is not there. Who may not see that takes it that they do.
    pub async fn is_unenforced(&self) -> bool {
        let path =
            format!("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{NAME}");
        let answer = if self.native { None } else { self.client.get(&path).await.ok() };
        answer.is_some_and(|answer| answer.is_object_not_found(NAME))
    }

    /// That of the context.
    pub fn namespace(&self) -> &str {
        self.client.default_namespace()
    }

    /// As a server sees it that was started with these.
    #[must_use]
    pub fn with(self, features: Features) -> Self {
        Self { features, ..self }
    }

    /// As that of an engine that serves this cluster.
    pub fn config(&self) -> Config {
        engine_config(self.features, self.native, true)
    }

    /// The objects of these kinds, of one namespace or of all, and the nodes. Budgets come first: whatever
    /// their status was computed from is then in the lists that follow.
    pub async fn list(
        &self,
        kinds: impl IntoIterator<Item = Kind>,
        namespace: Option<&str>,
    ) -> Result<Vec<Listed>, Error> {
        let mut kinds: Vec<Kind> = kinds.into_iter().collect();
        // In native mode they are the same objects as those of our own kind.
        kinds.retain(|kind| !(self.native && *kind == Kind::BuiltinBudget));
        kinds.sort_by_key(|kind| !matches!(kind, Kind::Budget | Kind::UnavailableBudget));
        let mut lists = Vec::new();
        for kind in kinds {
            let source = Source::of(&kind);
            let (version, objects) = self.list_kind(&source, &name(&kind), namespace).await?;
            lists.push(Listed { kind: Some(kind), version, objects });
        }
        let nodes = Source::BuiltIn(Resource::fixed("", "v1", "nodes"));
        let (version, objects) = match self.list_kind(&nodes, "Node", None).await {
            // Who may see one namespace only is told what can be told without them.
            Err(Error::Unlisted { .. }) if namespace.is_some() => (String::new(), Vec::new()),
            listed => listed?,
        };
        lists.push(Listed { kind: None, version, objects });
        Ok(lists)
    }

    /// The answer to [`holdfast_core::Command::ReadScale`].
    pub async fn scale(&self, namespace: String, owner: ControllerRef) -> Input {
        self.scales.clone().read(namespace, owner).await
    }

    async fn list_kind(
        &self,
        source: &Source,
        kind: &str,
        namespace: Option<&str>,
    ) -> Result<(String, Vec<Value>), Error> {
        let refused = |reason| Error::Unlisted { what: source.to_string(), reason };
        let late = |_| refused(format!("no answer within {} s", self.limit.as_secs_f32()));
        let found = tokio::time::timeout(self.limit, source.find(&self.client)).await;
        let found = found.map_err(late)?.map_err(|NoAnswer(reason)| refused(reason))?;
        let Some(resource) = found else { return Ok((String::new(), Vec::new())) };
        let path = match namespace {
            Some(namespace) => resource.namespace_path(namespace),
            None => resource.path(),
        };
        let (mut objects, mut from) = (Vec::new(), String::new());
        loop {
            let answer = tokio::time::timeout(self.limit, page(&self.client, &path, &from)).await;
            let answer = answer.map_err(late)?.map_err(refused)?;
            let page = Page::of(&answer).map_err(refused)?;
            for item in page.items.unwrap_or_default() {
                let mut object: Value = serde_json::from_str(item.get())
                    .map_err(|error| refused(format!("cannot read the list: {error}")))?;
                object["apiVersion"] = json!(resource.api_version());
                object["kind"] = json!(kind);
                objects.push(object);
            }
            if page.metadata.r#continue.is_empty() {
                return Ok((page.metadata.resource_version, objects));
            }
            from = page.metadata.r#continue;
        }
    }
}

/// The objects of these kinds, and of nodes, each with its apiVersion and kind.
/// Kinds that the API server does not serve have none.
pub async fn snapshot(
    options: &ClusterOptions,
    kinds: impl IntoIterator<Item = Kind>,
) -> Result<Vec<Value>, Error> {
    // Every request has a limit of its own already.
    let reader = Reader::connect(options, Duration::MAX).await?;
    let lists = reader.list(kinds, None).await?;
    Ok(lists.into_iter().flat_map(|list| list.objects).collect())
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
