//! Pods for the workloads that have none in the input, as their controllers would make them.
//!
//! A pod is made as JSON and decoded like any other, so that a template may say all that a pod may.

use std::collections::BTreeSet;

use holdfast_api::decode;
use holdfast_core::model::{ControllerRef, GroupKind, ObjectKey, Owner, OwnerPods};
use holdfast_sim::Random;
use serde_json::{Value, json};

use super::input::{Document, Place, Problem};
use super::objects::{GivenOwner, Objects, PlacedPod, forget_uid, in_words};
use super::scenario::count;
use super::{beyond, check, placement};

/// Adds pods, and the objects that stand between a workload and its pods.
pub fn make_pods(objects: &mut Objects) {
    let before = objects.pods.len();
    let mut maker = Maker {
        random: Random::new(1),
        pods: Vec::new(),
        owners: Vec::new(),
        problems: Vec::new(),
    };
    let owned = owners_with_dependents(objects);
    let (mut workloads, mut planned) = (0, 0_i64);
    for given in &objects.owners {
        let owner = &given.owner;
        let id = (owner.group_kind.clone(), owner.key.clone());
        if owned.contains(&id) {
            continue;
        }
        let made = maker.pods.len();
        // Before they are made: nobody waits for a million of them to learn of a typing error.
        planned = planned.saturating_add(check::pods_of(&given.document.value));
        if planned > check::PODS_MAX {
            let why = format!("makes more than {} pods in all", check::PODS_MAX);
            maker.problems.push(Problem::new(&given.document.place, "spec", why));
            break;
        }
        maker.make(given);
        workloads += usize::from(maker.pods.len() > made);
    }
    objects.pods.extend(maker.pods);
    objects.problems.extend(maker.problems);
    objects.owners.extend(maker.owners);
    let pods = objects.pods.len() - before;
    if pods > 0 {
        let (pods, workloads) = (count(pods, "pod"), count(workloads, "workload"));
        objects.notes.push(format!("made {pods} for {workloads} that had none in the input"));
    }
}

/// Workloads that something in the input belongs to: whoever dumped that dumped the pods too.
fn owners_with_dependents(objects: &Objects) -> BTreeSet<(GroupKind, ObjectKey)> {
    let of_pods = objects.pods.iter().filter_map(|placed| {
        let pod = &placed.pod;
        let controller = pod.controller.as_ref()?;
        let key = ObjectKey::new(pod.key.namespace.clone(), controller.name.clone());
        Some((controller.group_kind.clone(), key))
    });
    let of_lws = objects.pods.iter().filter_map(|placed| {
        let name = placed.pod.lws.as_ref()?.lws.clone();
        let key = ObjectKey::new(placed.pod.key.namespace.clone(), name);
        Some((GroupKind::new(Owner::LWS_GROUP, "LeaderWorkerSet"), key))
    });
    let of_owners = objects.owners.iter().filter_map(|given| {
        let controller = given.owner.controller.as_ref()?;
        let key = ObjectKey::new(given.owner.key.namespace.clone(), controller.name.clone());
        Some((controller.group_kind.clone(), key))
    });
    of_pods.chain(of_lws).chain(of_owners).collect()
}

struct Maker {
    random: Random,
    pods: Vec<PlacedPod>,
    owners: Vec<GivenOwner>,
    problems: Vec<Problem>,
}

/// Where a template stands, and who its pods belong to.
struct Template<'a> {
    value: &'a Value,
    place: &'a Place,
    at: &'static str,
    owner: &'a Owner,
}

impl Maker {
    fn make(&mut self, given: &GivenOwner) {
        let spec = &given.document.value["spec"];
        let owner = &given.owner;
        let name = owner.key.name.as_str();
        let template = |owner| Template {
            value: &spec["template"],
            place: &given.document.place,
            at: "spec.template",
            owner,
        };
        let replicas = owner.replicas.unwrap_or(1);
        match owner.group_kind.kind.as_str() {
            "Deployment" => {
                let name = format!("{name}-{}", self.random.letters(9));
                let set = self.own(given, "apps", "ReplicaSet", &name, replicas);
                self.several_random(&template(&set), replicas);
            }
            "ReplicaSet" | "ReplicationController" => {
                self.several_random(&template(owner), replicas);
            }
            "StatefulSet" => {
                for index in 0..replicas {
                    self.pod(&template(owner), &format!("{name}-{index}"), &json!({}), &json!({}));
                }
            }
            "Job"
                if spec["completions"] != 0
                    && given.document.value["status"]["completionTime"].is_null() =>
            {
                let parallelism = spec["parallelism"].as_i64().unwrap_or(1);
                for index in 0..parallelism {
                    let name = format!("{name}-{index}-{}", self.random.letters(5));
                    let labels = json!({"batch.kubernetes.io/job-name": owner.key.name});
                    self.pod(&template(owner), &name, &labels, &json!({}));
                }
            }
            "JobSet" => self.job_set(given),
            "LeaderWorkerSet" => self.lws(given),
            _ => {}
        }
    }

    fn job_set(&mut self, given: &GivenOwner) {
        let jobs = given.document.value["spec"]["replicatedJobs"].as_array();
        for job in jobs.into_iter().flatten() {
            let job_name = job["name"].as_str().unwrap_or_default();
            for index in 0..job["replicas"].as_i64().unwrap_or(1) {
                let name = format!("{}-{job_name}-{index}", given.owner.key.name);
                let child = self.own(given, "batch", "Job", &name, 0);
                let template = Template {
                    value: &job["template"]["spec"]["template"],
                    place: &given.document.place,
                    at: "spec.replicatedJobs.template.spec.template",
                    owner: &child,
                };
                let labels = json!({
                    "jobset.sigs.k8s.io/jobset-name": given.owner.key.name,
                    "jobset.sigs.k8s.io/replicatedjob-name": job_name,
                    "jobset.sigs.k8s.io/job-index": index.to_string(),
                });
                for pod in 0..job["template"]["spec"]["parallelism"].as_i64().unwrap_or(1) {
                    let name = format!("{name}-{pod}-{}", self.random.letters(5));
                    self.pod(&template, &name, &labels, &json!({}));
                }
            }
        }
    }

