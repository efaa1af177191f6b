//! Incremental equals recomputed.

use std::collections::BTreeMap;
use std::sync::Arc;

use litemap::LiteMap;

use super::Namespace;
use super::replacements::sizes;
use super::units::{Step, contribute};
use crate::replicas::{Member, ReplicaKey, resolve};
use crate::tally::Tally;

impl Namespace {
    /// Recompute every counter from the pods and panic where it differs from the one kept.
    pub(crate) fn verify(&self) {
        let mut members: BTreeMap<Arc<ReplicaKey>, LiteMap<Arc<Member>, u32>> = BTreeMap::new();
        for entry in self.cache.pods() {
            let granted = self.grants.count(&entry.name, &entry.pod.uid.to_string());
            assert_eq!(entry.granted, granted, "grants of pod {}", entry.name);
            assert_eq!(entry.budgets, self.covering_kept(entry), "budgets of pod {}", entry.name);
            if let Some(key) = &entry.replica {
                let member = entry.pod.member.clone();
                let member = member.expect("a pod that names a replica is a member of it");
                *members.entry(key.clone()).or_default().entry(member).or_insert(0) += 1;
            }
        }
        let kept: BTreeMap<_, _> =
            self.replicas.iter().map(|(key, r)| (key.clone(), r.members().clone())).collect();
        assert_eq!(kept, members, "members of replicas in {}", self.name);
        for (key, replica) in self.replicas.iter() {
            let (resolution, _) = resolve(&self.cache.objects, key, replica.members());
            assert_eq!(**replica.resolution(), resolution, "resolution of {key}");
        }
        for (id, budget) in &self.budgets {
            let mut tally = Tally::default();
            for entry in self.cache.pods().filter(|e| e.budgets.contains(id)) {
                let replica = entry.replica.as_ref().and_then(|key| self.replicas.get(key));
                let known = self.cache.known();
                let pod = (entry, replica);
                contribute(known, pod, (budget.rule(), &mut tally), Step::PutIn);
            }
            tally.set_sizes(sizes(budget), &budget.object.spec.basic_min_count);
            assert_eq!(budget.tally, tally, "counters of budget {id}");
            assert_eq!(budget.owners, self.find_owners(budget), "owners that {id} expects");
        }
    }
}
