//! Small worlds, explored exhaustively; and the schedules of holes that exploration has found.

use holdfast_sim::explore::replay;

/// Planted bugs, each with a scope and a shortest schedule that breaks the promise there. Without the bug the promise
/// holds in all of them.
const SCHEDULES: &[(&str, &str, &str)] = &[
    (
        "IgnoreRisen",
        "rising-watermark",
        "unready:0 ask:0 ask:1 ready:0 call:1.0 carry-out:0 advance:0 answer:1.0 call:1.0",
    ),
    ("ForgetEmptied", "emptied-owner", "ask:1 carry-out:0 ask:0"),
    ("IgnoreTemplates", "templated-owner", "delete:1 ask:0"),
    ("ShrinkWhole", "whole-group", "ask:1 carry-out:0 ask:0"),
    (
        "RenewForEver",
        "refused-eviction",
        "ask:0 advance:0 advance:1 ask:0 advance:1 ask:0 advance:1",
    ),
    (
        "SkipCreation",
        "recreated-budget",
        "ask:0 call:0.0 answer:0.0 carry-out:0 advance:0 call:0.0 recreate:0 ask:1",
    ),
    (
        "GoneWithoutVersion",
        "expired-not-found",
        "ask:0 carry-out:0 crash:0 restart:0 advance:0 ask:1",
    ),
    ("SkipWatermark", "lagging", "ask:0 carry-out:0 advance:0 ask:1"),
    ("TerminatingHealthy", "lagging", "ask:0 carry-out:0 event:1.pod ask:1"),
    ("ExpireBlindly", "expired-not-found", "ask:0 carry-out:0 crash:0 advance:1 ask:1"),
    ("GrantByName", "by-name", "ask:1 delete:1 create:1 ready:1 ask:0"),
    ("NoSuccessor", "by-name", "ask:1 delete:1 create:1 ready:1 ask:0"),
    ("AnyPodWillDo", "three-instances", "ask:0 call:0.0 ask:1 call:1.0"),
    ("FirstBudgetOnly", "two-budgets", "ask:1"),
    ("ForgetSurplus", "surplus-pods", "ask:0"),
    ("KeepOldLists", "recreated-budget", "ask:0 advance:0 recreate:0"),
    ("KeepOldScales", "scaled-up", "scale-up:0 ask:1 event:1.pod"),
];

#[test]
fn the_schedules_of_known_holes_hold() {
    for (_, scope, schedule) in SCHEDULES {
        let replayed = replay(scope, schedule);
        let lines = replayed.lines.join("\n");
        assert_eq!(replayed.violation, None, "{scope}:\n{lines}");
    }
}

/// In a fast build of its own: `cargo xtask test` runs it as the stage `explore`.
#[cfg(feature = "planted-bugs")]
mod search {
    use std::time::Duration;

    use holdfast_core::planted::{Bug, plant};
    use holdfast_sim::explore::{Limits, Outcome, SCOPES, Scope, explore, replay};

    use super::SCHEDULES;

    /// Enough for the small scopes, in some seconds each.
    const STATES_IN_EVERY_TEST: usize = 60_000;

    /// The number of states that `--full` asks for, if it does.
    fn many() -> Option<usize> {
        let given = std::env::var("HOLDFAST_STATES").ok();
        given.map(|text| text.parse().expect("a whole number"))
    }

    /// Bugs on purpose, each with a number of states within which the search finds it.
    const PLANTED: &[(Bug, usize)] = &[
        (Bug::IgnoreRisen, 50_000),
        (Bug::ForgetEmptied, 100),
        (Bug::IgnoreTemplates, 100),
        (Bug::ShrinkWhole, 100),
        (Bug::RenewForEver, 3000),
        (Bug::SkipCreation, 10_000),
        (Bug::GoneWithoutVersion, 1000),
        (Bug::SkipWatermark, 100),
        (Bug::TerminatingHealthy, 100),
        (Bug::ExpireBlindly, 500),
        (Bug::GrantByName, 5000),
        (Bug::NoSuccessor, 5000),
        (Bug::AnyPodWillDo, 500),
        (Bug::FirstBudgetOnly, 10),
        (Bug::ForgetSurplus, 10),
        (Bug::KeepOldLists, 500),
        (Bug::KeepOldScales, 500),
    ];

    fn search(scope: &str, states: usize, threads: usize) -> Outcome {
        let scope = Scope::named(scope).expect("the scope exists");
        let outcome = explore(scope, Limits { states, time: Duration::MAX, threads });
        let Outcome { states, transitions, depth, complete, took, .. } = outcome;
        eprintln!(
            "{}: {states} states, {transitions} transitions, depth {depth}, complete {complete}, {took:.1?}",
            scope.name
        );
        if let Some(found) = &outcome.found {
            eprintln!("    {} steps: {}", found.schedule.0.len(), found.schedule);
        }
        outcome
    }

    fn hold(scopes: impl Fn(&Scope) -> bool, states: usize) {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        for scope in SCOPES.iter().filter(|scope| scopes(scope)) {
            let found = search(scope.name, states, threads).found;
            assert!(found.is_none(), "{}: {found:?}", scope.name);
        }
    }

    #[test]
    fn small_scopes_hold() {
        hold(|scope| scope.in_every_test, STATES_IN_EVERY_TEST);
    }

    #[test]
    fn all_scopes_hold_as_far_as_asked_for() {
        if let Some(states) = many() {
            hold(|_| true, states);
        }
    }

    #[test]
    fn planted_bugs_are_found() {
        for (bug, states) in PLANTED {
            let name = format!("{bug:?}");
            let known = SCHEDULES.iter().find(|(of, ..)| *of == name);
            let (_, scope, known) = known.expect("it has a schedule");
            plant(Some(*bug));
            let replayed = replay(scope, known);
            // One thread: a bug is planted in the thread that plants it.
            let outcome = search(scope, *states, 1);
            plant(None);
            assert!(replayed.violation.is_some(), "{bug:?}:\n{}", replayed.lines.join("\n"));
            let found = outcome.found.unwrap_or_else(|| panic!("{bug:?} is not found in {scope}"));
            let shortest = known.split(' ').count();
            assert_eq!(found.schedule.0.len(), shortest, "{bug:?}: {}", found.schedule);
        }
    }
}
