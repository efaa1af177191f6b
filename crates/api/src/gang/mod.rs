//! Decodes the objects that gangs depend on, and encodes the objects that Holdfast creates for them.
//!
//! ```text
//!   JSON --decode--> Object --applied, deleted--> holdfast_core::gang::Seen
//!   holdfast_core::gang::NewGroup --encode--> Workload and PodGroup of any shape
//! ```
//!
//! Gangs and budgets decode pods and owners separately: they share little more than the metadata, and clusters
//! without pod groups pay nothing for gangs.

mod constraints;
pub mod encode;

mod group;
mod node;
mod owner;
mod pod;
mod requests;

use holdfast_core::gang::{self, Kind, Seen};
use holdfast_core::io::Change;
use holdfast_core::model::{self, GroupApi, GroupKind};

use crate::decode::{DecodeError, identify, read};

pub(crate) use pod::Pod;

/// The API group of the objects in shape Holdfast.
pub const GROUP: &str = "scheduling.holdfast.dev";
pub const VERSION: &str = "v1alpha1";

/// An object that [`Seen`] has a variant for.
#[derive(Clone, Debug)]
pub enum Object {
    Pod(gang::Pod),
    Node(gang::Node),
    Namespace(gang::Namespace),
    Owner(gang::Owner),
    Group(gang::Group),
    Workload(model::Workload),
}

impl Object {
    pub fn applied(self) -> Seen {
        match self {
            Self::Pod(object) => Seen::Pod(Change::Applied(object)),
            Self::Node(object) => Seen::Node(Change::Applied(object)),
            Self::Namespace(object) => Seen::Namespace(Change::Applied(object)),
            Self::Owner(object) => Seen::Owner(Change::Applied(object)),
            Self::Group(object) => Seen::Group(Change::Applied(object)),
            Self::Workload(object) => Seen::Workload(Change::Applied(object)),
        }
    }

    pub fn deleted(self) -> Seen {
        match self {
            Self::Pod(object) => Seen::Pod(Change::Deleted(object)),
            Self::Node(object) => Seen::Node(Change::Deleted(object)),
            Self::Namespace(object) => Seen::Namespace(Change::Deleted(object)),
            Self::Owner(object) => Seen::Owner(Change::Deleted(object)),
            Self::Group(object) => Seen::Group(Change::Deleted(object)),
            Self::Workload(object) => Seen::Workload(Change::Deleted(object)),
        }
    }
}

/// Reads an object of this kind. `version` is that of the API that it was read by, such as `v1`; only
/// owners keep it.
pub fn decode(
    kind: &Kind,
    api: GroupApi,
    version: &str,
    json: &[u8],
) -> Result<Object, DecodeError> {
    match kind {
        Kind::Pod => read::<Pod<'_>>("Pod", json).map(|pod| Object::Pod(pod.into_model(api))),
        Kind::Node => read::<node::Node<'_>>("Node", json).map(|node| Object::Node(node.into())),
        Kind::Namespace => read::<node::Namespace>("Namespace", json)
            .map(|namespace| Object::Namespace(namespace.into())),
        Kind::Owner(group_kind) => owner(group_kind, version, json).map(Object::Owner),
        Kind::Group => {
            read::<group::Group>("PodGroup", json).map(|group| Object::Group(group.into_model(api)))
        }
        Kind::Workload => read::<crate::group::Workload>("Workload", json)
            .map(|workload| Object::Workload(workload.into_model(api))),
    }
}

fn owner(kind: &GroupKind, version: &str, json: &[u8]) -> Result<gang::Owner, DecodeError> {
    let name = kind.to_string();
    let owner = read::<owner::Owner>(&name, json)?;
    owner.into_model(kind.clone(), version).ok_or_else(|| {
        identify(json, name, None, "not a kind that pod groups are made for".to_owned())
    })
}
