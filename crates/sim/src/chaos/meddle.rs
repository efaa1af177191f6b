//! What nobody asked us about.

use holdfast_core::model::{BudgetKind, GroupApi, LabelSelector, ObjectKey, Scope, Threshold};

use super::fault::Fault;
use super::params::{Owners, Params};
use super::run::Run;
use super::workloads::{LWS, budget_key, half, millis, pod_group};

impl Run {
    pub fn meddle(&mut self, fault: Fault) {
        let done = match fault {
            Fault::NodeDeath => Some(self.kill_or_revive_node()),
            Fault::PodDeleted | Fault::Flap | Fault::Stuck => self.meddle_with_pod(fault),
            Fault::Scaled => self.scale(),
            Fault::MinCount => self.change_min_count(),
            Fault::GroupDeleted => self.delete_or_recreate_group(),
            _ => self.meddle_with_budget(fault),
        };
        if let Some(what) = done {
            self.count(fault);
            self.log(|| what);
        }
    }

    /// The node of a drain, if there is one. Later it comes back, or is removed with its pods.
    fn kill_or_revive_node(&mut self) -> String {
        let back = self.random.chance(50);
        let any = format!("n{}", self.random.below(self.params.nodes));
        if let Some(node) = self.dead_nodes.pop_first() {
            if back {
                self.world.revive_node(&node);
                return format!("{node} is back");
            }
            for pod in self.world.pods_on(&node) {
                self.world.delete_pod(&pod);
            }
            self.world.revive_node(&node);
            return format!("the pods of {node} are removed");
        }
        let node = self.drains.first().cloned().unwrap_or(any);
        self.world.fail_node(&node);
        self.dead_nodes.insert(node.clone());
        format!("{node} dies")
    }

    fn meddle_with_pod(&mut self, fault: Fault) -> Option<String> {
        let pods = self.pod_keys();
        let pod: ObjectKey = self.random.pick(&pods)?.clone();
        let (forced, ms) = (self.random.chance(50), self.random.between(100, 60_000));
        match fault {
            Fault::Flap => {
                self.world.flap(&pod, millis(ms));
                Some(format!("{} is not ready", pod.name))
            }
            Fault::Stuck if forced && !self.stuck.is_empty() => {
                let pod = self.stuck.pop_first()?;
                self.world.unstick(&pod);
                Some(format!("{} is let go", pod.name))
            }
            Fault::Stuck => {
                self.world.stick(&pod);
                self.stuck.insert(pod.clone());
                Some(format!("{} is held by a finalizer", pod.name))
            }
            _ if forced => {
                self.world.delete_pod(&pod);
                Some(format!("{} is deleted by force", pod.name))
            }
            _ => {
                self.world.request_delete(&pod);
                Some(format!("{} is deleted", pod.name))
            }
        }
    }

    fn scale(&mut self) -> Option<String> {
        let Params { groups, lws_groups, size, owners, .. } = self.params;
        let of_lws = self.random.chance(30);
        let part = self.random.below(2);
        let of_group = owners == Owners::GroupSets;
        let most = match (of_lws, of_group) {
            (true, _) => lws_groups + 1,
            (false, true) => size,
            (false, false) => groups * size,
        };
        let replicas = 1 + self.random.below(most.max(1));
        let made = match owners {
            _ if of_lws => self.params.leader_worker_set(replicas),
            Owners::Sets | Owners::SizedSets => self.params.set(half(part), replicas),
            Owners::GroupSets if part < groups => self.params.owner_of_group(part, replicas),
            // The scale of a Job does not count, and that of a JobSet does not change.
            Owners::GroupSets | Owners::Jobs | Owners::JobSets => return None,
        };
        let scaled = self.world.apply_owner(made);
        Some(format!("{} is scaled to {replicas}", scaled.name))
    }

    fn change_min_count(&mut self) -> Option<String> {
        let Params { groups, size, .. } = self.params;
        let index = if groups == 0 { return None } else { self.random.below(groups) };
        let min = self.random.between(1, i64::try_from(size).ok()?);
        let exists = self.group_exists(index);
        exists.then(|| {
            self.world.apply_pod_group(pod_group(&self.params, index, min));
            format!("g{index} needs {min}")
        })
    }

    fn delete_or_recreate_group(&mut self) -> Option<String> {
        let Params { groups, min_count, .. } = self.params;
        if let Some(index) = (0..groups).find(|index| !self.group_exists(*index)) {
            self.world.apply_pod_group(pod_group(&self.params, index, min_count));
            return Some(format!("g{index} is created again"));
        }
        let index = if groups == 0 { return None } else { self.random.below(groups) };
        self.world.delete_pod_group(GroupApi::Kubernetes, &format!("g{index}"));
        Some(format!("g{index} is deleted"))
    }

    fn group_exists(&self, index: usize) -> bool {
        let name = format!("g{index}");
        self.world.truth.pod_groups.keys().any(|(_, key)| key.name == name)
    }

    pub fn recreate_groups(&mut self) {
        for index in 0..self.params.groups {
            if !self.group_exists(index) {
                self.world.apply_pod_group(pod_group(&self.params, index, self.params.min_count));
            }
        }
    }

    fn meddle_with_budget(&mut self, fault: Fault) -> Option<String> {
        let key = budget_key(self.params.profile, self.random.below(3));
        let name = key.object.name.clone();
        let exists = self.world.budget(&key).is_some();
        let min = self.random.between(0, 3);
        let parts = ["h0", "h1", LWS, ""];
        let part = parts[self.random.below(parts.len())];
        let made = self.draw_budget(&key);
        // Only a number: what is expected of the pods that it selects now nobody may be able to say.
        let threshold = Some(Threshold::Count(min));
        match fault {
            Fault::BudgetCreated if !exists => {
                self.world.apply_budget(made);
                return Some(format!("{name} is created"));
            }
            _ if !exists => return None,
            Fault::Threshold => self.world.edit_budget(&key, |spec| {
                (spec.max_unavailable, spec.min_available) = (None, threshold);
            }),
            Fault::Selector => self.world.edit_budget(&key, |spec| {
                (spec.max_unavailable, spec.min_available) = (None, threshold);
                let mut selector = LabelSelector::default();
                let (label, value) = if part.is_empty() { ("app", "a") } else { ("part", part) };
                selector.match_labels.insert(label.to_owned(), value.to_owned());
                spec.selector = Some(selector);
            }),
            Fault::Scope if key.kind == BudgetKind::PodUnavailableBudget => return None,
            Fault::Scope => self.world.edit_budget(&key, |spec| {
                (spec.max_unavailable, spec.min_available) = (None, threshold);
                spec.scope = match spec.scope {
                    Scope::Pod => Scope::Workload,
                    Scope::Workload => Scope::Pod,
                };
            }),
            Fault::BudgetDeleted => self.world.delete_budget(&key),
            Fault::BudgetRecreated => {
                let spec = self.world.budget(&key)?.spec.clone();
                self.world.delete_budget(&key);
                self.world.apply_budget(crate::budget(&key).spec(|new| *new = spec));
            }
            _ => return None,
        }
        Some(format!("{name}: {}", fault.what()))
    }
}
