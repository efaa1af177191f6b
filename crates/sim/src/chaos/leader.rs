//! The real election, over a Lease of this world.

use std::fmt::Write as _;

use holdfast_core::Input;
use holdfast_core::lease::{Election, LeaseCommand, LeaseInput, Record};
use holdfast_core::model::ResourceVersion;

use super::fault::Fault;
use super::run::Run;

pub(super) struct Candidate {
    election: Election,
    /// What the engine was told last.
    pub leads: bool,
    starts: usize,
}

impl Candidate {
    pub fn new(index: usize) -> Self {
        Self { election: Election::new(format!("instance-{index}")), leads: true, starts: 0 }
    }

    /// A new process has a new name.
    pub fn restart(&mut self, index: usize) {
        self.starts += 1;
        let mut name = format!("instance-{index}");
        let _ = write!(name, "-{}", self.starts);
        // Engines lead until told otherwise.
        *self = Self { election: Election::new(name), leads: true, starts: self.starts };
    }
}

impl Run {
    /// Every process that is awake looks at its clock, and at the Lease if it is time.
    pub fn elect(&mut self) {
        for index in self.awake() {
            let now = self.world.instance(index).now();
            self.candidates[index].election.handle(now, LeaseInput::Tick);
            while let Some(command) = self.candidates[index].election.poll() {
                let troubled = self.strikes(Fault::LeaseTrouble, 3);
                let mut answer = self.use_lease(command);
                if troubled {
                    self.count(Fault::LeaseTrouble);
                    answer = LeaseInput::Failed;
                }
                self.candidates[index].election.handle(now, answer);
            }
            let leads = self.candidates[index].election.leads(now);
            if std::mem::replace(&mut self.candidates[index].leads, leads) != leads {
                self.log(|| format!("{index} leads: {leads}"));
                self.world.instance(index).inject(Input::Lead(leads));
                if leads && self.leaders() > 1 {
                    self.count(Fault::TwoLeaders);
                }
            }
        }
    }

    /// How many engines believe that they lead, paused ones too.
    pub fn leaders(&mut self) -> usize {
        let up: Vec<usize> =
            (0..self.params.instances).filter(|i| self.world.instance(*i).is_up()).collect();
        up.into_iter().filter(|i| self.candidates[*i].leads).count()
    }

    /// Somebody deletes the Lease: its holder does not know until it renews.
    pub fn delete_lease(&mut self) {
        self.count(Fault::LeaseTrouble);
        self.log(|| "the Lease is deleted".to_owned());
        self.lease = None;
    }

    /// The API server's part.
    fn use_lease(&mut self, command: LeaseCommand) -> LeaseInput {
        let stored = self.lease.as_ref().map(|record| record.version.clone());
        let version = |stored: Option<ResourceVersion>| {
            let stored = stored.map_or(0, |v| v.to_string().parse::<u64>().expect("a number"));
            ResourceVersion::from(stored + 1)
        };
        match command {
            LeaseCommand::Create { holder, now } if self.lease.is_none() => {
                let version = ResourceVersion::from(self.world.revision() + 1_000_000);
                let (uid, acquired) = (format!("lease-{version}"), now);
                self.lease = Some(Record { version, uid, holder, acquired, transitions: 0 });
            }
            LeaseCommand::Update { record, .. } if stored == Some(record.version.clone()) => {
                self.lease = Some(Record { version: version(stored), ..record });
            }
            _ => {}
        }
        LeaseInput::Seen(self.lease.clone())
    }
}
