//! Small worlds, explored exhaustively; and the schedules of holes that exploration has found.

use holdfast_sim::explore::replay;

/// Whether the engine has been mended. Flip it together with the fixes: then every schedule below must
/// keep the promise, and every scope must hold.
const FIXED: bool = true;

/// The scope and a shortest schedule of each hole, and a number of states within which the search
/// finds it.
const HOLES: &[(&str, &str, usize)] = &[
    (
        "rising-watermark",
        "ask:0 unready:1 advance:0 ask:1 call:1.0 carry-out:0 advance:0 answer:1.0 call:1.0 answer:1.0",
        100_000,
    ),
    ("emptied-owner", "ask:1 carry-out:0 ask:0", 1000),
    ("whole-group", "ask:1 carry-out:0 ask:0", 1000),
    ("refused-eviction", "ask:0 advance:0 advance:1 ask:0 advance:1 ask:0 advance:1", 10_000),
    (
        "recreated-budget",
        "ask:0 call:0.0 answer:0.0 carry-out:0 advance:0 call:0.0 recreate:0 ask:1",
        10_000,
    ),
    ("expired-not-found", "ask:0 carry-out:0 crash:0 restart:0 advance:1 ask:1", 10_000),
];

#[test]
fn the_schedules_of_known_holes() {
    for (scope, schedule, _) in HOLES {
        let replayed = replay(scope, schedule);
        let lines = replayed.lines.join("\n");
        assert_eq!(replayed.violation.is_none(), FIXED, "{scope}:\n{lines}");
    }
}

/// In a fast build of its own: `cargo xtask test` runs it as the stage `explore`.
#[cfg(feature = "planted-bugs")]
mod search {
    use std::time::Duration;

    use holdfast_core::planted::{Bug, plant};
    use holdfast_sim::explore::{Limits, Outcome, SCOPES, Scope, explore};

    use super::{FIXED, HOLES};

    /// Enough for the small scopes, in some seconds each.
    const STATES_IN_EVERY_TEST: usize = 15_000;

    /// The number of states that `--full` asks for, if it does.
    fn many() -> Option<usize> {
        let given = std::env::var("HOLDFAST_STATES").ok();
        given.map(|text| text.parse().expect("a whole number"))
    }

    /// Its hole is still open.
    fn is_broken(scope: &Scope) -> bool {
        !FIXED && HOLES.iter().any(|(name, ..)| *name == scope.name)
    }

    /// Bugs on purpose, each with a scope that holds without it.
    const PLANTED: &[(Bug, &str)] = &[
        (Bug::SkipWatermark, "lagging"),
        (Bug::IgnoreRisen, "rising-watermark"),
        (Bug::ForgetEmptied, "emptied-owner"),
        (Bug::ShrinkWhole, "whole-group"),
        (Bug::RenewForEver, "refused-eviction"),
        (Bug::SkipCreation, "recreated-budget"),
        (Bug::GoneWithoutVersion, "expired-not-found"),
    ];

    fn search(scope: &str, states: usize) -> Outcome {
        let scope = Scope::named(scope).expect("the scope exists");
        // One thread: a bug is planted in the thread that plants it.
        explore(scope, Limits { states, time: Duration::MAX, threads: 1 })
    }

    #[test]
    fn a_scope_breaks_exactly_while_its_hole_is_open() {
        let states_max = many().unwrap_or(STATES_IN_EVERY_TEST);
        for (scope, schedule, states) in HOLES.iter().filter(|hole| hole.2 <= states_max) {
            let found = search(scope, *states).found;
            assert_eq!(found.is_none(), FIXED, "{scope}");
            if let Some(found) = found {
                let shortest = schedule.split(' ').count();
                assert_eq!(found.schedule.0.len(), shortest, "{scope}: {}", found.schedule);
            }
        }
    }

    #[test]
    fn small_scopes_hold() {
        for scope in SCOPES.iter().filter(|scope| scope.in_every_test && !is_broken(scope)) {
            let found = search(scope.name, STATES_IN_EVERY_TEST).found;
            assert!(found.is_none(), "{}: {found:?}", scope.name);
        }
    }

    #[test]
    fn all_scopes_hold_as_far_as_asked_for() {
        let Some(states) = many() else { return };
        for scope in SCOPES.iter().filter(|scope| !is_broken(scope)) {
            let found = search(scope.name, states).found;
            assert!(found.is_none(), "{}: {found:?}", scope.name);
        }
    }

    #[test]
    fn planted_bugs_are_found() {
        for (bug, scope) in PLANTED {
            plant(Some(*bug));
            let out = search(scope, 100_000);
            plant(None);
            eprintln!("{bug:?} {scope} {} {:?} {:?}", out.states, out.took, out.found.map(|f| (f.schedule.to_string(), f.schedule.0.len())));
        }
    }
}
