//! Instances of Holdfast, each a client of another API server, behind one address.

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

/// Where an instance serves and which API server it is a client of. Processes come and go.
#[derive(Debug)]
struct Place {
    address: String,
    kubeconfig: PathBuf,
    /// None while it is down.
    server: Mutex<Option<Server>>,
}

impl Instances {
    /// As many as there are API servers, ready.
    pub fn start() -> Self {
        let balancer = Balancer::start();
        let place = |n| Place {
            address: free_address(),
            kubeconfig: fixture().kubeconfig_of("holdfast", n),
            server: Mutex::default(),
        };
        let places: Vec<Place> = (0..fixture().apiservers()).map(place).collect();
        // Known before they are ready: while the first installs, API servers call it already.
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

    /// Starts the instance where none runs, and waits until it is ready. Fails if its API server is away.
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

    /// Tells it to end, and kills it if it has not soon: its API server may be away.
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

    /// The decisions of the processes that run now.
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

/// Below the range from which the kernel takes the ports of connections: the port stays free while the
/// instance is down.
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