    /// One leader, which belongs to a `StatefulSet` of leaders, and its workers, which belong to one of
    /// their own.
    fn lws(&mut self, given: &GivenOwner) {
        let name = given.owner.key.name.as_str();
        let replicas = given.owner.replicas.unwrap_or(1);
        let templates = &given.document.value["spec"]["leaderWorkerTemplate"];
        let size = templates["size"].as_i64().unwrap_or(1);
        let has_leader = templates["leaderTemplate"].is_object();
        let leaders = self.own(given, "apps", "StatefulSet", name, replicas);
        for group in 0..replicas {
            let leader = format!("{name}-{group}");
            let workers = self.own(given, "apps", "StatefulSet", &leader, size - 1);
            for worker in 0..size {
                let own = if worker == 0 { &leaders } else { &workers };
                let is_leader = worker == 0 && has_leader;
                let template = Template {
                    value: &templates[if is_leader { "leaderTemplate" } else { "workerTemplate" }],
                    place: &given.document.place,
                    at: if is_leader {
                        "spec.leaderWorkerTemplate.leaderTemplate"
                    } else {
                        "spec.leaderWorkerTemplate.workerTemplate"
                    },
                    owner: own,
                };
                let pod = if worker == 0 { leader.clone() } else { format!("{leader}-{worker}") };
                let labels = json!({
                    "leaderworkerset.sigs.k8s.io/name": name,
                    "leaderworkerset.sigs.k8s.io/group-index": group.to_string(),
                    "leaderworkerset.sigs.k8s.io/group-key": format!("{}/{leader}", given.owner.key.namespace),
                    "leaderworkerset.sigs.k8s.io/worker-index": worker.to_string(),
                });
                let annotations = json!({"leaderworkerset.sigs.k8s.io/size": size.to_string()});
                if !self.pod(&template, &pod, &labels, &annotations) {
                    return;
                }
            }
        }
    }

    fn several_random(&mut self, template: &Template<'_>, count: i64) {
        for _ in 0..count {
            let name = format!("{}-{}", template.owner.key.name, self.random.letters(5));
            if !self.pod(template, &name, &json!({}), &json!({})) {
                return;
            }
        }
    }

    /// False if the template is of no use, which is then on record.
    fn pod(
        &mut self,
        template: &Template<'_>,
        name: &str,
        labels: &Value,
        annotations: &Value,
    ) -> bool {
        let Template { value, place, at, owner } = *template;
        if !value["spec"].is_object() {
            let problem = Problem::new(place, format!("{at}.spec"), "is missing");
            if self.problems.last() != Some(&problem) {
                self.problems.push(problem);
            }
            return false;
        }
        let mut metadata = json!({
            "name": name,
            "namespace": owner.key.namespace,
            "labels": value["metadata"]["labels"],
            "annotations": value["metadata"]["annotations"],
            "ownerReferences": [{
                "apiVersion": api_version(&owner.group_kind),
                "kind": owner.group_kind.kind,
                "name": owner.key.name,
                "controller": true,
            }],
        });
        extend(&mut metadata["labels"], labels);
        extend(&mut metadata["annotations"], annotations);
        let made = json!({"metadata": metadata, "spec": value["spec"]});
        match decode::pod(made.to_string().as_bytes()) {
            Ok(mut pod) => {
                forget_uid(&mut pod.controller);
                let at = format!("{at}.spec");
                let shape = placement::shape(&value["spec"], place, &at, &mut self.problems);
                let node = value["spec"]["nodeName"].as_str().map(str::to_owned);
                let constraints = beyond::constraints(&value["spec"]);
                self.pods.push(PlacedPod { pod, node, shape, has_status: false, constraints });
                true
            }
            Err(error) => {
                let (field, message) = in_words(error);
                self.problems.push(Problem::new(place, format!("{at}.{field}"), message));
                false
            }
        }
    }

    /// An object that a controller would make on the way to its pods.
    fn own(
        &mut self,
        by: &GivenOwner,
        group: &str,
        kind: &str,
        name: &str,
        replicas: i64,
    ) -> Owner {
        let mut made = by.owner.clone();
        made.controller = Some(ControllerRef {
            group_kind: by.owner.group_kind.clone(),
            version: "v1".to_owned(),
            name: by.owner.key.name.clone(),
            uid: String::new(),
        });
        made.group_kind = GroupKind::new(group, kind);
        made.key = ObjectKey::new(by.owner.key.namespace.clone(), name);
        made.replicas = (kind != "Job").then_some(replicas);
        made.lws_keeps_group = false;
        made.pods = OwnerPods::default();
        made.group_size = None;
        let document = Document { place: by.document.place.clone(), value: Value::Null };
        self.owners.push(GivenOwner { owner: made.clone(), document });
        made
    }
}

fn api_version(kind: &GroupKind) -> String {
    if kind.group.is_empty() { "v1".to_owned() } else { format!("{}/v1", kind.group) }
}

fn extend(into: &mut Value, with: &Value) {
    let Some(with) = with.as_object() else { return };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in with {
        into[key] = value.clone();
    }
}
