//! Makes a ledger agree with the status on the API server (semantics 5).
//!
//! | the status records | state of the grant | fate |
//! |---|---|---|
//! | it, for the pod that it is bound to | any | confirmed |
//! | it, for another pod of the name | any | moved to that pod |
//! | no such grant | in flight, adopted | kept: a write that carries it comes, or is under way |
//! | no such grant | committed | lost: another instance ended it |
//!
//! The grant that a renewal in flight replaces has a fate of its own, and is lost while in flight too: its record was
//! there before the renewal.

use std::collections::BTreeMap;
use std::time::Duration;

use super::PodKey;
use super::ledger::Ledger;
use super::live::{LiveGrant, State};
use super::record::{RecordKey, Records};
use crate::model::{BudgetStatus, Grant, Timestamp};

/// Longer than `kubectl drain` waits until it asks again.
pub(super) const OTHERS_TURN: Duration = Duration::from_secs(10);

/// The differences between a ledger and a status, for the caller to act on.
#[derive(Debug, Default)]
pub(super) struct Differences {
    /// Grants that are recorded for another pod of the name than they were bound to.
    pub(super) moved: Vec<LiveGrant>,
    /// Grants that are recorded and were not known.
    pub(super) unknown: Vec<Grant>,
    /// Pods that lost a grant, and since when they had it.
    pub(super) lost: BTreeMap<PodKey, Timestamp>,
}

/// Where a status records a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recorded {
    /// For the pod that the grant is bound to. A record of another program names no pod.
    Here,
    /// For another pod of the same name.
    Elsewhere,
    Nowhere,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Confirmed,
    Moved,
    Kept,
    Lost,
}

impl Recorded {
    fn of(live: &LiveGrant, record: Option<&Grant>) -> Self {
        match record {
            Some(record) if record.uid.is_empty() || record.uid == live.grant.uid => Self::Here,
            Some(_) => Self::Elsewhere,
            None => Self::Nowhere,
        }
    }

    fn fate(self, state: State) -> Fate {
        match (self, state) {
            (Self::Here, _) => Fate::Confirmed,
            (Self::Elsewhere, _) => Fate::Moved,
            (Self::Nowhere, State::InFlight | State::Adopted) => Fate::Kept,
            (Self::Nowhere, State::Committed) => Fate::Lost,
        }
    }

    /// The fate of a grant that a renewal in flight replaces.
    fn fate_of_replaced(self, state: State) -> Fate {
        match (self, state) {
            (Self::Nowhere, State::InFlight) => Fate::Lost,
            _ => self.fate(state),
        }
    }
}

impl Ledger {
    /// Grants under way stay.
    pub(super) fn reconcile(
        &mut self,
        status: &BudgetStatus,
        is_writing: bool,
        now: Timestamp,
    ) -> Differences {
        let mut records = Records::of(status);
        if !is_writing {
            self.forget_unrecorded_ends(&records, now);
        }
        records.forget(&self.ended);
        self.forget_denied(now);
        let mut differences = Differences::default();
        let denied_until = &mut self.denied_until;
        self.grants.retain(|pod, live| {
            let fate = settle(live, &mut records, now, &mut differences.moved);
            if fate == Fate::Lost {
                // Another instance ended it. If that instance expired it, requests must wait here too.
                if live.is_reported {
                    denied_until.insert(pod.clone(), now + OTHERS_TURN);
                }
                differences.lost.insert(pod.clone(), live.since);
            }
            matches!(fate, Fate::Confirmed | Fate::Kept)
        });
        differences.unknown = records.into_grants();
        differences
    }

    /// No write is under way that could bring back a grant that the status does not show any more.
    fn forget_unrecorded_ends(&mut self, records: &Records, now: Timestamp) {
        let ended = std::mem::take(&mut self.ended).into_iter();
        let (shown, gone) = ended.partition(|key| records.contains(key));
        self.ended = shown;
        for pod in Vec::from_iter(gone).into_iter().map(RecordKey::into_pod) {
            self.denied_until.entry(pod).and_modify(|until| *until = now + OTHERS_TURN);
        }
    }
}

