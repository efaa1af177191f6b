//! The load: a namespace with pods that are ready, budgets over them, flaps and evictions.
//!
//! Pods are bound to a node that nobody plays and their status is written by hand, as upstream's own
//! integration tests do: kwok would take the machine's time in every variant alike and hide the
//! difference. They have no grace period, so that an eviction ends in their deletion.

use std::{
    collections::VecDeque,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::{
    http::{Client, Server},
    stats::Latencies,
};

const NODE: &str = "bench-node";
const CREATORS: usize = 8;
/// The number of pods of a replica, with scope Workload.
pub const PODS_PER_GROUP: usize = 10;

/// The unit or the pods of the budgets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budgets {
    None,
    Pods,
    Replicas,
    /// The budgets cover other pods than those of the load.
    Others,
    /// One budget over the load's pods, and one over others.
    PodsAndOthers,
}

/// The API of the budgets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// `policy/v1`: the built-in one, or Holdfast's in native mode.
    Policy,
    /// The CRD of webhook mode.
    Holdfast,
    /// `PodUnavailableBudget`.
    Kruise,
}

/// The operation that disrupts pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Evict,
    Delete,
}

impl Api {
    pub fn version(self) -> &'static str {
        match self {
            Self::Policy => "policy/v1",
            Self::Holdfast => "policy.holdfast.dev/v1",
            Self::Kruise => "policy.kruise.io/v1beta1",
        }
    }

    pub fn kind(self) -> &'static str {
        match self {
            Self::Policy | Self::Holdfast => "PodDisruptionBudget",
            Self::Kruise => "PodUnavailableBudget",
        }
    }

    /// Returns the resource as in paths.
    pub fn resource(self) -> String {
        format!("{}s", self.kind().to_lowercase())
    }
}

/// A namespace under load.
pub struct Load {
    admin: Server,
    pub namespace: String,
    api: Api,
    budgets: Budgets,
    count: usize,
    next: usize,
    pods: Vec<String>,
}

pub struct Evicted {
    pub seconds: f64,
    pub latencies: Latencies,
    /// Answers other than "evicted". The client tries the same pod again later.
    pub refused: usize,
}

impl Load {
    /// Creates an empty namespace with `count` budgets, each for an equal share of the future pods.
    pub fn new(
        admin: &Server,
        name: &str,
        api: Api,
        budgets: Budgets,
        count: usize,
    ) -> Result<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let namespace = format!("bench-{name}-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let mut client = admin.client();
        create_node(&mut client)?;
        client.post("/api/v1/namespaces", &json!({"metadata": {"name": namespace}}))?.ok()?;
        let account = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
        until("the namespace has its ServiceAccount", || Ok(client.get(&account)?.code == 200))?;
        let load = Self {
            admin: admin.clone(),
            namespace,
            api,
            budgets,
            count,
            next: 0,
            pods: Vec::new(),
        };
        if budgets != Budgets::None {
            let beside = usize::from(budgets == Budgets::PodsAndOthers);
            for part in 0..count + beside {
                client.post(&load.budget_path(""), &load.budget(part))?.ok()?;
            }
        }
        Ok(load)
    }

    /// Creates pods until there are this many, and makes them ready.
    pub fn fill(&mut self, pods: usize) -> Result<()> {
        let missing: Vec<usize> =
            (self.next..).take(pods.saturating_sub(self.pods.len())).collect();
        self.next += missing.len();
        if self.budgets == Budgets::Replicas {
            let groups: Vec<usize> =
                missing.iter().copied().filter(|i| i % PODS_PER_GROUP == 0).collect();
            each(&self.admin, &groups, |client, group| self.create_group(client, *group))?;
        }
        each(&self.admin, &missing, |client, i| self.create_pod(client, *i))?;
        self.pods.extend(missing.iter().map(|i| pod_name(*i)));
        Ok(())
    }

