//! `TestStalePodDisruption` (upstream 1.8): a mark that no deletion followed is cleared after two
//! minutes.

use std::time::Duration;

use holdfast_core::Config;
use holdfast_core::model::{DisruptionTarget, Phase, Pod};

use super::lone::{Lone, START, pod};

fn marked(reason: &str) -> Pod {
    let disruption_target = Some(DisruptionTarget { reason: reason.to_owned(), since: START });
    Pod { disruption_target, ..pod("foo") }
}

fn cleared_after(pod: Pod, clear: bool, passed: Duration) -> Vec<String> {
    let config = Config { clear_stale_disruption_targets: clear, ..Config::default() };
    let mut lone = Lone::with(config);
    lone.pod(pod);
    lone.advance(passed.checked_sub(Duration::from_secs(2)).expect("pod() settles"));
    lone.cleared
}

#[test]
fn test_stale_pod_disruption() {
    let (before, after) = (Duration::from_secs(119), Duration::from_secs(121));
    let evicted = marked(DisruptionTarget::EVICTION_API);
    let preempted = marked("PreemptionByScheduler");
    for (name, pod, passed, is_cleared) in [
        ("stale pod disruption", evicted.clone(), after, true),
        ("pod disruption in progress", evicted.clone(), before, false),
        ("pod disruption actuated", Pod { terminating: true, ..evicted.clone() }, after, false),
        ("no pod disruption", pod("foo"), after, false),
        ("any reason", preempted, after, true),
        ("pending too", Pod { phase: Phase::Pending, ..evicted.clone() }, after, true),
        ("by the kubelet", marked(DisruptionTarget::KUBELET), after, false),
        ("succeeded", Pod { phase: Phase::Succeeded, ..evicted.clone() }, after, false),
        ("failed", Pod { phase: Phase::Failed, ..evicted.clone() }, after, false),
    ] {
        let expected = if is_cleared { vec!["foo".to_owned()] } else { vec![] };
        assert_eq!(cleared_after(pod, true, passed), expected, "{name}");
    }
    assert!(cleared_after(evicted, false, after).is_empty(), "while upstream's controller does it");
}

/// A pod that is first seen with an old mark.
#[test]
fn already_stale_when_first_seen() {
    let config = Config { clear_stale_disruption_targets: true, ..Config::default() };
    let mut lone = Lone::with(config);
    lone.advance(Duration::from_secs(121));
    lone.pod(marked(DisruptionTarget::EVICTION_API));
    assert_eq!(lone.cleared, ["foo"]);
}

/// Rechecked when it is due: in between, the pod may have gone, or the mark.
#[test]
fn not_stale_any_more_when_due() {
    let config = Config { clear_stale_disruption_targets: true, ..Config::default() };
    for change in [
        |pod: &mut Pod| pod.terminating = true,
        |pod: &mut Pod| pod.disruption_target = None,
        |pod: &mut Pod| pod.phase = Phase::Failed,
    ] {
        let mut lone = Lone::with(config.clone());
        lone.pod(marked(DisruptionTarget::EVICTION_API));
        lone.advance(Duration::from_mins(1));
        lone.change_pod("foo", change);
        lone.advance(Duration::from_mins(2));
        assert!(lone.cleared.is_empty());
    }
}
