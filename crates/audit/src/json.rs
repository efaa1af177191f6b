//! Objects as an API server sends them.
//!
//! Unreadable fails closed: a pod without readable parts is present and unhealthy, and a budget whose
//! selector cannot be read covers its namespace.

use serde_json::Value;

use crate::objects::{
    Api, Budget, BudgetKey, Controller, Entry, Expression, Grant, JOBSET_GROUP, Kind, LWS_GROUP,
    LabelGroups, Labels, LwsMember, Name, Object, Operation, Owner, Phase, Pod, PodGroup,
    PodTemplate, Policy, Reference, Scope, Selector, Status, Template, Threshold, Unavailable,
    Workload,
};

const LWS: &str = "leaderworkerset.sigs.k8s.io";
const GROUP_ANNOTATION: &str = "holdfast.dev/pod-group";

/// None for kinds that docs/semantics.md does not speak of.
pub fn object(value: &Value) -> Option<Object> {
    let version = text(&value["apiVersion"]);
    let group = version.split_once('/').map_or("", |(group, _)| group);
    match (group, text(&value["kind"])) {
        ("", "Pod") => Some(Object::Pod(pod(value))),
        ("policy.holdfast.dev" | "policy", "PodDisruptionBudget") => {
            Some(Object::Budget(budget(value)))
        }
        ("policy.kruise.io", "PodUnavailableBudget") => Some(Object::Budget(unavailable(value))),
        ("scheduling.k8s.io", "PodGroup") => {
            Some(Object::PodGroup(pod_group(value, Api::Kubernetes)))
        }
        ("scheduling.holdfast.dev", "PodGroup") => {
            Some(Object::PodGroup(pod_group(value, Api::Holdfast)))
        }
        ("scheduling.k8s.io", "Workload") => {
            Some(Object::Workload(workload(value, Api::Kubernetes)))
        }
        ("scheduling.holdfast.dev", "Workload") => {
            Some(Object::Workload(workload(value, Api::Holdfast)))
        }
        ("", "ReplicationController")
        | ("apps", "ReplicaSet" | "Deployment" | "StatefulSet")
        | ("apps.kruise.io", "CloneSet" | "StatefulSet")
        | ("batch", "Job")
        | (JOBSET_GROUP, "JobSet")
        | (LWS_GROUP, "LeaderWorkerSet") => Some(Object::Owner(owner(value, group))),
        _ => None,
    }
}

/// Returns the objects of a list, with the kind and API version that they lack there.
pub fn items(mut list: Value) -> Vec<Value> {
    let version = list["apiVersion"].take();
    let kind = text(&list["kind"]).strip_suffix("List").filter(|kind| !kind.is_empty());
    let kind = kind.map(str::to_owned);
    let Value::Array(mut items) = list["items"].take() else { return Vec::new() };
    for (item, kind) in items.iter_mut().filter_map(|item| Some((item, kind.as_ref()?))) {
        item["apiVersion"] = version.clone();
        item["kind"] = Value::from(kind.as_str());
    }
    items
}

pub fn pod(value: &Value) -> Pod {
    let meta = &value["metadata"];
    let (spec, status) = (&value["spec"], &value["status"]);
    let labels = labels(&meta["labels"]);
    let label = |name: &str| labels.get(&format!("{LWS}/{name}")).cloned();
    let annotation = |name: &str| meta["annotations"][name].as_str();
    let condition = |kind: &str| condition(status, kind).filter(|c| c["status"] == "True");
    let lws = label("group-key").map(|group_key| LwsMember {
        set: label("name").unwrap_or_default(),
        group_key,
        group_index: label("group-index").and_then(|index| index.parse().ok()),
        size: annotation(&format!("{LWS}/size"))
            .and_then(|size| size.parse::<i32>().ok())
            .map(i64::from)
            .filter(|size| *size >= 1),
    });
    let observed = status["observedGeneration"].as_i64();
    let generation = meta["generation"].as_i64().unwrap_or(0);
    let marked = |key: &String| key.starts_with("unavailable-pod.kruise.io/");
    Pod {
        key: name(meta),
        uid: text(&meta["uid"]).to_owned(),
        version: version(meta),
        controller: controller(meta),
        phase: match text(&status["phase"]) {
            "Pending" => Phase::Pending,
            "Running" => Phase::Running,
            "Succeeded" => Phase::Succeeded,
            "Failed" => Phase::Failed,
            _ => Phase::Unknown,
        },
        ready: condition("Ready").is_some(),
        terminating: !meta["deletionTimestamp"].is_null(),
        evicted: condition("DisruptionTarget")
            .is_some_and(|c| c["reason"] == "EvictionByEvictionAPI"),
        reference: reference(spec, &meta["annotations"]),
        lws,
        generation,
        settled: !labels.keys().any(marked),
        applied: observed.is_none_or(|observed| observed >= generation),
        labels,
    }
}

