//! A cluster as it is now, in an engine that nobody but us asks.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_api::decode::{Decoded, decode};
use holdfast_api::printable;
use holdfast_api::salvage::salvage;
use holdfast_core::io::{PodReadOutcome, SnapshotOutcome};
use holdfast_core::model::{
    Budget, BudgetKey, ControllerRef, ObjectKey, Operation, ResourceVersion, Timestamp,
};
use holdfast_core::verdict::{Denial, DenyReason, Verdict};
use holdfast_core::view::{BudgetView, OpinionView};
use holdfast_core::{Change, Command, Config, Engine, Eviction, Input, Kind};
use holdfast_server::{Listed, Reader};
use serde_json::Value;

use super::pods::{self, PodFacts};
use crate::simulate::Place;

/// What becomes of the built-in `policy/v1` budgets where Holdfast's are another kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builtins {
    /// The gate behind Holdfast's, decided by the numbers in their status: for verdicts.
    Gate,
    /// Budgets like the others, counted here by the same rules: to look at.
    Counted,
}

pub struct Cluster {
    engine: Engine,
    now: Timestamp,
    pods: BTreeMap<ObjectKey, Value>,
    nodes: BTreeMap<String, Value>,
    budgets: BTreeMap<BudgetKey, Given>,
    versions: BTreeMap<Kind, String>,
    /// `LeaderWorkerSets` that keep the rest of a group when one of its workers goes.
    keeping_groups: BTreeSet<ObjectKey>,
    /// Where built-in budgets are the gate: the same cluster with these counted, to explain them by.
    behind: Option<Box<Self>>,
    /// Budgets that hold nobody back, and why.
    unenforced: BTreeMap<ObjectKey, String>,
    /// Objects that cannot be read, and why.
    pub unreadable: Vec<String>,
    asked: u64,
}

/// A budget, and what only a person wants to know of it.
#[derive(Clone, Debug)]
pub struct Given {
    pub budget: Budget,
    /// `policy/v1`, for instance.
    pub api_version: String,
    pub labels: BTreeMap<String, String>,
    /// Where it stands, if it is of a file.
    pub place: Option<Place>,
}

impl Cluster {
    /// Of one namespace, or of all.
    pub async fn read(
        reader: &Reader,
        namespace: Option<&str>,
        builtins: Builtins,
    ) -> anyhow::Result<Self> {
        let config = reader.config();
        let mut lists = reader.list(config.kinds.clone(), namespace).await?;
        lists.iter_mut().flat_map(|list| &mut list.objects).for_each(make_printable);
        let unenforced = match builtins {
            Builtins::Gate => take_unenforced(reader.is_unenforced().await, &config, &mut lists),
            Builtins::Counted => BTreeMap::new(),
        };
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut cluster = Self::new(config, lists, Timestamp(0) + wall, builtins);
        cluster.unenforced = unenforced;
        cluster.read_scales(reader).await;
        if let Some(behind) = &mut cluster.behind {
            behind.read_scales(reader).await;
        }
        Ok(cluster)
    }

    async fn read_scales(&mut self, reader: &Reader) {
        // Answers lead to no further questions; the bound is against an engine that differs.
        for _ in 0..10 {
            let scales = self.scales_wanted();
            if scales.is_empty() {
                break;
            }
            for (namespace, owner) in scales {
                let input = reader.scale(namespace, owner).await;
                self.engine.handle(self.now, input);
            }
        }
    }

