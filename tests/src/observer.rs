//! Records the lowest number of healthy units of budgets. The auditor counts them from the API server's pods.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::{AsyncBufReadExt, AsyncReadExt};
use holdfast_audit::State;
use holdfast_audit::cluster::healthy_in;
use holdfast_audit::json::{self, items};
use holdfast_audit::objects::Budget;
use serde_json::Value;

use crate::client::{Client, RUNTIME};
use crate::object::{name, text, versions};
use crate::wait::until;

/// Follows every change of a namespace's pods on its own thread, and keeps the worst moment.
pub struct Observer {
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    client: Client,
    path: String,
}

/// The input of the count in a namespace.
#[derive(Debug)]
pub struct Counted {
    /// Other objects than pods, such as `PodGroup`s. They do not change.
    pub others: Vec<Value>,
    /// The budgets. The budget with the fewest units counts.
    pub budgets: Vec<Budget>,
    /// The observer ignores pods for which this returns false.
    pub counts: fn(&Value) -> bool,
}

struct Seen {
    counted: Counted,
    state: State,
    pods: BTreeMap<String, Value>,
    least: usize,
    failed: Option<String>,
}

impl Observer {
    #[track_caller]
    pub fn start(client: &Client, namespace: &str, counted: Counted) -> Self {
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let list = client.get(&path).ok().body;
        let seen = Arc::new(Mutex::new(Seen::new(counted, list.clone())));
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let (seen, stop, client) = (seen.clone(), stop.clone(), client.clone());
            let path = path.clone();
            std::thread::spawn(move || {
                let take = |gone, pod| lock(&seen).take(gone, pod);
                if let Err(error) = RUNTIME.block_on(follow(&client, &path, list, &stop, take)) {
                    lock(&seen).failed = Some(error);
                }
            })
        };
        Self { seen, stop, thread: Some(thread), client: client.clone(), path }
    }

    /// Returns the lowest number up to now.
    #[track_caller]
    pub fn least(&self) -> usize {
        // Wait until the watch has delivered what a list shows now.
        until("the observer has seen what the API server has", || {
            let seen = lock(&self.seen);
            assert!(seen.failed.is_none(), "the observer failed: {:?}", seen.failed);
            let known = versions(seen.pods.values());
            drop(seen);
            let listed = versions(&self.client.list(&self.path));
            if known == listed { Ok(()) } else { Err(format!("{known:?}\n!= {listed:?}")) }
        });
        let seen = lock(&self.seen);
        assert!(seen.failed.is_none(), "the observer failed: {:?}", seen.failed);
        seen.least
    }
}

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Observer({})", self.path)
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

impl Seen {
    fn new(counted: Counted, list: Value) -> Self {
        let mut state = State::default();
        for object in counted.others.iter().filter_map(json::object) {
            state.store(object);
        }
        let (pods, failed) = (BTreeMap::new(), None);
        let mut seen = Self { counted, state, pods, least: usize::MAX, failed };
        for pod in items(list) {
            seen.store(false, pod);
        }
        seen.count();
        seen
    }

    fn count(&mut self) {
        let of_each = self.counted.budgets.iter().map(|budget| healthy_in(&self.state, budget));
        self.least = self.least.min(of_each.min().unwrap_or_default());
    }

    fn take(&mut self, gone: bool, pod: Value) {
        self.store(gone, pod);
        self.count();
    }

    fn store(&mut self, gone: bool, pod: Value) {
        if let Some(object) = json::object(&pod) {
            if gone || !(self.counted.counts)(&pod) {
                self.state.delete(&object);
            } else {
                self.state.store(object);
            }
        }
        if gone {
            self.pods.remove(&name(&pod));
        } else {
            self.pods.insert(name(&pod), pod);
        }
    }
}

/// Lists and watches until it is stopped. Passes on each object, and whether it is gone. An API server may
/// end a watch, for example after a change of the definition or for a slow reader. It then continues from the
/// same version or from another list.
pub(crate) async fn follow(
    client: &Client,
    path: &str,
    list: Value,
    stop: &AtomicBool,
    mut take: impl FnMut(bool, Value),
) -> Result<(), String> {
    const LOOK_UP: Duration = Duration::from_millis(100);
    let mut version = text(&list["metadata"]["resourceVersion"]).to_owned();
    let mut known: BTreeMap<String, Value> = by_name(list);
    while !stop.load(Ordering::Relaxed) {
        let watch = format!("{path}?watch=1&resourceVersion={version}&timeoutSeconds=600");
        let mut stream = client.stream(&watch).await?;
        let mut line = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            // If the read is cut off, `line` keeps the bytes that were read.
            let read = tokio::time::timeout(LOOK_UP, stream.read_until(b'\n', &mut line)).await;
            match read {
                Err(_) => continue,
                Ok(Ok(_)) if line.ends_with(b"\n") => {}
                Ok(_) => break,
            }
            let failed = |why: &str| format!("{why}: {}", String::from_utf8_lossy(&line));
            let mut event: Value =
                serde_json::from_slice(&line).map_err(|e| failed(&e.to_string()))?;
            let object = event["object"].take();
            let gone = match event["type"].as_str() {
                Some("ADDED" | "MODIFIED") => false,
                Some("DELETED") => true,
                _ if object["code"] == 410 => {
                    let mut list = Vec::new();
                    let read = client.stream(path).await?.read_to_end(&mut list).await;
                    let list: Value = read
                        .map_err(|e| e.to_string())
                        .and_then(|_| serde_json::from_slice(&list).map_err(|e| e.to_string()))?;
                    text(&list["metadata"]["resourceVersion"]).clone_into(&mut version);
                    let now = by_name(list);
                    known.retain(|name, _| !now.contains_key(name));
                    for gone in known.into_values() {
                        take(true, gone);
                    }
                    for there in now.values() {
                        take(false, there.clone());
                    }
                    known = now;
                    break;
                }
                _ => return Err(failed("no change")),
            };
            text(&object["metadata"]["resourceVersion"]).clone_into(&mut version);
            if gone {
                known.remove(&name(&object));
            } else {
                known.insert(name(&object), object.clone());
            }
            take(gone, object);
            line.clear();
        }
        tokio::time::sleep(LOOK_UP).await;
    }
    Ok(())
}

fn by_name(list: Value) -> BTreeMap<String, Value> {
    items(list).into_iter().map(|object| (name(&object), object)).collect()
}

fn lock(seen: &Mutex<Seen>) -> std::sync::MutexGuard<'_, Seen> {
    seen.lock().expect("nobody panics while holding it")
}