/// How a pod, or the pods of a template, name their replica.
fn reference(spec: &Value, annotations: &Value) -> Option<Reference> {
    let named = [&spec["schedulingGroup"]["podGroupName"], &spec["workloadRef"]["podGroupName"]];
    let entries = [&spec["workloadRef"], &spec["workload"]];
    let entry = entries.into_iter().find(|r| !r["name"].is_null() && !r["podGroup"].is_null());
    if let Some(name) = named.into_iter().find_map(Value::as_str) {
        Some(Reference::PodGroup(name.to_owned()))
    } else if let Some(entry) = entry {
        Some(Reference::Entry {
            workload: text(&entry["name"]).to_owned(),
            entry: text(&entry["podGroup"]).to_owned(),
            replica_key: entry["podGroupReplicaKey"].as_str().map(str::to_owned),
        })
    } else {
        annotations[GROUP_ANNOTATION].as_str().map(|name| Reference::Annotation(name.to_owned()))
    }
}

pub fn budget(value: &Value) -> Budget {
    let (meta, spec, status) = (&value["metadata"], &value["spec"], &value["status"]);
    let scope = match spec["budgetScope"].as_str() {
        Some("Workload" | "PodGroup") => Scope::Replica,
        _ => Scope::Pod,
    };
    let counts = match scope {
        Scope::Pod => ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"],
        Scope::Replica => [
            "disruptionsAllowedReplicas",
            "currentHealthyReplicas",
            "desiredHealthyReplicas",
            "expectedReplicas",
        ],
    };
    let basic = meta["annotations"]["holdfast.dev/basic-group-min-count"].as_str();
    Budget {
        key: BudgetKey { unavailable: false, key: name(meta) },
        uid: text(&meta["uid"]).to_owned(),
        version: version(meta),
        unreadable: !spec.is_object() || selector(&spec["selector"]).is_err(),
        selector: selector(&spec["selector"]).ok().flatten(),
        min_available: threshold(&spec["minAvailable"]),
        max_unavailable: threshold(&spec["maxUnavailable"]),
        always_allow: spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow",
        scope,
        basic_min_count: basic.and_then(|n| n.parse().ok()).filter(|n| *n >= 1),
        unavailable: None,
        status: read_status(status, counts),
    }
}

/// A `PodUnavailableBudget` by selector.
pub fn unavailable(value: &Value) -> Budget {
    let (spec, status) = (&value["spec"], &value["status"]);
    let policy = &spec["podGroupPolicy"];
    let groups = policy["groupLabelKey"].as_str().map(|label| LabelGroups {
        label: label.to_owned(),
        min_ready: policy["minReadyReplicas"].as_i64().unwrap_or(1),
    });
    let counts = ["unavailableAllowed", "currentAvailable", "desiredAvailable", "totalReplicas"];
    let plain = budget(value);
    Budget {
        key: BudgetKey { unavailable: true, ..plain.key },
        scope: if groups.is_some() { Scope::Replica } else { Scope::Pod },
        unavailable: Some(Unavailable { total: spec["protectTotalReplicas"].as_i64(), groups }),
        status: read_status(status, counts),
        ..plain
    }
}

fn read_status(status: &Value, [allowed, healthy, desired, expected]: [&str; 4]) -> Status {
    let number = |field: &str| status[field].as_i64().unwrap_or(0);
    let condition = condition(status, "DisruptionAllowed");
    let grant = |grant: &Value| {
        let operation = match text(&grant["operation"]) {
            "UPDATE" | "RESIZE" => Operation::Change,
            "DELETE" => Operation::Delete,
            _ => Operation::Evict,
        };
        Grant {
            pod: text(&grant["pod"]).to_owned(),
            uid: text(&grant["uid"]).to_owned(),
            eviction: text(&grant["eviction"]).to_owned(),
            operation,
            pinned: operation != Operation::Evict || grant["pinned"] == true,
        }
    };
    Status {
        allowed: number(allowed),
        healthy: number(healthy),
        desired: number(desired),
        expected: number(expected),
        condition: condition.map(|c| (c["status"] == "True", text(&c["message"]).to_owned())),
        grants: status["grants"].as_array().into_iter().flatten().map(grant).collect(),
    }
}