    pub fn new(mut config: Config, lists: Vec<Listed>, now: Timestamp, builtins: Builtins) -> Self {
        let is_builtin =
            |list: &Listed| list.kind == Some(Kind::BuiltinBudget) && !list.objects.is_empty();
        let behind = (builtins == Builtins::Gate && lists.iter().any(is_builtin))
            .then(|| Box::new(Self::new(config.clone(), lists.clone(), now, Builtins::Counted)));
        config.intercepted = intercepted(&lists);
        let kinds = config.kinds.clone();
        let mut cluster = Self {
            engine: Engine::new(config),
            now,
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            budgets: BTreeMap::new(),
            versions: BTreeMap::new(),
            keeping_groups: BTreeSet::new(),
            behind,
            unenforced: BTreeMap::new(),
            unreadable: Vec::new(),
            asked: 0,
        };
        cluster.engine.handle(now, Input::Lead(false));
        let mut counted = Vec::new();
        for list in lists {
            match list.kind {
                None => cluster.nodes.extend(list.objects.into_iter().map(named)),
                Some(Kind::BuiltinBudget) if builtins == Builtins::Counted => {
                    counted = list.objects;
                }
                Some(kind) => cluster.take_in(&kind, &list.version, list.objects),
            }
        }
        for kind in kinds.into_iter().filter(|kind| !cluster.versions.contains_key(kind)) {
            cluster.engine.handle(now, Input::NotServed(kind));
        }
        for object in counted {
            cluster.count_builtin(object);
        }
        cluster
    }

    fn take_in(&mut self, kind: &Kind, version: &str, objects: Vec<Value>) {
        if version.is_empty() {
            return;
        }
        self.versions.insert(kind.clone(), version.to_owned());
        self.engine.handle(self.now, Input::ListBegan(kind.clone()));
        for object in objects {
            self.take_in_one(kind, object);
        }
        self.engine.handle(self.now, Input::ListEnded(kind.clone(), version.into()));
    }

    fn take_in_one(&mut self, kind: &Kind, object: Value) {
        let decoded = match decode(kind, object.to_string().as_bytes()) {
            Ok(decoded) => decoded,
            Err(error) => {
                self.unreadable.push(error.to_string());
                let key = key_of(&object);
                let why = error.to_string();
                let salvaged = salvage(kind, object.to_string().as_bytes()).map(Box::new);
                let unreadable = Input::Unreadable { kind: kind.clone(), key, why, salvaged };
                return self.engine.handle(self.now, unreadable);
            }
        };
        match &decoded {
            Decoded::Pod(pod) => {
                self.pods.insert(pod.key.clone(), object);
            }
            Decoded::Budget(budget) => {
                let api_version = object["apiVersion"].as_str().unwrap_or_default().to_owned();
                let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let labels = labels.map(|(key, value)| (key.clone(), text(value))).collect();
                let given = Given { budget: budget.clone(), api_version, labels, place: None };
                self.budgets.insert(budget.key.clone(), given);
            }
            Decoded::Owner(owner) if owner.lws_keeps_group => {
                self.keeping_groups.insert(owner.key.clone());
            }
            _ => {}
        }
        self.engine.handle(self.now, decoded.applied());
    }

    /// To the engine a budget is its namespace and name; of namesakes, those of `policy/v1` say so.
    fn count_builtin(&mut self, mut object: Value) {
        let mut key = key_of(&object);
        if self.budgets.contains_key(&BudgetKey::pdb(&key.namespace, &key.name)) {
            key.name.push_str(" (policy/v1)");
            object["metadata"]["name"] = key.name.into();
        }
        self.take_in_one(&Kind::Budget, object);
    }

    /// An object of a file.
    pub fn add(&mut self, object: Decoded) {
        self.engine.handle(self.now, object.applied());
    }

    /// A budget of a file; of namesakes, those of other APIs say so in their names.
    pub fn add_budget(&mut self, mut given: Given) {
        if self.budgets.contains_key(&given.budget.key) {
            let name = &mut given.budget.key.object.name;
            *name = format!("{name} ({})", given.api_version);
        }
        self.add(Decoded::Budget(given.budget.clone()));
        self.budgets.insert(given.budget.key.clone(), given);
    }

    /// What has happened since. Only the engine takes it in.
    pub fn hear(&mut self, news: Input) {
        self.engine.handle(self.now, news);
        while self.engine.poll().is_some() {}
    }

