//! Clients evict pods. The API server asks an instance's webhook, and carries out the evictions that it allows.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use base64::Engine as _;
use holdfast_audit::objects::Name;
use http::{Method, Request, header};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::cluster::end_pod;
use crate::fault::Fault;
use crate::gate;
use crate::judge::Allowed;
use crate::objects::{NAMESPACE, is_terminating, target};
use crate::resources::PODS;
use crate::world::{Process, Sim, World};

/// The API server gives up waiting for a webhook.
const WEBHOOK: Duration = Duration::from_secs(10);

/// Holdfast has answered by then.
const ANSWERED_MS: u64 = 9_500;

/// How an eviction came out, for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Evicted,
    Denied,
    /// No answer, or refused behind the webhook.
    Failed,
}

/// Evicts random pods until the time is over. Requests overlap.
pub async fn drive(sim: Sim, until: u64) {
    loop {
        let (pause, pod) = {
            let mut world = sim.world();
            let max = world.params.eviction_ms;
            let pods = world.params.pods();
            let pod = world.random.pick(&pods).cloned().unwrap_or_default();
            (world.draw(50, max), pod)
        };
        sim.sleep(pause).await;
        if sim.world().now() >= until {
            return;
        }
        let sim = sim.clone();
        tokio::task::spawn_local(async move {
            let dry_run = sim.world().random.chance(5);
            evict(&sim, &pod, dry_run).await;
        });
    }
}

/// A request on its way to a webhook.
struct Asked {
    process: Process,
    router: Router,
    review: Value,
    id: String,
    name: String,
    dry_run: bool,
    at_gate: bool,
    at: u64,
}

/// An eviction that the API server is about to carry out.
struct Order {
    id: String,
    name: String,
    /// The uid that the pod must have. None: any pod of the name.
    pin: Option<String>,
    /// Something behind the webhook refuses it.
    refused: bool,
    delay: u64,
}

/// One eviction, from the request to its end.
pub async fn evict(sim: &Sim, name: &str, dry_run: bool) -> Outcome {
    let asked = ask(&mut sim.world(), name, dry_run);
    let Some(asked) = asked else { return Outcome::Failed };
    let answering = async {
        // Dry runs never get to the gate: the webhook is asked about them in both modes.
        if asked.at_gate {
            gate::ask(asked.router.clone(), name).await
        } else {
            post(asked.router.clone(), &asked.review).await
        }
    };
    let answer = tokio::time::timeout(WEBHOOK, answering).await.ok().flatten();
    let order = match answered(&mut sim.world(), &asked, answer) {
        Ok(order) => order,
        Err(outcome) => return outcome,
    };
    sim.sleep(order.delay).await;
    carry_out(&mut sim.world(), &order)
}

/// None: there is no such pod, or no instance is reached.
fn ask(world: &mut World, name: &str, dry_run: bool) -> Option<Asked> {
    let pod = world.store.get(&PODS, NAMESPACE, name).cloned()?;
    let at_gate = world.params.native && !dry_run;
    // The handler deletes such a pod without asking, which is no loss.
    if at_gate && (is_terminating(&pod) || pod["status"]["phase"] == "Pending") {
        return None;
    }
    let instances = world.seats.len();
    let instance = world.random.below(instances);
    let seat = &world.seats[instance];
    let process = Process { instance, incarnation: seat.incarnation };
    let Some(router) = seat.webhook.clone().filter(|_| seat.up) else {
        world.judge.failed += 1;
        return None;
    };
    let review = review(world, &pod, dry_run);
    let id = review["request"]["uid"].as_str().unwrap_or_default().to_owned();
    let (name, at) = (name.to_owned(), world.now());
    Some(Asked { process, router, review, id, name, dry_run, at_gate, at })
}

