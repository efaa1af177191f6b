//! The decoders, each with seeds that it reads.

use holdfast_api::admission::{
    BudgetReview, EvictionReview, PlaceReview, PodReview, ReviewError, WorkloadReview,
};
use holdfast_api::native::{protobuf, strategic, table, validate};
use holdfast_api::unavailable::convert::convert;
use holdfast_api::{decode, gang};
use holdfast_core::gang::{Kind as GangKind, Owner, Settings, World};
use holdfast_core::lease::{Election, LeaseInput};
use holdfast_core::model::{GroupApi, GroupKind, Timestamp};
use holdfast_core::{Config, Engine, Eviction, Input, Kind};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};
use std::sync::LazyLock;
use std::time::Duration;

use super::Target;
use crate::api_client::Answer;
use crate::effect::lease;
use crate::native::fuzzed;
use crate::traces::Parent;
use crate::watch::wire::{Event, Page, object_of_change};
use crate::webhook;

// Where nobody else has a way to it. Both stand alone, and are read here as they are there.
#[path = "../install/bundle.rs"]
#[expect(dead_code, clippy::duplicate_mod, reason = "not all of it decodes")]
mod bundle;
#[path = "../../../cli/src/simulate/input.rs"]
#[expect(dead_code, reason = "not all of it decodes")]
mod input;

const REVIEW: &[u8] = br#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"r1",
    "kind":{"kind":"Eviction"},"resource":{"group":"","version":"v1","resource":"pods"},"subResource":"eviction",
    "operation":"CREATE","namespace":"n","name":"p","userInfo":{"username":"u","groups":["g"]},"dryRun":false,
    "object":{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p","namespace":"n"},
    "deleteOptions":{"dryRun":["All"],"preconditions":{"uid":"u","resourceVersion":"1"}}}}}"#;

const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"n","uid":"u","resourceVersion":"3",
    "generation":1,"creationTimestamp":"2026-01-01T00:00:00Z","labels":{"app":"a","leaderworkerset.sigs.k8s.io/name":"l"},
    "annotations":{"holdfast.dev/pod-group":"g","pub.kruise.io/no-protect":"true"},
    "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"o","controller":true}]},
    "spec":{"nodeName":"m","schedulingGates":[{"name":"holdfast.dev/gang"}],"tolerations":[{"key":"k","operator":"Exists",
    "effect":"NoExecute","tolerationSeconds":3}],"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"1500m",
    "memory":"1Gi"},"limits":{"cpu":2}}}],"initContainers":[{"name":"i","restartPolicy":"Always"}],"overhead":{"cpu":"1m"}},
    "status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#;

const BUDGET: &str = r#"{"apiVersion":"policy.holdfast.dev/v1","kind":"PodDisruptionBudget","metadata":{"name":"b","namespace":"n",
    "uid":"b1","resourceVersion":"4","generation":2,"creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"minAvailable":"50%",
    "selector":{"matchLabels":{"app":"a"},"matchExpressions":[{"key":"x","operator":"NotIn","values":["y","z"]}]},
    "unhealthyPodEvictionPolicy":"AlwaysAllow","budgetScope":"Workload"},"status":{"observedGeneration":2,
    "disruptionsAllowed":1,"currentHealthy":2,"desiredHealthy":1,"expectedPods":2,"disruptedPods":{"p":"2026-01-01T00:00:00Z"},
    "conditions":[{"type":"DisruptionAllowed","status":"True","reason":"SufficientPods","lastTransitionTime":"2026-01-01T00:00:00Z"}],
    "grants":[{"pod":"p","uid":"u","eviction":"e","requester":"r","cost":1,"time":"2026-01-01T00:00:00Z"}]}}"#;

const UNAVAILABLE: &str = r#"{"apiVersion":"policy.kruise.io/v1alpha1","kind":"PodUnavailableBudget","metadata":{"name":"p","namespace":"n",
    "uid":"b2","resourceVersion":"5","annotations":{"kruise.io/pub-protect-operations":"DELETE,UPDATE",
    "pub.kruise.io/protect-total-replicas":"7"}},"spec":{"maxUnavailable":1,"targetRef":{"apiVersion":"apps/v1","kind":"Deployment",
    "name":"d"}},"status":{"unavailableAllowed":1,"currentAvailable":2,"desiredAvailable":1,"totalReplicas":2,
    "unavailablePods":{"p":"2026-01-01T00:00:00Z"},"disruptedPods":{}}}"#;

