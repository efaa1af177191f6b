//! The simulator, on a fixed budget of seeds. `cargo xtask sim` goes on from here (docs/simulator.md).

use holdfast_sim::chaos::{Fault, Plan, Profile, minimise, report, run};

/// Together less than a minute in a debug build on 2 cores. `HOLDFAST_SEEDS` sets another number.
const SWARM: u64 = 250;

/// A recorded grant that moved to where one of ours was under way was forgotten, and with ours.
const MOVED: [u64; 3] = [16238, 20271, 33280];
/// What a request had written before it began again was taken for what it wrote since.
const BEGAN_AGAIN: [u64; 4] = [9538, 17468, 22204, 48024];
/// A renewal that was not written put the grant back to where it had been before it passed on.
const PUT_BACK: [u64; 2] = [5344, 17869];
/// What was being refunded, or had ended, came back: by way of a deleted budget, or of another grant for
/// the same name.
const CAME_BACK: [u64; 4] = [8263, 17924, 50686, 58286];
/// A grant for a pod that only a live read had shown passed to its predecessor, and ended with that.
const WENT_BACK: [u64; 4] = [28446, 35721, 58181, 58240];
/// The check was wrong: an eviction took the pod that the grant had passed to.
const PASSED_ON: [u64; 3] = [23627, 32813, 45154];
/// In native mode: a grant that two evictions by name shared ended with the first, and the other took the
/// next pod of the name.
const SHARED: [u64; 7] = [279, 479, 868, 903, 1474, 2066, 2351];

/// A grant was renewed although its budget had been edited since. A budget that was recreated with another selector while
/// a request was under way was not asked.
const EDITED: [u64; 2] = [361, 3286];
/// A refused eviction had a new grant before its old one was off the record; so had one of a Pending pod. A status that
/// ended the recorded size of a group was counted with that size.
const REFUSED: [u64; 4] = [153, 222, 992, 979];
/// A budget that was recreated twice covered nothing.
const RECREATED_TWICE: [u64; 1] = [106_862];
/// In native mode: grants that were renewed after an edit.
const EDITED_NATIVE: [u64; 2] = [62, 3286];
/// In native mode: a watch overtook the answer to the write that ended an expired grant, so the pod was refused for ever.
const OVERTAKEN_NATIVE: [u64; 1] = [124_467];
/// The check was wrong: a new process lists a deleted budget from an API server that is behind, and learns of the deletion
/// minutes later.
const LISTED_LATE: [u64; 2] = [107_867, 118_710];
/// The check was wrong about owners that count because of a grant: the granted pod went for another reason, or the budget
/// counted pods when it recorded the grant.
const EMPTIED: [u64; 6] = [101_769, 113_487, 113_584, 114_311, 119_002, 121_867];
/// The check was wrong about recorded sizes: the writer knew of other pods than there were, or an owner was scaled down
/// and up again.
const SIZED: [u64; 4] = [100_986, 101_789, 114_612, 119_564];
/// The check was wrong: the recorded size of a group ended in the last second before statuses were compared.
const JUST_ENDED: [u64; 1] = [114_406];
const LISTED_LATE_NATIVE: [u64; 1] = [571];
/// The watch told of the deletion of a successor that it had not shown, and the budget stayed in force.
const SUCCEEDED: [u64; 1] = [109_373];

/// Under `PodUnavailableBudgets`: a group that only grants made look broken was taken for broken; an update's grant
/// expired while the cache still had the pod from before it; a pod that had not begun to run took a whole
/// group of a `LeaderWorkerSet` with it; a budget did not say that another had come to share its pods; the grant of an
/// eviction was as old as that of an update before it; a status was written before all kinds were listed.
const UNAVAILABLE: [u64; 11] = [882, 955, 1306, 2353, 1200, 2694, 1371, 3630, 183, 2811, 3880];
/// The refund of a request that was denied by its deadline let the request itself have its turn, and it was answered twice.
const ANSWERED_TWICE: [u64; 1] = [2_005_494];
/// The recorded size of a group ended by the time of day, on an instance whose clock was ahead.
const CLOCK_AHEAD: [u64; 1] = [427_284];

