//! Releases objects that would wait for Holdfast for ever: pods with its gate, and `PodGroups` with its
//! finalizer.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use holdfast_core::gang::{GATE, PROTECTION};
use holdfast_core::model::ObjectKey;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::api_client::ApiClient;
use crate::discovery::Resource;
use crate::error::Error;
use crate::gang::act::{lift, own, protect};
use crate::watch::items;

/// The time for API servers to notice that the webhook, which adds gates, is gone, and that running instances
/// have no rights any more. They watch.
const NOTICE: Duration = Duration::from_secs(1);

/// Limit of concurrent requests.
const AT_A_TIME: usize = 16;

/// Returns the number of pods and groups.
pub async fn release(client: &ApiClient) -> Result<(usize, usize), Error> {
    tokio::time::sleep(NOTICE).await;
    let resource = Resource::fixed("", "v1", "pods");
    let pods = find(client, &resource, |object| {
        object.spec.scheduling_gates.iter().any(|gate| gate.name == GATE)
    });
    let pods = pods.await?;
    let lifts = stream::iter(&pods).map(|pod| async move {
        let key = ObjectKey::new(&*pod.namespace, &*pod.name);
        lift(client, &key, &pod.uid).await
    });
    settle("lift gates", lifts.buffer_unordered(AT_A_TIME).collect().await)?;
    let resource = own("podgroups");
    let groups = find(client, &resource, |object| {
        object.metadata.finalizers.iter().any(|finalizer| finalizer == PROTECTION)
    });
    let groups = groups.await?;
    let releases = stream::iter(&groups).map(|group| {
        let path = resource.object_path(&group.namespace, &group.name);
        async move { protect(client, &path, &group.uid, false).await }
    });
    settle("remove finalizers", releases.buffer_unordered(AT_A_TIME).collect().await)?;
    Ok((pods.len(), groups.len()))
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Deserialize)]
struct Metadata {
    namespace: String,
    name: String,
    uid: String,
    #[serde(default)]
    finalizers: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    scheduling_gates: Vec<Gate>,
}

#[derive(Deserialize)]
struct Gate {
    name: String,
}

async fn find(
    client: &ApiClient,
    resource: &Resource,
    is_held: impl Fn(&Object) -> bool,
) -> Result<Vec<Metadata>, Error> {
    let mut found = Vec::new();
    let take = |item: &RawValue| {
        let object: Object = serde_json::from_str(item.get()).map_err(|error| error.to_string())?;
        if is_held(&object) {
            found.push(object.metadata);
        }
        Ok(())
    };
    let failed = |reason| Error::Unlisted { what: resource.qualified(), reason };
    items(client, &resource.path(), take).await.map_err(failed)?;
    Ok(found)
}

fn settle(action: &str, outcomes: Vec<Result<(), String>>) -> Result<(), Error> {
    let failed = |reason| Error::Refused { action: action.to_owned(), reason };
    outcomes.into_iter().collect::<Result<(), String>>().map_err(failed)
}
