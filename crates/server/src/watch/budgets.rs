//! What budgets are decided by, for the engine.

use holdfast_api::decode::{DecodeError, Decoded, decode};
use holdfast_api::salvage::salvage;
use holdfast_core::model::{ObjectKey, ResourceVersion};
use holdfast_core::{Input, Kind};

use super::{Source, Watched};
use crate::discovery::Resource;

impl Watched for Kind {
    type Told = Input;

    fn source(&self) -> Source {
        Source::of(self)
    }

    fn read(
        &self,
        _: &Resource,
        json: &[u8],
        deleted: bool,
    ) -> Result<(ResourceVersion, Input), DecodeError> {
        let decoded = decode(self, json)?;
        let version = version_of(&decoded).clone();
        Ok((version, if deleted { decoded.deleted() } else { decoded.applied() }))
    }

    fn list_began(&self) -> Input {
        Input::ListBegan(self.clone())
    }

    fn list_ended(&self, version: ResourceVersion) -> Input {
        Input::ListEnded(self.clone(), version)
    }

    fn not_served(&self) -> Input {
        if self.is_needed() { Input::Lost(self.clone()) } else { Input::NotServed(self.clone()) }
    }

    fn is_needed(&self) -> bool {
        *self == Self::Budget
    }

    fn lost(&self) -> Option<Input> {
        Some(Input::Lost(self.clone()))
    }

    fn restored(&self) -> Option<Input> {
        Some(Input::Restored(self.clone()))
    }

    fn unreadable(&self, json: &[u8], key: ObjectKey, why: String) -> Option<Input> {
        if is_skipped(self) {
            return None;
        }
        let salvaged = salvage(self, json).map(Box::new);
        Some(Input::Unreadable { kind: self.clone(), key, why, salvaged })
    }
}

/// Whether a planted bug skips objects of this kind that cannot be decoded.
pub fn is_skipped(kind: &Kind) -> bool {
    if *kind == Kind::Budget {
        return planted!(SkipUnreadableBudget);
    }
    *kind == Kind::Pod && planted!(SkipUnreadablePod)
}

fn version_of(decoded: &Decoded) -> &ResourceVersion {
    match decoded {
        Decoded::Pod(object) => &object.version,
        Decoded::Budget(object) => &object.version,
        Decoded::BuiltinBudget(object) => &object.version,
        Decoded::PodGroup(object) => &object.version,
        Decoded::Workload(object) => &object.version,
        Decoded::Owner(object) => &object.version,
    }
}
