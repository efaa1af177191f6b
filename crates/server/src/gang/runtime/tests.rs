use super::*;
use holdfast_core::gang::{Constraints, Priority, Settings};
use holdfast_core::io::Change;
use holdfast_core::model::{ResourceVersion, Timestamp};

fn pod() -> Pod {
    Pod {
        key: ObjectKey::new("n", "p"),
        uid: String::new(),
        version: ResourceVersion::default(),
        created: Timestamp(0),
        controller: None,
        lws: None,
        group: None,
        foreign: false,
        mirror: false,
        node: None,
        finished: false,
        terminating: false,
        gated: false,
        held: false,
        unschedulable: false,
        priority: Priority::default(),
        requests: BTreeMap::new(),
        constraints: Constraints::default(),
    }
}

/// Without an API server: nothing is seen but what a test tells.
fn start() -> (Handles, mpsc::Sender<Seen>) {
    let api = GroupApi::Holdfast;
    let (timeout, room_wait) = (Duration::from_mins(5), Duration::from_secs(30));
    let world = World::new(Settings { api, timeout, room_wait });
    let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let client = ApiClient::new(kube::Client::try_from(nowhere).unwrap());
    let leads = watch::channel(true).1;
    let (clock, metrics) = (Clock::start(), Metrics::new(0));
    let (runtime, handles) = Runtime::new(world, api, client, clock, metrics, leads);
    let feeder = runtime.feeder.clone();
    tokio::spawn(runtime.run());
    (handles, feeder)
}

async fn ask(handles: &Handles, pod: Pod) -> oneshot::Receiver<Placed> {
    let (reply, placed) = oneshot::channel();
    let deadline = Instant::now() + Duration::from_secs(5);
    let place =
        Place { pod: Box::new(pod), token: "t".to_owned(), dry_run: false, deadline, reply };
    handles.asked.send(Asked::Place(place)).await.unwrap();
    placed
}

async fn sync(feeder: &mpsc::Sender<Seen>) {
    let owners = Owner::KINDS.map(|(group, kind)| Kind::Owner(GroupKind::new(group, kind)));
    for kind in [Kind::Namespace, Kind::Group, Kind::Workload].into_iter().chain(owners) {
        feeder.send(Seen::NotServed(kind)).await.unwrap();
    }
}

fn owned() -> Pod {
    let controller = holdfast_core::model::ControllerRef {
        group_kind: GroupKind::new("batch", "Job"),
        version: "v1".to_owned(),
        name: "j".to_owned(),
        uid: "j1".to_owned(),
    };
    Pod { controller: Some(controller), ..pod() }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_seen_in_time_is_refused() {
    let (handles, _feeder) = start();
    let asked = Instant::now();
    let placed = ask(&handles, owned()).await.await.unwrap();
    assert!(
        matches!(&placed, Ok(Placement::Unseen(what)) if what.contains("list of")),
        "{placed:?}"
    );
    assert_eq!(asked.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn what_is_seen_meanwhile_is_answered_at_once() {
    let (handles, feeder) = start();
    let mut placed = ask(&handles, pod()).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    sync(&feeder).await;
    let asked = Instant::now();
    assert!(matches!((&mut placed).await, Ok(Ok(Placement::Alone(_)))));
    assert!(asked.elapsed() < Duration::from_millis(100));
    assert!(*handles.synced.borrow());
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_covered_before_its_workload_is_there_and_after() {
    let (mut handles, feeder) = start();
    sync(&feeder).await;
    let cover = |name: &str| Asked::Cover(name.to_owned());
    handles.asked.send(cover("a")).await.unwrap();
    handles.asked.send(cover("b")).await.unwrap();
    let both = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
    handles.covered.wait_for(|covered| *covered == both).await.unwrap();
    let namespace = holdfast_core::gang::Namespace {
        name: "a".to_owned(),
        version: ResourceVersion::from(1),
        terminating: false,
        asks: true,
    };
    feeder.send(Seen::Namespace(Change::Applied(namespace))).await.unwrap();
    tokio::time::sleep(ANNOUNCED + Duration::from_secs(1)).await;
    assert_eq!(*handles.covered.borrow(), BTreeSet::from(["a".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn no_more_namespaces_are_covered_in_advance_than_there_is_room_for() {
    let (handles, _feeder) = start();
    for i in 0..ANNOUNCED_MAX + 10 {
        handles.asked.send(Asked::Cover(format!("n{i}"))).await.unwrap();
    }
    // Answered after all that came before it.
    ask(&handles, Pod { mirror: true, ..pod() }).await.await.unwrap().unwrap();
    assert_eq!(handles.covered.borrow().len(), ANNOUNCED_MAX);
}
