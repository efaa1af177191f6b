//! Binds grants to the pod that has the name now (semantics 5).
//!
//! A grant for an earlier pod of the name, whose end nothing has shown, may stand for an eviction by name that is still
//! under way. That eviction would take the pod that has the name now.
//!
//! | the grant has ended | it may be for a later pod | the pod has a grant | outcome |
//! |---|---|---|---|
//! | no | any | yes | stays: should the pod's own grant be refunded, this one passes |
//! | any | yes | any | held back until the cache has caught up |
//! | yes | no | any | ends |
//! | no | no | no | passes to the pod |

use super::ledger::Ledger;
use super::live::LiveGrant;
use crate::model::{ResourceVersion, Timestamp};

/// The pod that has the name now, as the cache shows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct CurrentPod<'a> {
    pub(super) name: &'a str,
    pub(super) uid: &'a str,
    pub(super) version: &'a ResourceVersion,
    /// This instance has seen fewer pods than the grants were decided by.
    pub(super) is_behind: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Rebound {
    /// When the grant that passed to the pod expires.
    pub(super) expires_at: Option<Timestamp>,
    /// Grants were held back.
    pub(super) held_back: bool,
    /// Grants ended.
    pub(super) ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Stays,
    HeldBack,
    Ends,
    Passes,
}

fn outcome(has_ended: bool, may_be_later: bool, pod_has_grant: bool) -> Outcome {
    match (has_ended, may_be_later, pod_has_grant) {
        (false, _, true) => Outcome::Stays,
        (_, true, _) => Outcome::HeldBack,
        (true, false, _) => Outcome::Ends,
        (false, false, false) => Outcome::Passes,
    }
}

impl Ledger {
    pub(super) fn rebind(&mut self, pod: CurrentPod<'_>, now: Timestamp) -> Rebound {
        let mut rebound = Rebound::default();
        if planted!(GrantByName) {
            return rebound;
        }
        let others =
            self.of_pod(pod.name).map(|live| &live.grant.uid).filter(|uid| *uid != pod.uid);
        for uid in others.cloned().collect::<Vec<_>>() {
            let Some(live) = self.get(pod.name, &uid) else { continue };
            let has_ended = live.grant.is_exact() || live.has_handler_ended(now);
            let pod_has_grant = self.get(pod.name, pod.uid).is_some();
            match outcome(has_ended, may_be_later(live, pod), pod_has_grant) {
                Outcome::Stays => {}
                Outcome::HeldBack => rebound.held_back = true,
                Outcome::Ends => rebound.ended |= self.end(pod.name, &uid),
                Outcome::Passes => rebound.expires_at = self.pass(pod, &uid),
            }
        }
        rebound
    }

    fn pass(&mut self, pod: CurrentPod<'_>, from: &str) -> Option<Timestamp> {
        let mut live = self.remove(pod.name, from)?;
        live.is_rebound |= !live.is_foreign;
        pod.uid.clone_into(&mut live.grant.uid);
        let expires_at = live.expires_at();
        self.insert(live);
        Some(expires_at)
    }
}

/// Returns whether the grant may be for a pod that the cache does not show yet.
fn may_be_later(live: &LiveGrant, pod: CurrentPod<'_>) -> bool {
    let is_read = live.read_as.as_ref().is_some_and(|read| pod.version.is_older_than(read));
    is_read || (pod.is_behind && !live.grant.uid.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grants::live::State;
    use crate::grants::testing::{START, after, foreign, grant};
    use crate::model::Grant;

    #[test]
    fn outcomes_are_those_of_the_table() {
        for (has_ended, may_be_later, pod_has_grant, expected) in [
            (false, false, false, Outcome::Passes),
            (false, false, true, Outcome::Stays),
            (false, true, false, Outcome::HeldBack),
            (false, true, true, Outcome::Stays),
            (true, false, false, Outcome::Ends),
            (true, false, true, Outcome::Ends),
            (true, true, false, Outcome::HeldBack),
            (true, true, true, Outcome::HeldBack),
        ] {
            assert_eq!(outcome(has_ended, may_be_later, pod_has_grant), expected);
        }
    }

    /// Grants of earlier pods of the name `p`, and the pod `new` of version 7.
    struct Case {
        grants: Vec<Grant>,
        read_as: Option<u64>,
        is_behind: bool,
        /// Seconds after the grants were recorded.
        age: i64,
    }

    impl Case {
        fn of(grants: &[Grant]) -> Self {
            Self { grants: grants.to_vec(), read_as: None, is_behind: false, age: 10 }
        }

        /// Uids that the ledger has grants for afterwards.
        fn run(self) -> (Vec<String>, Rebound) {
            let mut ledger = Ledger::default();
            for grant in self.grants {
                let mut live = LiveGrant::new(grant, START, State::Committed);
                live.read_as = self.read_as.map(ResourceVersion::from);
                ledger.insert(live);
            }
            let version = ResourceVersion::from(7);
            let is_behind = self.is_behind;
            let pod = CurrentPod { name: "p", uid: "new", version: &version, is_behind };
            let rebound = ledger.rebind(pod, after(self.age));
            (ledger.live().map(|grant| grant.uid.clone()).collect(), rebound)
        }
    }

    fn pinned(uid: &str) -> Grant {
        Grant { pinned: true, ..grant("p", uid, "e") }
    }

    #[test]
    fn a_grant_by_name_passes_to_the_next_pod_until_its_handler_has_ended() {
        let (uids, rebound) = Case::of(&[grant("p", "old", "e")]).run();
        assert_eq!(uids, ["new"]);
        assert_eq!(rebound.expires_at, Some(after(60)));
        let case = Case { age: 60, ..Case::of(&[grant("p", "old", "e")]) };
        assert_eq!(case.run(), (vec![], Rebound { ended: true, ..Rebound::default() }));
    }

    #[test]
    fn only_one_grant_passes() {
        let case = Case::of(&[grant("p", "old", "e"), grant("p", "older", "f")]);
        let (uids, _) = case.run();
        assert_eq!(uids, ["new", "older"]);
    }

    #[test]
    fn a_pinned_grant_ends_with_its_pod() {
        let (uids, rebound) = Case::of(&[pinned("old")]).run();
        assert!(uids.is_empty() && rebound.ended && rebound.expires_at.is_none());
    }

    #[test]
    fn a_grant_that_may_be_for_a_later_pod_is_held_back() {
        for (read_as, is_behind, held_back) in
            [(None, true, true), (Some(8), false, true), (Some(7), false, false)]
        {
            let case = Case { read_as, is_behind, ..Case::of(&[pinned("later")]) };
            let (uids, rebound) = case.run();
            assert_eq!((uids.len(), rebound.held_back), (usize::from(held_back), held_back));
        }
    }

    #[test]
    fn an_entry_of_another_program_is_bound_to_the_pod_of_its_name() {
        let case = Case { is_behind: true, ..Case::of(&[foreign("p")]) };
        let (uids, rebound) = case.run();
        assert_eq!(uids, ["new"], "it is for no later pod, because it names none");
        assert_eq!(rebound.expires_at, Some(after(120)));
    }
}
