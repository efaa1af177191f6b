//! Consistent lists, page by page.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Answer, Call, Told};
use crate::fault::Fault;
use crate::resources::Target;
use crate::world::{Pages, Process, World};

/// A page of a list that `SmallPages` hits.
const SMALL: usize = 3;

pub fn list(world: &mut World, process: Process, call: &Call, target: &Target) -> Answer {
    let limit = call.query.get("limit").and_then(|l| l.parse().ok()).unwrap_or(usize::MAX);
    let small = world.hits(Fault::SmallPages, process.instance, Some(target.kind));
    let limit = if small { limit.min(SMALL) } else { limit };
    let token = call.query.get("continue").filter(|token| !token.is_empty());
    let Pages { version, mut shown, mut rest } = match token {
        Some(token) => match world.pages.remove(token) {
            Some(pages) if !world.store.is_compacted(target.kind, pages.version) => pages,
            _ => return Answer::expired(),
        },
        None => Pages {
            version: world.store.revision(),
            shown: Vec::new(),
            rest: world.store.list(target.kind, target.namespace.as_deref()).cloned().collect(),
        },
    };
    let after = rest.split_off(limit.min(rest.len()));
    let (items, last) = (rest, after.is_empty());
    shown.extend_from_slice(&items);
    let told = Told {
        kind: target.kind,
        snapshot: target.namespace.is_some(),
        last,
        version,
        items: shown.clone(),
    };
    let mut next = String::new();
    if !last {
        next = format!("page-{}", world.number());
        world.pages.insert(next.clone(), Pages { version, shown, rest: after });
    }
    // A look at one object, to see the version, tells of nothing.
    let told = (limit > 1 || last).then_some(told);
    Answer { told, ..Answer::ok(body(target, version, &next, &items)) }
}

fn body(target: &Target, version: u64, next: &str, items: &[Arc<Value>]) -> Value {
    let items: Vec<&Value> = items.iter().map(|item| &**item).collect();
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if !next.is_empty() {
        metadata["continue"] = json!(next);
    }
    json!({
        "kind": format!("{}List", target.kind.kind),
        "apiVersion": target.kind.api_version(),
        "metadata": metadata,
        "items": items,
    })
}
