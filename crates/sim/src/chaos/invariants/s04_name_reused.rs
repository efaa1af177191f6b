//! A grant passes to another pod of the same name only when its own is gone (semantics 5). That it
//! does not end with its own pod, unless an eviction took that, is S2.
//!
//! An instance that has seen all that the record rests on has seen the record's pod, unless that was
//! coalesced into an event which is still to come. Then it may write the grant back to the pod that, as far as
//! it was told, has the name; of the other it does not know, so it counts nothing wrong.

use holdfast_core::invariant::Invariant;
use holdfast_core::model::ObjectKey;

use crate::audited;
use crate::chaos::fault::Fault;
use crate::chaos::run::Run;
use crate::world::Written;

pub fn after_write(run: &mut Run, Written { before, after, by, view }: &Written) {
    for old in &before.status.grants {
        let same = after.status.grants.iter().find(|g| g.eviction == old.eviction);
        let Some(new) = same.filter(|new| new.uid != old.uid && !old.uid.is_empty()) else {
            continue;
        };
        run.checked(Invariant::S4);
        let key = ObjectKey::new(after.key.object.namespace.clone(), old.pod.clone());
        let told = view.state.pods.get(&audited::name(&key)).is_some_and(|pod| pod.uid == new.uid);
        if told && run.faults.contains_key(&Fault::Coalesce) {
            continue;
        }
        let lives = run.world.pod(&key).is_some_and(|pod| pod.uid == old.uid);
        run.require(Invariant::S4, new.pod == old.pod && !lives, || {
            format!(
                "instance {by} passed the grant for {} {} on to {} {} while that was there",
                old.pod, old.uid, new.pod, new.uid
            )
        });
    }
}
