//! `PodGroups`, with the fields that only gangs need.

use holdfast_core::gang::{self, GroupStatus, PROTECTION};
use holdfast_core::model::GroupApi;
use serde::Deserialize;

use crate::budget::Condition;
use crate::group::{PodGroup, PodGroupSpec};
use crate::lenient::null_default;
use crate::meta::Meta;

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Group {
    metadata: Meta,
    #[serde(default, deserialize_with = "null_default")]
    spec: PodGroupSpec,
    #[serde(default, deserialize_with = "null_default")]
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[serde(default, deserialize_with = "null_default")]
    scheduled_pods: i64,
    #[serde(default, deserialize_with = "null_default")]
    conditions: Vec<Condition>,
}

impl Group {
    pub fn into_model(self, api: GroupApi) -> gang::Group {
        let meta = &self.metadata;
        gang::Group {
            created: meta.created.into(),
            generation: meta.generation,
            slot: meta.annotations.slot.clone(),
            protected: meta.finalizers.iter().any(|finalizer| finalizer == PROTECTION),
            status: GroupStatus {
                scheduled_pods: self.status.scheduled_pods,
                conditions: self.status.conditions.into_iter().map(Into::into).collect(),
            },
            object: PodGroup { metadata: self.metadata, spec: self.spec }.into_object(api),
        }
    }
}
