//! One watch: lines for every change, bookmarks, and the ways in which it ends.

use axum::body::{Body, Bytes};
use serde_json::{Value, json};
use std::io;
use std::pin::pin;
use tokio::sync::mpsc;
use tokio::time::sleep_until;

use crate::fault::Fault;
use crate::resources::Kind;
use crate::store::Change;
use crate::wire;
use crate::world::{OpenWatch, Process, Sim, World};

/// The API server ends a watch after this time (Holdfast asks for 290 s).
const LENGTH_MS: u64 = 290_000;

/// Bookmarks come once a minute.
const BOOKMARK_MS: u64 = 60_000;

type Lines = mpsc::Sender<Result<Bytes, io::Error>>;

pub fn open(sim: &Sim, process: Process, kind: Kind, from: u64) -> Body {
    let (lines, body) = wire::channel();
    let id = sim.world().open(process, kind);
    let watch = Watch { sim: sim.clone(), process, kind, seen: from, lines, id };
    tokio::spawn(watch.run());
    body
}

impl World {
    fn open(&mut self, process: Process, kind: Kind) -> u64 {
        let id = self.number();
        self.watches.insert(id, OpenWatch { process, kind, order: None });
        if let Some(seat) = self.seat(process) {
            *seat.open.entry(kind).or_default() += 1;
        }
        id
    }

    fn close(&mut self, id: u64) {
        let Some(OpenWatch { process, kind, .. }) = self.watches.remove(&id) else { return };
        let now = self.now();
        let Some(seat) = self.seat(process) else { return };
        let open = seat.open.entry(kind).or_default();
        *open = open.saturating_sub(1);
        if *open == 0 {
            seat.cut_off.insert(kind, now);
        }
    }
}

struct Watch {
    sim: Sim,
    process: Process,
    kind: Kind,
    /// The version of the last line.
    seen: u64,
    lines: Lines,
    id: u64,
}

/// The client is gone, or the watch has ended.
struct Ended;

impl Drop for Watch {
    fn drop(&mut self) {
        self.sim.world().close(self.id);
    }
}

impl Watch {
    async fn run(mut self) {
        let bell = self.sim.world().bell();
        let (end, mut bookmark) = {
            let now = self.sim.world().now();
            (now + LENGTH_MS, now + BOOKMARK_MS)
        };
        loop {
            let mut rung = pin!(bell.notified());
            rung.as_mut().enable();
            if self.deliver().await.is_err() {
                return;
            }
            let (now, wake) = {
                let world = self.sim.world();
                let held = self.held(&world).unwrap_or(u64::MAX);
                (world.now(), end.min(bookmark).min(held))
            };
            if now >= end {
                return;
            }
            if now >= bookmark {
                bookmark = now + BOOKMARK_MS;
                if self.bookmark().await.is_err() {
                    return;
                }
                continue;
            }
            let wake = self.sim.world().instant(wake);
            tokio::select! {
                biased;
                () = self.lines.closed() => return,
                () = rung => {}
                () = sleep_until(wake) => {}
            }
        }
    }

    /// Until when nothing is told, if anything holds it back.
    fn held(&self, world: &World) -> Option<u64> {
        let until = |fault| world.holds_until(fault, self.process.instance, self.kind);
        until(Fault::WatchLag).max(until(Fault::WatchStalled))
    }

    /// Tells of all that has changed, unless a fault strikes.
    async fn deliver(&mut self) -> Result<(), Ended> {
        loop {
            let (connected, order, change) = {
                let mut world = self.sim.world();
                let connected = world.is_connected(self.process);
                let order = world.watches.get_mut(&self.id).and_then(|watch| watch.order.take());
                let next = world.store.changes_after(self.kind, self.seen).next().cloned();
                (connected, order, next.filter(|_| self.held(&world).is_none()))
            };
            if !connected {
                self.lines.closed().await;
                return Err(Ended);
            }
            if let Some(fault) = order {
                return self.strike(fault, change).await;
            }
            let Some(change) = change else { return Ok(()) };
            let (delay, slow) = {
                let mut world = self.sim.world();
                let slow = world.hits(Fault::SlowBody, self.process.instance, Some(self.kind));
                (world.draw(0, 6), slow)
            };
            self.sim.sleep(delay).await;
            self.send(line(change.verb.name(), &change.object), slow).await?;
            self.told(&change);
        }
    }

    async fn strike(&mut self, fault: Fault, next: Option<Change>) -> Result<(), Ended> {
        self.sim.world().strike(fault);
        match fault {
            Fault::WatchDead => self.lines.closed().await,
            Fault::WatchCut => {
                let next = next.map(|change| line(change.verb.name(), &change.object));
                let text = next.unwrap_or_else(|| self.bookmark_line());
                let half = text[..text.len() / 2].to_owned();
                self.send(half, false).await?;
                if self.sim.world().random.chance(50) {
                    let broken = io::Error::from(io::ErrorKind::ConnectionReset);
                    let _ = self.lines.send(Err(broken)).await;
                }
            }
            Fault::WatchError => self.send(error(500, "InternalError"), false).await?,
            Fault::WatchGone | Fault::RelistFails => {
                self.send(error(410, "Expired"), false).await?;
            }
            _ => {}
        }
        Err(Ended)
    }

    async fn bookmark(&mut self) -> Result<(), Ended> {
        if self.sim.world().holds_until(Fault::WatchLag, self.process.instance, self.kind).is_some()
        {
            return Ok(());
        }
        let text = self.bookmark_line();
        self.send(text, false).await?;
        let (kind, seen) = (self.kind, self.seen);
        if let Some(seat) = self.sim.world().seat(self.process) {
            seat.view.bookmarked(kind, seen);
        }
        Ok(())
    }

    /// A bookmark carries the newest version, unless the watch cache is stuck.
    fn bookmark_line(&mut self) -> String {
        let world = self.sim.world();
        if self.held(&world).is_none() {
            self.seen = self.seen.max(world.store.revision());
        }
        let metadata = json!({"resourceVersion": self.seen.to_string()});
        let object = json!({
            "kind": self.kind.kind, "apiVersion": self.kind.api_version(), "metadata": metadata,
        });
        line("BOOKMARK", &object)
    }

    async fn send(&self, text: String, slow: bool) -> Result<(), Ended> {
        let bytes = Bytes::from(text);
        let split = if slow { bytes.len() / 2 } else { 0 };
        if slow {
            self.lines.send(Ok(bytes.slice(..split))).await.map_err(|_| Ended)?;
            let pause = self.sim.world().draw(50, 1500);
            self.sim.sleep(pause).await;
        }
        self.lines.send(Ok(bytes.slice(split..))).await.map_err(|_| Ended)
    }

    fn told(&mut self, change: &Change) {
        self.seen = change.version;
        let mut world = self.sim.world();
        let now = world.now();
        if let Some(seat) = world.seat(self.process) {
            seat.view.changed(now, self.kind, change.verb, &change.object);
        }
        world.look();
    }
}

/// As the API server writes it, which the server's fast path relies on.
fn line(kind: &str, object: &Value) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

fn error(code: u16, reason: &str) -> String {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "a fault of the simulation", "reason": reason, "code": code,
    });
    line("ERROR", &status)
}
