//! What is asked about, by what was answered and seen.

use super::*;

const NOW: Duration = Duration::ZERO;

fn unit(name: &str, pods: usize, costs: &[&str]) -> Unit {
    let pod = |index: usize| PodOf {
        name: format!("{name}-{index}"),
        uid: format!("{name}-{index}"),
        node: "a".to_owned(),
        leader: false,
    };
    Unit {
        namespace: "ns".to_owned(),
        name: name.to_owned(),
        replica: true,
        pods: (0..pods).map(pod).collect(),
        at_once: pods,
        costs: costs.iter().map(|&budget| (budget.to_owned(), 1)).collect(),
        follows: false,
        ends: false,
        recovery: None,
    }
}

fn follow(units: Vec<Unit>) -> Follow {
    Follow::new(units.into_iter().map(|unit| (unit, true)))
}

fn asked(follow: &mut Follow, now: Duration) -> Vec<String> {
    let asks = follow.poll(now);
    asks.iter().map(|ask| follow.units[ask.unit].unit.pods[ask.pod].name.clone()).collect()
}

fn denied() -> Evicted {
    Evicted::Denied("no room".to_owned())
}

#[test]
fn the_first_pod_is_tried_and_the_rest_of_the_replica_follows_and_then_the_next() {
    let mut follow = follow(vec![unit("x", 3, &["b"]), unit("y", 2, &["b"])]);
    assert_eq!(asked(&mut follow, NOW), ["x-0"]);
    assert!(asked(&mut follow, NOW).is_empty());
    follow.answer(NOW, Ask { unit: 0, pod: 0 }, Evicted::Granted);
    assert_eq!(asked(&mut follow, NOW), ["x-1", "x-2", "y-0"]);
    follow.answer(NOW, Ask { unit: 1, pod: 0 }, denied());
    assert!(asked(&mut follow, NOW).is_empty());
    assert_eq!(follow.denials().collect::<Vec<_>>(), ["no room"]);
}

#[test]
fn a_denial_is_asked_about_when_something_changes_and_ever_more_rarely_otherwise() {
    let mut follow = follow(vec![unit("x", 1, &["b"])]);
    let (mut now, mut pauses) = (NOW, Vec::new());
    for _ in 0..7 {
        assert_eq!(asked(&mut follow, now), ["x-0"]);
        follow.answer(now, Ask { unit: 0, pod: 0 }, denied());
        let due = follow.next_due(now).unwrap();
        assert!(asked(&mut follow, due.mul_f32(0.999)).is_empty());
        pauses.push(due.abs_diff(now).as_millis());
        now = due;
    }
    assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 5000, 5000]);
    assert_eq!(asked(&mut follow, now), ["x-0"]);
    follow.answer(now, Ask { unit: 0, pod: 0 }, denied());
    follow.changed(now, "other");
    assert!(asked(&mut follow, now).is_empty());
    follow.changed(now, "ns");
    assert_eq!(asked(&mut follow, now), ["x-0"]);
    follow.answer(now, Ask { unit: 0, pod: 0 }, denied());
    assert_eq!(follow.next_due(now), Some(now + AGAIN_FIRST));
}

#[test]
fn what_one_budget_denies_holds_nothing_else_up() {
    let mut blocked = unit("never", 1, &["b"]);
    blocked.costs.insert("b".to_owned(), 1);
    let units = [
        (blocked, false),
        (unit("x", 1, &["b"]), true),
        (unit("y", 1, &["c"]), true),
        (unit("z", 2, &[]), true),
    ];
    let mut follow = Follow::new(units);
    assert_eq!(asked(&mut follow, NOW), ["never-0", "x-0", "y-0", "z-0", "z-1"]);
    follow.answer(NOW, Ask { unit: 0, pod: 0 }, denied());
    follow.answer(NOW, Ask { unit: 1, pod: 0 }, Evicted::Unknown("timeout".to_owned()));
    assert_eq!(asked(&mut follow, AGAIN_FIRST), ["never-0", "x-0"]);
}

