//! Simulates a Service: one address in front of the ready instances.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::client::RUNTIME;

/// On loopback a connection succeeds at once, or no process listens.
const CONNECT: Duration = Duration::from_millis(500);

/// Balances TCP connections. TLS is between the API server and the instance.
#[derive(Debug)]
pub struct Balancer {
    address: String,
    backends: Arc<Backends>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Backends {
    addresses: Mutex<Vec<String>>,
    next: AtomicUsize,
}

impl Balancer {
    #[track_caller]
    pub fn start() -> Self {
        let listener = RUNTIME.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let backends = Arc::new(Backends::default());
        let task = RUNTIME.spawn(accept(listener, backends.clone()));
        Self { address, backends, task }
    }

    /// Returns the URL for `--advertise`.
    pub fn url(&self) -> String {
        format!("https://{}/evict", self.address)
    }

    pub fn add(&self, address: String) {
        self.backends.addresses.lock().expect("not poisoned").push(address);
    }

    /// Stops new connections to this address. Open connections stay, as with a Service.
    pub fn remove(&self, address: &str) {
        self.backends.addresses.lock().expect("not poisoned").retain(|a| a != address);
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, backends: Arc<Backends>) {
    while let Ok((mut client, _)) = listener.accept().await {
        let backends = backends.clone();
        tokio::spawn(async move {
            if let Some(mut server) = backends.connect().await {
                // Both sides notice the end, however it happens.
                let _ = copy_bidirectional(&mut client, &mut server).await;
            }
        });
    }
}

impl Backends {
    /// Connects to the next instance in turn that accepts. Returns None if none accepts.
    async fn connect(&self) -> Option<TcpStream> {
        let addresses = self.addresses.lock().expect("not poisoned").clone();
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        for i in 0..addresses.len() {
            let address = &addresses[(first + i) % addresses.len()];
            let connected = tokio::time::timeout(CONNECT, TcpStream::connect(address)).await;
            if let Ok(Ok(stream)) = connected {
                let _ = stream.set_nodelay(true);
                return Some(stream);
            }
        }
        None
    }
}
