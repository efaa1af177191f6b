//! Records the changes of the pods of a `LeaderWorkerSet`, write by write, and their effect on its groups.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    io::BufRead as _,
    net::{Shutdown, TcpStream},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{GROUPS, SIZE};
use crate::bench::{
    http::{Connection, Server},
    load::until,
};

const GROUP_INDEX: &str = "leaderworkerset.sigs.k8s.io/group-index";
const WORKER_INDEX: &str = "leaderworkerset.sigs.k8s.io/worker-index";

/// Watches the pods of a namespace until [`History::end`].
pub struct History {
    server: Server,
    path: String,
    first: Vec<Value>,
    /// The watch events after the list.
    events: Arc<Mutex<Vec<Value>>>,
    socket: TcpStream,
    reader: JoinHandle<()>,
}

impl History {
    /// Begins with a list of all pods at this path.
    pub fn begin(server: &Server, path: &str, list: &Value) -> Result<Self> {
        let version = list["metadata"]["resourceVersion"].as_str().context("a list")?;
        let watch = format!("{path}?watch=1&resourceVersion={version}");
        let (connection, socket) = server.stream(&watch)?;
        let events = Arc::new(Mutex::new(Vec::new()));
        let reader = {
            let events = events.clone();
            thread::spawn(move || read(connection, &events))
        };
        let first = list["items"].as_array().context("a list")?.clone();
        Ok(Self { server: server.clone(), path: path.to_owned(), first, events, socket, reader })
    }

    /// Ends the watch and returns everything up to now.
    pub fn end(self) -> Result<Story> {
        until("the watch has told everything", || {
            let list = self.server.client().get(&self.path)?.ok()?.json();
            let version = |object: &Value| number(&object["metadata"]["resourceVersion"]);
            let newest = list["items"].as_array().context("a list")?.iter().map(version).max();
            let events = self.events.lock().expect("not poisoned");
            let seen = events.iter().map(|event| version(&event["object"])).max();
            Ok(seen >= newest)
        })?;
        self.socket.shutdown(Shutdown::Both)?;
        self.reader.join().expect("it does not panic");
        let events = self.events.lock().expect("not poisoned").clone();
        Ok(Story { first: self.first, events })
    }
}

fn read(connection: Connection, events: &Mutex<Vec<Value>>) {
    for line in connection.lines() {
        // The end of the watch, or of the socket.
        let Ok(line) = line else { return };
        if let Ok(event) = serde_json::from_str(&line) {
            events.lock().expect("not poisoned").push(event);
        }
    }
}

/// The pods at the begin, and every change since.
pub struct Story {
    first: Vec<Value>,
    events: Vec<Value>,
}

impl Story {
    pub fn losses(&self, drained: &[String]) -> Losses {
        let on_drained =
            |pod: &&Value| drained.iter().any(|node| pod["spec"]["nodeName"] == **node);
        let mut losses = Losses {
            concerned: self.first.iter().filter(on_drained).filter_map(group).collect(),
            ..Losses::default()
        };
        let mut pods: BTreeMap<&str, &Value> =
            self.first.iter().map(|pod| (name(pod), pod)).collect();
        let mut leaders: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
        let mut whole = whole_groups(pods.values().copied());
        for event in &self.events {
            let pod = &event["object"];
            match event["type"].as_str() {
                Some("ADDED" | "MODIFIED") => pods.insert(name(pod), pod),
                Some("DELETED") => pods.remove(name(pod)),
                _ => continue,
            };
            if event["type"] == "ADDED"
                && pod["metadata"]["labels"][WORKER_INDEX] == "0"
                && let Some(group) = group(pod)
            {
                let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
                leaders.entry(group).or_default().insert(uid);
            }
            let now = whole_groups(pods.values().copied());
            for lost in whole.difference(&now) {
                *losses.lost.entry(*lost).or_default() += 1;
            }
            losses.most_down = losses.most_down.max(GROUPS.saturating_sub(now.len()));
            whole = now;
        }
        losses.recreated = leaders.into_iter().map(|(group, uids)| (group, uids.len())).collect();
        losses
    }
}

/// The effect of a drain on the groups.
#[derive(Debug, Default)]
pub struct Losses {
    /// The groups with a pod on the nodes to drain.
    concerned: BTreeSet<usize>,
    /// How often each whole group stopped being whole.
    lost: BTreeMap<usize, usize>,
    /// The number of new leaders of each group.
    recreated: BTreeMap<usize, usize>,
    most_down: usize,
}