#[test]
fn what_goes_in_parts_waits_until_the_last_part_is_back() {
    let mut spared = unit("x", 3, &["b"]);
    spared.at_once = 1;
    let mut follow = follow(vec![spared, unit("y", 1, &["b"])]);
    assert_eq!(asked(&mut follow, NOW), ["x-0"]);
    follow.answer(NOW, Ask { unit: 0, pod: 0 }, Evicted::Granted);
    follow.look(NOW, |_| true);
    assert_eq!(asked(&mut follow, NOW), ["y-0"], "the pod is not gone yet");
    follow.saw(NOW, &ObjectKey::new("ns", "x-0"), |_| Some(Seen::Gone));
    follow.look(NOW, |_| false);
    assert_eq!(follow.recovering().map(|unit| &*unit.name).collect::<Vec<_>>(), ["x"]);
    assert!(asked(&mut follow, NOW).is_empty());
    follow.look(NOW, |_| true);
    assert!(asked(&mut follow, NOW).is_empty(), "not at once");
    follow.look(SETTLES, |_| true);
    assert_eq!(asked(&mut follow, SETTLES), ["x-1"]);
    // The next is seen to go before its eviction is answered.
    follow.saw(SETTLES, &ObjectKey::new("ns", "x-1"), |_| Some(Seen::Gone));
    assert!(asked(&mut follow, SETTLES).is_empty());
    follow.answer(SETTLES, Ask { unit: 0, pod: 1 }, Evicted::Granted);
    follow.look(SETTLES, |_| true);
    assert!(asked(&mut follow, SETTLES).is_empty());
    follow.look(2 * SETTLES, |_| true);
    assert_eq!(asked(&mut follow, 2 * SETTLES), ["x-2"]);
}

#[test]
fn it_is_done_when_every_pod_is_seen_to_be_gone_or_cannot_go() {
    let mut follow = follow(vec![unit("x", 2, &[]), unit("y", 1, &[])]);
    let _ = follow.poll(NOW);
    follow.answer(NOW, Ask { unit: 0, pod: 0 }, Evicted::Granted);
    follow.answer(NOW, Ask { unit: 0, pod: 1 }, Evicted::Gone);
    follow.answer(NOW, Ask { unit: 1, pod: 0 }, Evicted::Refused("forbidden".to_owned()));
    assert!(!follow.is_done());
    // A successor of the same name has another uid.
    let pod = ObjectKey::new("ns", "x-0");
    follow.saw(NOW, &pod, |of| (of.uid != "new").then_some(Seen::Replaced));
    assert!(follow.is_done());
    let steps: Vec<&Step> = follow.on("a").map(|(_, _, step)| step).collect();
    assert_eq!(steps, [&Step::Gone, &Step::Gone, &Step::Failed("forbidden".to_owned())]);
}

/// A group of three pods that goes as a whole, the first of them its leader or not.
fn group(leader: bool, costs: &[&str]) -> Unit {
    let mut group = unit("x", 3, costs);
    (group.follows, group.pods[0].leader) = (true, leader);
    group
}

fn saw(follow: &mut Follow, now: Duration, pod: &str, seen: Seen) {
    follow.saw(now, &ObjectKey::new("ns", pod), |_| Some(seen));
}

#[test]
fn the_rest_of_a_group_is_left_to_its_controller_and_evicted_if_it_stays() {
    for costs in [&["b"][..], &[]] {
        let mut follow = follow(vec![group(true, costs)]);
        assert_eq!(asked(&mut follow, NOW), ["x-0"]);
        assert!(asked(&mut follow, NOW).is_empty(), "one at a time");
        follow.answer(NOW, Ask { unit: 0, pod: 0 }, Evicted::Granted);
        assert!(asked(&mut follow, NOW).is_empty());
        assert_eq!(follow.next_due(NOW), Some(FOLLOWS));
        saw(&mut follow, NOW, "x-1", Seen::Leaving);
        assert!(asked(&mut follow, FOLLOWS.mul_f32(0.999)).is_empty());
        assert_eq!(follow.units[0].left_behind, 0);
        assert_eq!(asked(&mut follow, FOLLOWS), ["x-2"]);
        assert_eq!(follow.units[0].left_behind, 1);
    }
}

#[test]
fn a_group_is_begun_when_its_first_pod_is_seen_to_end_before_its_eviction_is_answered() {
    let mut follow = follow(vec![group(true, &["b"])]);
    assert_eq!(asked(&mut follow, NOW), ["x-0"]);
    saw(&mut follow, NOW, "x-0", Seen::Leaving);
    assert!(asked(&mut follow, NOW).is_empty());
    follow.answer(NOW, Ask { unit: 0, pod: 0 }, Evicted::Granted);
    assert!(asked(&mut follow, NOW).is_empty());
}

