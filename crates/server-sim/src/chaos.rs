//! Begins faults at random, and ends all of them.

use serde_json::{Value, json};

use crate::cluster::end_pod;
use crate::fault::{Episode, Fault};
use crate::objects::{self, NAMESPACE, is_terminating};
use crate::resources::{
    BUDGETS, Kind, LEADER_WORKER_SETS, POD_GROUPS, PODS, Resource, STATEFUL_SETS, all,
};
use crate::world::{Sim, World};

/// A field that was made unreadable, and what it was before.
#[derive(Clone, Debug)]
pub struct Garbled {
    kind: Kind,
    name: String,
    uid: Value,
    pointer: &'static str,
    before: Value,
}

/// Begins faults until the time is over.
pub async fn drive(sim: Sim, until: u64) {
    let mut garbled = Vec::new();
    loop {
        let pause = {
            let mut world = sim.world();
            let max = world.params.pause_ms;
            world.draw(200, max)
        };
        sim.sleep(pause).await;
        let mut world = sim.world();
        if world.now() >= until {
            break;
        }
        let faults: Vec<Fault> = world.params.faults.iter().copied().collect();
        let Some(fault) = world.random.pick(&faults).copied() else { continue };
        if world.random.chance(20) {
            repair(&mut world, &mut garbled);
        }
        begin(&mut world, fault, &mut garbled);
    }
    let mut world = sim.world();
    repair(&mut world, &mut garbled);
    world.episodes.clear();
    world.note("the faults end");
    world.ring();
}

fn begin(world: &mut World, fault: Fault, garbled: &mut Vec<Garbled>) {
    let (instance, kind) = (instance(world), kind(world, fault));
    match fault {
        Fault::Crash => crash(world),
        Fault::PodDies => pod_dies(world),
        Fault::BudgetCreated => create_budget(world, garbled),
        Fault::GarbledBudget => garble(world, &BUDGETS, garbled),
        Fault::GarbledPod => garble(world, &PODS, garbled),
        _ => {
            if matches!(fault, Fault::WatchGone | Fault::RelistFails) {
                compact(world, kind);
            }
            if fault.is_instant() || fault == Fault::RelistFails {
                order(world, fault, instance, kind);
            }
            if !fault.is_instant() {
                hold(world, fault, instance, kind);
            }
        }
    }
    world.ring();
}

/// None: all of them.
fn instance(world: &mut World) -> Option<usize> {
    let all = world.seats.len();
    world.random.chance(60).then(|| world.random.below(all))
}

/// None: all of them.
fn kind(world: &mut World, fault: Fault) -> Option<Kind> {
    if fault == Fault::Undiscovered {
        return world.random.pick(&[&BUDGETS, &LEADER_WORKER_SETS, &POD_GROUPS]).copied();
    }
    let kinds =
        [&PODS, &PODS, &BUDGETS, &BUDGETS, &STATEFUL_SETS, &LEADER_WORKER_SETS, &POD_GROUPS];
    if world.random.chance(70) { world.random.pick(&kinds).copied() } else { None }
}

fn hold(world: &mut World, fault: Fault, instance: Option<usize>, kind: Option<Kind>) {
    let long = world.random.chance(15);
    let ms = if long { world.draw(40_000, 160_000) } else { world.draw(1000, 40_000) };
    let steady = matches!(
        fault,
        Fault::RelistFails | Fault::ListHangs | Fault::WatchRefused | Fault::Undiscovered
    );
    let percent = if steady { 100 } else { *world.random.pick(&[10, 30, 60, 100]).unwrap_or(&30) };
    let until = world.now() + ms;
    let on = kind.map_or("everything".to_owned(), Resource::qualified);
    world.note(&format!("fault {fault:?} on {on} of {instance:?} for {ms} ms, {percent} %"));
    if matches!(fault, Fault::WatchLag | Fault::WatchStalled | Fault::Undiscovered) {
        world.strike(fault);
    }
    world.episodes.push(Episode { fault, instance, kind, until, percent });
}

/// Open watches are struck.
fn order(world: &mut World, fault: Fault, instance: Option<usize>, kind: Option<Kind>) {
    world.note(&format!("fault {fault:?} on open watches"));
    for watch in world.watches.values_mut() {
        let concerned = instance.is_none_or(|own| own == watch.process.instance)
            && kind.is_none_or(|own| own == watch.kind);
        if concerned {
            watch.order = Some(fault);
        }
    }
}

