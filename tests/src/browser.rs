//! Drives a real Chromium as a user would, by `WebDriver` through Debian's chromedriver.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::fixture::fixture;
use crate::process::Process;
use crate::wait::until;

/// The path of chromedriver. `cargo xtask test` installs it.
const DRIVER: &str = "HOLDFAST_CHROMEDRIVER";

pub fn is_there() -> bool {
    std::env::var_os(DRIVER).is_some()
}

/// A session. Dropping it ends the browser too.
#[derive(Debug)]
pub struct Browser {
    _driver: Process,
    host: String,
    session: String,
}

/// Keys in the notation of `WebDriver`.
pub const TAB: &str = "\u{E004}";
pub const ENTER: &str = "\u{E007}";
pub const ESCAPE: &str = "\u{E00C}";
pub const END: &str = "\u{E010}";
pub const LEFT: &str = "\u{E012}";
pub const RIGHT: &str = "\u{E014}";

impl Browser {
    #[track_caller]
    pub fn start() -> Self {
        let driver = std::env::var_os(DRIVER).expect("the suite has seen that it is there");
        let mut command = Command::new(driver);
        command.arg("--port=0");
        let driver = Process::start(command, &fixture().log("chromedriver"));
        let port = until("chromedriver listens", || {
            let output = driver.output();
            let port = output.split("successfully on port ").nth(1);
            let port = port.and_then(|rest| rest.split('.').next().map(str::to_owned));
            port.ok_or(output)
        });
        let host = format!("127.0.0.1:{port}");
        let profile = fixture().dir.join("chromium");
        let arguments = json!([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            // The browser must not reach other machines.
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            "--window-size=1500,1100",
            format!("--user-data-dir={}", profile.display()),
        ]);
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": {"args": arguments},
        }}});
        let made = call(&host, "POST", "/session", &wanted);
        let session = made["sessionId"].as_str().expect("a session has an id").to_owned();
        Self { _driver: driver, host, session }
    }

    #[track_caller]
    fn post(&self, path: &str, body: &Value) -> Value {
        call(&self.host, "POST", &format!("/session/{}/{path}", self.session), body)
    }

    #[track_caller]
    pub fn open(&self, url: &str) {
        self.post("url", &json!({"url": url}));
    }

    /// Runs the body of a function and returns its result.
    #[track_caller]
    pub fn run(&self, script: &str) -> Value {
        self.post("execute/sync", &json!({"script": script, "args": []}))
    }

    /// Waits until a script returns this value.
    #[track_caller]
    pub fn wait(&self, what: &str, script: &str, wanted: &Value) {
        until(what, || {
            let seen = self.run(script);
            if seen == *wanted { Ok(()) } else { Err(seen.to_string()) }
        });
    }

    /// Returns the texts of all elements that match a CSS selector.
    #[track_caller]
    pub fn texts(&self, selector: &str) -> Vec<String> {
        let all =
            format!("return [...document.querySelectorAll({selector:?})].map((e) => e.innerText)");
        let texts = self.run(&all);
        let texts = texts.as_array().into_iter().flatten();
        texts.map(|text| text.as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Waits until an element has this in its text. Returns the whole text.
    #[track_caller]
    pub fn wait_text(&self, selector: &str, wanted: &str) -> String {
        until(&format!("{selector} says {wanted:?}"), || {
            let text = self.texts(selector).join("\n");
            if text.contains(wanted) { Ok(text) } else { Err(text) }
        })
    }

    /// Clicks the element with the mouse.
    #[track_caller]
    pub fn click(&self, selector: &str) {
        let id = self.find(selector);
        self.post(&format!("element/{id}/click"), &json!({}));
    }

    #[track_caller]
    pub fn point_at(&self, selector: &str) {
        let id = self.find(selector);
        let origin = json!({ELEMENT: id});
        let step = json!({"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": origin});
        self.post(
            "actions",
            &json!({"actions": [{"type": "pointer", "id": "mouse", "actions": [step]}]}),
        );
    }

    /// Sends keys to the element with the focus.
    #[track_caller]
    pub fn press(&self, keys: &str) {
        let strokes = keys.chars().flat_map(|key| {
            ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key.to_string()}))
        });
        let strokes: Vec<Value> = strokes.collect();
        self.post(
            "actions",
            &json!({"actions": [{"type": "key", "id": "keys", "actions": strokes}]}),
        );
    }

    #[track_caller]
    pub fn devtools(&self, command: &str, params: &Value) -> Value {
        self.post("goog/cdp/execute", &json!({"cmd": command, "params": params}))
    }

    /// Saves a picture of the page as `target/page-test/<name>.png` and returns its bytes.
    #[track_caller]
    pub fn picture(&self, name: &str) -> Vec<u8> {
        let shot = self.devtools("Page.captureScreenshot", &json!({"format": "png"}));
        let ByteString(bytes) = serde_json::from_value(shot["data"].clone()).expect("a picture");
        let dir = pictures();
        fs::create_dir_all(&dir).expect("a directory of pictures");
        fs::write(dir.join(format!("{name}.png")), &bytes).expect("a picture can be written");
        bytes
    }

    #[track_caller]
    fn find(&self, selector: &str) -> String {
        let found = self.post("element", &json!({"using": "css selector", "value": selector}));
        found[ELEMENT].as_str().expect("an element").to_owned()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Otherwise the driver would not end the browser.
        let _ = try_call(&self.host, "DELETE", &format!("/session/{}", self.session), &json!({}));
    }
}

/// The name under which `WebDriver` returns elements.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Returns the directory for pictures, beside the program under test.
fn pictures() -> PathBuf {
    let target = fixture().holdfast.parent().and_then(|debug| debug.parent());
    target.expect("programs are in a directory of target").join("page-test")
}

#[track_caller]
fn call(host: &str, method: &str, path: &str, body: &Value) -> Value {
    match try_call(host, method, path, body) {
        Ok(answer) => answer,
        Err(error) => panic!("{method} {path} {body}: {error}"),
    }
}

fn try_call(host: &str, method: &str, path: &str, body: &Value) -> Result<Value, String> {
    let body = body.to_string();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let (_, answer) = exchange(host, &request).map_err(|error| error.to_string())?;
    let answer: Value = serde_json::from_str(&answer).map_err(|e| format!("{e}: {answer}"))?;
    let value = &answer["value"];
    if value["error"].is_string() { Err(value.to_string()) } else { Ok(value.clone()) }
}

/// Returns the status and the body of the answer to a request.
pub fn exchange(host: &str, request: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(Duration::from_mins(1)))?;
    stream.write_all(request.as_bytes())?;
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while reader.read_line(&mut head)? > "\r\n".len() {}
    let length = head.to_ascii_lowercase();
    let length = length.split("content-length:").nth(1).and_then(|rest| rest.lines().next());
    let mut body = String::new();
    match length.and_then(|length| length.trim().parse().ok()) {
        // chromedriver may leave the connection open.
        Some(length) => reader.take(length).read_to_string(&mut body)?,
        None => reader.read_to_string(&mut body)?,
    };
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    Ok((status, body))
}
