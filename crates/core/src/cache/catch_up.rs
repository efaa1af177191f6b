//! Lists that bring the cache up to what budgets demand (semantics 6.2).
//!
//! The status of a budget names the versions that it was computed from. An instance that has seen less lists the
//! namespace, and decides when the list or the watch has shown enough.

use std::collections::BTreeMap;
use std::time::Duration;

use super::progress::Progress;
use crate::io::Kind;
use crate::model::{BudgetStatus, ResourceVersion, Timestamp};

/// How long an instance goes by the answer that a kind is not served. Then it asks again.
const NOT_SERVED_FOR: Duration = Duration::from_secs(5);

/// A budget demands that an instance that decides by it has seen this version of this kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// The budget's uid.
    pub(crate) budget: String,
    pub(crate) kind: Kind,
    pub(crate) version: ResourceVersion,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct CatchUp {
    /// Lists of this namespace that are in transit, with the claims that existed when each was sent.
    listing: BTreeMap<Kind, Vec<Claim>>,
    /// Versions of lists that were ahead of the watch. Events up to there say nothing new, and an
    /// old one could bring back what is gone.
    snapshots: BTreeMap<Kind, ResourceVersion>,
    /// Claims that a consistent list has shown to be impossible: the claim existed before the list was sent, and
    /// exceeds it. Such a claim is of an etcd that was restored since, or of another etcd.
    impossible: Vec<Claim>,
    /// When the API server said, upon a list, that it does not serve a kind of which nothing is cached.
    not_served: BTreeMap<Kind, Timestamp>,
}

impl CatchUp {
    /// Returns whether this instance has seen what the budget of this uid claims, or need not see it.
    pub(crate) fn has_seen(
        &self,
        progress: &Progress,
        budget: &str,
        kind: &Kind,
        version: &ResourceVersion,
    ) -> bool {
        let is_claim = |c: &Claim| c.budget == budget && c.kind == *kind && c.version == *version;
        progress.has_reached(kind, version)
            || self.has_listed(kind, version)
            || self.impossible.iter().any(is_claim)
    }

    /// Returns whether a list has shown all of this kind up to this version.
    pub(crate) fn has_listed(&self, kind: &Kind, version: &ResourceVersion) -> bool {
        self.snapshots.get(kind).is_some_and(|listed| !listed.is_older_than(version))
    }

    /// Returns the version up to which this instance has seen the pods of this namespace.
    pub(crate) fn pods_seen(&self, progress: &Progress) -> Option<ResourceVersion> {
        let listed = self.snapshots.get(&Kind::Pod);
        let reached = progress.reached(&Kind::Pod);
        let newest = match (listed, reached) {
            (Some(listed), Some(reached)) if reached.is_older_than(listed) => Some(listed),
            (listed, reached) => reached.or(listed),
        };
        newest.cloned()
    }

    /// Removes watermarks that are impossible, so that the next write replaces them by true ones.
    pub(crate) fn drop_impossible(&self, uid: &str, status: &mut BudgetStatus) {
        for claim in self.impossible.iter().filter(|claim| claim.budget == uid) {
            let name = claim.kind.to_string();
            if status.watermarks.get(&name) == Some(&claim.version) {
                status.watermarks.remove(&name);
            }
        }
    }

    /// Returns the kinds of which lists are in transit.
    pub(crate) fn listing(&self) -> impl Iterator<Item = &Kind> {
        self.listing.keys()
    }

    pub(crate) fn is_listing(&self, kind: &Kind) -> bool {
        self.listing.contains_key(kind)
    }

    /// A list of the kind is sent, because of these claims.
    pub(crate) fn begin(&mut self, kind: &Kind, claims: Vec<Claim>) {
        self.listing.insert(kind.clone(), claims);
    }

    /// The list is in the cache. `exists` says whether there is a budget of that uid.
    pub(crate) fn listed(
        &mut self,
        progress: &Progress,
        kind: &Kind,
        version: ResourceVersion,
        exists: impl Fn(&str) -> bool,
    ) {
        let sent = self.listing.remove(kind).unwrap_or_default();
        // A claim that was made while the list was in transit may well exceed it.
        let impossible = sent.into_iter().filter(|claim| version.is_older_than(&claim.version));
        let impossible: Vec<Claim> = impossible.collect();
        self.impossible.retain(|claim| exists(&claim.budget) && !impossible.contains(claim));
        self.impossible.extend(impossible);
        self.snapshots.insert(kind.clone(), version);
        self.snapshots.retain(|kind, version| !progress.has_reached(kind, version));
    }

    /// The kind is not served, and the cache holds nothing of it. The claims cannot be met.
    pub(crate) fn nothing_to_list(&mut self, kind: &Kind, now: Timestamp) {
        self.not_served.insert(kind.clone(), now);
        let claims = self.listing.remove(kind).unwrap_or_default();
        self.impossible.retain(|claim| !claims.contains(claim));
        self.impossible.extend(claims);
    }