impl Losses {
    /// Returns what must not happen: each group with a pod on the nodes must be lost and recreated once, one
    /// at a time, and no other group may be lost.
    pub fn unexpected(&self) -> Vec<String> {
        let mut unexpected = Vec::new();
        for group in 0..GROUPS {
            let wanted = usize::from(self.concerned.contains(&group));
            for (what, counts) in [("lost", &self.lost), ("recreated", &self.recreated)] {
                let times = counts.get(&group).copied().unwrap_or_default();
                if times != wanted {
                    unexpected
                        .push(format!("group {group} was {what} {times} times, not {wanted}"));
                }
            }
        }
        if self.most_down > 1 {
            unexpected.push(format!("{} groups were down at once", self.most_down));
        }
        unexpected
    }

    pub fn most(&self) -> usize {
        self.lost.values().max().copied().unwrap_or_default()
    }

    pub fn most_recreated(&self) -> usize {
        self.recreated.values().max().copied().unwrap_or_default()
    }

    pub fn most_down(&self) -> usize {
        self.most_down
    }
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = |counts: &BTreeMap<usize, usize>| {
            let times = (0..GROUPS).map(|group| counts.get(&group).copied().unwrap_or_default());
            times.map(|times| times.to_string()).collect::<Vec<_>>().join(" ")
        };
        let (lost, recreated) = (times(&self.lost), times(&self.recreated));
        let concerned = self.concerned.len();
        write!(
            f,
            "{concerned} groups on the nodes; lost {lost}; recreated {recreated}; {} down at once",
            self.most_down
        )
    }
}

/// Returns true if a list has all pods of all groups, all healthy.
pub fn is_whole(list: &Value) -> bool {
    let pods = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    pods.len() == GROUPS * SIZE && whole_groups(pods).len() == GROUPS
}

fn whole_groups<'a>(pods: impl IntoIterator<Item = &'a Value>) -> BTreeSet<usize> {
    let mut healthy: BTreeMap<usize, usize> = BTreeMap::new();
    for group in pods.into_iter().filter(|pod| is_healthy(pod)).filter_map(group) {
        *healthy.entry(group).or_default() += 1;
    }
    healthy.into_iter().filter(|(_, pods)| *pods >= SIZE).map(|(group, _)| group).collect()
}

fn is_healthy(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    pod["metadata"]["deletionTimestamp"].is_null()
        && pod["status"]["phase"] == "Running"
        && conditions.any(|c| c["type"] == "Ready" && c["status"] == "True")
}

fn group(pod: &Value) -> Option<usize> {
    pod["metadata"]["labels"][GROUP_INDEX].as_str()?.parse().ok()
}

fn name(pod: &Value) -> &str {
    pod["metadata"]["name"].as_str().unwrap_or_default()
}

fn number(text: &Value) -> u64 {
    text.as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(group: usize, worker: usize, uid: &str, ending: bool) -> Value {
        let ending = if ending { json!("2026-01-01T00:00:00Z") } else { Value::Null };
        json!({
            "metadata": {"name": format!("s-{group}-{worker}"), "uid": uid, "deletionTimestamp": ending,
                "labels": {GROUP_INDEX: group.to_string(), WORKER_INDEX: worker.to_string()}},
            "spec": {"nodeName": format!("n-{worker}")},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        })
    }

    fn event(kind: &str, pod: &Value) -> Value {
        json!({"type": kind, "object": pod})
    }

    #[test]
    fn a_group_is_lost_when_it_stops_being_whole_and_recreated_with_each_leader() {
        let first: Vec<Value> = (0..GROUPS)
            .flat_map(|group| (0..SIZE).map(move |worker| pod(group, worker, "old", false)))
            .collect();
        let again = |worker, uid| {
            [
                event("MODIFIED", &pod(2, worker, "old", true)),
                event("DELETED", &pod(2, worker, "old", true)),
                event("ADDED", &pod(2, worker, uid, false)),
            ]
        };
        let mut events = [again(0, "a"), again(1, "a")].concat();
        let nodes = ["n-3".to_owned()];
        let story = Story { first: first.clone(), events: events.clone() };
        let losses = story.losses(&nodes);
        // The two pods went one after the other, and the group recovered in between.
        assert_eq!((losses.most(), losses.most_recreated(), losses.most_down()), (2, 1, 1));
        assert_eq!(losses.concerned.len(), GROUPS);
        assert!(losses.unexpected().contains(&"group 2 was lost 2 times, not 1".to_owned()));

        // Both pods at once, and the leader twice.
        events = [again(0, "a"), again(0, "b")].concat();
        events.insert(0, event("MODIFIED", &pod(2, 1, "old", true)));
        let losses = Story { first, events }.losses(&["elsewhere".to_owned()]);
        assert_eq!((losses.most(), losses.most_recreated()), (1, 2));
        let unexpected = losses.unexpected();
        assert_eq!(
            unexpected,
            ["group 2 was lost 1 times, not 0", "group 2 was recreated 2 times, not 0"]
        );
    }
}
