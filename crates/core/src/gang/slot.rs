//! The groups of a workload: which pods make one, and whether they can wait for each other.

use super::name::name;
use super::{JobSize, NewGroup, NewWorkload, Owner, OwnerSpec, Placement, Pod, Policy, Template};
use crate::model::{ControllerRef, ObjectKey};

/// `PodGroup` templates of a Workload, by its API.
const TEMPLATES_MAX: usize = 8;

/// One group of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slot<'a> {
    /// The true workload.
    pub(super) owner: &'a Owner,
    pub(super) name: String,
    pub(super) template: String,
    pub(super) min_count: i64,
    /// Why its pods can never wait for each other.
    pub(super) impossible: Option<Impossible>,
    /// Sets apart groups of one slot that come one after the other.
    incarnation: &'a str,
}

/// Not a gang, because of this field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Impossible {
    pub(super) field: String,
    why: &'static str,
    /// The value that would do; None if the field has to go.
    instead: Option<&'static str>,
}

impl Impossible {
    pub(super) fn message(&self, owner: &Owner) -> String {
        let Self { field, why, instead } = self;
        let change = match instead {
            Some(value) => format!("set {field} to {value}"),
            None => format!("remove {field}"),
        };
        format!(
            "the pods of a group of {} {} are not started together, because {why}; {change} to change that \
             (budgets count its groups all the same)",
            owner.group_kind.kind, owner.key.name
        )
    }
}

impl Slot<'_> {
    pub(super) fn policy(&self) -> Policy {
        match self.impossible {
            None => Policy::Gang { min_count: self.min_count },
            Some(_) => Policy::Basic,
        }
    }

    /// Its name without what makes it unlike others.
    pub(super) fn readable(&self) -> String {
        match self.owner.spec {
            OwnerSpec::Job(_) => self.owner.key.name.clone(),
            _ => format!("{}-{}", self.owner.key.name, self.name),
        }
    }

    pub(super) fn group_name(&self) -> String {
        let Owner { group_kind, uid, .. } = self.owner;
        name(&self.readable(), &[&group_kind.kind, uid, &self.name, self.incarnation])
    }

    pub(super) fn new_group(&self, pod: &Pod) -> NewGroup {
        let owner = self.owner;
        let templates = templates(owner, self);
        let template = templates.iter().find(|template| template.name == self.template);
        NewGroup {
            key: ObjectKey::new(&*owner.key.namespace, self.group_name()),
            owner: ControllerRef {
                group_kind: owner.group_kind.clone(),
                version: owner.api_version.clone(),
                name: owner.key.name.clone(),
                uid: owner.uid.clone(),
            },
            slot: self.name.clone(),
            template: template.map(|template| template.name.clone()),
            workload: NewWorkload {
                name: name(&owner.key.name, &[&owner.group_kind.kind, &owner.uid]),
                templates,
            },
            policy: self.policy(),
            min_count: self.min_count,
            whole: takes_all(owner),
            priority: pod.priority.clone(),
        }
    }
}

/// Losing one pod of a group takes the others.
fn takes_all(owner: &Owner) -> bool {
    matches!(owner.spec, OwnerSpec::LeaderWorkerSet { keeps_group: false, .. })
}

fn templates(owner: &Owner, slot: &Slot<'_>) -> Vec<Template> {
    let whole = takes_all(owner);
    let policy = |min_count, impossible: bool| {
        if impossible { Policy::Basic } else { Policy::Gang { min_count } }
    };
    match &owner.spec {
        OwnerSpec::JobSet { exclusive, jobs } => jobs
            .iter()
            .take(TEMPLATES_MAX)
            .map(|job| Template {
                name: job.name.clone(),
                policy: policy(gang_of_job(job.size), *exclusive || job.depends),
                whole,
            })
            .collect(),
        OwnerSpec::StatefulSet { group_size: Some(size), .. } => {
            let policy = policy(*size, slot.impossible.is_some());
            vec![Template { name: slot.template.clone(), policy, whole }]
        }
        _ => vec![Template { name: slot.template.clone(), policy: slot.policy(), whole }],
    }
}