pub fn pod_group(value: &Value, api: Api) -> PodGroup {
    let (meta, spec) = (&value["metadata"], &value["spec"]);
    let linked = &spec["podGroupTemplateRef"]["workload"];
    let workload = first([
        &spec["workloadRef"]["workloadName"],
        &spec["workloadRef"]["name"],
        &linked["workloadName"],
    ]);
    let entry = first([
        &spec["workloadRef"]["templateName"],
        &spec["podGroupTemplateName"],
        &spec["podGroupTemplateRef"]["name"],
        &linked["podGroupTemplateName"],
    ]);
    let mode = &spec["disruptionMode"];
    PodGroup {
        api,
        key: name(meta),
        uid: text(&meta["uid"]).to_owned(),
        version: version(meta),
        terminating: !meta["deletionTimestamp"].is_null(),
        controller: controller(meta),
        policy: policy(&spec["schedulingPolicy"]),
        template: workload.zip(entry).map(|(workload, entry)| Template { workload, entry }),
        whole: *mode == "PodGroup" || !mode["all"].is_null(),
        composite: spec["parentCompositePodGroupName"].is_string(),
    }
}

pub fn workload(value: &Value, api: Api) -> Workload {
    let (meta, spec) = (&value["metadata"], &value["spec"]);
    let lists = [&spec["podGroupTemplates"], &spec["podGroups"]];
    let entries = lists.into_iter().filter_map(Value::as_array).flatten();
    let entry = |entry: &Value| {
        let policies = [&entry["schedulingPolicy"], &entry["policy"]];
        let given = policies.into_iter().find(|p| !p.is_null());
        Entry {
            name: text(&entry["name"]).to_owned(),
            policy: given.map_or(Policy::Absent, policy),
            replicas: entry["replicas"].as_i64(),
        }
    };
    Workload {
        api,
        key: name(meta),
        uid: text(&meta["uid"]).to_owned(),
        version: version(meta),
        entries: entries.map(entry).collect(),
    }
}

fn policy(value: &Value) -> Policy {
    if !value["gang"].is_null() {
        Policy::Gang(value["gang"]["minCount"].as_i64().unwrap_or(0))
    } else if !value["basic"].is_null() {
        Policy::Basic
    } else {
        Policy::Absent
    }
}

pub fn owner(value: &Value, group: &str) -> Owner {
    let (meta, spec) = (&value["metadata"], &value["spec"]);
    let kind = Kind::new(group, text(&value["kind"]));
    let is_set = kind.is(JOBSET_GROUP, "JobSet");
    let is_job = kind.is("batch", "Job");
    let is_lws = kind.is(LWS_GROUP, "LeaderWorkerSet");
    let jobs = || spec["replicatedJobs"].as_array().into_iter().flatten();
    let replicas = if is_set {
        Some(jobs().map(|job| job["replicas"].as_i64().unwrap_or(1)).sum())
    } else if is_job {
        None
    } else {
        Some(spec["replicas"].as_i64().unwrap_or(1))
    };
    let size = meta["annotations"]["holdfast.dev/group-size"].as_str();
    let size = size.and_then(|n| n.parse::<i32>().ok()).map(i64::from).filter(|n| *n >= 1);
    let finished = ["Complete", "Completed", "Failed"];
    let has =
        |kind: &&str| condition(&value["status"], kind).is_some_and(|c| c["status"] == "True");
    let restart = spec["leaderWorkerTemplate"]["restartPolicy"].as_str();
    Owner {
        key: name(meta),
        uid: text(&meta["uid"]).to_owned(),
        version: version(meta),
        terminating: !meta["deletionTimestamp"].is_null(),
        ended: ((is_set || is_job) && (spec["suspend"] == true || finished.iter().any(has)))
            || (is_job && spec["parallelism"] == 0),
        controller: controller(meta),
        replicas,
        group_size: if kind.is("apps", "StatefulSet") { size } else { None },
        keeps_group: is_lws && matches!(restart, Some("None" | "Default")),
        templates: templates(&kind, value),
        grouped: meta["annotations"]["holdfast.dev/pod-groups"] == "true",
        kind,
    }
}

