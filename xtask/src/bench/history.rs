//! Records the changes of the objects of a namespace and has the auditor check them.

use std::{
    collections::BTreeMap,
    io::BufRead as _,
    net::{Shutdown, TcpStream},
    sync::{Arc, Mutex, MutexGuard},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use holdfast_audit::{
    cluster::{ClusterAudit, Write},
    json,
    objects::{Name, Object},
};
use serde_json::Value;

use super::{
    http::{Connection, Server},
    load::until,
};

/// Watches collections until [`History::end`].
pub struct History {
    server: Server,
    collections: Vec<Collection>,
}

struct Collection {
    path: String,
    first: Vec<Object>,
    seen: Arc<Mutex<Seen>>,
    reader: JoinHandle<Result<()>>,
}

/// The events of the watch of a collection.
struct Seen {
    socket: TcpStream,
    /// The watch is over.
    ended: bool,
    version: String,
    present: BTreeMap<Name, u64>,
    writes: Vec<Write>,
}

impl History {
    /// Begins with lists of all objects at these paths.
    pub fn begin(server: &Server, paths: &[String]) -> Result<Self> {
        let began = Instant::now();
        let begin = |path: &String| Collection::begin(server, path, began);
        let collections = paths.iter().map(begin).collect::<Result<_>>()?;
        Ok(Self { server: server.clone(), collections })
    }

    /// Ends the watches and audits everything up to now. Holdfast learns of the changes of others within `lag`.
    pub fn end(self, lag: Duration) -> Result<ClusterAudit> {
        let (mut first, mut writes) = (Vec::new(), Vec::new());
        for collection in self.collections {
            let (objects, own) = collection.end(&self.server)?;
            first.extend(objects);
            writes.extend(own);
        }
        // All kinds are in one etcd, so their versions are one sequence.
        writes.sort_by_key(|write| write.version);
        let mut audit = ClusterAudit::new(lag, first);
        for write in writes {
            audit.take(write);
        }
        Ok(audit)
    }
}

impl Collection {
    fn begin(server: &Server, path: &str, began: Instant) -> Result<Self> {
        let list = server.client().get(path)?.ok()?.json();
        let version = list["metadata"]["resourceVersion"].as_str().context("a list")?.to_owned();
        let first: Vec<Object> = json::items(list).iter().filter_map(json::object).collect();
        let present = first.iter().map(|object| (object.name().clone(), object.version()));
        let (present, writes) = (present.collect(), Vec::new());
        let (connection, socket) = watch(server, path, &version)?;
        let seen = Seen { socket, ended: false, version, present, writes };
        let seen = Arc::new(Mutex::new(seen));
        let reader = {
            let (server, path, seen) = (server.clone(), path.to_owned(), seen.clone());
            thread::spawn(move || follow(&server, &path, connection, &seen, began))
        };
        Ok(Self { path: path.to_owned(), first, seen, reader })
    }

    fn end(self, server: &Server) -> Result<(Vec<Object>, Vec<Write>)> {
        until("the watch has told everything", || {
            ensure!(!self.reader.is_finished(), "the watch of {} has failed", self.path);
            let list = server.client().get(&self.path)?.ok()?.json();
            let objects: Vec<Object> = json::items(list).iter().filter_map(json::object).collect();
            let listed = objects.iter().map(|object| (object.name().clone(), object.version()));
            Ok(lock(&self.seen).present == listed.collect())
        })?;
        {
            let mut seen = lock(&self.seen);
            seen.ended = true;
            seen.socket.shutdown(Shutdown::Both)?;
        }
        self.reader.join().expect("it does not panic")?;
        let writes = std::mem::take(&mut lock(&self.seen).writes);
        Ok((self.first, writes))
    }
}

/// Reads events until the history ends. The API server may end a watch after half an hour; then a new watch begins.
fn follow(
    server: &Server,
    path: &str,
    mut connection: Connection,
    seen: &Mutex<Seen>,
    began: Instant,
) -> Result<()> {
    loop {
        // An error means that the socket is closed.
        for line in connection.lines().map_while(Result::ok) {
            take(&line, &mut lock(seen), began).with_context(|| format!("watch {path}"))?;
        }
        let version = lock(seen).version.clone();
        if lock(seen).ended {
            return Ok(());
        }
        let (next, socket) = watch(server, path, &version)?;
        let mut seen = lock(seen);
        if seen.ended {
            return Ok(());
        }
        (connection, seen.socket) = (next, socket);
    }
}

fn take(line: &str, seen: &mut Seen, began: Instant) -> Result<()> {
    let event: Value = serde_json::from_str(line)?;
    let object = &event["object"];
    let gone = match event["type"].as_str() {
        Some("ADDED" | "MODIFIED") => false,
        Some("DELETED") => true,
        _ => bail!("no change: {line}"),
    };
    let version = object["metadata"]["resourceVersion"].as_str().context("it has a version")?;
    version.clone_into(&mut seen.version);
    let version = version.parse().context("a version of etcd")?;
    let write = Write::read(version, began.elapsed(), gone, object);
    let write = write.context("the auditor does not know this kind")?;
    let name = write.object.name().clone();
    if gone {
        seen.present.remove(&name);
    } else {
        seen.present.insert(name, version);
    }
    seen.writes.push(write);
    Ok(())
}

fn watch(server: &Server, path: &str, version: &str) -> Result<(Connection, TcpStream)> {
    server.stream(&format!("{path}?watch=1&resourceVersion={version}"))
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().expect("not poisoned")
}
