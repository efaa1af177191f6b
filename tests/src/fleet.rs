//! Several instances of Holdfast behind one address.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::balancer::Balancer;
use crate::fixture::fixture;
use crate::server::Server;
use crate::wait::until;

#[derive(Debug)]
pub struct Fleet {
    name: &'static str,
    /// The program to start next.
    pub program: PathBuf,
    balancer: Balancer,
    started: AtomicUsize,
    flags: Vec<String>,
    pub servers: Vec<Server>,
}

impl Fleet {
    /// Starts all instances at once, on a cluster where nothing or everything is installed.
    pub fn start(name: &'static str, size: usize) -> Self {
        Self::start_with(name, size, &[])
    }

    pub fn start_with(name: &'static str, size: usize, flags: &[&str]) -> Self {
        Self::start_of(&fixture().holdfast, name, size, flags)
    }

    /// Starts instances of this program.
    pub fn start_of(program: &Path, name: &'static str, size: usize, flags: &[&str]) -> Self {
        let balancer = Balancer::start();
        let mut flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        flags.extend(["--advertise".to_owned(), balancer.url()]);
        let started = AtomicUsize::new(0);
        let program = program.to_owned();
        let mut fleet = Self { name, program, balancer, started, flags, servers: Vec::new() };
        fleet.servers = std::thread::scope(|scope| {
            let starting: Vec<_> = (0..size).map(|_| scope.spawn(|| fleet.start_one())).collect();
            starting.into_iter().map(|server| server.join().expect("it starts")).collect()
        });
        fleet
    }

    /// Starts one more instance, waits until it is ready, and adds it to the balancer.
    pub fn start_one(&self) -> Server {
        let n = self.started.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{n}", self.name);
        let flags: Vec<&str> = self.flags.iter().map(String::as_str).collect();
        let server = Server::start_of(&self.program, &name, &flags)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        self.balancer.add(server.webhook());
        server
    }

    /// Replaces an instance as a Deployment does: the new one is ready before the old one ends.
    pub fn replace(&mut self, i: usize) {
        let new = self.start_one();
        let old = std::mem::replace(&mut self.servers[i], new);
        self.retire(old);
    }

    /// Ends an instance in order: first the balancer stops using it, then it gets SIGTERM.
    pub fn retire(&self, mut server: Server) {
        self.balancer.remove(&server.webhook());
        server.terminate();
        assert_eq!(server.wait().code(), Some(0), "{}", server.log());
    }

    pub fn crash(&self, mut server: Server) {
        server.kill();
        self.balancer.remove(&server.webhook());
    }

    /// Pauses an instance. Its connections stay open. The caller decides whether the balancer still uses it.
    pub fn pause(&self, i: usize, still_asked: bool) {
        if !still_asked {
            self.balancer.remove(&self.servers[i].webhook());
        }
        self.servers[i].pause();
    }

    pub fn resume(&self, i: usize, was_asked: bool) {
        if !was_asked {
            self.balancer.add(self.servers[i].webhook());
        }
        self.servers[i].resume();
    }

    /// Waits until one of the running instances leads. Returns its index.
    pub fn leader(&self, but: Option<usize>) -> usize {
        until("an instance leads", || {
            let running = (0..self.servers.len()).filter(|i| Some(*i) != but);
            let leads = |i: &usize| self.servers[*i].metric("holdfast_leader") == Some(1.0);
            let leaders: Vec<usize> = running.filter(leads).collect();
            if leaders.len() == 1 { Ok(leaders[0]) } else { Err(format!("{leaders:?}")) }
        })
    }

    /// Returns the sum of a metric over all instances.
    pub fn metric(&self, name: &str) -> f64 {
        self.metric_but(name, None)
    }

    /// Returns the sum over all instances except one that does not answer.
    pub fn metric_but(&self, name: &str, but: Option<usize>) -> f64 {
        let asked = self.servers.iter().enumerate().filter(|(i, _)| Some(*i) != but);
        asked.filter_map(|(_, server)| server.metric(name)).sum()
    }

    pub fn stop(mut self) {
        for server in std::mem::take(&mut self.servers) {
            self.retire(server);
        }
    }
}
