//! Instances of Holdfast behind one address. Each is a client of another API server.

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use holdfast_e2e::balancer::Balancer;
use holdfast_e2e::fixture::fixture;
use holdfast_e2e::server::Server;

#[derive(Debug)]
pub struct Instances {
    balancer: Balancer,
    started: AtomicUsize,
    places: Vec<Place>,
}

/// The address of an instance and its API server. Processes are replaced.
#[derive(Debug)]
struct Place {
    address: String,
    kubeconfig: PathBuf,
    /// None while it is down.
    server: Mutex<Option<Server>>,
}

impl Instances {
    /// Starts one instance for each API server, and waits until they are ready.
    pub fn start() -> Self {
        let balancer = Balancer::start();
        let place = |n| Place {
            address: free_address(),
            kubeconfig: fixture().kubeconfig_of("holdfast", n),
            server: Mutex::default(),
        };
        let places: Vec<Place> = (0..fixture().apiservers()).map(place).collect();
        // The addresses must be known before the instances are ready: API servers call them while the first
        // one installs.
        for place in &places {
            balancer.add(place.address.clone());
        }
        let instances = Self { balancer, started: AtomicUsize::new(0), places };
        std::thread::scope(|scope| {
            for n in 0..instances.len() {
                let instances = &instances;
                scope.spawn(move || instances.launch(n).expect("it starts"));
            }
        });
        instances
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Starts the instance if it is down, and waits until it is ready. Fails if its API server is down.
    pub fn launch(&self, n: usize) -> Result<(), String> {
        let place = &self.places[n];
        let name = format!("nemesis-{n}-{}", self.started.fetch_add(1, Ordering::Relaxed));
        let more = ["--advertise", &self.balancer.url()];
        let server = Server::start_on(&name, &place.kubeconfig, &place.address, &more)?;
        *place.lock() = Some(server);
        Ok(())
    }

    pub fn is_down(&self, n: usize) -> bool {
        self.places[n].lock().is_none()
    }

    pub fn kill(&self, n: usize) {
        if let Some(mut server) = self.places[n].lock().take() {
            server.kill();
        }
    }

    /// Sends SIGTERM, and kills the process if it does not end soon: its API server may be down.
    pub fn terminate(&self, n: usize) {
        if let Some(mut server) = self.places[n].lock().take() {
            server.terminate();
            std::thread::sleep(Duration::from_secs(3));
            server.kill();
        }
    }

    pub fn pause(&self, n: usize) {
        self.places[n].lock().as_ref().inspect(|server| server.pause());
    }

    pub fn resume(&self, n: usize) {
        self.places[n].lock().as_ref().inspect(|server| server.resume());
    }

    /// Returns the number of decisions of each running process.
    pub fn decided(&self, namespace: &str) -> Vec<usize> {
        let decided = |place: &Place| {
            place.lock().as_ref().map_or(0, |server| server.decisions(namespace).len())
        };
        self.places.iter().map(decided).collect()
    }
}

impl Place {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Server>> {
        self.server.lock().expect("not poisoned")
    }
}

/// Returns an address with a port below the range of the kernel for connections, so the port stays free while
/// the instance is down.
fn free_address() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let first = std::process::id() as usize;
    let free = || {
        let n = first + NEXT.fetch_add(1, Ordering::Relaxed);
        let address = format!("127.0.0.1:{}", 10_000 + n % 9_000);
        TcpListener::bind(&address).is_ok().then_some(address)
    };
    (0..100).find_map(|_| free()).expect("a free port")
}
