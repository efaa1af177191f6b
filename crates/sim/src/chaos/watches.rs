//! Watches: events that come late, twice, merged, or not at all until a new list.

use holdfast_core::Kind;

use super::fault::Fault;
use super::run::Run;
use super::workloads::millis;

impl Run {
    /// Some instance hears some of what waits.
    pub fn deliver(&mut self) {
        let awake = self.awake();
        let Some(&index) = self.random.pick(&awake) else { return };
        let one_by_one = self.random.chance(self.params.one_by_one);
        let mut kinds = self.audible(index);
        if one_by_one && let Some(kind) = self.random.pick(&kinds).cloned() {
            kinds = vec![kind];
        }
        for kind in kinds {
            let events = if one_by_one { 1 } else { self.world.instance(index).waiting_of(&kind) };
            self.log(|| format!("{index} hears of {kind}, {events} times"));
            for _ in 0..events {
                self.world.instance(index).deliver(&kind);
                // Before the next event: it is by what it knew then that an answer is judged.
                self.observe();
            }
            self.remember_position(index, &kind);
        }
        self.bookmark(index);
    }

    fn audible(&mut self, index: usize) -> Vec<Kind> {
        let now = self.world.now();
        self.lagging.retain(|_, until| *until > now);
        let waiting = self.world.instance(index).kinds_waiting();
        waiting.into_iter().filter(|k| !self.lagging.contains_key(&(index, k.clone()))).collect()
    }

    /// A watch that has told all knows the newest version by a bookmark: it is the last to be told
    /// that it is gone.
    fn bookmark(&mut self, index: usize) {
        if self.random.chance(30) {
            for kind in holdfast_core::Config::default().kinds {
                self.remember_position(index, &kind);
            }
        }
    }

    fn remember_position(&mut self, index: usize, kind: &Kind) {
        if self.world.instance(index).waiting_of(kind) == 0 {
            self.positions.insert((index, kind.clone()), self.world.revision());
        }
    }

    pub fn disturb_watch(&mut self, fault: Fault) {
        let awake = self.awake();
        let Some(&index) = self.random.pick(&awake) else { return };
        let mut kinds: Vec<Kind> = self.world.instance(index).kinds_waiting().into_iter().collect();
        if matches!(fault, Fault::WatchLag | Fault::Disconnect) {
            kinds.extend([Kind::Pod, Kind::Budget]);
        }
        let Some(kind) = self.random.pick(&kinds).cloned() else { return };
        let now = self.world.now();
        match fault {
            Fault::WatchLag => {
                let minutes = self.random.chance(20);
                let most = if minutes { 300_000 } else { 60_000 };
                let until = now + millis(self.random.between(100, most));
                self.lagging.insert((index, kind.clone()), until);
            }
            Fault::Disconnect => self.reconnect(index, &kind),
            Fault::Gone => {
                self.compacted = self.world.revision();
                self.list(index, &kind);
            }
            Fault::Duplicate if !self.world.instance(index).duplicate_next(&kind) => return,
            Fault::Coalesce if !self.world.instance(index).coalesce(&kind) => return,
            _ => {}
        }
        self.count(fault);
        self.log(|| format!("{index} {fault} of {kind}"));
    }

    /// From the last event or bookmark, if that is not compacted: then what was on its way is sent
    /// again, and nothing shows. Else it is listed.
    fn reconnect(&mut self, index: usize, kind: &Kind) {
        let position = self.positions.get(&(index, kind.clone())).copied().unwrap_or(0);
        if position < self.compacted {
            self.log(|| format!("{index} is told 410 Gone for {kind}"));
            self.list(index, kind);
        }
    }

    /// A consistent read, that comes in its own time.
    fn list(&mut self, index: usize, kind: &Kind) {
        let version = self.world.revision();
        self.world.instance(index).list_as_of(kind, version);
    }
}