const GROUP: &str = r#"{"apiVersion":"scheduling.holdfast.dev/v1","kind":"PodGroup","metadata":{"name":"g","namespace":"n","uid":"g1",
    "resourceVersion":"6","finalizers":["f"]},"spec":{"schedulingPolicy":{"gang":{"minCount":2}},"podGroupTemplateRef":
    {"workload":{"workloadName":"w","podGroupTemplateName":"t"}}},"status":{"conditions":[{"type":"PodGroupScheduled","status":"True"}]}}"#;

const WORKLOAD: &str = r#"{"kind":"Workload","metadata":{"name":"w","namespace":"n","uid":"w1","resourceVersion":"7"},"spec":
    {"controllerRef":{"apiGroup":"batch","kind":"Job","name":"j"},"podGroupTemplates":[{"name":"t","schedulingPolicy":{"gang":{"minCount":2}}}]}}"#;

const OWNER: &str = r#"{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"r","namespace":"n","uid":"o","resourceVersion":"8",
    "annotations":{"holdfast.dev/pod-groups":"true"},"labels":{"a":"b"}},"spec":{"replicas":3,"size":2,"parallelism":2,"completions":2,
    "replicatedJobs":[{"name":"j","replicas":2,"template":{"spec":{"parallelism":2}}}],"leaderWorkerTemplate":{"size":2}}}"#;

const NODE: &str = r#"{"kind":"Node","metadata":{"name":"m","labels":{"a":"b"}},"spec":{"unschedulable":true,"taints":[{"key":"k",
    "effect":"NoSchedule"}]},"status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"110"},"conditions":[{"type":"Ready","status":"True"}]}}"#;

const LEASE: &str = r#"{"kind":"Lease","metadata":{"name":"holdfast","uid":"l1","resourceVersion":"9"},"spec":{"holderIdentity":"h",
    "leaseDurationSeconds":15,"acquireTime":"2026-01-01T00:00:00.000000Z","renewTime":"2026-01-01T00:00:05.000000Z","leaseTransitions":2},
    "reason":"NotFound","message":"m","details":{"name":"holdfast"}}"#;

const STATUS: &str = r#"{"kind":"Status","code":410,"reason":"Expired","message":"poddisruptionbudgets.policy.holdfast.dev is too old",
    "details":{"group":"policy.holdfast.dev","causes":[{"message":"policy.holdfast.dev"}]}}"#;

fn told<T>(result: Result<T, impl std::fmt::Display>, what: impl FnOnce(T) -> String) -> String {
    match result {
        Ok(read) => format!("yes {}", what(read)),
        Err(error) => format!("no {error}"),
    }
}

/// What cannot be read is never answered with an allow.
fn answered<T>(result: Result<T, ReviewError>, what: impl FnOnce(T) -> String) -> String {
    if let Err(error) = &result {
        let refusal = webhook::refusal("u", error);
        assert_eq!(refusal["response"]["allowed"], false);
    }
    told(result, what)
}

macro_rules! targets {
    ($($name:ident: [$($seed:expr),*] $target:expr;)*) => {
        pub const TARGETS: &[Target] = &[$(Target {
            name: stringify!($name),
            seeds: || vec![$(AsRef::<[u8]>::as_ref(&$seed).to_owned()),*],
            run: $target,
        }),*];
        $(#[test]
        fn $name() {
            super::tests::fuzz(stringify!($name));
        })*
    };
}

