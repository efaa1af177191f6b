//! The connection of one process to the API server: delays, losses, and slow bodies.

use std::io;

use axum::body::{Body, Bytes};
use http::{HeaderValue, Request, Response};
use http_body_util::BodyExt;
use tokio::sync::mpsc;

use crate::api::{self, Answer, Call, Told};
use crate::fault::Fault;
use crate::watch;
use crate::world::{Process, Sim, World};

/// What happens to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Arrives,
    /// Answered with this code; executed before or not.
    Refused(u16, bool),
    /// No answer; executed before or not.
    Silence(bool),
    /// The connection breaks; executed before or not.
    Reset(bool),
}

/// A client whose requests reach the simulated API server.
pub fn client(sim: Sim, process: Process) -> kube::Client {
    let service = tower::service_fn(move |request| exchange(sim.clone(), process, request));
    kube::Client::new(service, "default")
}

async fn exchange(
    sim: Sim,
    process: Process,
    request: Request<kube::client::Body>,
) -> Result<Response<Body>, io::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let call = Call::new(head.method, &head.uri, &body);
    let Some((fate, there, back)) = send(&sim, process, &call) else { return silence().await };
    sim.sleep(there).await;
    let answer = match fate {
        Fate::Silence(false) => return silence().await,
        Fate::Reset(false) => return Err(reset(&sim, process, &call)),
        Fate::Refused(code, false) => Arrived::Answer(refusal(code)),
        _ => arrive(&sim, process, &call),
    };
    let answer = match (fate, answer) {
        (Fate::Refused(code, true), _) => Arrived::Answer(refusal(code)),
        (Fate::Silence(true), _) => return silence().await,
        (Fate::Reset(true), _) => return Err(reset(&sim, process, &call)),
        (_, answer) => answer,
    };
    sim.sleep(back).await;
    match answer {
        Arrived::Nowhere => silence().await,
        Arrived::Watch(from) => {
            note(&sim, process, &call, "200 watch");
            let kind = call.target().expect("a watch has a target").kind;
            Ok(Response::new(watch::open(&sim, process, kind, from)))
        }
        Arrived::Answer(answer) => {
            note(&sim, process, &call, &format!("{} {fate:?}", answer.code));
            match respond(&sim, process, &call, answer) {
                Some(response) => Ok(response),
                None => silence().await,
            }
        }
    }
}

/// The request leaves: what happens to it, and how long it takes there and back. None: the process is gone.
fn send(sim: &Sim, process: Process, call: &Call) -> Option<(Fate, u64, u64)> {
    let mut world = sim.world();
    if !world.is_connected(process) {
        return None;
    }
    sent(&mut world, process, call);
    let fate = fate(&mut world, process, call);
    Some((fate, delay(&mut world, process), delay(&mut world, process)))
}

enum Arrived {
    /// The process is gone.
    Nowhere,
    Watch(u64),
    Answer(Answer),
}

fn arrive(sim: &Sim, process: Process, call: &Call) -> Arrived {
    let mut world = sim.world();
    if !world.is_connected(process) {
        return Arrived::Nowhere;
    }
    if !call.is_watch() {
        return Arrived::Answer(api::execute(&mut world, process, call));
    }
    match api::open_watch(&world, process, call) {
        Ok(from) => Arrived::Watch(from),
        Err(answer) => Arrived::Answer(answer),
    }
}

/// Remembers when a status write was first sent: retries carry the same precondition.
fn sent(world: &mut World, process: Process, call: &Call) {
    let Some(target) = call.target().filter(|target| target.part.is_some()) else { return };
    let now = world.now();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&call.body["metadata"]["resourceVersion"]);
    let name = target.name.clone().unwrap_or_default();
    if let Some(seat) = world.seat(process) {
        // Until the instance has asked for the API server's version, writes wait for that answer.
        let sent = if seat.knows_version { now } else { now.saturating_sub(10_000) };
        seat.writes.entry((name, version)).or_insert(sent);
    }
}