    /// Why a budget of this namespace holds nobody back, if there is such a one.
    pub fn unenforced(&self, namespace: &str) -> Option<&str> {
        let mut budgets = self.unenforced.iter().filter(|(key, _)| key.namespace == namespace);
        budgets.next().map(|(_, why)| why.as_str())
    }

    pub fn now(&self) -> Timestamp {
        self.now
    }

    pub fn pod(&self, key: &ObjectKey) -> Option<&Value> {
        self.pods.get(key)
    }

    /// Whether this `LeaderWorkerSet` keeps the rest of a group when one of its workers goes.
    pub fn keeps_groups(&self, leader_worker_set: &ObjectKey) -> bool {
        self.keeping_groups.contains(leader_worker_set)
    }

    pub fn nodes(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.nodes.iter()
    }

    pub fn has_node(&self, name: &str) -> bool {
        self.nodes.contains_key(name) || self.pods_on(name).next().is_some()
    }

    pub fn pods(&self) -> impl Iterator<Item = (&ObjectKey, &Value)> {
        self.pods.iter()
    }

    pub fn pods_on<'a>(
        &'a self,
        node: &'a str,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a Value)> {
        self.pods.iter().filter(move |(_, pod)| pod["spec"]["nodeName"] == node)
    }

    pub fn facts(&self, pod: &ObjectKey) -> PodFacts {
        let unknown = PodFacts { node: None, state: "unknown".to_owned() };
        let ready = |node: &str| {
            if self.nodes.is_empty() {
                None
            } else {
                Some(self.nodes.get(node).is_some_and(pods::node_ready))
            }
        };
        self.pods.get(pod).map_or(unknown, |pod| PodFacts::of(pod, ready))
    }

    /// In order of namespace and name.
    pub fn budgets(&self) -> impl Iterator<Item = &Given> {
        let mut budgets: Vec<&Given> = self.budgets.values().collect();
        budgets.sort_by_key(|given| &given.budget.key.object);
        budgets.into_iter()
    }

    pub fn given(&self, budget: &BudgetKey) -> Option<&Given> {
        self.budgets.get(budget)
    }

    pub fn budget(&self, budget: &BudgetKey) -> Option<&Budget> {
        self.budgets.get(budget).map(|given| &given.budget)
    }

    pub fn view(&self, budget: &BudgetKey) -> Option<BudgetView> {
        self.engine.view(budget)
    }

    /// What each covering budget says to the eviction of a pod, and why a built-in one would refuse it.
    pub fn opinions(&self, pod: &ObjectKey) -> (Vec<OpinionView>, Option<String>) {
        self.engine.opinions(pod)
    }

    /// The built-in budgets that cover a pod as if they were Holdfast's, and the cluster to ask about them.
    pub fn builtins(&mut self, pod: &ObjectKey) -> Option<(&mut Self, Vec<OpinionView>)> {
        let behind = self.behind.as_deref_mut()?;
        let (mut opinions, _) = behind.opinions(pod);
        opinions.retain(|opinion| {
            behind.given(&opinion.budget).is_some_and(|given| given.api_version == "policy/v1")
        });
        Some((behind, opinions))
    }

    /// As the Eviction API would answer now.
    pub fn verdict(&mut self, pod: &ObjectKey) -> Verdict {
        self.asked += 1;
        let id = format!("ask-{}", self.asked);
        let eviction = Eviction {
            id: id.clone(),
            pod: pod.clone(),
            operation: Operation::Evict,
            object: None,
            generation: 0,
            exempt: false,
            uid: None,
            requester: "holdfast".to_owned(),
            dry_run: true,
            by_name: false,
            deadline: self.now + Duration::from_secs(10),
        };
        self.engine.handle(self.now, Input::Evict(eviction));
        while let Some(command) = self.engine.poll() {
            match command {
                Command::Reply { eviction, verdict } if eviction == id => return verdict,
                Command::ReadPod { token, pod } => {
                    let outcome = self.read_pod(&pod);
                    self.engine.handle(self.now, Input::PodRead { token, outcome });
                }
                Command::ListNamespace { kind, namespace } => self.list_again(kind, namespace),
                _ => {}
            }
        }
        // Every question above is answered, so this does not happen.
        Verdict::Deny(Denial {
            reason: DenyReason::BeingProcessed,
            message: "The engine gave no answer.".to_owned(),
            causes: Vec::new(),
        })
    }

    /// The answer to a question, if this budget were as given instead.
    pub fn what_if<T>(&mut self, budget: Budget, ask: impl FnOnce(&mut Self) -> T) -> T {
        let key = budget.key.clone();
        self.engine.handle(self.now, Input::Budget(Change::Applied(budget)));
        let answer = ask(self);
        if let Some(before) = self.budget(&key) {
            let before = Input::Budget(Change::Applied(before.clone()));
            self.engine.handle(self.now, before);
        }
        answer
    }

    fn read_pod(&self, key: &ObjectKey) -> PodReadOutcome {
        let Some(object) = self.pods.get(key) else { return PodReadOutcome::NotFound };
        match decode(&Kind::Pod, object.to_string().as_bytes()) {
            Ok(Decoded::Pod(pod)) => PodReadOutcome::Found(Box::new(pod)),
            Ok(_) => PodReadOutcome::NotFound,
            Err(error) => PodReadOutcome::Failed(error.to_string()),
        }
    }

    /// Lists were read after the budgets, so what a budget claims beyond them is of no time yet: the list
    /// that we have is as new as any.
    fn list_again(&mut self, kind: Kind, namespace: String) {
        let version = self.versions.get(&kind).map(String::as_str).unwrap_or_default();
        let version = ResourceVersion::from(version);
        let outcome = SnapshotOutcome::Listed { version, objects: Vec::new() };
        self.engine.handle(self.now, Input::Snapshot { kind, namespace, outcome });
    }

    fn scales_wanted(&mut self) -> Vec<(String, ControllerRef)> {
        let mut wanted = Vec::new();
        while let Some(command) = self.engine.poll() {
            if let Command::ReadScale { namespace, owner } = command {
                wanted.push((namespace, owner));
            }
        }
        wanted
    }
}

