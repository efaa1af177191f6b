//! Clients of the Eviction API.

use std::time::Duration;

use holdfast_core::model::{DisruptionTarget, ObjectKey, Operation, Pod};
use holdfast_core::verdict::Verdict;
use holdfast_core::{Eviction, Input};

use crate::instance::InstanceMut;
use crate::name::Name;
use crate::world::World;

/// One second less than the ten that an admission webhook may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(9);

impl World {
    /// Evict as a client does. If it is allowed, the API server marks the pod and deletes it.
    pub fn evict(&mut self, pod: impl Name) -> Verdict {
        let eviction = self.eviction(pod);
        let pod = eviction.pod.clone();
        let verdict = self.decide(eviction);
        if verdict.is_allow() {
            self.carry_out(&pod);
        }
        verdict
    }

    /// Evict all these pods in one moment, as `kubectl drain` does for the pods of a node: every
    /// request is there before the first is answered. Verdicts come in the order of the pods.
    pub fn evict_together(&mut self, pods: &[ObjectKey]) -> Vec<Verdict> {
        let mut ids = Vec::with_capacity(pods.len());
        for pod in pods {
            let eviction = self.eviction(pod);
            ids.push(eviction.id.clone());
            // No settling in between: the first call is answered only after the last request.
            self.feed(Input::Evict(eviction));
        }
        self.settle();
        let verdicts: Vec<Verdict> = ids.iter().map(|id| self.wait_for(id)).collect();
        for (pod, _) in pods.iter().zip(&verdicts).filter(|(_, verdict)| verdict.is_allow()) {
            self.carry_out(pod);
        }
        verdicts
    }

    /// Ask, and be allowed or not, but never delete: the API server fell over in between.
    pub fn evict_without_delete(&mut self, pod: impl Name) -> Verdict {
        let eviction = self.eviction(pod);
        self.decide(eviction)
    }

    /// A plain request for this pod, to be changed at will before it is decided.
    pub fn eviction(&mut self, pod: impl Name) -> Eviction {
        self.instance(0).eviction(pod)
    }

    /// Ask, and let time pass until the answer comes.
    pub fn decide(&mut self, eviction: Eviction) -> Verdict {
        let id = self.submit(eviction);
        self.wait_for(&id)
    }

    /// Ask, and do not wait: [`World::reply`] has the answer once there is one.
    pub fn submit(&mut self, eviction: Eviction) -> String {
        let id = eviction.id.clone();
        self.inject(Input::Evict(eviction));
        id
    }

    /// The answer to a submitted eviction, once.
    pub fn reply(&mut self, eviction: &str) -> Option<Verdict> {
        self.take_reply(eviction)
    }

    fn wait_for(&mut self, eviction: &str) -> Verdict {
        let end = self.now() + ANSWER_WITHIN;
        while !self.is_answered(eviction) {
            match self.next_due().filter(|due| *due <= end) {
                Some(due) => self.advance_to(due),
                None => panic!("{eviction} was not answered by its deadline"),
            }
        }
        self.take_reply(eviction).expect("it is answered")
    }

    /// What the API server does after an allowed eviction, each step a watch event of its own: the
    /// condition, the deletion timestamp, and, once the kubelet is done, the removal. Without a
    /// [`crate::Behaviour`] the kubelet is done at once.
    pub fn carry_out(&mut self, pod: impl Name) {
        let key = pod.object_key();
        self.begin_eviction(&key);
        if !self.cluster.is_alive() {
            self.delete_pod(&key);
        }
    }

    /// The API server's part of it: the condition, then the deletion timestamp.
    pub fn begin_eviction(&mut self, pod: impl Name) {
        let Some(pod) = self.truth.pods.get(&pod.object_key()).cloned() else { return };
        let target = DisruptionTarget {
            reason: DisruptionTarget::EVICTION_API.to_owned(),
            since: self.now().truncated(),
        };
        let marked = self.store(Pod { disruption_target: Some(target), ..pod });
        self.store(Pod { terminating: true, ..marked });
        self.settle();
    }
}

impl InstanceMut<'_> {
    /// A plain request for this pod, with a deadline on this instance's clock.
    pub fn eviction(&mut self, pod: impl Name) -> Eviction {
        Eviction {
            id: self.world.next_eviction_id(),
            pod: pod.object_key(),
            uid: None,
            requester: "test-client".to_owned(),
            dry_run: false,
            operation: Operation::Evict,
            object: None,
            generation: 0,
            exempt: false,
            by_name: false,
            deadline: self.now() + ANSWER_WITHIN,
        }
    }

    /// Ask this instance, and let time pass until the answer comes.
    pub fn decide(&mut self, pod: impl Name) -> Verdict {
        let eviction = self.eviction(pod);
        let id = self.submit(eviction);
        self.world.wait_for(&id)
    }
}