/// What the API server does with the webhook's answer.
fn answered(world: &mut World, asked: &Asked, answer: Option<Value>) -> Result<Order, Outcome> {
    let Asked { process, id, name, dry_run, .. } = asked;
    let instance = process.instance;
    if !world.is_connected(*process) {
        world.judge.failed += 1;
        return Err(Outcome::Failed);
    }
    let in_time = world.now() - asked.at <= ANSWERED_MS;
    let Some(answer) = answer.filter(|_| in_time) else {
        world.violate(&format!("S11: {id} was not answered in time by instance {instance}"));
        return Err(Outcome::Failed);
    };
    let allowed = answer["response"]["allowed"] == true;
    let why = answer["response"]["status"]["message"].as_str().unwrap_or_default();
    let verdict = if allowed { "allow".to_owned() } else { format!("deny: {why}") };
    world.note(&format!("{instance} {id} {name} dry-run={dry_run}: {verdict}"));
    if !allowed {
        world.judge.denied += 1;
        return Err(Outcome::Denied);
    }
    if *dry_run {
        return Err(Outcome::Evicted);
    }
    if world.hits(Fault::WebhookAnswerLost, instance, None) {
        world.judge.failed += 1;
        return Err(Outcome::Failed);
    }
    let pin = allow(world, asked, &answer).ok_or(Outcome::Failed)?;
    let late = world.hits(Fault::EvictionLate, instance, None);
    let delay = if late { world.draw(1000, 20_000) } else { world.draw(1, 50) };
    let refused = world.hits(Fault::EvictionRefused, instance, None);
    Ok(Order { id: id.clone(), name: name.clone(), pin: pin.0, refused, delay })
}

/// The uid that an eviction must find, if it must find one.
struct Pin(Option<String>);

/// Tells the auditor. None: there is no such pod any more.
fn allow(world: &mut World, asked: &Asked, answer: &Value) -> Option<Pin> {
    let given = &asked.review["request"]["object"]["deleteOptions"]["preconditions"]["uid"];
    let pin = given.as_str().map(str::to_owned).or_else(|| patched(answer));
    let stored = world.store.get(&PODS, NAMESPACE, &asked.name);
    let stored = stored?["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let sent = world.wall() - i64::try_from(world.now() - asked.at).unwrap_or(0);
    let missing = world.judge.allow(Allowed {
        id: asked.id.clone(),
        pod: Name::new(NAMESPACE, &asked.name),
        uid: pin.clone().unwrap_or(stored),
        by_name: asked.at_gate || pin.is_none(),
        asked: sent,
    });
    for finding in missing {
        world.violate(&finding);
    }
    world.look();
    Some(Pin(pin))
}

/// The uid that the webhook has pinned the eviction to.
fn patched(answer: &Value) -> Option<String> {
    let patch = answer["response"]["patch"].as_str()?;
    let patch = base64::engine::general_purpose::STANDARD.decode(patch).ok()?;
    let patch: Value = serde_json::from_slice(&patch).ok()?;
    let value = &patch[0]["value"];
    let places = [value, &value["uid"], &value["preconditions"]["uid"]];
    places.into_iter().find_map(|uid| uid.as_str().map(str::to_owned))
}

fn carry_out(world: &mut World, order: &Order) -> Outcome {
    let Order { id, name, pin, refused, .. } = order;
    let pod = world.store.get(&PODS, NAMESPACE, name).cloned();
    let hit = pod.filter(|pod| pin.as_ref().is_none_or(|pin| pod["metadata"]["uid"] == **pin));
    let Some(pod) = hit.filter(|_| !refused) else {
        world.note(&format!("{id} is refused"));
        world.judge.end(id, None);
        world.look();
        return Outcome::Failed;
    };
    if is_terminating(&pod) {
        world.judge.end(id, None);
        return Outcome::Evicted;
    }
    world.note(&format!("{id} takes {name}"));
    world.judge.end(id, Some(&Name::new(NAMESPACE, name)));
    world.modify(&PODS, NAMESPACE, name, target);
    end_pod(world, name);
    Outcome::Evicted
}

fn review(world: &mut World, pod: &Value, dry_run: bool) -> Value {
    let name = &pod["metadata"]["name"];
    let id = format!("{:08x}-0000-0000-0000-{:012x}", world.number(), world.params.seed);
    let mut options = json!({});
    match world.random.below(4) {
        0 => options["preconditions"] = json!({"uid": pod["metadata"]["uid"]}),
        1 => options["preconditions"] = json!({}),
        _ => {}
    }
    let mut object = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"namespace": NAMESPACE, "name": name},
    });
    if world.random.chance(70) || options["preconditions"].is_object() {
        object["deleteOptions"] = options;
    }
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": id, "namespace": NAMESPACE, "name": name, "operation": "CREATE",
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "subResource": "eviction", "userInfo": {"username": "drainer"},
            "dryRun": dry_run, "object": object,
        },
    })
}

/// None: no answer that can be read.
async fn post(router: Router, review: &Value) -> Option<Value> {
    let request = Request::builder()
        .method(Method::POST)
        .uri("/evict")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(review.to_string()))
        .ok()?;
    let response = router.oneshot(request).await.ok()?;
    let body = to_bytes(response.into_body(), 1 << 20).await.ok()?;
    serde_json::from_slice(&body).ok()
}
