//! Tests of the program: exit codes and messages.

use std::io::Write as _;
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn holdfast(arguments: &[&str], stdin: &str) -> Output {
    let mut child = super::program::start(arguments);
    // The program may end without reading its input.
    let _ = child.stdin.take().expect("piped").write_all(stdin.as_bytes());
    child.wait_with_output().expect("it ends")
}

fn ends(arguments: &[&str], stdin: &str, code: i32, says: &str) {
    let output = holdfast(arguments, stdin);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?} {told}");
    assert!(told.contains(says), "{arguments:?} {told}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
}

#[test]
fn lint_of_nothing_does_not_pass() {
    let directory = std::env::temp_dir().join(format!("holdfast-lint-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("created");
    let path = |name: &str| directory.join(name).display().to_string();
    ends(&["lint", "-f", &path("")], "", 2, "holds no file that ends in .yaml");
    std::fs::write(path("empty.yaml"), "---\n# nothing\n").expect("written");
    ends(&["lint", "-f", &path("empty.yaml")], "", 2, "error: no objects in /");
    std::fs::write(path("pod.yaml"), "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n")
        .expect("written");
    ends(&["lint", "-f", "-"], "", 2, "error: no objects in stdin\nhint: ");
    ends(&["lint", "-f", "-", &path("pod.yaml")], "", 2, "error: no objects in stdin\nhint: ");
    ends(&["lint", "-f", &path("nope")], "", 2, "No such file");
    ends(&["lint", "-f", &path("pod.yaml"), "-A"], "", 2, "cannot be used with");
    std::fs::remove_dir_all(&directory).expect("removed");
}

#[test]
fn mistakes_in_the_flags_of_drain_end_as_kubectls_do() {
    ends(&["drain", "n", "--timeout", "soon"], "", 1, "soon");
    ends(&["plan", "drain", "n", "-o", "soon"], "", 2, "soon");
}

#[test]
fn the_man_page_may_be_cut_off() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_holdfast"))
        .arg("man")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), &*output.stderr), (Some(0), &b""[..]));
}

#[test]
fn an_api_server_that_says_nothing_is_waited_for_as_long_as_one_request_may_take() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("bound").port();
    let file = std::env::temp_dir().join(format!("holdfast-silent-{}", std::process::id()));
    let config = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         users: [{{name: u, user: {{}}}}]\n"
    );
    std::fs::write(&file, config).expect("written");
    let began = Instant::now();
    let kubeconfig = file.display().to_string();
    let arguments = ["status", "--kubeconfig", &kubeconfig, "--request-timeout", "1s"];
    ends(&arguments, "", 2, "no answer within 1 s");
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    std::fs::remove_file(file).expect("removed");
}
