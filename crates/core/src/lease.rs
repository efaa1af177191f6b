//! Who does the housekeeping: an election over one Lease object.
//!
//! **No safety rests on it.** Two leaders at once write the same statuses by compare-and-swap and
//! never grant more; without a leader, evictions go on and only counters lag. So a clock that
//! runs wrong, or a paused process, costs work and nothing else.
//!
//! The rules are client-go's: whoever sees the record unchanged for its whole duration, on its own
//! clock, may take it; the holder renews, and steps down when it could not for a while.
//!
//! Same contract as the engine: [`Election::handle`] mutates, [`Election::poll`] drains, and the caller
//! answers every read and write.

use std::collections::VecDeque;
use std::time::Duration;

use crate::model::{ResourceVersion, Timestamp};

/// Others take over when the record has not changed for so long.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// The holder gives up when it could not renew for so long: before others take over.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// How often the holder renews, and the others look.
pub const RETRY_PERIOD: Duration = Duration::from_secs(2);

/// The Lease object, as far as the election reads and writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub version: ResourceVersion,
    pub uid: String,
    /// Empty when its holder has given it back.
    pub holder: String,
    pub acquired: Timestamp,
    pub transitions: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseInput {
    /// The object as a read, or a write of ours, showed it. None: there is none.
    Seen(Option<Record>),
    /// A read or write came to nothing, or nobody knows what it came to.
    Failed,
    /// Give it back, so that the next instance need not wait.
    Resign,
    Tick,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseCommand {
    /// Read the Lease. Answer with `Seen` or `Failed`.
    Read,
    /// Create it, if there is none. Answer with `Seen` (after a conflict, what is there) or `Failed`.
    Create { holder: String, now: Timestamp },
    /// Replace it, if it still has this version. Answer as above.
    Update { record: Record, now: Timestamp },
}

#[derive(Debug)]
pub struct Election {
    /// This instance's name, unique among all.
    identity: String,
    /// Whether any look at the Lease was answered yet.
    looked: bool,
    seen: Option<Record>,
    /// When the record was last seen to change.
    changed: Timestamp,
    /// When a renewal of ours was last sent that succeeded.
    renewed: Option<Timestamp>,
    /// When the read or write under way was sent.
    asked: Option<Timestamp>,
    resigned: bool,
    next: Timestamp,
    commands: VecDeque<LeaseCommand>,
}

impl Election {
    pub fn new(identity: impl Into<String>) -> Self {
        Self {
            identity: identity.into(),
            looked: false,
            seen: None,
            changed: Timestamp::default(),
            renewed: None,
            asked: None,
            resigned: false,
            next: Timestamp::default(),
            commands: VecDeque::new(),
        }
    }

    /// Whether this instance leads, as of `now`: asked where the effect is, not where it is decided.
    pub fn leads(&self, now: Timestamp) -> bool {
        self.renewed.is_some_and(|at| now < at + RENEW_DEADLINE)
    }

    /// Who holds the lease, as last seen.
    pub fn holder(&self) -> &str {
        self.seen.as_ref().map_or("", |record| &record.holder)
    }

    /// When to call `handle` with `Tick`, if no answer comes before: to renew or to look, or because a leader that
    /// cannot renew knows by its clock alone that it leads no more.
    pub fn due(&self) -> Option<Timestamp> {
        let next = (self.asked.is_none() && !self.resigned).then_some(self.next);
        let ends = self.renewed.map(|at| at + RENEW_DEADLINE);
        next.into_iter().chain(ends).min()
    }

    pub fn handle(&mut self, now: Timestamp, input: LeaseInput) {
        match input {
            LeaseInput::Seen(record) => self.see(now, record),
            LeaseInput::Failed => self.asked = None,
            LeaseInput::Resign => self.resign(now),
            LeaseInput::Tick => {}
        }
        if !self.leads(now) {
            self.renewed = None;
        }
        if self.asked.is_none() && !self.resigned && now >= self.next {
            self.try_now(now);
            self.next = now + RETRY_PERIOD;
        }
    }

    pub fn poll(&mut self) -> Option<LeaseCommand> {
        self.commands.pop_front()
    }

    fn see(&mut self, now: Timestamp, record: Option<Record>) {
        let asked = self.asked.take();
        let first = !std::mem::replace(&mut self.looked, true);
        if first && record.as_ref().is_none_or(|record| record.holder.is_empty()) {
            // Nobody holds it: no reason to wait for the next look.
            self.next = now;
        }
        let version = |record: &Option<Record>| record.as_ref().map(|r| r.version.clone());
        if version(&record) != version(&self.seen) {
            self.changed = now;
        }
        let ours = record.as_ref().is_some_and(|r| r.holder == self.identity);
        self.seen = record;
        // Counted from when it was sent: the answer may have taken long.
        self.renewed = match (ours && !self.resigned, asked) {
            (true, Some(asked)) => Some(asked),
            (true, None) => self.renewed,
            (false, _) => None,
        };
    }

    fn try_now(&mut self, now: Timestamp) {
        let command = match &self.seen {
            _ if !self.looked => LeaseCommand::Read,
            None => LeaseCommand::Create { holder: self.identity.clone(), now },
            Some(record) if record.holder == self.identity => {
                LeaseCommand::Update { record: record.clone(), now }
            }
            Some(record) if record.holder.is_empty() || self.changed + LEASE_DURATION <= now => {
                LeaseCommand::Update {
                    record: Record {
                        holder: self.identity.clone(),
                        acquired: now,
                        transitions: record.transitions + 1,
                        ..record.clone()
                    },
                    now,
                }
            }
            Some(_) => LeaseCommand::Read,
        };
        self.asked = Some(now);
        self.commands.push_back(command);
    }

    fn resign(&mut self, now: Timestamp) {
        self.resigned = true;
        self.renewed = None;
        if let Some(record) = self.seen.as_ref().filter(|r| r.holder == self.identity) {
            let record = Record { holder: String::new(), ..record.clone() };
            self.commands.push_back(LeaseCommand::Update { record, now });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Lease on an API server, and instances that are all answered at once.
    #[derive(Default)]
    struct Server {
        lease: Option<Record>,
        version: u64,
    }

    impl Server {
        fn drive(&mut self, now: Timestamp, election: &mut Election, input: LeaseInput) {
            election.handle(now, input);
            while let Some(command) = election.poll() {
                let seen = match command {
                    LeaseCommand::Read => self.lease.clone(),
                    LeaseCommand::Create { holder, now } => {
                        if self.lease.is_none() {
                            self.put(Record {
                                version: ResourceVersion::default(),
                                uid: "u".to_owned(),
                                holder,
                                acquired: now,
                                transitions: 0,
                            });
                        }
                        self.lease.clone()
                    }
                    LeaseCommand::Update { record, .. } => {
                        if self.lease.as_ref().is_some_and(|l| l.version == record.version) {
                            self.put(record);
                        }
                        self.lease.clone()
                    }
                };
                election.handle(now, LeaseInput::Seen(seen));
            }
        }

        fn put(&mut self, record: Record) {
            self.version += 1;
            self.lease = Some(Record { version: self.version.into(), ..record });
        }
    }

    const START: i64 = 1_000_000;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_secs(START + seconds)
    }

    #[test]
    fn one_leads_and_the_other_takes_over_after_the_lease_duration() {
        let mut server = Server::default();
        let (mut a, mut b) = (Election::new("a"), Election::new("b"));
        for t in 0..20 {
            server.drive(at(t), &mut a, LeaseInput::Tick);
            server.drive(at(t), &mut b, LeaseInput::Tick);
            assert!(!b.leads(at(t)));
            assert!(a.leads(at(t)), "nobody holds it, so it is taken at once");
        }
        // `a` is paused at 20 s.
        let mut took_over = None;
        for t in 20..60 {
            server.drive(at(t), &mut b, LeaseInput::Tick);
            if b.leads(at(t)) && took_over.is_none() {
                took_over = Some(t);
                assert!(!a.leads(at(t)), "the old leader knows by its clock alone");
            }
        }
        assert!((33..=37).contains(&took_over.unwrap()), "{took_over:?}");
        server.drive(at(60), &mut a, LeaseInput::Tick);
        assert!(!a.leads(at(60)));
        assert_eq!(a.holder(), "b");
        assert_eq!(server.lease.unwrap().transitions, 1);
    }

    #[test]
    fn who_resigns_is_followed_at_once() {
        let mut server = Server::default();
        let (mut a, mut b) = (Election::new("a"), Election::new("b"));
        for t in 0..6 {
            server.drive(at(t), &mut a, LeaseInput::Tick);
            server.drive(at(t), &mut b, LeaseInput::Tick);
        }
        server.drive(at(6), &mut a, LeaseInput::Resign);
        assert!(!a.leads(at(6)));
        for t in 6..9 {
            server.drive(at(t), &mut b, LeaseInput::Tick);
        }
        assert!(b.leads(at(9)));
    }

    #[test]
    fn a_leader_that_cannot_renew_steps_down_before_others_take_over() {
        let mut server = Server::default();
        let mut a = Election::new("a");
        for t in 0..5 {
            server.drive(at(t), &mut a, LeaseInput::Tick);
        }
        assert!(a.leads(at(5)));
        for t in 5..30 {
            a.handle(at(t), LeaseInput::Tick);
            while a.poll().is_some() {}
            a.handle(at(t), LeaseInput::Failed);
        }
        assert!(!a.leads(at(16)));
        assert!(a.due() > Some(at(29)), "it goes on trying");
        const { assert!(RENEW_DEADLINE.as_secs() < LEASE_DURATION.as_secs()) };
    }

    #[test]
    fn it_is_woken_to_renew_and_when_a_renewal_takes_too_long() {
        let mut server = Server::default();
        let mut a = Election::new("a");
        assert!(a.due().is_some_and(|due| due <= at(0)), "to look, at once");
        server.drive(at(0), &mut a, LeaseInput::Tick);
        assert!(a.leads(at(0)));
        assert_eq!(a.due(), Some(at(2)));
        // The answer does not come.
        a.handle(at(2), LeaseInput::Tick);
        assert!(a.poll().is_some());
        assert_eq!(a.due(), Some(at(10)));
        a.handle(at(10), LeaseInput::Tick);
        assert!(!a.leads(at(10)));
        assert_eq!(a.due(), None, "nothing to do before it comes");
        a.handle(at(11), LeaseInput::Failed);
        assert!(a.poll().is_some());
    }
}