    /// Waits until the statuses of all budgets count the present pods.
    pub fn settle(&self) -> Result<()> {
        if self.budgets == Budgets::None {
            return Ok(());
        }
        let mut client = self.admin.client();
        let path = self.budget_path("");
        let others = self.budgets == Budgets::Others;
        let all = if others { 0 } else { i64::try_from(self.pods.len())? };
        let is_pub = self.api == Api::Kruise;
        // Wait for both: a pod that may be evicted is not healthy any more, and counts until it is gone.
        let fields = if is_pub {
            ["currentAvailable", "totalReplicas"]
        } else {
            ["currentHealthy", "expectedPods"]
        };
        until("the statuses of the budgets are settled", || {
            let list = client.get(&path)?.ok()?.json();
            let items = list["items"].as_array().context("a list")?;
            let counts_all = |field: &str| {
                let counts = items.iter().filter_map(|b| b["status"][field].as_i64());
                counts.sum::<i64>() == all
            };
            let observed = items.iter().all(|b| {
                b["status"]["observedGeneration"].as_i64() >= b["metadata"]["generation"].as_i64()
            });
            // Only then do API servers send deletes to Holdfast.
            let enforced = !is_pub || items.iter().all(|b| condition(b, "Enforced"));
            Ok(observed && enforced && fields.into_iter().all(counts_all))
        })
    }

    /// Evicts or deletes this many of the pods, by this many clients, for at most this time.
    pub fn disrupt(
        &mut self,
        by: &Server,
        way: Way,
        clients: usize,
        count: usize,
        limit: Duration,
    ) -> Result<Evicted> {
        let count = count.min(self.pods.len());
        let queue: Mutex<VecDeque<String>> = Mutex::new(self.pods.drain(..count).collect());
        let began = Instant::now();
        let results: Vec<Result<(Latencies, usize)>> = thread::scope(|scope| {
            let handles: Vec<_> = (0..clients)
                .map(|_| scope.spawn(|| disruptor(by, way, &self.namespace, &queue, began + limit)))
                .collect();
            handles.into_iter().map(|h| h.join().expect("it does not panic")).collect()
        });
        let seconds = began.elapsed().as_secs_f64();
        let mut evicted = Evicted { seconds, latencies: Latencies::default(), refused: 0 };
        for result in results {
            let (latencies, refused) = result?;
            evicted.latencies.append(latencies);
            evicted.refused += refused;
        }
        self.pods.extend(queue.into_inner().expect("not poisoned"));
        Ok(evicted)
    }

    /// Makes every one of these pods unready and ready again, all at once.
    pub fn flap_all(&self, count: usize) -> Result<()> {
        let pods: Vec<&String> = self.pods.iter().take(count).collect();
        for ready in [false, true] {
            each(&self.admin, &pods, |client, pod| self.set_ready(client, pod, ready))?;
        }
        Ok(())
    }

    pub fn set_ready(&self, client: &mut Client, pod: &str, ready: bool) -> Result<()> {
        let path = self.pod_path(&format!("/{pod}/status"));
        client.patch(&path, &status(ready))?.ok().map(|_| ())
    }

    pub fn pods(&self) -> &[String] {
        &self.pods
    }

    pub fn budget_path(&self, rest: &str) -> String {
        let (api, namespace) = (self.api.version(), &self.namespace);
        format!("/apis/{api}/namespaces/{namespace}/{}{rest}", self.api.resource())
    }

    pub fn budget_of(&self, pod: &str) -> String {
        let i: usize = pod.rsplit('-').next().and_then(|i| i.parse().ok()).unwrap_or(0);
        format!("budget-{}", self.part(i))
    }

    /// Returns the budget of a pod. All pods of a replica have the same budget.
    fn part(&self, i: usize) -> usize {
        let unit = if self.budgets == Budgets::Replicas { i / PODS_PER_GROUP } else { i };
        unit % self.count
    }

    /// Deletes everything and waits until it is gone, so that the next load has the whole machine.
    pub fn clear(self) -> Result<()> {
        let mut client = self.admin.client();
        each(&self.admin, &self.pods, |client, pod| {
            client.delete(&self.pod_path(&format!("/{pod}"))).map(|_| ())
        })?;
        if self.budgets != Budgets::None {
            client.delete(&self.budget_path(""))?.ok()?;
        }
        let namespace = format!("/api/v1/namespaces/{}", self.namespace);
        client.delete(&namespace)?.ok()?;
        until("the namespace is gone", || Ok(client.get(&namespace)?.code == 404))
    }

