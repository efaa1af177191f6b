//! Faults of API servers, of etcd and of instances of Holdfast, at the same time.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use holdfast_e2e::fixture::fixture;
use holdfast_e2e::localkube;
use holdfast_e2e::wait::until;
use holdfast_sim::Random;
use rustix::process::Signal;

use super::instances::Instances;

const ETCD: &str = "etcd";

/// Some are longer than a webhook may take. The longest is longer than a reservation lives.
const PAUSES: [u64; 4] = [1, 3, 8, 18];
/// Short enough that API servers stay healthy.
const ETCD_PAUSES: [u64; 3] = [1, 2, 4];

#[derive(Debug)]
pub struct Nemesis<'a> {
    instances: &'a Instances,
    began: Instant,
    length: Duration,
    /// Held during a fault of the control plane, because only one may happen at a time.
    control_plane: Mutex<()>,
    done: Mutex<BTreeMap<&'static str, usize>>,
}

impl<'a> Nemesis<'a> {
    pub fn new(instances: &'a Instances, began: Instant, length: Duration) -> Self {
        let (control_plane, done) = (Mutex::default(), Mutex::default());
        Self { instances, began, length, control_plane, done }
    }

    /// Returns how often each fault happened.
    pub fn done(&self) -> BTreeMap<&'static str, usize> {
        self.done.lock().expect("not poisoned").clone()
    }

    /// Injects faults until the time is over, and then restores everything.
    pub fn rage(&self, seed: u64) {
        std::thread::scope(|scope| {
            scope.spawn(|| self.until_over(Random::new(seed), Self::hit_control_plane));
            scope.spawn(|| self.until_over(Random::new(seed + 1), Self::hit_instance));
        });
        self.bring_back_all();
        for n in 0..self.instances.len() {
            self.launch(n);
        }
    }

    fn until_over(&self, mut random: Random, hit: fn(&Self, &mut Random)) {
        while self.began.elapsed() < self.length {
            hit(self, &mut random);
            std::thread::sleep(Duration::from_millis(500 + random.below(2000) as u64));
        }
    }

    fn hit_control_plane(&self, random: &mut Random) {
        let _alone = self.control_plane.lock().expect("not poisoned");
        let apiserver = apiserver(random.below(fixture().apiservers()));
        match random.below(6) {
            0 | 1 => {
                self.say("kill an API server", &apiserver);
                kill(&apiserver);
                std::thread::sleep(Duration::from_millis(random.below(3000) as u64));
                Self::bring_back(&apiserver);
            }
            2 | 3 => {
                let pause = self.pause(PAUSES[random.below(PAUSES.len())]);
                self.say("pause an API server", &format!("{apiserver} for {pause:?}"));
                signal(&apiserver, Signal::STOP);
                std::thread::sleep(pause);
                signal(&apiserver, Signal::CONT);
            }
            4 => {
                self.say("kill etcd", "");
                kill(ETCD);
                Self::bring_back(ETCD);
            }
            _ => {
                let pause = self.pause(ETCD_PAUSES[random.below(ETCD_PAUSES.len())]);
                self.say("pause etcd", &format!("for {pause:?}"));
                signal(ETCD, Signal::STOP);
                std::thread::sleep(pause);
                signal(ETCD, Signal::CONT);
            }
        }
        self.bring_back_all();
    }

    fn hit_instance(&self, random: &mut Random) {
        let n = random.below(self.instances.len());
        match random.below(5) {
            0 => {
                self.say("kill an instance", &n.to_string());
                self.instances.kill(n);
                self.launch(n);
            }
            1 => {
                self.say("end an instance", &n.to_string());
                self.instances.terminate(n);
                self.launch(n);
            }
            2 | 3 => {
                let pause = self.pause(PAUSES[random.below(PAUSES.len())]);
                self.say("pause an instance", &format!("{n} for {pause:?}"));
                self.instances.pause(n);
                std::thread::sleep(pause);
                self.instances.resume(n);
            }
            _ => self.freeze_both(n),
        }
    }

    /// Pauses an instance together with its API server: neither notices, and both continue their work after
    /// it.
    fn freeze_both(&self, n: usize) {
        let _alone = self.control_plane.lock().expect("not poisoned");
        let pause = self.pause(18);
        self.say("pause an instance with its API server", &format!("{n} for {pause:?}"));
        self.instances.pause(n);
        signal(&apiserver(n), Signal::STOP);
        std::thread::sleep(pause);
        signal(&apiserver(n), Signal::CONT);
        self.instances.resume(n);
    }

    /// Limits the pause to the end of the test.
    fn pause(&self, seconds: u64) -> Duration {
        let left = self.length.saturating_sub(self.began.elapsed());
        Duration::from_secs(seconds).min(left)
    }

    /// Starts an instance and waits until it is ready. Its API server may only be restored later.
    fn launch(&self, n: usize) {
        for _ in 0..10 {
            if !self.instances.is_down(n) {
                return;
            }
            if let Err(error) = self.instances.launch(n) {
                let why = error.lines().next().unwrap_or_default();
                println!("{} instance {n} does not start: {why}", self.time());
                std::thread::sleep(Duration::from_secs(1));
            }
        }
        panic!("instance {n} does not start again");
    }

    /// Starts a component of the control plane that has ended, or resumes it.
    fn bring_back(name: &str) {
        let mut last = String::new();
        for _ in 0..3 {
            let components = localkube::components().unwrap_or_else(|error| panic!("{error}"));
            let component = components.iter().find(|known| known.name == name);
            let tried = match component.map(|component| component.state.as_str()) {
                Some("running") => return,
                Some("paused") => localkube::signal(name, Signal::CONT),
                _ => localkube::restart_dead(name),
            };
            last = tried.err().unwrap_or_default();
        }
        panic!("{name} does not run again: {last}");
    }

    /// Also restores programs that ended because their API server did, as a kubelet would. Programs that
    /// others need come first in the list, and a program may end during the restore of another.
    fn bring_back_all(&self) {
        loop {
            let components = localkube::components().unwrap_or_else(|error| panic!("{error}"));
            let mut stopped = components.iter().filter(|component| component.state != "running");
            let Some(component) = stopped.next() else { return };
            println!("{} {} is {}", self.time(), component.name, component.state);
            Self::bring_back(&component.name);
        }
    }

    fn say(&self, what: &'static str, more: &str) {
        println!("{} {what} {more}", self.time());
        *self.done.lock().expect("not poisoned").entry(what).or_default() += 1;
    }

    fn time(&self) -> String {
        format!("{:6.1} s:", self.began.elapsed().as_secs_f64())
    }
}

/// Kills the program and returns when the process has ended. Until then it looks as if it ran.
fn kill(name: &str) {
    signal(name, Signal::KILL);
    until(&format!("{name} has ended"), || {
        let components = localkube::components()?;
        let state = components.iter().find(|known| known.name == name).map(|known| &known.state);
        if state.is_some_and(|state| state == "ended") { Ok(()) } else { Err(format!("{state:?}")) }
    });
}

fn signal(name: &str, signal: Signal) {
    localkube::signal(name, signal).unwrap_or_else(|error| panic!("{error}"));
}

/// Returns localkube's name of the API server.
fn apiserver(number: usize) -> String {
    if number == 0 { "kube-apiserver".to_owned() } else { format!("kube-apiserver-{}", number + 1) }
}
