//! One server for all tests of a program, which only ask it. It has the rights of what is printed, and no
//! other.

use std::sync::{Arc, Mutex};

use crate::fixture::fixture;
use crate::gang::Shape;
use crate::printed;
use crate::server::{self, Server};

static SERVER: Mutex<Option<Arc<Server>>> = Mutex::new(None);

pub fn server() -> Arc<Server> {
    SERVER.lock().expect("not poisoned").clone().expect("it was started before the tests")
}

/// In the mode of this run, with these flags of `holdfast manifests` and `more` of `serve`.
pub fn start(name: &str, flags: &[&str], more: &[&str]) -> Result<Arc<Server>, String> {
    let mut flags = [&["--mode", fixture().mode.flag()], flags].concat();
    let groups = Shape::of_cluster();
    // Tests make objects of these kinds, whatever they are about.
    if groups == Shape::Holdfast && !flags.contains(&groups.flag()) {
        flags.push(groups.flag());
    }
    // What a run has left that crashed.
    server::uninstall()?;
    let server = Arc::new(printed::start(name, &flags, more)?);
    *SERVER.lock().expect("not poisoned") = Some(server.clone());
    Ok(server)
}

/// In this order: nothing on the cluster shall wait for a webhook that is not there.
pub fn stop(mut server: Arc<Server>) -> Result<(), String> {
    *SERVER.lock().expect("not poisoned") = None;
    // Before its rights go. Namespaces that are going away say "forbidden" too, of everybody.
    let refused =
        server.log().lines().find(|line| line.contains("forbidden: User")).map(str::to_owned);
    let uninstalled = server::uninstall();
    let server = Arc::get_mut(&mut server).ok_or("a test still uses the server")?;
    server.terminate();
    let status = server.wait();
    uninstalled?;
    if !status.success() {
        return Err(format!("holdfast serve: {status}"));
    }
    match refused {
        Some(line) => Err(format!("what is printed lacks a right: {line}")),
        None => Ok(()),
    }
}
