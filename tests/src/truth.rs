//! Healthy replicas as the API server's pods show them. Never taken from Holdfast's status.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::{AsyncBufReadExt, AsyncReadExt};
use serde_json::Value;

use crate::client::{Client, RUNTIME};
use crate::wait::until;

/// What each replica needs, by the name of its `PodGroup`.
pub type MinCounts = BTreeMap<String, usize>;

/// Running, Ready, and not on its way out (semantics 5).
pub fn is_healthy(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_null()
        && pod["status"]["phase"] == "Running"
        && is_condition(pod, "Ready")
}

pub fn is_condition(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|c| c["type"] == kind && c["status"] == "True")
}

/// The `PodGroup` that it names, in whichever shape.
pub fn group_of(pod: &Value) -> Option<&str> {
    let named = pod["spec"]["schedulingGroup"]["podGroupName"].as_str();
    named.or_else(|| pod["metadata"]["annotations"]["holdfast.dev/pod-group"].as_str())
}

pub fn healthy_replicas<'a>(
    pods: impl IntoIterator<Item = &'a Value>,
    needed: &MinCounts,
) -> usize {
    let mut healthy: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in pods.into_iter().filter(|pod| is_healthy(pod)) {
        if let Some(group) = group_of(pod) {
            *healthy.entry(group).or_default() += 1;
        }
    }
    needed
        .iter()
        .filter(|(group, min)| healthy.get(group.as_str()).is_some_and(|n| n >= *min))
        .count()
}

/// Follows every change of a namespace's pods on a thread of its own, and keeps the worst moment.
pub struct Observer {
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    client: Client,
    path: String,
}

/// What is to be counted in all pods of a namespace.
pub type Count = Box<dyn Fn(&mut dyn Iterator<Item = &Value>) -> usize + Send>;

struct Seen {
    of: Count,
    pods: BTreeMap<String, Value>,
    least: usize,
    failed: Option<String>,
}

impl Observer {
    #[track_caller]
    pub fn start(client: &Client, namespace: &str, of: Count) -> Self {
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let list = client.get(&path).ok().body;
        let mut seen = Seen { of, pods: by_name(list.clone()), least: usize::MAX, failed: None };
        seen.count();
        let seen = Arc::new(Mutex::new(seen));
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

    /// The fewest at any moment up to now.
    #[track_caller]
    pub fn least(&self) -> usize {
        // What a list shows now, the watch has to have shown too.
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
    fn count(&mut self) {
        self.least = self.least.min((self.of)(&mut self.pods.values()));
    }

    fn take(&mut self, gone: bool, pod: Value) {
        if gone {
            self.pods.remove(&name(&pod));
        } else {
            self.pods.insert(name(&pod), pod);
        }
        self.count();
    }
}

/// Watches from a list on until told to stop: each object, and whether it is gone. An API server may end a watch, of
/// what has another definition now or of a reader that is slow; the next goes on where it was, or at another list.
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
            // A read that is cut off keeps what it has read in `line`.
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
    crate::client::items(list).into_iter().map(|object| (name(&object), object)).collect()
}

pub(crate) fn versions<'a>(pods: impl IntoIterator<Item = &'a Value>) -> BTreeMap<String, String> {
    let version = |pod: &Value| pod["metadata"]["resourceVersion"].as_str().map(str::to_owned);
    pods.into_iter().map(|pod| (name(pod), version(pod).unwrap_or_default())).collect()
}

pub fn name(object: &Value) -> String {
    text(&object["metadata"]["name"]).to_owned()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn lock(seen: &Mutex<Seen>) -> std::sync::MutexGuard<'_, Seen> {
    seen.lock().expect("nobody panics while holding it")
}