#[test]
fn a_group_of_which_a_pod_is_gone_already_is_left_to_its_controller_too() {
    let mut follow = follow(vec![group(true, &["b"])]);
    assert_eq!(asked(&mut follow, NOW), ["x-0"]);
    follow.answer(NOW, Ask { unit: 0, pod: 0 }, Evicted::Gone);
    assert!(asked(&mut follow, NOW).is_empty());
    // As after an interruption: the first sight is a worker on its way out.
    let mut follow = self::follow(vec![group(true, &["b"])]);
    saw(&mut follow, NOW, "x-2", Seen::Leaving);
    assert!(asked(&mut follow, NOW).is_empty());
}

#[test]
fn a_group_that_ends_elsewhere_is_left_alone_and_begins_anew_if_it_stays() {
    let mut ending = group(true, &["b"]);
    ending.ends = true;
    let mut follow = follow(vec![ending]);
    assert!(asked(&mut follow, NOW).is_empty());
    assert_eq!(follow.next_due(NOW), Some(FOLLOWS));
    assert_eq!(asked(&mut follow, FOLLOWS), ["x-0"]);
    follow.answer(FOLLOWS, Ask { unit: 0, pod: 0 }, Evicted::Granted);
    assert!(asked(&mut follow, FOLLOWS).is_empty());
    assert_eq!(asked(&mut follow, 2 * FOLLOWS), ["x-1", "x-2"]);
}

#[test]
fn a_worker_that_is_replaced_alone_shows_that_its_controller_keeps_the_group() {
    let mut missed = follow(vec![group(false, &["b"])]);
    assert_eq!(asked(&mut missed, NOW), ["x-0"]);
    missed.answer(NOW, Ask { unit: 0, pod: 0 }, Evicted::Granted);
    saw(&mut missed, NOW, "x-0", Seen::Gone);
    saw(&mut missed, FOLLOWS_REPLACED, "x-0", Seen::Replaced);
    assert!(asked(&mut missed, FOLLOWS_REPLACED).is_empty(), "not at once");
    assert_eq!(missed.next_due(FOLLOWS_REPLACED), Some(2 * FOLLOWS_REPLACED));
    // Before the group is whole again, so that it breaks once.
    assert_eq!(asked(&mut missed, 2 * FOLLOWS_REPLACED), ["x-1", "x-2"]);

    // The next leader comes before the old workers go, and evicting these would cost the next group.
    let mut replaced = follow(vec![group(true, &["b"])]);
    assert_eq!(asked(&mut replaced, NOW), ["x-0"]);
    replaced.answer(NOW, Ask { unit: 0, pod: 0 }, Evicted::Granted);
    saw(&mut replaced, NOW, "x-0", Seen::Replaced);
    assert!(asked(&mut replaced, 2 * FOLLOWS_REPLACED).is_empty());
    assert_eq!(asked(&mut replaced, FOLLOWS), ["x-1", "x-2"]);
}

#[test]
fn a_leader_that_cannot_be_evicted_gives_way_to_a_worker() {
    let mut follow = follow(vec![group(true, &["b"])]);
    assert_eq!(asked(&mut follow, NOW), ["x-0"]);
    follow.answer(NOW, Ask { unit: 0, pod: 0 }, Evicted::Refused("forbidden".to_owned()));
    assert_eq!(asked(&mut follow, NOW), ["x-1"]);
}

#[test]
fn a_denial_of_what_is_left_of_a_group_is_tried_again() {
    let mut follow = follow(vec![group(true, &["b"])]);
    assert_eq!(asked(&mut follow, NOW), ["x-0"]);
    follow.answer(NOW, Ask { unit: 0, pod: 0 }, Evicted::Granted);
    assert_eq!(asked(&mut follow, FOLLOWS), ["x-1", "x-2"]);
    follow.answer(FOLLOWS, Ask { unit: 0, pod: 1 }, denied());
    follow.answer(FOLLOWS, Ask { unit: 0, pod: 2 }, Evicted::Gone);
    assert_eq!(asked(&mut follow, FOLLOWS + AGAIN_FIRST), ["x-1"]);
    saw(&mut follow, FOLLOWS + AGAIN_FIRST, "x-1", Seen::Gone);
    saw(&mut follow, FOLLOWS + AGAIN_FIRST, "x-0", Seen::Gone);
    assert!(follow.is_done());
}
