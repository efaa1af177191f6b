//! What makes the pods of a world.
//!
//! | `Owners` | of `h0` and `h1` each | of each group |
//! |---|---|---|
//! | `Sets` | a `StatefulSet` or `ReplicaSet` | |
//! | `SizedSets` | a `StatefulSet` with a group size | |
//! | `GroupSets` | | a `StatefulSet` |
//! | `Jobs` | | a Job |
//! | `JobSets` | a `JobSet` | a Job of the `JobSet` |

use holdfast_core::model::{GroupKind, Owner};

use super::params::{Owners, Params};
use super::workloads::{GROUP_LABEL, LWS, half};
use crate::builders::{OwnerBuilder, PodBuilder, owner};

impl Params {
    /// The owners of the pods of `h0` or `h1`. An owner comes before those that it owns.
    pub(super) fn owners_of(&self, part: usize) -> Vec<OwnerBuilder> {
        let groups = || (0..self.groups).filter(|g| g % 2 == part);
        let each = groups().map(|g| self.owner_of_group(g, self.size));
        match self.owners {
            Owners::Sets | Owners::SizedSets => {
                vec![self.set(half(part), groups().count() * self.size)]
            }
            Owners::GroupSets | Owners::Jobs => each.collect(),
            Owners::JobSets => {
                let made = owner(Owner::JOBSET_GROUP, "JobSet", half(part));
                // Otherwise their namespace asks for groups.
                let made = if self.same_name { made.grouped() } else { made };
                let made = self.templated(made.replicas(number(groups().count())), half(part));
                [made].into_iter().chain(each).collect()
            }
        }
    }

    /// The `StatefulSet` or `ReplicaSet` of `h0` or `h1`.
    pub(super) fn set(&self, part: &str, replicas: usize) -> OwnerBuilder {
        let made = owner("apps", &self.set_kind().kind, part).replicas(number(replicas));
        match self.owners {
            Owners::SizedSets => self.templated(made.group_size(number(self.size)), part),
            _ if self.same_name => self.templated(made, part),
            _ => made,
        }
    }

    /// The `StatefulSet` or Job of a group.
    pub(super) fn owner_of_group(&self, g: usize, pods: usize) -> OwnerBuilder {
        let name = format!("g{g}");
        let kind = self.kind();
        let made = owner(&kind.group, &kind.kind, &*name);
        let made = match self.owners {
            Owners::GroupSets => made.replicas(number(pods)),
            Owners::JobSets => made.owned_by(Owner::JOBSET_GROUP, "JobSet", half(g)),
            _ => made,
        };
        if !self.templates {
            return made;
        }
        self.templated(made, half(g)).template_label(GROUP_LABEL, &name).template_group(&name)
    }

    pub(super) fn leader_worker_set(&self, replicas: usize) -> OwnerBuilder {
        let made = owner(Owner::LWS_GROUP, "LeaderWorkerSet", LWS).replicas(number(replicas));
        if !self.templates {
            return made;
        }
        self.templated(made, LWS).template_label("leaderworkerset.sigs.k8s.io/name", LWS)
    }

    /// A pod of a group of `h0` or `h1`.
    pub(super) fn owned(&self, pod: PodBuilder, g: usize) -> PodBuilder {
        let name = match self.owners {
            Owners::Sets | Owners::SizedSets => half(g).to_owned(),
            Owners::GroupSets | Owners::Jobs | Owners::JobSets => format!("g{g}"),
        };
        let kind = self.kind();
        pod.owned_by(&kind.group, &kind.kind, &name)
    }

    /// The kind of the owner that a pod of `h0` or `h1` names.
    fn kind(&self) -> GroupKind {
        match self.owners {
            Owners::Sets | Owners::SizedSets | Owners::GroupSets => self.set_kind(),
            Owners::Jobs | Owners::JobSets => GroupKind::new("batch", "Job"),
        }
    }

    fn set_kind(&self) -> GroupKind {
        GroupKind::new("apps", if self.same_name { "StatefulSet" } else { "ReplicaSet" })
    }

    /// With a pod template, if the world has them. The labels are those of the workload's pods.
    fn templated(&self, made: OwnerBuilder, part: &str) -> OwnerBuilder {
        if !self.templates {
            return made;
        }
        made.template_label("app", "a").template_label("part", part)
    }
}

fn number(n: usize) -> i64 {
    i64::try_from(n).expect("small")
}
