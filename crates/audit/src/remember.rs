//! What the auditor remembers of grants, and when it forgets that.

use std::collections::BTreeSet;

use crate::auditor::Auditor;
use crate::count::{count, members};
use crate::expected::{self, Source, sources};
use crate::memory::{Memory, Recorded, Refill, Size};
use crate::objects::{Budget, BudgetKey, Grant, Name, Operation, Pod, Scope};
use crate::replica::{self, Replica};
use crate::state::State;

impl Auditor {
    /// What the grant leaves behind when its pod is gone. `recorded`: as far as the write that records the grant records
    /// it.
    pub(crate) fn keep(&mut self, budget: &Budget, grant: &Grant, recorded: bool) {
        let name = Name::new(&budget.key.key.namespace, &grant.pod);
        let pod = self.state.pods.get(&name).filter(|pod| pod.uid == grant.uid).cloned();
        if let Some(pod) = &pod {
            self.keep_size(budget, pod, recorded);
        }
        // The pod may have been gone when the grant was recorded.
        let pod = pod.or_else(|| self.gone.get(&grant.uid).cloned());
        let pod = pod.filter(|pod| grant.operation != Operation::Change && budget.covers(pod));
        let Some(pod) = pod else { return };
        let Some(replica) = replica::named(&pod) else { return };
        for source in sources(&self.state, &replica, &[&pod]) {
            self.memory.keep_source(&budget.key, source, (&pod, recorded));
        }
    }

    /// A grant for a pod of a group that is disrupted as a whole records the group's size.
    fn keep_size(&mut self, budget: &Budget, pod: &Pod, recorded: bool) {
        let Some((replica, size)) = group_size(&self.state, pod) else { return };
        let before = self.state.budgets.get(&budget.key).map(|before| &before.status.grants[..]);
        let recorded = (before.unwrap_or_default(), recorded);
        self.memory.keep_size(self.now, (budget.key.clone(), replica), size, recorded);
    }

    /// The writer that recorded these grants had been told this: it may have recorded other sizes and sources than the
    /// stored objects show, and the pods may be gone by now.
    pub fn learn(&mut self, budget: &Budget, grants: &[Grant], known: &State) {
        let namespace = &budget.key.key.namespace;
        for grant in grants.iter().filter(|_| budget.scope == Scope::Replica) {
            let pod = known.pods.get(&Name::new(namespace, &grant.pod));
            let Some(pod) = pod.filter(|pod| pod.uid == grant.uid) else { continue };
            if let Some((replica, size)) = group_size(known, pod) {
                self.memory.learn_size(self.now, (budget.key.clone(), replica), size);
            }
            let replica = replica::named(pod).filter(|_| grant.operation != Operation::Change);
            for source in replica.iter().flat_map(|replica| sources(known, replica, &[pod])) {
                self.memory.learn_source(&budget.key, source, pod);
            }
        }
    }

    /// The stored objects have changed.
    pub(crate) fn review_memory(&mut self) {
        if self.memory.is_empty() {
            return;
        }
        let mut memory = std::mem::take(&mut self.memory);
        memory.drop_sizes(|budget, replica, size| self.look_at_size(budget, replica, size));
        memory.doubt_sources(|budget, source| self.is_doubtful(budget, source));
        self.memory = memory;
    }

    /// Sizes end when the group has as many pods again, or as many as its only controller wants, not counting those that
    /// grants took or may take.
    fn look_at_size(&self, budget: &BudgetKey, replica: &Replica, size: &Size) -> Refill {
        let stays = |pod: &&Pod| {
            !pod.is_finished()
                && !pod.terminating
                && !self.is_taken(pod)
                && !self.is_granted(pod, &|_| true)
        };
        let pods = replica::of_replica(&self.state, &budget.key.namespace, replica).filter(stays);
        let mut owners = self.state.owners.values();
        let owner = size.controller().and_then(|uid| owners.find(|owner| owner.uid == uid));
        let grants = self.state.budgets.get(budget).into_iter().flat_map(|b| &b.status.grants);
        Refill {
            pods: i64::try_from(pods.count()).unwrap_or(i64::MAX),
            wanted: owner.and_then(|owner| owner.replicas),
            granted: grants.into_iter().any(|grant| size.is_of(&grant.uid)),
        }
    }

    /// Whether an operation was executed that ends the pod.
    fn is_taken(&self, pod: &Pod) -> bool {
        self.losses.get(&pod.uid).is_some_and(|loss| loss.generation.is_none())
    }

    /// Whether some instance may have seen the source with a healthy replica, or gone: then its next write may end the
    /// record (semantics 4.3).
    fn is_doubtful(&self, key: &BudgetKey, source: &Source) -> bool {
        let Some(budget) = self.state.budgets.get(key) else { return false };
        let counted = count(budget, &self.state, &Memory::default(), &|pod| self.is_taken(pod));
        let members = members(budget, &self.state);
        let is_healthy =
            |replica: &Replica| counted.replicas.get(replica).is_some_and(|r| r.healthy);
        let is_back = members.iter().any(|(replica, pods)| {
            is_healthy(replica) && sources(&self.state, replica, pods).contains(source)
        });
        is_back || !expected::stands(budget, &self.state, source)
    }
}

/// The size of the pod's group, if that is disrupted as a whole.
fn group_size(state: &State, pod: &Pod) -> Option<(Replica, Recorded)> {
    let replica = replica::named(pod)?;
    let namespace = &pod.key.namespace;
    replica::group(state, namespace, &replica).filter(|group| group.whole)?;
    let pods: Vec<&Pod> = replica::of_replica(state, namespace, &replica).collect();
    let live = pods.iter().filter(|pod| !pod.is_finished() && !pod.terminating).count();
    let uids: BTreeSet<Option<&str>> =
        pods.iter().map(|pod| pod.controller.as_ref().map(|c| c.uid.as_str())).collect();
    let controller = uids.first().filter(|_| uids.len() == 1).copied().flatten();
    let size = Recorded {
        uid: pod.uid.clone(),
        pods: i64::try_from(live).unwrap_or(i64::MAX),
        controller: controller.map(str::to_owned),
    };
    Some((replica, size))
}