/// Takes in what the status records of one grant and of the grant that it replaces.
fn settle(
    live: &mut LiveGrant,
    records: &mut Records,
    now: Timestamp,
    moved: &mut Vec<LiveGrant>,
) -> Fate {
    let replaced = live.replaced.take();
    let (recorded, record) = take_record(live, records, now);
    let fate = recorded.fate(live.state);
    match (fate, record) {
        (Fate::Moved, Some(grant)) => moved.push(LiveGrant { grant, ..live.clone() }),
        (Fate::Confirmed, Some(grant)) if !live.is_foreign => live.grant = grant,
        _ => {}
    }
    if let Some(mut replaced) = replaced.filter(|_| recorded == Recorded::Nowhere) {
        let (recorded, record) = take_record(&mut replaced, records, now);
        match (recorded.fate_of_replaced(replaced.state), record) {
            (Fate::Moved, Some(grant)) => moved.push(LiveGrant { grant, ..*replaced }),
            (Fate::Confirmed | Fate::Kept, _) => live.replaced = Some(replaced),
            _ => {}
        }
    }
    fate
}

/// The API server is known to have a grant that has a record.
fn take_record(
    live: &mut LiveGrant,
    records: &mut Records,
    now: Timestamp,
) -> (Recorded, Option<Grant>) {
    let record = records.take(&live.grant);
    if let Some(record) = &record {
        live.state = State::Committed;
        live.take_in_age(record, now);
    }
    (Recorded::of(live, record.as_ref()), record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grants::testing::{START, after, foreign, grant, status};

    #[test]
    fn fates_are_those_of_the_table() {
        use State::{Adopted, Committed, InFlight};
        for (recorded, state, fate, fate_of_replaced) in [
            (Recorded::Here, Committed, Fate::Confirmed, Fate::Confirmed),
            (Recorded::Here, InFlight, Fate::Confirmed, Fate::Confirmed),
            (Recorded::Elsewhere, Committed, Fate::Moved, Fate::Moved),
            (Recorded::Elsewhere, Adopted, Fate::Moved, Fate::Moved),
            (Recorded::Nowhere, Committed, Fate::Lost, Fate::Lost),
            (Recorded::Nowhere, InFlight, Fate::Kept, Fate::Lost),
            (Recorded::Nowhere, Adopted, Fate::Kept, Fate::Kept),
        ] {
            assert_eq!(recorded.fate(state), fate, "{recorded:?} {state:?}");
            assert_eq!(
                recorded.fate_of_replaced(state),
                fate_of_replaced,
                "{recorded:?} {state:?}"
            );
        }
    }

    /// A ledger of one grant, reconciled with a status 10 s later.
    struct Case {
        state: State,
        replaced: Option<(State, Grant)>,
        recorded: Vec<Grant>,
    }

    impl Case {
        fn run(self) -> (Ledger, Differences) {
            let mut live = LiveGrant::new(grant("p", "u", "e"), START, self.state);
            let replaced = self.replaced.map(|(state, of)| LiveGrant::new(of, START, state));
            live.replaced = replaced.map(Box::new);
            let mut ledger = Ledger::default();
            ledger.insert(live);
            let differences = ledger.reconcile(&status(&self.recorded), false, after(10));
            (ledger, differences)
        }
    }

    #[test]
    fn a_record_confirms_a_grant_that_was_in_flight() {
        let record = Grant { age_seconds: 30, ..grant("p", "u", "e") };
        let case = Case { state: State::InFlight, replaced: None, recorded: vec![record] };
        let (ledger, differences) = case.run();
        let live = ledger.get("p", "u").unwrap();
        assert_eq!((live.state, live.since), (State::Committed, after(-20)), "and tells its age");
        assert!(differences.moved.is_empty() && differences.lost.is_empty());
        assert!(differences.unknown.is_empty());
    }

    #[test]
    fn a_grant_that_another_instance_bound_to_another_pod_moves_there() {
        let recorded = vec![grant("p", "u2", "e")];
        let case = Case { state: State::Committed, replaced: None, recorded };
        let (ledger, differences) = case.run();
        assert!(ledger.get("p", "u").is_none());
        assert_eq!(differences.moved[0].grant, grant("p", "u2", "e"));
        assert!(differences.lost.is_empty());
    }

    #[test]
    fn a_committed_grant_without_a_record_is_lost() {
        let case = Case { state: State::Committed, replaced: None, recorded: Vec::new() };
        let (ledger, differences) = case.run();
        assert!(ledger.get("p", "u").is_none());
        let pod = ("p".to_owned(), "u".to_owned());
        assert_eq!(differences.lost, BTreeMap::from([(pod, START)]));
    }

    #[test]
    fn a_renewal_in_flight_remembers_what_it_replaces_while_that_is_recorded() {
        let old = grant("p", "u", "old");
        let renewal = |state, recorded| {
            let replaced = Some((state, old.clone()));
            let (ledger, differences) = Case { state: State::InFlight, replaced, recorded }.run();
            let live = ledger.get("p", "u").unwrap();
            assert_eq!(live.state, State::InFlight);
            (live.replaced.as_ref().map(|replaced| replaced.state), differences)
        };
        let (replaced, _) = renewal(State::Committed, vec![old.clone()]);
        assert_eq!(replaced, Some(State::Committed));
        let (replaced, differences) = renewal(State::Committed, Vec::new());
        assert_eq!(replaced, None);
        assert!(differences.lost.is_empty(), "the renewal still stands");
        let (replaced, _) = renewal(State::Adopted, Vec::new());
        assert_eq!(replaced, Some(State::Adopted));
        let (replaced, differences) = renewal(State::Committed, vec![grant("p", "u2", "old")]);
        assert_eq!(replaced, None);
        assert_eq!(differences.moved[0].grant, grant("p", "u2", "old"));
    }

    #[test]
    fn the_record_of_a_renewal_stands_for_what_it_replaces() {
        let (ledger, differences) = Case {
            state: State::InFlight,
            replaced: Some((State::Committed, grant("p", "u", "old"))),
            recorded: vec![grant("p", "u", "e")],
        }
        .run();
        assert!(ledger.get("p", "u").unwrap().replaced.is_none());
        assert!(differences.unknown.is_empty());
    }

    #[test]
    fn what_is_recorded_and_not_known_is_told() {
        let unknown = grant("q", "v", "f");
        let recorded = vec![grant("p", "u", "e"), unknown.clone()];
        let (_, differences) = Case { state: State::Committed, replaced: None, recorded }.run();
        assert_eq!(differences.unknown, [unknown]);
    }

    #[test]
    fn an_entry_of_another_program_stays_bound() {
        let mut ledger = Ledger::default();
        let bound = Grant { uid: "u".to_owned(), ..foreign("p") };
        ledger.insert(LiveGrant::new(bound.clone(), START, State::Committed));
        let mut status = status(&[]);
        status.disrupted_pods.insert("p".to_owned(), START);
        let differences = ledger.reconcile(&status, false, after(10));
        assert_eq!(ledger.get("p", "u").unwrap().grant, bound);
        assert!(differences.unknown.is_empty() && differences.moved.is_empty());
    }

    #[test]
    fn an_ended_grant_is_forgotten_when_no_write_can_bring_it_back() {
        let shown = status(&[grant("p", "u", "e")]);
        let mut ledger = Ledger::default();
        ledger.insert(LiveGrant::new(grant("p", "u", "e"), START, State::Committed));
        assert!(ledger.end("p", "u"));
        for (status, is_writing) in [(&shown, false), (&status(&[]), true), (&shown, true)] {
            let differences = ledger.reconcile(status, is_writing, START);
            assert!(differences.unknown.is_empty(), "the record is of a grant that has ended");
        }
        let _ = ledger.reconcile(&status(&[]), false, START);
        let differences = ledger.reconcile(&shown, false, START);
        assert_eq!(differences.unknown.len(), 1, "what is recorded now was recorded anew");
    }

    #[test]
    fn requests_wait_after_another_instance_expired_a_reported_grant() {
        let mut ledger = Ledger::default();
        ledger.insert(LiveGrant::new(grant("p", "u", "e"), START, State::Committed));
        assert!(ledger.begin_report("p", "u"));
        let _ = ledger.reconcile(&status(&[]), false, START);
        assert!(ledger.is_denied("p", "u", after(9)));
        assert!(!ledger.is_denied("p", "u", after(10)));
    }
}
