//! One random thing that happens.

use std::time::Duration;

use holdfast_core::Command;

use super::clients::describe;
use super::fault::Fault;
use super::invariants;
use super::run::Run;
use crate::instance::Fate;

impl Run {
    pub fn act(&mut self) {
        if self.random.chance(self.params.other_faults) {
            return self.go_wrong();
        }
        match self.random.below(100) {
            0..=15 => self.ask(),
            16..=43 => self.call(),
            44..=60 => self.answer(),
            61..=76 => self.deliver(),
            77..=81 => self.execute_some(),
            82..=91 => self.work(),
            _ => self.pass_time(),
        }
    }

    /// One of the faults that this world has and that happen by themselves.
    fn go_wrong(&mut self) {
        // Several are drawn, of which this world may have one: to leave out a fault changes the others
        // as little as can be.
        let all = Fault::ALL;
        let drawn = [(); 4].map(|()| all[self.random.below(all.len())]);
        let Some(fault) = drawn.into_iter().find(|fault| self.params.has(*fault)) else {
            // Something ordinary in its place, so that worlds with few faults do get on.
            return if self.random.chance(50) { self.deliver() } else { self.work() };
        };
        match fault {
            Fault::WatchLag
            | Fault::Disconnect
            | Fault::Gone
            | Fault::Duplicate
            | Fault::Coalesce => self.disturb_watch(fault),
            Fault::Crash
            | Fault::CrashAtCall
            | Fault::Pause
            | Fault::FrozenTogether
            | Fault::OldList
            | Fault::OlderRelease
            | Fault::ClockJump
            | Fault::LeaseTrouble => {
                self.disturb_process(fault);
            }
            Fault::Conflict => self.conflict(),
            Fault::LandsLate => self.land(),
            // These strike where something is under way.
            Fault::TimeoutApplied
            | Fault::TimeoutNotApplied
            | Fault::ResponseLost
            | Fault::Refused => self.call(),
            Fault::RefusedLater => self.execute_some(),
            Fault::RefusedAlways => self.begin_to_refuse(),
            Fault::TwoLeaders | Fault::ClockSkew | Fault::NameReused => self.pass_time(),
            _ => self.meddle(fault),
        }
    }

    /// A call of an instance reaches the API server, or does not.
    fn call(&mut self) {
        let awake = self.awake();
        let Some(&index) = self.random.pick(&awake) else { return };
        let calls = self.world.instance(index).calls_waiting();
        if calls.is_empty() {
            return;
        }
        let n = self.random.below(calls.len());
        let fates = [
            (Fault::TimeoutApplied, Fate::AnswerLost),
            (Fault::TimeoutNotApplied, Fate::NotApplied),
            (Fault::LandsLate, Fate::AppliedLate),
            (Fault::Refused, Fate::Refused),
        ];
        let drawn = fates[self.random.below(fates.len())];
        let (fault, fate) = drawn;
        let is_write = matches!(calls[n], Command::WriteStatus { .. });
        let meant = fault != Fault::Refused || is_write;
        if self.strikes(fault, self.params.call_faults) && meant {
            self.count(fault);
            self.log(|| format!("{index} {} {fault}", describe(&calls[n])));
            self.world.instance(index).end_call(n, fate);
        } else {
            self.log(|| format!("{index} {} executed", describe(&calls[n])));
            self.world.instance(index).execute_call(n);
        }
    }

    fn answer(&mut self) {
        let awake = self.awake();
        let Some(&index) = self.random.pick(&awake) else { return };
        let answers = self.world.instance(index).answers_waiting();
        if answers == 0 {
            return;
        }
        let n = self.random.below(answers);
        if self.strikes(Fault::ResponseLost, self.params.call_faults / 2) {
            self.count(Fault::ResponseLost);
            self.log(|| format!("{index} answer lost"));
            self.world.instance(index).lose_answer(n);
        } else {
            self.log(|| format!("{index} answer delivered"));
            self.world.instance(index).deliver_answer(n);
        }
    }

    fn conflict(&mut self) {
        let budgets = self.budget_keys();
        if let Some(budget) = self.random.pick(&budgets) {
            self.count(Fault::Conflict);
            self.log(|| format!("somebody writes {budget}"));
            self.world.touch_budget(budget);
        }
    }

    fn land(&mut self) {
        let late = self.world.late_calls();
        if late > 0 {
            let n = self.random.below(late);
            let lands = self.random.chance(70);
            self.log(|| format!("a late call {}", if lands { "lands" } else { "is lost" }));
            if lands { self.world.land_late(n) } else { self.world.drop_late(n) }
        }
    }

    fn pass_time(&mut self) {
        let ms = match self.random.below(20) {
            0..=9 => self.random.between(1, 100),
            10..=15 => self.random.between(100, 3_000),
            16..=17 => self.random.between(3_000, 20_000),
            18 => self.random.between(20_000, 60_000),
            _ => self.random.between(110_000, 200_000),
        };
        self.log(|| format!("{ms} ms pass"));
        self.advance(Duration::from_millis(ms.unsigned_abs()));
    }

    /// Time passes. Processes look at their clocks on the way, and nothing that was allowed is
    /// executed later than it can be.
    pub fn advance(&mut self, by: Duration) {
        const LOOK: Duration = Duration::from_secs(1);
        let to = self.world.now() + by;
        loop {
            let due = self.allowed.iter().map(|a| a.until).min();
            let next = due.map_or(to, |due| due.min(to)).min(self.world.now() + LOOK);
            self.world.advance_to(next);
            self.observe();
            while let Some(n) = self.allowed.iter().position(|a| a.until <= next) {
                self.execute_or_refuse(n);
            }
            self.mind_processes();
            invariants::after_step(self);
            if next >= to {
                return;
            }
        }
    }
}
