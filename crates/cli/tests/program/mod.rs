//! Starts the program as a user does.

use std::process::{Child, Command, Stdio};

pub fn start(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_holdfast"))
        .args(arguments)
        .env_remove("KUBECONFIG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts")
}
