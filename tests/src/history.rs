//! Records all changes of some objects, in the order of the API server's writes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use holdfast_audit::json::items;
use serde_json::Value;

use crate::client::{Client, RUNTIME};
use crate::object::versions;
use crate::observer::follow;
use crate::wait::until;

/// One write.
#[derive(Clone, Debug)]
pub struct Event {
    /// The resource version. Objects of all kinds are in one etcd, so all versions are in one order.
    pub version: u64,
    /// The time when the watch delivered it.
    pub seen: Instant,
    /// The path of the collection.
    pub path: String,
    pub gone: bool,
    /// The object existed when the history began.
    pub listed: bool,
    pub object: Value,
}

/// Watches objects until [`History::end`].
#[derive(Debug)]
pub struct History {
    client: Client,
    collections: Vec<Collection>,
    stop: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Collection {
    path: String,
    events: Arc<Mutex<Vec<Event>>>,
    thread: Option<JoinHandle<Result<(), String>>>,
}

impl History {
    #[track_caller]
    pub fn of(client: &Client, paths: &[String]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let start = |path: &String| Collection::start(client, path, &stop);
        let collections = paths.iter().map(start).collect();
        Self { client: client.clone(), collections, stop }
    }

    /// Ends the watch and returns all events.
    #[track_caller]
    pub fn end(mut self) -> Vec<Event> {
        for collection in &self.collections {
            until("the history is as long as the API server's", || {
                let ended = collection.thread.as_ref().is_none_or(JoinHandle::is_finished);
                assert!(!ended, "the watch of {} failed", collection.path);
                let known = collection.present();
                let listed = versions(&self.client.list(&collection.path));
                if known == listed { Ok(()) } else { Err(format!("{known:?}\n!= {listed:?}")) }
            });
        }
        self.stop.store(true, Ordering::Relaxed);
        let mut events = Vec::new();
        for collection in &mut self.collections {
            let ended = collection.thread.take().map(JoinHandle::join);
            assert!(matches!(ended, Some(Ok(Ok(())))), "{}: {ended:?}", collection.path);
            events.append(&mut collection.events.lock().expect("not poisoned"));
        }
        events.sort_by_key(|event| event.version);
        events
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for collection in &mut self.collections {
            if let Some(thread) = collection.thread.take() {
                thread.join().ok();
            }
        }
    }
}

impl Collection {
    #[track_caller]
    fn start(client: &Client, path: &str, stop: &Arc<AtomicBool>) -> Self {
        let list = client.get(path).ok().body;
        let there = items(list.clone())
            .into_iter()
            .map(|object| Event { listed: true, ..event(path, false, object) });
        let events = Arc::new(Mutex::new(there.collect::<Vec<_>>()));
        let thread = {
            let (path, events) = (path.to_owned(), events.clone());
            let (client, stop) = (client.clone(), stop.clone());
            std::thread::spawn(move || {
                let take = |gone, object| {
                    events.lock().expect("not poisoned").push(event(&path, gone, object));
                };
                RUNTIME.block_on(follow(&client, &path, list, &stop, take))
            })
        };
        Self { path: path.to_owned(), events, thread: Some(thread) }
    }

    /// Returns the objects at the end of the events, in the form of [`versions`].
    fn present(&self) -> BTreeMap<String, String> {
        let mut present = BTreeMap::new();
        for event in self.events.lock().expect("not poisoned").iter() {
            let of_one = versions([&event.object]);
            if event.gone {
                present.retain(|name, _| !of_one.contains_key(name));
            } else {
                present.extend(of_one);
            }
        }
        present
    }
}

fn event(path: &str, gone: bool, object: Value) -> Event {
    let version = object["metadata"]["resourceVersion"].as_str().and_then(|v| v.parse().ok());
    Event {
        version: version.unwrap_or_default(),
        seen: Instant::now(),
        path: path.to_owned(),
        gone,
        listed: false,
        object,
    }
}
