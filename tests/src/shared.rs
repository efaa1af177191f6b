//! One server for all tests of a program. It has only the rights that `holdfast manifests` prints.

use std::sync::{Arc, Mutex};

use crate::fixture::fixture;
use crate::gang::Shape;
use crate::printed;
use crate::server::{self, Server};

static SERVER: Mutex<Option<Arc<Server>>> = Mutex::new(None);

pub fn server() -> Arc<Server> {
    SERVER.lock().expect("not poisoned").clone().expect("it was started before the tests")
}

/// Starts it in the mode of this run, with these flags of `holdfast manifests` and `more` of `serve`.
pub fn start(name: &str, flags: &[&str], more: &[&str]) -> Result<Arc<Server>, String> {
    let mut flags = [&["--mode", fixture().mode.flag()], flags].concat();
    let groups = Shape::of_cluster();
    // Tests create objects of these kinds, whatever they test.
    if groups == Shape::Holdfast && !flags.contains(&groups.flag()) {
        flags.push(groups.flag());
    }
    // Remove the remains of a crashed run.
    server::uninstall()?;
    let server = Arc::new(printed::start(name, &flags, more)?);
    *SERVER.lock().expect("not poisoned") = Some(server.clone());
    Ok(server)
}

/// Uninstalls first, so that no request waits for a webhook without a server.
pub fn stop(mut server: Arc<Server>) -> Result<(), String> {
    *SERVER.lock().expect("not poisoned") = None;
    // Check this before its rights are removed. Requests in terminating namespaces are also answered with
    // "forbidden".
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
