use std::sync::atomic::{AtomicBool, Ordering};

use holdfast_core::Config;
use holdfast_core::model::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::ask::{Builtins, Cluster, documents, sample};

fn whole() -> Cluster {
    cluster(sample::objects())
}

fn cluster(objects: Vec<Value>) -> Cluster {
    let lists = documents::lists(objects, "serving");
    Cluster::new(Config::default(), lists, Timestamp::from_secs(1_000), Builtins::Counted)
}

async fn ask(looker: &Looker, known: u64) -> Value {
    serde_json::to_value(looker.state(known).await).unwrap()
}

#[tokio::test]
async fn the_state_is_that_of_the_status_command_and_sent_once() {
    let looker = Looker::given(whole);
    let first = ask(&looker, 0).await;
    assert_eq!(first["version"], 1);
    let budget = &first["state"]["report"]["budgets"][0];
    assert_eq!((&budget["name"], &budget["unit"]), (&json!("llama"), &json!("replica")));
    assert_eq!(budget["replicas"].as_array().unwrap().len(), 3);
    assert_eq!(budget["replicas"][0]["pods"][0]["node"], "node-0");
    assert_eq!(ask(&looker, 1).await["state"], Value::Null);
}

#[tokio::test]
async fn what_changes_is_another_version() {
    static BROKEN: AtomicBool = AtomicBool::new(false);
    let looker = Looker::given(|| {
        let mut objects = sample::objects();
        if BROKEN.load(Ordering::Relaxed) {
            sample::break_one(&mut objects);
        }
        cluster(objects)
    });
    assert_eq!(ask(&looker, 0).await["version"], 1);
    BROKEN.store(true, Ordering::Relaxed);
    assert_eq!(ask(&looker, 1).await["version"], 1, "it was looked at just now");
    looker.forget_time().await;
    let then = ask(&looker, 1).await;
    assert_eq!(then["version"], 2);
    assert_eq!(then["state"]["report"]["budgets"][0]["replicas"][2]["state"], "broken");
}

#[tokio::test]
async fn a_plan_is_that_of_the_plan_command() {
    let looker = Looker::given(whole);
    let choice = Choice { force: true, ..Choice::default() };
    let planned = looker.plan(&["node-1".to_owned()], &choice).await.ok().unwrap();
    let planned = serde_json::to_value(planned).unwrap();
    assert_eq!(planned["canBeDrained"], true);
    assert!(planned["text"].as_str().unwrap().starts_with("node-1 can be drained"), "{planned:#}");
    assert_eq!(planned["plan"]["waves"][0]["units"][0]["name"], "PodGroup llama-1");
    let unknown = looker.plan(&["node-9".to_owned()], &choice).await.err();
    assert_eq!(unknown.as_deref(), Some("there is no node node-9"));
}

#[test]
fn a_query_is_read_or_said_to_be_wrong() {
    let query = Query::of(Some("node=a&node=b&force=true&after=7&version=x"));
    assert_eq!(query.all("node").collect::<Vec<_>>(), ["a", "b"]);
    assert!(query.has("force") && !query.has("ignore-daemonsets"));
    assert_eq!(query.number("after").ok(), Some(7));
    assert_eq!(Query::of(None).number("after").ok(), Some(0));
    let Err(Wrong(code, why)) = query.number("version") else { panic!("x is no number") };
    assert_eq!((code.as_u16(), why.as_str()), (400, "version: \"x\" is no number"));
}

/// Behind a proxy it is not at the root, and nothing may come from outside.
#[test]
fn the_page_refers_to_itself_alone() {
    for text in [HTML, STYLE, SCRIPT] {
        for outside in ["://", "\"/", "(/", "url(", "innerHTML", "eval("] {
            assert!(!text.contains(outside), "{outside}");
        }
    }
}