    fn create_pod(&self, client: &mut Client, i: usize) -> Result<()> {
        let name = pod_name(i);
        let mut pod = json!({
            "metadata": {
                "name": name,
                "labels": {"app": "bench", "part": format!("p{}", self.part(i))},
            },
            "spec": {
                "nodeName": NODE,
                "containers": [{"name": "main", "image": "example.com/main"}],
                "terminationGracePeriodSeconds": 0,
            },
        });
        if self.budgets == Budgets::Replicas {
            let group = format!("group-{}", i / PODS_PER_GROUP);
            pod["spec"]["schedulingGroup"] = json!({"podGroupName": group});
        }
        client.post(&self.pod_path(""), &pod)?.ok()?;
        self.set_ready(client, &name, true)
    }

    fn create_group(&self, client: &mut Client, i: usize) -> Result<()> {
        let path =
            format!("/apis/scheduling.k8s.io/v1beta1/namespaces/{}/podgroups", self.namespace);
        let group = json!({
            "metadata": {"name": format!("group-{}", i / PODS_PER_GROUP)},
            "spec": {"schedulingPolicy": {"gang": {"minCount": PODS_PER_GROUP}}},
        });
        client.post(&path, &group)?.ok().map(|_| ())
    }

    /// Returns a budget that never denies: the first and the last eviction must cost the same.
    fn budget(&self, part: usize) -> Value {
        let labels = if self.budgets == Budgets::Others || part == self.count {
            json!({"app": "others"})
        } else if self.count == 1 {
            json!({"app": "bench"})
        } else {
            json!({"part": format!("p{part}")})
        };
        let mut spec = json!({"minAvailable": 1, "selector": {"matchLabels": labels}});
        if self.budgets == Budgets::Replicas {
            spec["budgetScope"] = json!("Workload");
        }
        json!({
            "apiVersion": self.api.version(),
            "kind": self.api.kind(),
            "metadata": {"name": format!("budget-{part}")},
            "spec": spec,
        })
    }

    fn pod_path(&self, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/pods{rest}", self.namespace)
    }
}

/// Runs the work by several clients at the same time.
pub fn each<T: Sync>(
    server: &Server,
    items: &[T],
    work: impl Fn(&mut Client, &T) -> Result<()> + Sync,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..CREATORS)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = server.client();
                    while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                        work(&mut client, item)?;
                    }
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|w| w.join().expect("it does not panic"))
    })
}

fn disruptor(
    by: &Server,
    way: Way,
    namespace: &str,
    queue: &Mutex<VecDeque<String>>,
    deadline: Instant,
) -> Result<(Latencies, usize)> {
    let mut client = by.client();
    let (mut latencies, mut refused) = (Latencies::default(), 0);
    while Instant::now() < deadline {
        let Some(pod) = queue.lock().expect("not poisoned").pop_front() else { break };
        let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}");
        let eviction =
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}});
        let began = Instant::now();
        let answer = match way {
            Way::Evict => client.post(&format!("{path}/eviction"), &eviction)?,
            Way::Delete => client.delete(&path)?,
        };
        match answer.code {
            200 | 201 => latencies.push(began.elapsed()),
            // The budget has no room or a conflict, or the handler gave up: try again later.
            429 | 500 | 409 => {
                refused += 1;
                queue.lock().expect("not poisoned").push_back(pod);
            }
            code => bail!("{way:?} {pod}: {code} {}", String::from_utf8_lossy(&answer.body)),
        }
    }
    Ok((latencies, refused))
}

fn condition(budget: &Value, kind: &str) -> bool {
    let mut conditions = budget["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|c| c["type"] == kind && c["status"] == "True")
}

fn pod_name(i: usize) -> String {
    format!("pod-{i}")
}

fn status(ready: bool) -> Value {
    let ready = if ready { "True" } else { "False" };
    json!({"status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": ready}],
    }})
}

fn create_node(client: &mut Client) -> Result<()> {
    match client.post("/api/v1/nodes", &json!({"metadata": {"name": NODE}}))?.code {
        // It already exists.
        409 | 200..300 => Ok(()),
        code => bail!("cannot create a node: {code}"),
    }
}

pub fn until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + Duration::from_mins(2);
    while Instant::now() < deadline {
        if is_so()? {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(50));
    }
    bail!("waited for two minutes in vain until {what}")
}