    /// Returns whether the API server said a short time ago that it does not serve the kind.
    pub(crate) fn is_not_served(&self, kind: &Kind, now: Timestamp) -> bool {
        self.not_served.get(kind).is_some_and(|since| now < *since + NOT_SERVED_FOR)
    }

    /// The list failed.
    pub(crate) fn failed(&mut self, kind: &Kind) {
        self.listing.remove(kind);
    }

    /// Lists of this kind prove nothing any more: etcd was restored, or the kind is not served.
    pub(crate) fn forget(&mut self, kind: &Kind) {
        self.snapshots.remove(kind);
        self.impossible.retain(|claim| claim.kind != *kind);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn progress(pods: u64) -> Progress {
        let mut progress = Progress::new(&BTreeSet::from([Kind::Pod]));
        progress.reach(&Kind::Pod, &pods.into());
        progress
    }

    fn claim(version: u64) -> Claim {
        Claim { budget: "b".to_owned(), kind: Kind::Pod, version: version.into() }
    }

    fn sees(catch_up: &CatchUp, progress: &Progress, version: u64) -> bool {
        catch_up.has_seen(progress, "b", &Kind::Pod, &version.into())
    }

    fn list(catch_up: &mut CatchUp, progress: &Progress, version: u64) {
        catch_up.listed(progress, &Kind::Pod, version.into(), |_| true);
    }

    #[test]
    fn a_list_shows_what_the_watch_has_not_delivered() {
        let (mut catch_up, progress) = (CatchUp::default(), progress(5));
        assert!(sees(&catch_up, &progress, 5) && !sees(&catch_up, &progress, 6));
        assert_eq!(catch_up.pods_seen(&progress), Some(5.into()));
        catch_up.begin(&Kind::Pod, vec![claim(6)]);
        assert!(catch_up.is_listing(&Kind::Pod));
        list(&mut catch_up, &progress, 8);
        assert!(sees(&catch_up, &progress, 8) && !sees(&catch_up, &progress, 9));
        assert_eq!(catch_up.pods_seen(&progress), Some(8.into()));
        assert!(catch_up.has_listed(&Kind::Pod, &7.into()));
        assert_eq!(catch_up.listing().count(), 0);
    }

    #[test]
    fn a_list_that_the_watch_has_passed_is_forgotten() {
        let mut catch_up = CatchUp::default();
        list(&mut catch_up, &progress(5), 8);
        catch_up.listed(&progress(8), &Kind::Budget, 9.into(), |_| true);
        assert!(!catch_up.has_listed(&Kind::Pod, &7.into()));
    }

    #[test]
    fn a_claim_beyond_a_later_list_is_impossible() {
        let (mut catch_up, progress) = (CatchUp::default(), progress(5));
        catch_up.begin(&Kind::Pod, vec![claim(20)]);
        list(&mut catch_up, &progress, 8);
        assert!(sees(&catch_up, &progress, 20), "it is ignored");
        assert!(!sees(&catch_up, &progress, 21), "which was claimed after the list was sent");
        let mut status = BudgetStatus::default();
        status.watermarks.insert(Kind::Pod.to_string(), 20.into());
        catch_up.drop_impossible("another", &mut status);
        assert_eq!(status.watermarks.len(), 1);
        catch_up.drop_impossible("b", &mut status);
        assert_eq!(status.watermarks.len(), 0);
        catch_up.forget(&Kind::Pod);
        assert!(!sees(&catch_up, &progress, 20));
    }

    #[test]
    fn claims_of_budgets_that_are_gone_are_forgotten() {
        let (mut catch_up, progress) = (CatchUp::default(), progress(5));
        catch_up.begin(&Kind::Pod, vec![claim(20)]);
        list(&mut catch_up, &progress, 8);
        catch_up.listed(&progress, &Kind::Pod, 9.into(), |_| false);
        assert!(!sees(&catch_up, &progress, 20));
    }

    #[test]
    fn claims_of_a_kind_that_is_not_served_cannot_be_met() {
        let (mut catch_up, progress) = (CatchUp::default(), progress(5));
        let now = Timestamp::from_secs(1000);
        catch_up.begin(&Kind::Pod, vec![claim(20)]);
        catch_up.nothing_to_list(&Kind::Pod, now);
        assert!(sees(&catch_up, &progress, 20));
        assert!(catch_up.is_not_served(&Kind::Pod, now));
        assert!(!catch_up.is_not_served(&Kind::Pod, now + NOT_SERVED_FOR));
    }

    #[test]
    fn a_list_that_failed_is_sent_again() {
        let mut catch_up = CatchUp::default();
        catch_up.begin(&Kind::Pod, Vec::new());
        catch_up.failed(&Kind::Pod);
        assert!(!catch_up.is_listing(&Kind::Pod));
    }
}