pub(super) fn lws_slot<'a>(
    owner: &'a Owner,
    index: i64,
    of_pod: Option<i64>,
    token: &'a str,
) -> Slot<'a> {
    let OwnerSpec::LeaderWorkerSet { size, leader_ready, exclusive, .. } = owner.spec else {
        // Not decoded as one: a group of one pod harms nobody.
        return slot(owner, index.to_string(), "replica", 1, None, token);
    };
    let min_count = of_pod.unwrap_or(size).max(1);
    let impossible = if min_count == 1 {
        None
    } else if leader_ready {
        Some(Impossible {
            field: "spec.startupPolicy".to_owned(),
            why: "with startupPolicy LeaderReady workers are not created before their leader is ready",
            instead: Some("LeaderCreated"),
        })
    } else if exclusive {
        Some(Impossible {
            field: "metadata.annotations[leaderworkerset.sigs.k8s.io/exclusive-topology]"
                .to_owned(),
            why: "with exclusive topology workers are not created before their leader has a node",
            instead: None,
        })
    } else {
        None
    };
    slot(owner, index.to_string(), "replica", min_count, impossible, token)
}

pub(super) fn stateful_set_slot<'a>(owner: &'a Owner, pod: &Pod) -> Result<Slot<'a>, Placement> {
    let OwnerSpec::StatefulSet { start, group_size: Some(size), .. } = owner.spec else {
        return Err(Placement::Alone("its StatefulSet does not say how large a group is"));
    };
    let ordinal =
        pod.key.name.rsplit_once('-').and_then(|(_, ordinal)| ordinal.parse::<i64>().ok());
    let Some(ordinal) = ordinal.filter(|ordinal| *ordinal >= start) else {
        return Err(Placement::Alone("its name has no ordinal"));
    };
    Ok(of_stateful_set(owner, (ordinal - start) / size, size))
}

pub(super) fn of_stateful_set(owner: &Owner, index: i64, size: i64) -> Slot<'_> {
    let (replicas, ordered) = match owner.spec {
        OwnerSpec::StatefulSet { replicas, ordered, .. } => (replicas, ordered),
        _ => (0, false),
    };
    // The last group may be smaller. One that is on its way out is as large as it was.
    let rest = replicas.saturating_sub(index.saturating_mul(size));
    let min_count = if rest >= 1 { rest.min(size) } else { size };
    let impossible = (ordered && min_count > 1).then(|| Impossible {
        field: "spec.podManagementPolicy".to_owned(),
        why: "with podManagementPolicy OrderedReady a pod is not created before the last one is ready",
        instead: Some("Parallel"),
    });
    slot(owner, index.to_string(), "group", min_count, impossible, "")
}

pub(super) fn job_slot(owner: &Owner) -> Result<Slot<'_>, Placement> {
    let OwnerSpec::Job(size) = owner.spec else {
        return Err(Placement::Alone("its controller is no Job after all"));
    };
    Ok(slot(owner, "job".to_owned(), "job", gang_of_job(size), None, ""))
}

/// `job` is one of its child Jobs.
pub(super) fn job_set_slot<'a>(owner: &'a Owner, job: &'a Owner) -> Result<Slot<'a>, Placement> {
    let (OwnerSpec::JobSet { exclusive, jobs }, OwnerSpec::Job(size)) = (&owner.spec, &job.spec)
    else {
        return Err(Placement::Alone("its controllers are no JobSet and Job after all"));
    };
    let prefix = format!("{}-", owner.key.name);
    let name = job.key.name.strip_prefix(&prefix).unwrap_or_default();
    let of = name.rsplit_once('-').filter(|(_, index)| index.parse::<u32>().is_ok());
    let replicated = of.and_then(|(of, _)| jobs.iter().position(|job| job.name == of));
    let Some(at) = replicated else {
        return Err(Placement::Alone("its Job is none that the JobSet makes"));
    };
    let min_count = gang_of_job(*size);
    let impossible = if min_count == 1 {
        None
    } else if *exclusive {
        Some(Impossible {
            field: "metadata.annotations[alpha.jobset.sigs.k8s.io/exclusive-topology]".to_owned(),
            why: "with exclusive placement the other pods are not created before the first has a node",
            instead: None,
        })
    } else if jobs[at].depends {
        Some(Impossible {
            field: format!("spec.replicatedJobs[{at}].dependsOn"),
            why: "its Jobs are not created before others have got on",
            instead: None,
        })
    } else {
        None
    };
    Ok(slot(owner, name.to_owned(), &jobs[at].name, min_count, impossible, &job.uid))
}

fn slot<'a>(
    owner: &'a Owner,
    name: String,
    template: &str,
    min_count: i64,
    impossible: Option<Impossible>,
    incarnation: &'a str,
) -> Slot<'a> {
    Slot { owner, name, template: template.to_owned(), min_count, impossible, incarnation }
}

/// As many pods as there are at a time. What has succeeded is not made again, and is not waited for.
fn gang_of_job(JobSize { parallelism, completions, succeeded }: JobSize) -> i64 {
    let left = completions.map(|completions| completions.saturating_sub(succeeded));
    left.map_or(parallelism, |left| left.min(parallelism)).max(1)
}
