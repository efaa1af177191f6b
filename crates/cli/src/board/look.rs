//! The cluster as it was when somebody looked last.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use holdfast_server::{ClusterOptions, Features, Reader};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::Mutex;

use crate::ask::{Builtins, Cluster, node_ready};
use crate::drain::{Choice, DrainPlan, render};
use crate::status::Report;

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(2);

/// A look takes at most one part in so many of the time.
const SHARE: u32 = 5;

/// Of one request to the API server.
const LIMIT: Duration = Duration::from_secs(30);

pub struct Looker {
    source: Source,
    // Held while reading: whoever comes meanwhile gets what is being read.
    last: Mutex<Last>,
}

enum Source {
    Cluster {
        options: ClusterOptions,
        features: Features,
    },
    #[cfg(test)]
    Given(fn() -> Cluster),
}

#[derive(Default)]
struct Last {
    reader: Option<Reader>,
    seen: Option<Seen>,
    /// What went wrong since.
    problem: Option<String>,
    looked: Option<Instant>,
    took: Duration,
}

struct Seen {
    cluster: Cluster,
    /// Rises when the state is another.
    version: u64,
    state: Box<RawValue>,
}

/// What the page draws.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct State {
    report: Report,
    nodes: Vec<Node>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    name: String,
    ready: bool,
    cordoned: bool,
    pods: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    version: u64,
    /// When the cluster was read; empty if never.
    as_of: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// Unless the caller has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<Box<RawValue>>,
}

/// What `holdfast plan drain` says, in both of its forms.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Planned {
    can_be_drained: bool,
    text: String,
    plan: DrainPlan,
}

impl Looker {
    pub fn of_cluster(options: ClusterOptions, features: Features) -> Self {
        Self { source: Source::Cluster { options, features }, last: Mutex::default() }
    }

    #[cfg(test)]
    pub fn given(cluster: fn() -> Cluster) -> Self {
        Self { source: Source::Given(cluster), last: Mutex::default() }
    }

    /// As if the last look were long ago.
    #[cfg(test)]
    pub async fn forget_time(&self) {
        self.last.lock().await.looked = None;
    }

    pub async fn state(&self, known: u64) -> Answer {
        let mut last = self.last.lock().await;
        self.refresh(&mut last).await;
        let problem = last.problem.clone();
        match &last.seen {
            None => Answer { version: 0, as_of: String::new(), problem, state: None },
            Some(seen) => Answer {
                version: seen.version,
                as_of: holdfast_api::time::format(seen.cluster.now()),
                problem,
                state: (seen.version != known).then(|| seen.state.clone()),
            },
        }
    }

    /// By the cluster as it was seen last, which is what the page shows.
    pub async fn plan(&self, nodes: &[String], choice: &Choice) -> Result<Planned, String> {
        let mut last = self.last.lock().await;
        if last.seen.is_none() {
            self.refresh(&mut last).await;
        }
        let Some(Seen { cluster, .. }) = &last.seen else {
            return Err(last.problem.clone().unwrap_or_default());
        };
        if let Some(unknown) = nodes.iter().find(|node| !cluster.has_node(node)) {
            return Err(format!("there is no node {unknown}"));
        }
        let (plan, _) = DrainPlan::make(cluster, nodes, choice);
        let (can_be_drained, text) = (plan.can_be_drained(), render(&plan, false));
        Ok(Planned { can_be_drained, text, plan })
    }

    async fn refresh(&self, last: &mut Last) {
        let pause = INTERVAL.max(last.took * (SHARE - 1));
        if last.looked.is_some_and(|looked| looked.elapsed() < pause) {
            return;
        }
        let began = Instant::now();
        match self.look(last).await {
            Ok(cluster) => {
                last.problem = None;
                last.see(cluster);
            }
            Err(problem) => {
                // The credentials may be others by now.
                last.reader = None;
                last.problem = Some(problem);
            }
        }
        last.took = began.elapsed();
        last.looked = Some(Instant::now());
    }

    async fn look(&self, last: &mut Last) -> Result<Cluster, String> {
        match &self.source {
            Source::Cluster { options, features } => {
                let reader = if let Some(reader) = last.reader.take() {
                    reader
                } else {
                    let reader = Reader::connect(options, LIMIT).await;
                    reader.map_err(|error| error.to_string())?.with(*features)
                };
                let cluster = Cluster::read(&reader, None, Builtins::Counted).await;
                last.reader = Some(reader);
                cluster.map_err(|error| format!("{error:#}"))
            }
            #[cfg(test)]
            Source::Given(cluster) => Ok(cluster()),
        }
    }
}

impl Last {
    fn see(&mut self, cluster: Cluster) {
        let state = State { report: Report::of(&cluster, None, None), nodes: nodes(&cluster) };
        let state = serde_json::value::to_raw_value(&state);
        let state = match state {
            Ok(state) => state,
            Err(error) => {
                self.problem = Some(error.to_string());
                return;
            }
        };
        let version = match &self.seen {
            None => 1,
            Some(before) if before.state.get() == state.get() => before.version,
            Some(before) => before.version + 1,
        };
        self.seen = Some(Seen { cluster, version, state });
    }
}

/// Those that there are, and those that pods say they are on.
fn nodes(cluster: &Cluster) -> Vec<Node> {
    let mut pods: BTreeMap<&str, usize> = BTreeMap::new();
    for node in cluster.pods().filter_map(|(_, pod)| pod["spec"]["nodeName"].as_str()) {
        *pods.entry(node).or_default() += 1;
    }
    let nodes = cluster.nodes().map(|(name, node)| Node {
        name: name.clone(),
        ready: node_ready(node),
        cordoned: node["spec"]["unschedulable"] == true,
        pods: pods.get(name.as_str()).copied().unwrap_or_default(),
    });
    nodes.collect()
}
