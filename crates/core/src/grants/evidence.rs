//! What a pod shows of a granted disruption (semantics 5 and 9).

use crate::cache::CachedPod;
use crate::model::{Grant, Operation};

/// Returns whether the pod shows that an eviction has taken it.
pub(super) fn shows_eviction(pod: &CachedPod, grant: &Grant) -> bool {
    grant.ends_by_evidence() && pod.terminating && pod.is_targeted()
}

/// Returns whether the grant's own pod shows that a granted delete, update or resize has happened to it.
pub(super) fn shows_other_operation(pod: &CachedPod, grant: &Grant) -> bool {
    match grant.operation {
        Operation::Evict => false,
        Operation::Delete => pod.terminating,
        // The pod's label says that it is unavailable, or all of the new spec is in effect.
        Operation::Update | Operation::Resize => {
            let stored = grant.generation > 0 && i64::from(pod.generation) >= grant.generation;
            let available = pod.ready && pod.facts.settled() && pod.facts.applied();
            pod.terminating
                || (grant.generation == 0 && !pod.facts.settled())
                || (stored && (available || planted!(UpdateIsOver)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grants::testing::{grant, pod};
    use crate::model::{DisruptionTarget, Pod, Timestamp};

    fn kept(pod: Pod) -> CachedPod {
        CachedPod::new(pod, "u".into(), None, None)
    }

    #[test]
    fn an_eviction_shows_by_its_condition_on_a_terminating_pod() {
        let target = |reason: &str| {
            Some(DisruptionTarget { reason: reason.to_owned(), since: Timestamp::default() })
        };
        for (terminating, disruption_target, shown) in [
            (true, target(DisruptionTarget::EVICTION_API), true),
            (false, target(DisruptionTarget::EVICTION_API), false),
            (true, target("PreemptionByScheduler"), false),
            (true, None, false),
        ] {
            let pod = Pod { terminating, disruption_target, ..pod("p", "u") };
            assert_eq!(shows_eviction(&kept(pod.clone()), &grant("p", "u", "e")), shown, "{pod:?}");
        }
    }

    #[test]
    fn other_operations_show_when_their_effect_is_complete() {
        let sound = pod("p", "u");
        let changed = Pod { generation: 3, ..sound.clone() };
        let delete = |pod: &Pod| (Operation::Delete, 0, pod.clone());
        let update = |generation, pod: &Pod| (Operation::Update, generation, pod.clone());
        for ((operation, generation, pod), shown) in [
            (delete(&sound), false),
            (delete(&Pod { terminating: true, ..sound.clone() }), true),
            ((Operation::Evict, 0, Pod { terminating: true, ..sound.clone() }), false),
            (update(3, &sound), false),
            (update(3, &changed), true),
            (update(4, &changed), false),
            (update(3, &Pod { ready: false, ..changed.clone() }), false),
            (update(3, &Pod { applied: false, ..changed.clone() }), false),
            (update(3, &Pod { settled: false, ..changed.clone() }), false),
            // Without a generation the update only adds a label.
            (update(0, &sound), false),
            (update(0, &Pod { settled: false, ..sound.clone() }), true),
            (update(3, &Pod { terminating: true, ..sound.clone() }), true),
        ] {
            let grant = Grant { operation, generation, ..grant("p", "u", "e") };
            assert_eq!(
                shows_other_operation(&kept(pod.clone()), &grant),
                shown,
                "{grant:?} {pod:?}"
            );
        }
    }
}