fn fate(world: &mut World, process: Process, call: &Call) -> Fate {
    let instance = process.instance;
    let kind = call.target().map(|target| target.kind);
    let mut hits = |fault| world.hits(fault, instance, kind);
    if call.is_watch() {
        let refused = hits(Fault::WatchRefused);
        return if refused { Fate::Refused(503, false) } else { Fate::Arrives };
    }
    if call.is_list() && hits(Fault::RelistFails) {
        return Fate::Refused(500, false);
    }
    if call.is_list() && hits(Fault::ListHangs) {
        return Fate::Silence(false);
    }
    if call.is_discovery() && hits(Fault::DiscoveryFails) {
        return Fate::Refused(503, false);
    }
    if hits(Fault::TooManyRequests) {
        return Fate::Refused(429, false);
    }
    if hits(Fault::RequestLost) {
        return Fate::Silence(false);
    }
    if hits(Fault::AnswerLost) {
        return Fate::Silence(true);
    }
    if hits(Fault::ConnectionReset) {
        return Fate::Reset(world.random.chance(50));
    }
    if hits(Fault::ServerError) {
        let code = *world.random.pick(&[500, 503, 504]).unwrap_or(&500);
        return Fate::Refused(code, code == 504 && world.random.chance(50));
    }
    Fate::Arrives
}

fn delay(world: &mut World, process: Process) -> u64 {
    if world.hits(Fault::SlowAnswer, process.instance, None) {
        world.draw(200, 3000)
    } else {
        world.draw(1, 8)
    }
}

fn refusal(code: u16) -> Answer {
    let reason = match code {
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };
    Answer::status(code, reason, "a fault of the simulation", "")
}

fn reset(sim: &Sim, process: Process, call: &Call) -> io::Error {
    note(sim, process, call, "connection reset");
    io::Error::from(io::ErrorKind::ConnectionReset)
}

async fn silence() -> Result<Response<Body>, io::Error> {
    std::future::pending().await
}

fn note(sim: &Sim, process: Process, call: &Call, outcome: &str) {
    let Process { instance, incarnation } = process;
    let line = format!("{instance}.{incarnation} {} {}: {outcome}", call.method, call.text);
    sim.world().note(&line);
}

/// None: the process is gone.
fn respond(sim: &Sim, process: Process, call: &Call, answer: Answer) -> Option<Response<Body>> {
    let slow = {
        let mut world = sim.world();
        if !world.is_connected(process) {
            return None;
        }
        let kind = call.target().map(|target| target.kind);
        world.hits(Fault::SlowBody, process.instance, kind)
    };
    let (code, text) = (answer.code, answer.text());
    let body = if slow {
        pieces(sim, process, text, answer.told)
    } else {
        tell(&mut sim.world(), process, answer.told);
        Body::from(text)
    };
    let mut response = Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    if sim.world().params.native && call.target().is_some_and(|of| of.kind.group == "policy") {
        // The aggregator sends requests for policy/v1 to Holdfast. Its relay is not part of the simulation.
        response.headers_mut().insert("x-holdfast-served", HeaderValue::from_static("native"));
    }
    Some(response)
}

/// A body in three pieces. The instance is told with the last one.
fn pieces(sim: &Sim, process: Process, text: String, told: Option<Told>) -> Body {
    let (sender, body) = channel();
    let sim = sim.clone();
    tokio::spawn(async move {
        let bytes = Bytes::from(text);
        let third = bytes.len() / 3;
        for piece in [bytes.slice(..third), bytes.slice(third..2 * third)] {
            let pause = sim.world().draw(50, 2500);
            sim.sleep(pause).await;
            if sender.send(Ok(piece)).await.is_err() {
                return;
            }
        }
        let pause = sim.world().draw(50, 2500);
        sim.sleep(pause).await;
        if sender.send(Ok(bytes.slice(2 * third..))).await.is_ok() {
            tell(&mut sim.world(), process, told);
        }
    });
    body
}

/// A body that another task writes. It ends when the sender is dropped.
pub fn channel() -> (mpsc::Sender<Result<Bytes, io::Error>>, Body) {
    let (sender, mut receiver) = mpsc::channel(1);
    let stream = futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx));
    (sender, Body::from_stream(stream))
}

/// The answer has reached the instance.
fn tell(world: &mut World, process: Process, told: Option<Told>) {
    let Some(Told { kind, snapshot, last, version, items }) = told else { return };
    let now = world.now();
    let Some(seat) = world.seat(process) else { return };
    if !snapshot {
        seat.view.page(now, &items);
    }
    match (snapshot, last) {
        (_, false) => {}
        (true, true) => seat.view.snapshot(now, kind, version, &items),
        (false, true) => {
            seat.view.listed(now, kind, version, &items);
            seat.cut_off.insert(kind, now);
        }
    }
}