fn compact(world: &mut World, kind: Option<Kind>) {
    for compacted in all().filter(|own| own.watched && kind.is_none_or(|kind| kind == *own)) {
        world.store.compact(compacted);
    }
}

fn crash(world: &mut World) {
    let instances = world.seats.len();
    let instance = world.random.below(instances);
    if world.seats[instance].up {
        world.seats[instance].up = false;
        world.strike(Fault::Crash);
        world.note(&format!("fault Crash of instance {instance}"));
    }
}

fn pod_dies(world: &mut World) {
    let pods = world.params.pods();
    let Some(name) = world.random.pick(&pods).cloned() else { return };
    let alive = world.store.get(&PODS, NAMESPACE, &name).is_some_and(|pod| !is_terminating(pod));
    if alive {
        world.strike(Fault::PodDies);
        world.note(&format!("fault PodDies: {name}"));
        end_pod(world, &name);
    }
}

/// A workload that had no budget gets one, often while an instance does not hear of it.
fn create_budget(world: &mut World, garbled: &mut Vec<Garbled>) {
    let late = world.params.workloads.iter().find(|workload| workload.budget.is_none()).cloned();
    let Some(late) = late else { return };
    if world.store.get(&BUDGETS, NAMESPACE, late.name).is_some() {
        return;
    }
    world.strike(Fault::BudgetCreated);
    if world.random.chance(50) {
        let instance = instance(world);
        let silent = *world.random.pick(&[Fault::WatchStalled, Fault::WatchLag]).expect("two");
        let until = world.now() + world.draw(20_000, 90_000);
        world.strike(silent);
        let kind = Some(&BUDGETS);
        world.episodes.push(Episode { fault: silent, instance, kind, until, percent: 100 });
    }
    let mut spec = late.late_budget();
    let unreadable = world.params.faults.contains(&Fault::GarbledBudget);
    let before = spec["selector"].clone();
    let garble = unreadable && world.random.chance(50);
    if garble {
        world.strike(Fault::GarbledBudget);
        spec["selector"] = json!("garbled");
    }
    let budget = world.create(&BUDGETS, objects::budget(late.name, &spec));
    if garble {
        let uid = budget["metadata"]["uid"].clone();
        let (kind, name, pointer) = (&BUDGETS, late.name.to_owned(), "/spec/selector");
        garbled.push(Garbled { kind, name, uid, pointer, before });
    }
}

/// One object of the kind cannot be decoded any more.
fn garble(world: &mut World, kind: Kind, garbled: &mut Vec<Garbled>) {
    let objects: Vec<Value> =
        world.store.list(kind, Some(NAMESPACE)).map(|object| Value::clone(object)).collect();
    let Some(object) = world.random.pick(&objects) else { return };
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if garbled.iter().any(|own| own.kind == kind && own.name == name) {
        return;
    }
    let pointer = match kind.kind {
        "Pod" if is_terminating(object) || object["status"]["phase"] == "Pending" => return,
        "Pod" => "/status/conditions",
        _ if object["spec"]["maxUnavailable"].is_null() => "/spec/minAvailable",
        _ if world.random.chance(50) => "/spec/selector",
        _ => "/spec/maxUnavailable",
    };
    let Some(before) = object.pointer(pointer).cloned() else { return };
    let fault = if kind == &PODS { Fault::GarbledPod } else { Fault::GarbledBudget };
    world.strike(fault);
    world.note(&format!("fault {fault:?}: {name}{pointer}"));
    let uid = object["metadata"]["uid"].clone();
    let field = pointer.rsplit('/').next();
    let text = matches!(field, Some("selector" | "conditions"));
    // A threshold may be any text.
    let wrong = if text { json!("garbled") } else { json!({"garbled": true}) };
    set(world, kind, &name, pointer, wrong);
    garbled.push(Garbled { kind, name, uid, pointer, before });
}

fn repair(world: &mut World, garbled: &mut Vec<Garbled>) {
    for Garbled { kind, name, uid, pointer, before } in garbled.drain(..) {
        let stored = world.store.get(kind, NAMESPACE, &name);
        if stored.is_some_and(|object| object["metadata"]["uid"] == uid && !is_terminating(object))
        {
            world.note(&format!("repair {name}{pointer}"));
            set(world, kind, &name, pointer, before);
        }
    }
}

fn set(world: &mut World, kind: Kind, name: &str, pointer: &str, value: Value) {
    world.modify(kind, NAMESPACE, name, |object| {
        if let Some(field) = object.pointer_mut(pointer) {
            *field = value;
        }
    });
}
