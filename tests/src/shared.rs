//! One server for all tests of a program, which only ask it.

use std::sync::{Arc, Mutex};

use crate::server::{self, Server};

static SERVER: Mutex<Option<Arc<Server>>> = Mutex::new(None);

pub fn server() -> Arc<Server> {
    SERVER.lock().expect("not poisoned").clone().expect("it was started before the tests")
}

pub fn start(name: &str) -> Result<Arc<Server>, String> {
    start_with(name, &[])
}

pub fn start_with(name: &str, flags: &[&str]) -> Result<Arc<Server>, String> {
    let server = Arc::new(Server::start_with(name, flags)?);
    *SERVER.lock().expect("not poisoned") = Some(server.clone());
    Ok(server)
}

/// In this order: nothing on the cluster shall wait for a webhook that is not there.
pub fn stop(mut server: Arc<Server>) -> Result<(), String> {
    *SERVER.lock().expect("not poisoned") = None;
    let uninstalled = server::uninstall();
    let server = Arc::get_mut(&mut server).ok_or("a test still uses the server")?;
    server.terminate();
    let status = server.wait();
    uninstalled?;
    if status.success() { Ok(()) } else { Err(format!("holdfast serve: {status}")) }
}