targets! {
    evictions: [REVIEW] |input| answered(EvictionReview::parse(input), |review| {
        let eviction = review.into_eviction(Timestamp(0));
        format!("{} {}", eviction.dry_run, eviction.requester.is_empty())
    });
    pods: [review("pods", "DELETE", "null", POD), review("pods", "UPDATE", POD, POD)] |input| {
        answered(PodReview::parse(input), |review| match review {
            PodReview::Passes { .. } => "passes".to_owned(),
            PodReview::Disrupts(disruption) => {
                let eviction = disruption.into_eviction(Timestamp(0));
                format!("{:?} {}", eviction.operation, eviction.dry_run)
            }
        })
    };
    places: [review("pods", "CREATE", POD, "null")] |input| {
        answered(PlaceReview::parse(input, GroupApi::Holdfast), |review| {
            format!("{:?}", world(&[]).place(&review.pod, "t"))
        })
    };
    workloads: [review("statefulsets", "CREATE", OWNER, "null")] |input| {
        answered(WorkloadReview::parse(input), |review| {
            format!("{} {}", review.begins, serde_json::to_string(&review.answer(Vec::new())).unwrap())
        })
    };
    budgets: [review("podunavailablebudgets", "CREATE", UNAVAILABLE, "null"),
        review("podunavailablebudgets", "UPDATE", UNAVAILABLE, UNAVAILABLE)] |input| {
        answered(BudgetReview::parse(input), |review| {
            serde_json::to_string(&review.answer([])).unwrap()
        })
    };
    conversions: [conversion("v1beta1"), conversion("v1alpha1")] |input| {
        let response = convert(input)["response"].take();
        let converted = response["convertedObjects"].as_array().map(Vec::len);
        match response["result"]["status"].as_str() {
            Some("Success") => {
                // Names of fields that nobody looks at may be no text, and then this is no JSON.
                let Ok(review) = serde_json::from_slice::<Value>(input) else { return "yes, almost".to_owned() };
                let asked = review["request"]["objects"].as_array().map_or(0, Vec::len);
                assert_eq!(converted, Some(asked));
                "yes".to_owned()
            }
            _ => format!("no {} {converted:?}", response["result"]["message"]),
        }
    };
    protobuf_bodies: [include_bytes!("../../../api/tests/fixtures/protobuf/budget.pb"),
        include_bytes!("../../../api/tests/fixtures/protobuf/delete-options.pb")] |input| {
        let gate = told(protobuf::gate_put(input), |put| put.pods.len().to_string());
        told(protobuf::to_json(input), |value| {
            let errors = validate::create(&value);
            format!("{gate} {}", errors.iter().map(ToString::to_string).collect::<String>())
        })
    };
    json_bodies: [BUDGET] |input| {
        told(fuzzed::document("application/json", input), |document| {
            let now = jiff::Timestamp::UNIX_EPOCH;
            table::table(&document, table::Include::Metadata, true, now);
            let budget: Value = serde_json::from_str(BUDGET).unwrap();
            let errors = [validate::create(&document), validate::update(&document, &budget),
                validate::status_update(&document)].concat();
            errors.iter().map(ToString::to_string).collect::<String>()
        })
    };
    yaml_bodies: [b"kind: PodDisruptionBudget\nspec:\n  minAvailable: 50%\n  selector: &a {matchLabels: {a: b}}\n  x: *a\n"] |input| {
        told(fuzzed::document("application/yaml", input), |document| document.to_string())
    };
    patches: [br#"{"spec":{"minAvailable":1,"selector":{"$patch":"replace"}},"$retainKeys":["spec"]}"#,
        br#"[{"op":"add","path":"/spec/x","value":1},{"op":"copy","from":"/spec","path":"/spec/y"},{"op":"test","path":"/kind","value":"k"}]"#] |input| {
        let Ok(patch) = serde_json::from_slice(input) else { return "no JSON".to_owned() };
        let budget: Value = serde_json::from_str(BUDGET).unwrap();
        let strategic = told(strategic::merge(&budget, &patch), |value| value.to_string().len().to_string());
        let [merge, json] = ["merge", "json"].map(|kind| fuzzed::patch(kind, &budget, &patch));
        let length = |value: Option<Value>| value.map(|value| value.to_string().len());
        format!("yes {strategic} {:?} {:?}", length(merge), length(json).is_some())
    };
    paths: [b"/apis/policy/v1/namespaces/n/poddisruptionbudgets/b/status?watch=true&includeObject=None", b"/openapi/v3/apis/policy/v1"] |input| {
        format!("yes {}", fuzzed::path(&String::from_utf8_lossy(input)))
    };
    accepts: [b"application/json;as=Table;v=v1;g=meta.k8s.io,application/json", b"*/*"] |input| {
        let mut headers = HeaderMap::new();
        let Ok(value) = HeaderValue::from_bytes(input) else { return "no header".to_owned() };
        headers.insert(header::ACCEPT, value);
        format!("yes {}", fuzzed::accept(&headers))
    };
    watches: [event("ADDED", POD), event("DELETED", BUDGET), b"{\"type\":\"BOOKMARK\",\"object\":{}}\n",
        list(&[POD, GROUP])] |input| {
        let page = serde_json::from_slice::<Page<'_>>(input).map(|page| page.items.map(|items| items.len()));
        let event = serde_json::from_slice::<Event<'_>>(input).map(|event| event.kind);
        let fast = object_of_change(input);
        let read = fast.map(|(kind, object)| told(decode::decode(&Kind::Pod, object), |_| format!("{kind:?}")));
        if let (Some((kind, _)), Ok(event), Some(true)) = (fast, &event, read.as_ref().map(|read| read.starts_with("yes"))) {
            assert_eq!(kind, *event);
        }
        format!("yes {page:?} {event:?} {read:?}")
    };
    scales: [br#"{"kind":"Scale","metadata":{"uid":"u"},"spec":{"replicas":3},"status":{"replicas":2}}"#] |input| {
        told(decode::scale(input), |outcome| format!("{outcome:?}"))
    };
    objects: [POD, BUDGET, UNAVAILABLE, GROUP, WORKLOAD, OWNER] |input| {
        let mut engine = synced();
        let read: String = kinds().iter().map(|kind| told(decode::decode(kind, input), |object| {
            feed(&mut engine, object.applied());
            kind.to_string()
        })).collect();
        // Together with others that they may be about.
        for (kind, object) in [(Kind::Pod, POD), (Kind::Budget, BUDGET)] {
            let object = decode::decode(&kind, object.as_bytes()).unwrap();
            feed(&mut engine, object.applied());
        }
        feed(&mut engine, Input::Evict(eviction()));
        engine.verify();
        read
    };
    gangs: [POD, NODE, GROUP, WORKLOAD, OWNER, "{\"metadata\":{\"name\":\"n\",\"annotations\":{\"holdfast.dev/pod-groups\":\"true\"}}}"] |input| {
        let mut seen = Vec::new();
        let owners = Owner::KINDS.map(|(group, kind)| GangKind::Owner(GroupKind::new(group, kind)));
        let kinds = [GangKind::Pod, GangKind::Node, GangKind::Namespace, GangKind::Group, GangKind::Workload];
        let read: String = kinds.iter().chain(&owners).map(|kind| {
            told(gang::decode(kind, GroupApi::Holdfast, "v1", input), |object| {
                seen.push(object.applied());
                kind.to_string()
            })
        }).collect();
        world(&seen).plan(Timestamp(0));
        read
    };
    relayed_watches: [event("ADDED", BUDGET), event("DELETED", BUDGET), event("ERROR", STATUS)] |input| {
        // The first event of a watch, and one that follows it.
        let mut first = [true; 3];
        format!("{} {}", fuzzed::watch(input, &mut first), fuzzed::watch(input, &mut first))
    };
    front_proxies: [front_proxy()] |input| told(fuzzed::front_proxy(input), |told| told);
    remote_users: [b"x-remote-user: alice\nx-remote-group: a\nx-remote-group: b"] |input| {
        told(fuzzed::remote_user(&headers(input)), |user| user)
    };
    front_proxy_certificates: [CERTIFICATE.der()] |input| {
        told(fuzzed::front_proxy_certificate(input), |user| user)
    };
    traceparents: [b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"] |input| {
        let mut headers = HeaderMap::new();
        let Ok(value) = HeaderValue::from_bytes(input) else { return "no header".to_owned() };
        headers.insert("traceparent", value);
        told(Parent::of(&headers).ok_or("no parent"), |parent| format!("{parent:?}"))
    };
    bundles: ["", CERTIFICATE.pem(), CERTIFICATE.pem().repeat(30)] |input| {
        let (text, now) = (String::from_utf8_lossy(input), jiff::Timestamp::UNIX_EPOCH);
        let own = bundle::Trusted { cas: OTHER_CERTIFICATE.pem(), retired: String::new() };
        let merged = bundle::merged(&text, &own, now);
        assert!(bundle::contains(&merged, &own.cas), "API servers do not know us");
        assert_eq!(bundle::merged(&merged, &own, now), merged, "it is never done");
        let retired = bundle::Trusted { cas: String::new(), retired: own.cas.clone() };
        let after = bundle::merged(&merged, &retired, now);
        assert!(!bundle::contains(&after, &own.cas), "it is not taken out");
        format!("yes {} {}", bundle::certificates(&text).len(), bundle::certificates(&merged).len())
    };
    leases: [LEASE] |input| {
        let mut election = Election::new("me");
        let mut read = String::new();
        for code in [StatusCode::OK, StatusCode::NOT_FOUND, StatusCode::CONFLICT] {
            let seen = lease::seen("holdfast", &Answer { code, body: input.to_owned() });
            read += &told(seen, |seen| {
                election.handle(Timestamp(0), seen);
                election.handle(Timestamp(60_000), LeaseInput::Tick);
                std::iter::from_fn(|| election.poll()).count().to_string()
            });
        }
        read
    };
    manifests: [format!("{POD}{BUDGET}"), list(&[POD, GROUP]),
        b"# of\n---\nkind: Pod\nmetadata: &m\n  name: p\n--- {kind: List, items: [{metadata: *m}]}\n---\na: [\n"] |input| {
        let mut read = input::Input::default();
        read.parse("f", &String::from_utf8_lossy(input));
        for problem in &read.problems {
            let shown = problem.to_string();
            assert!(!shown.contains(char::is_control), "it could steer a terminal: {shown:?}");
        }
        let problems: String = read.problems.iter().map(|problem| problem.message.as_str()).collect();
        format!("{} {} {problems}", if read.documents.is_empty() { "no" } else { "yes" }, read.documents.len())
    };
}