/// Takes out the budgets by which nobody decides.
fn take_unenforced(
    everywhere: bool,
    config: &Config,
    lists: &mut [Listed],
) -> BTreeMap<ObjectKey, String> {
    let mut taken = BTreeMap::new();
    for list in lists {
        let excluded = match list.kind {
            Some(Kind::Budget) => &config.excluded_namespaces,
            Some(Kind::UnavailableBudget) => &config.unguarded_namespaces,
            _ => continue,
        };
        list.objects.retain(|object| {
            let key = key_of(object);
            let why = if everywhere {
                "Holdfast's webhook is not registered; `holdfast serve --install` registers it"
            } else if excluded.contains(&key.namespace) {
                "Holdfast is not asked about pods of this namespace"
            } else {
                return true;
            };
            let why = format!("Budget {} is not enforced: {why}.", key.name);
            taken.insert(key, why);
            false
        });
    }
    taken
}

/// Everything in it may be shown on a terminal.
fn make_printable(object: &mut Value) {
    match object {
        Value::String(text) => {
            if let Cow::Owned(clean) = printable(text) {
                *text = clean;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(make_printable),
        Value::Object(fields) => fields.values_mut().for_each(make_printable),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Where the server has found that deletes and updates of pods reach it.
fn intercepted(lists: &[Listed]) -> BTreeSet<String> {
    let budgets = lists.iter().filter(|list| list.kind == Some(Kind::UnavailableBudget));
    let is_enforced = |budget: &&Value| {
        let conditions = budget["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|c| c["type"] == "Enforced" && c["status"] == "True")
    };
    let enforced = budgets.flat_map(|list| &list.objects).filter(is_enforced);
    enforced.map(|budget| key_of(budget).namespace).collect()
}

fn named(object: Value) -> (String, Value) {
    (key_of(&object).name, object)
}

fn key_of(object: &Value) -> ObjectKey {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    ObjectKey::new(text("namespace"), text("name"))
}
