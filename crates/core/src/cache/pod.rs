//! What is kept of a pod. There may be 150,000 of them, so what many share is kept once: the
//! controller by all its pods, the rest of what bears on a replica by the replica's pods.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use crate::model::{ControllerRef, DisruptionTarget, Phase, Pod, ResourceVersion};
use crate::replicas::Member;

#[derive(Clone, Debug)]
pub(crate) struct CachedPod {
    pub(crate) uid: Uid,
    pub(crate) version: ResourceVersion,
    pub(crate) phase: Phase,
    pub(crate) ready: bool,
    pub(crate) terminating: bool,
    pub(crate) facts: Facts,
    pub(crate) generation: u32,
    pub(crate) disruption_target: Option<Box<DisruptionTarget>>,
    pub(crate) controller: Option<Arc<ControllerRef>>,
    /// Of the replica that it names, if it names one.
    pub(crate) member: Option<Arc<Member>>,
}

impl CachedPod {
    pub(crate) fn new(
        pod: Pod,
        uid: Uid,
        controller: Option<Arc<ControllerRef>>,
        member: Option<Arc<Member>>,
    ) -> Self {
        let facts = Facts::of(&pod);
        Self {
            uid,
            version: pod.version,
            phase: pod.phase,
            ready: pod.ready,
            terminating: pod.terminating,
            facts,
            generation: u32::try_from(pod.generation).unwrap_or(0),
            disruption_target: pod.disruption_target.map(Box::new),
            controller,
            member,
        }
    }

    /// The same pod, which has stayed where it was, is like this now.
    pub(crate) fn update(&mut self, pod: Pod) {
        *self = Self::new(pod, self.uid.clone(), self.controller.take(), self.member.take());
    }

    /// As [`Pod::is_targeted`].
    pub(crate) fn is_targeted(&self) -> bool {
        self.disruption_target.as_ref().is_some_and(|target| target.is_eviction())
    }

    /// As [`Pod::is_terminal`].
    pub(crate) fn is_terminal(&self) -> bool {
        self.phase.is_terminal()
    }
}

/// What bears on `PodUnavailableBudgets` alone, in one byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts(u8);

impl Facts {
    const SETTLED: u8 = 1;
    const APPLIED: u8 = 2;
    const NO_PROTECT: u8 = 4;
    const RELATED: u8 = 8;

    fn of(pod: &Pod) -> Self {
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        Self(
            bit(pod.settled, Self::SETTLED)
                | bit(pod.applied, Self::APPLIED)
                | bit(pod.no_protect, Self::NO_PROTECT)
                | bit(pod.related, Self::RELATED),
        )
    }

    /// As [`Pod::settled`].
    pub(crate) fn settled(self) -> bool {
        self.0 & Self::SETTLED != 0
    }

    /// As [`Pod::applied`].
    pub(crate) fn applied(self) -> bool {
        self.0 & Self::APPLIED != 0
    }

    /// As [`Pod::related`].
    pub(crate) fn related(self) -> bool {
        self.0 & Self::RELATED != 0
    }

    /// As [`Pod::no_protect`].
    pub(crate) fn no_protect(self) -> bool {
        self.0 & Self::NO_PROTECT != 0
    }
}

/// A uid: nearly always a UUID, as the API server makes them, which is then kept in 16 bytes.
#[derive(Clone, Debug)]
pub(crate) enum Uid {
    Uuid(Uuid),
    /// Whatever a UUID would not be written as.
    Text(Box<str>),
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        match Uuid::try_parse(text) {
            Ok(uuid) if uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == text => {
                Self::Uuid(uuid)
            }
            _ => Self::Text(text.into()),
        }
    }
}

impl PartialEq<str> for Uid {
    fn eq(&self, text: &str) -> bool {
        match self {
            Self::Uuid(uuid) => uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == text,
            Self::Text(own) => **own == *text,
        }
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uuid(uuid) => {
                f.write_str(uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()))
            }
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Controllers, each once, with the number of pods that have it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Controllers(BTreeMap<Arc<ControllerRef>, u32>);

impl Controllers {
    pub(crate) fn acquire(&mut self, controller: ControllerRef) -> Arc<ControllerRef> {
        let key = match self.0.get_key_value(&controller) {
            Some((shared, _)) => shared.clone(),
            None => Arc::new(controller),
        };
        *self.0.entry(key.clone()).or_insert(0) += 1;
        key
    }

    pub(crate) fn release(&mut self, controller: &Arc<ControllerRef>) {
        if let Some(uses) = self.0.get_mut(controller) {
            *uses -= 1;
            if *uses == 0 {
                self.0.remove(controller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Uid;

    #[test]
    fn any_uid_is_kept_as_it_is() {
        const UUID: &str = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
        let braced = format!("{{{UUID}}}");
        let urn = format!("urn:uuid:{UUID}");
        let simple = UUID.replace('-', "");
        let upper = UUID.to_uppercase();
        let texts = [UUID, &upper, &braced, &urn, &simple, "", "u1", "pod uid 7"];
        for (i, text) in texts.iter().enumerate() {
            let uid = Uid::from(*text);
            assert_eq!(uid.to_string(), *text);
            for (j, other) in texts.iter().enumerate() {
                assert_eq!(uid == **other, i == j, "{text} {other}");
            }
        }
        assert!(matches!(Uid::from(UUID), Uid::Uuid(_)));
    }
}