static CERTIFICATE: LazyLock<rcgen::Certificate> = LazyLock::new(certificate);
static OTHER_CERTIFICATE: LazyLock<rcgen::Certificate> = LazyLock::new(certificate);

fn certificate() -> rcgen::Certificate {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, fuzzed::FRONT_PROXY);
    params.self_signed(&KeyPair::generate().unwrap()).unwrap()
}

fn front_proxy() -> String {
    let data = json!({
        "requestheader-client-ca-file": CERTIFICATE.pem(),
        "requestheader-allowed-names": r#"["front-proxy-client"]"#,
        "requestheader-username-headers": r#"["X-Remote-User"]"#,
        "requestheader-group-headers": r#"["X-Remote-Group"]"#,
    });
    json!({"kind": "ConfigMap", "data": data}).to_string()
}

/// One in each line; what is none is left out, as it does not get as far as to us.
fn headers(lines: &[u8]) -> HeaderMap {
    let pair = |line: &[u8]| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?;
        Some((HeaderName::from_bytes(&line[..colon]).ok()?, value))
    };
    let mut headers = HeaderMap::new();
    for (name, value) in lines.split(|byte| *byte == b'\n').filter_map(pair) {
        headers.append(name, value);
    }
    headers
}

fn review(resource: &str, operation: &str, object: &str, old: &str) -> String {
    format!(
        r#"{{"request":{{"uid":"r1","resource":{{"group":"","version":"v1","resource":"{resource}"}},"operation":"{operation}",
        "namespace":"n","name":"p","userInfo":{{"username":"u"}},"dryRun":false,"object":{object},"oldObject":{old},
        "options":{{"propagationPolicy":"Background"}}}}}}"#
    )
}