/// The check was wrong: the first grant for a group was refunded by an instance that still saw its pod, so the next grant
/// recorded a smaller size.
const REFUNDED_SIZE_LITE: [u64; 1] = [720_230];
/// The check was wrong: it put back pods of one name that had followed each other, and a group counted all of them.
const FOLLOWED_NATIVE: [u64; 1] = [5109];
/// `PodGroups` that stood for an owner that was not seen counted beside it for ever (of native).
const GROUPS_BESIDE: [u64; 4] = [7_104_136, 7_201_026, 7_301_613, 7_600_130];
/// The auditor took an update for a loss that had been in effect, or that had not come into effect in time (of unavailable).
const IN_EFFECT: [u64; 2] = [7_701_556, 14_009_045];
/// The auditor did not know that a writer may record the source of a group that is gone by then.
const GONE_GROUP: [u64; 1] = [10_030_372];

#[test]
fn seeds_that_found_a_bug() {
    let all = [
        &MOVED[..],
        &BEGAN_AGAIN,
        &PUT_BACK,
        &CAME_BACK,
        &WENT_BACK,
        &PASSED_ON,
        &EDITED,
        &REFUSED,
        &SUCCEEDED,
        &LISTED_LATE,
        &JUST_ENDED,
        &EMPTIED,
        &SIZED,
        &RECREATED_TWICE,
        &CLOCK_AHEAD,
        &GONE_GROUP,
    ];
    check(Profile::Swarm, all.into_iter().flatten().copied());
}

#[test]
fn swarm_even() {
    check(Profile::Swarm, (0..seeds(SWARM)).step_by(2));
}

#[test]
fn swarm_odd() {
    check(Profile::Swarm, (1..seeds(SWARM)).step_by(2));
}

#[test]
fn native_mode() {
    let found = [
        &SHARED[..],
        &EDITED_NATIVE,
        &OVERTAKEN_NATIVE,
        &LISTED_LATE_NATIVE,
        &FOLLOWED_NATIVE,
        &GROUPS_BESIDE,
    ];
    check(Profile::Native, (0..seeds(SWARM) / 2).chain(found.into_iter().flatten().copied()));
}

#[test]
fn unavailable_budgets() {
    check(
        Profile::Unavailable,
        (0..seeds(SWARM) / 2).chain(UNAVAILABLE).chain(ANSWERED_TWICE).chain(IN_EFFECT),
    );
}

#[test]
fn lite_has_every_fault_alone() {
    let faults = u64::try_from(Fault::ALL.len()).expect("few");
    check(Profile::Lite, (0..seeds(SWARM).min(2 * faults)).chain(REFUNDED_SIZE_LITE));
}

#[test]
fn a_seed_replays_byte_for_byte() {
    for seed in 0..5 {
        let plan = Plan::new(seed, Profile::Swarm);
        assert_eq!(report(&plan), report(&plan), "seed {seed}");
    }
}

#[test]
fn a_step_that_is_left_out_leaves_the_others_as_they_were() {
    let mut plan = Plan::new(1, Profile::Swarm);
    plan.skip.extend(10..10_000);
    let short = run(&plan, true).trace;
    let long = run(&Plan::new(1, Profile::Swarm), true).trace;
    let before = |line: &String| !line.contains("step 10") && !line.contains("the faults end");
    let begin: Vec<_> = long.iter().take_while(|line| before(line)).collect();
    assert!(begin.len() > 10);
    assert_eq!(begin, short.iter().take_while(|line| before(line)).collect::<Vec<_>>());
}

fn seeds(usual: u64) -> u64 {
    let given = std::env::var("HOLDFAST_SEEDS").ok();
    given.map_or(usual, |text| text.parse().expect("a whole number"))
}

fn check(profile: Profile, seeds: impl Iterator<Item = u64>) {
    for seed in seeds {
        let plan = Plan::new(seed, profile);
        if run(&plan, false).violation.is_some() {
            let (smaller, _) = minimise(&plan);
            panic!(
                "seed {seed} of {profile}. Smaller:\n{}cargo xtask sim {smaller}",
                report(&smaller)
            );
        }
    }
}
