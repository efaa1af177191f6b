//! Lists of the namespace's budgets. Which budgets cover a pod is decided on a recent one (semantics 6).
//!
//! A watch cannot prove that it is current: a lagging watch delivers old events, and an API server whose watch
//! cache is stuck goes on sending bookmarks. A consistent list can.
//!
//! ```text
//! request --> list at most 5 s old? --yes--> decide; past 2.5 s, send the next list beside the requests
//!                 \--no--> wait for the list --answer--> decide
//!                                 \--failure, deadline--> deny
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use crate::io::Kind;
use crate::model::{ResourceVersion, Timestamp};

/// An allow rests on a list of the budgets that was sent at most this long ago.
const AGE_MAX: Duration = Duration::from_secs(5);

/// Requests that come while the list is older than this make the engine send the next one. A steady flow of
/// requests then never waits for a list.
const RENEWED_AFTER: Duration = Duration::from_millis(2500);

#[derive(Clone, Debug, Default)]
pub(crate) struct BudgetLists {
    /// When the newest list of each kind that has been answered was sent.
    sent: BTreeMap<Kind, Timestamp>,
    /// The version of that list. Watch events up to it bring no budget back.
    versions: BTreeMap<Kind, ResourceVersion>,
    /// Kinds of which a list is under way, and whether a budget went since the list was sent.
    under_way: BTreeMap<Kind, bool>,
    /// Requests that wait for a list, in the order in which they came.
    waiting: Vec<String>,
}

impl BudgetLists {
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Returns whether a recent list of the kind is in the cache.
    pub(crate) fn is_recent(&self, kind: &Kind, now: Timestamp) -> bool {
        self.is_younger(kind, AGE_MAX, now)
    }

    /// Returns whether the kind is to be listed now.
    pub(crate) fn begin(&mut self, kind: &Kind, now: Timestamp) -> bool {
        let begins =
            !self.is_younger(kind, RENEWED_AFTER, now) && !self.under_way.contains_key(kind);
        if begins {
            self.under_way.insert(kind.clone(), false);
        }
        begins
    }

    /// The request goes on when a list has been answered.
    pub(crate) fn wait(&mut self, request: &str) {
        if !self.waiting.iter().any(|waiting| waiting == request) {
            self.waiting.push(request.to_owned());
        }
    }

    /// A list that was sent at this time is in the cache. A request that needs the list of another kind too waits again.
    pub(crate) fn listed(
        &mut self,
        kind: &Kind,
        sent: Timestamp,
        version: Option<ResourceVersion>,
    ) -> Vec<String> {
        if self.under_way.remove(kind) == Some(false) {
            self.sent.insert(kind.clone(), sent);
        }
        if let Some(version) = version {
            self.versions.insert(kind.clone(), version);
        }
        std::mem::take(&mut self.waiting)
    }

    /// The list failed. Returns the requests that needed it.
    pub(crate) fn failed(&mut self, kind: &Kind, needs: impl Fn(&str) -> bool) -> Vec<String> {
        self.under_way.remove(kind);
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        let (failed, waiting) = waiting.partition(|request| needs(request));
        self.waiting = waiting;
        failed
    }

    /// A budget of this kind is gone. Its successor may exist already, which no list shows that was sent before.
    pub(crate) fn expire(&mut self, kind: &Kind) {
        if planted!(KeepOldLists) {
            return;
        }
        self.sent.remove(kind);
        self.under_way.entry(kind.clone()).and_modify(|is_old| *is_old = true);
    }

    /// The cache of this kind was emptied or rebuilt: earlier lists prove nothing any more.
    pub(crate) fn forget(&mut self, kind: &Kind) {
        self.sent.remove(kind);
        self.versions.remove(kind);
    }

    /// The version of the newest list of this kind.
    pub(crate) fn version(&self, kind: &Kind) -> Option<&ResourceVersion> {
        self.versions.get(kind)
    }

    /// Returns whether a list has shown all budgets of this kind up to this version.
    pub(crate) fn has_listed(&self, kind: &Kind, version: &ResourceVersion) -> bool {
        self.versions.get(kind).is_some_and(|listed| !listed.is_older_than(version))
    }

    fn is_younger(&self, kind: &Kind, age: Duration, now: Timestamp) -> bool {
        self.sent.get(kind).is_some_and(|sent| now <= *sent + age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: &Kind = &Kind::Budget;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_secs(1000) + Duration::from_millis(ms)
    }

    fn listed() -> BudgetLists {
        let mut lists = BudgetLists::default();
        assert!(lists.begin(KIND, at(0)));
        assert!(lists.listed(KIND, at(0), Some(7.into())).is_empty());
        lists
    }

    #[test]
    fn a_list_is_recent_for_five_seconds_and_renewed_before() {
        let mut lists = listed();
        assert!(lists.is_recent(KIND, at(5000)) && !lists.is_recent(KIND, at(5001)));
        assert!(!lists.begin(KIND, at(2500)));
        assert!(lists.begin(KIND, at(2501)));
        assert!(!lists.begin(KIND, at(2502)), "one is under way");
        assert!(lists.has_listed(KIND, &7.into()) && !lists.has_listed(KIND, &8.into()));
    }

    #[test]
    fn a_list_that_was_sent_before_a_budget_went_proves_nothing() {
        let mut lists = listed();
        assert!(lists.begin(KIND, at(3000)));
        lists.expire(KIND);
        assert!(!lists.is_recent(KIND, at(3000)));
        let _ = lists.listed(KIND, at(3000), Some(9.into()));
        assert!(!lists.is_recent(KIND, at(3000)));
        assert!(lists.begin(KIND, at(3001)));
        let _ = lists.listed(KIND, at(3001), None);
        assert!(lists.is_recent(KIND, at(3001)));
    }

    #[test]
    fn requests_wait_once_and_go_on_in_order() {
        let mut lists = BudgetLists::default();
        lists.begin(KIND, at(0));
        for request in ["b", "a", "b"] {
            lists.wait(request);
        }
        assert_eq!(lists.failed(KIND, |request| request == "a"), ["a"]);
        assert!(lists.is_idle());
        assert_eq!(lists.listed(KIND, at(0), None), ["b"]);
    }
}