/// The pods that the owner will create, with the labels that its controller always adds.
fn templates(kind: &Kind, value: &Value) -> Vec<PodTemplate> {
    let (spec, name) = (&value["spec"], text(&value["metadata"]["name"]));
    let mut found: Vec<(&Value, Vec<(String, &str)>)> = Vec::new();
    if kind.is(LWS_GROUP, "LeaderWorkerSet") {
        let both = &spec["leaderWorkerTemplate"];
        for template in [&both["leaderTemplate"], &both["workerTemplate"]] {
            found.push((template, vec![(format!("{LWS}/name"), name)]));
        }
    } else if kind.is(JOBSET_GROUP, "JobSet") {
        for job in spec["replicatedJobs"].as_array().into_iter().flatten() {
            let of_job = ("jobset.sigs.k8s.io/replicatedjob-name".to_owned(), text(&job["name"]));
            let of_set = ("jobset.sigs.k8s.io/jobset-name".to_owned(), name);
            found.push((&job["template"]["spec"]["template"], vec![of_set, of_job]));
        }
    } else if kind.is("batch", "Job") {
        let names = ["batch.kubernetes.io/job-name", "job-name"];
        found.push((&spec["template"], names.map(|key| (key.to_owned(), name)).to_vec()));
    } else if kind.is("apps", "StatefulSet") {
        found.push((&spec["template"], Vec::new()));
    }
    let read = |(template, added): (&Value, Vec<(String, &str)>)| {
        let mut labels = labels(&template["metadata"]["labels"]);
        labels.extend(added.into_iter().map(|(key, value)| (key, value.to_owned())));
        let annotations = &template["metadata"]["annotations"];
        PodTemplate { labels, reference: reference(&template["spec"], annotations) }
    };
    found.into_iter().filter(|(template, _)| template.is_object()).map(read).collect()
}

/// Err if it cannot be read.
fn selector(value: &Value) -> Result<Option<Selector>, ()> {
    if value.is_null() {
        return Ok(None);
    }
    let object = value.as_object().ok_or(())?;
    let mut read = Selector::default();
    if let Some(given) = object.get("matchLabels").filter(|v| !v.is_null()) {
        for (key, value) in given.as_object().ok_or(())? {
            read.labels.insert(key.clone(), value.as_str().ok_or(())?.to_owned());
        }
    }
    for given in object.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
        let values = given["values"].as_array().into_iter().flatten();
        let operator = text(&given["operator"]);
        if !["In", "NotIn", "Exists", "DoesNotExist"].contains(&operator) {
            return Err(());
        }
        read.expressions.push(Expression {
            key: text(&given["key"]).to_owned(),
            operator: operator.to_owned(),
            values: values.map(|v| text(v).to_owned()).collect(),
        });
    }
    Ok(Some(read))
}

fn threshold(value: &Value) -> Option<Threshold> {
    match value {
        Value::Null => None,
        Value::Number(n) => Some(n.as_i64().map_or(Threshold::Invalid, Threshold::Count)),
        Value::String(text) => {
            let percent = text.strip_suffix('%').and_then(|n| n.parse().ok());
            Some(percent.map_or(Threshold::Invalid, Threshold::Percent))
        }
        _ => Some(Threshold::Invalid),
    }
}

fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|c| c["type"] == *kind)
}

fn controller(meta: &Value) -> Option<Controller> {
    let references = meta["ownerReferences"].as_array()?;
    let reference = references.iter().find(|r| r["controller"] == true)?;
    let group = text(&reference["apiVersion"]).split_once('/').map_or("", |(group, _)| group);
    Some(Controller {
        kind: Kind::new(group, text(&reference["kind"])),
        name: text(&reference["name"]).to_owned(),
        uid: text(&reference["uid"]).to_owned(),
    })
}

fn labels(value: &Value) -> Labels {
    let pairs = value.as_object().into_iter().flatten();
    pairs.map(|(key, value)| (key.clone(), text(value).to_owned())).collect()
}

fn name(meta: &Value) -> Name {
    Name::new(text(&meta["namespace"]), text(&meta["name"]))
}

fn version(meta: &Value) -> u64 {
    text(&meta["resourceVersion"]).parse().unwrap_or(0)
}

fn first<const N: usize>(candidates: [&Value; N]) -> Option<String> {
    let given = candidates.into_iter().filter_map(Value::as_str).find(|text| !text.is_empty());
    given.map(str::to_owned)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
