//! What gangs are decided by.

use holdfast_api::decode::DecodeError;
use holdfast_api::gang;
use holdfast_core::gang::{Kind, Seen};
use holdfast_core::model::{GroupApi, ObjectKey, ResourceVersion};

use crate::discovery::Resource;
use crate::watch::{Source, Watched};

#[derive(Clone, Debug)]
pub struct Watch {
    pub kind: Kind,
    pub api: GroupApi,
}

impl Watched for Watch {
    type Told = Seen;

    fn source(&self) -> Source {
        let built_in = |plural| Source::BuiltIn(Resource::fixed("", "v1", plural));
        match &self.kind {
            Kind::Pod => built_in("pods"),
            Kind::Node => built_in("nodes"),
            Kind::Namespace => built_in("namespaces"),
            Kind::Owner(owner) => Source::of(&holdfast_core::Kind::Owner(owner.clone())),
            Kind::Group => Source::of(&holdfast_core::Kind::PodGroup(self.api)),
            Kind::Workload => Source::of(&holdfast_core::Kind::Workload(self.api)),
        }
    }

    /// Budgets have watches of the same kinds.
    fn label(&self) -> String {
        format!("{} for gangs", self.source())
    }

    fn read(
        &self,
        resource: &Resource,
        json: &[u8],
        deleted: bool,
    ) -> Result<(ResourceVersion, Seen), DecodeError> {
        let object = gang::decode(&self.kind, self.api, &resource.version, json)?;
        let version = version_of(&object).clone();
        Ok((version, if deleted { object.deleted() } else { object.applied() }))
    }

    fn list_began(&self) -> Seen {
        Seen::ListBegan(self.kind.clone())
    }

    fn list_ended(&self, _: ResourceVersion) -> Seen {
        Seen::ListEnded(self.kind.clone())
    }

    fn not_served(&self) -> Seen {
        Seen::NotServed(self.kind.clone())
    }

    /// Our own, whose definitions were there when we started: discovery lags behind one that was deleted and
    /// made again, and gangs wait all the while.
    fn is_needed(&self) -> bool {
        self.api == GroupApi::Holdfast && matches!(self.kind, Kind::Group | Kind::Workload)
    }

    /// Whoever cannot watch cannot write either.
    fn lost(&self) -> Option<Seen> {
        None
    }

    fn unreadable(&self, _: &[u8], _: ObjectKey, _: String) -> Option<Seen> {
        None
    }
}

fn version_of(object: &gang::Object) -> &ResourceVersion {
    match object {
        gang::Object::Pod(object) => &object.version,
        gang::Object::Node(object) => &object.version,
        gang::Object::Namespace(object) => &object.version,
        gang::Object::Owner(object) => &object.version,
        gang::Object::Group(object) => &object.object.version,
        gang::Object::Workload(object) => &object.version,
    }
}