fn conversion(version: &str) -> String {
    format!(
        r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{{"uid":"r1",
        "desiredAPIVersion":"policy.kruise.io/{version}","objects":[{UNAVAILABLE}]}}}}"#
    )
}

fn event(kind: &str, object: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

fn list(objects: &[&str]) -> String {
    let items = objects.join(",");
    format!(
        r#"{{"kind":"List","metadata":{{"resourceVersion":"9","continue":"c"}},"items":[{items}]}}"#
    )
}

fn kinds() -> Vec<Kind> {
    Config::default().kinds.into_iter().collect()
}

fn synced() -> Engine {
    let mut engine = Engine::new(Config::default());
    for kind in kinds() {
        feed(&mut engine, Input::ListBegan(kind.clone()));
        feed(&mut engine, Input::ListEnded(kind, "1".into()));
    }
    engine
}

fn feed(engine: &mut Engine, input: Input) {
    engine.handle(Timestamp(1_767_225_600_000), input);
    while engine.poll().is_some() {}
}

fn eviction() -> Eviction {
    EvictionReview::parse(REVIEW).unwrap().into_eviction(Timestamp(1_767_225_609_000))
}

fn world(seen: &[holdfast_core::gang::Seen]) -> World {
    let (timeout, room_wait) = (Duration::from_mins(5), Duration::from_secs(30));
    let mut world = World::new(Settings { api: GroupApi::Holdfast, timeout, room_wait });
    for seen in seen {
        world.see(seen.clone());
    }
    world
}
