//! `holdfast drain`: cordon, evict replica by replica, and see it through.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use clap::ValueEnum;
use holdfast_core::model::ObjectKey;
use holdfast_server::{Drainer, Evicted};

use super::act::{Act, Ended};
use super::choose::{Choice, Chosen};
use super::follow::{Follow, Step};
use super::group;
use super::plan::Unit;
use super::progress::{Progress, Replicas};
use super::report::{DrainPlan, SCHEMA_VERSION};
use super::text::named;
use super::which::Which;
use crate::ask::{Builtins, Cluster, ClusterArgs};
use crate::exit::{Exit, Hinted, block_on};
use crate::serve::parse_time;

#[derive(Debug, clap::Args)]
#[command(
    about = "Drain nodes replica by replica",
    long_about = "Drain nodes replica by replica\n\n\
        As `kubectl drain` does, with its flags, and through the Eviction API alone; in the order of \
        `holdfast plan drain`. All nodes are cordoned first. Then whole replicas go, with all their \
        pods on any of the nodes together, as many at a time as the budgets allow; when one is back \
        elsewhere, the next. Nothing is stored: after an interruption, run it again.",
    after_help = "Examples:\n  \
        holdfast drain worker-1 worker-2 --ignore-daemonsets\n  \
        holdfast drain -l pool=a --ignore-daemonsets --timeout 1h\n  \
        holdfast drain --plan plan.json --ignore-daemonsets\n\n\
        Exit codes: as kubectl's, 0 drained, 1 error; 130 interrupted"
)]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// Drain the nodes of a plan, in its order: the JSON of `holdfast plan drain -o json`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["nodes", "selector"])]
    plan: Option<PathBuf>,
    #[command(flatten)]
    choice: Choice,
    /// Seconds given to each pod to terminate gracefully; below 0, the pod's own
    #[arg(long, value_name = "SECONDS", default_value_t = -1, allow_negative_numbers = true)]
    grace_period: i64,
    /// The length of time to wait before giving up, zero means infinite
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_time)]
    timeout: Duration,
    /// Only say what would be done; `server`: and how the API server would answer now
    #[arg(
        long,
        value_enum,
        default_value_t = DryRun::None,
        default_missing_value = "client",
        num_args = 0..=1,
        require_equals = true
    )]
    dry_run: DryRun,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DryRun {
    None,
    Client,
    Server,
}

impl DryRun {
    fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Client => " (dry run)",
            Self::Server => " (server dry run)",
        }
    }
}

pub fn run(args: &Args) -> Exit {
    block_on(drain(args)).unwrap_or_else(Exit::Failed)
}

async fn drain(args: &Args) -> anyhow::Result<Exit> {
    let reader = args.cluster.connect().await?;
    let before = Cluster::read(&reader, None, Builtins::Counted).await?;
    let order = args.plan.as_ref().map(read).transpose()?;
    let nodes = match &order {
        Some(order) => Which::named(order.nodes.clone()).find(&before)?,
        None => args.which.find(&before)?,
    };
    if let Some(budget) = of_holdfast(&before, &nodes)
        && reader.is_unenforced().await
    {
        return Err(Hinted::error(
            format!("nobody enforces budget {budget}: Holdfast's webhook is not registered"),
            "start `holdfast serve --install`; `kubectl drain` evicts without regard to it",
        ));
    }
    let grace = (args.grace_period >= 0).then_some(args.grace_period);
    let drainer = Drainer::new(&reader, args.dry_run == DryRun::Server, grace);
    let uncordoned = cordon(&before, &drainer, &nodes, args.dry_run).await;
    // What came to the nodes before they were cordoned is to go too.
    let mut cluster = match args.dry_run {
        DryRun::None => Cluster::read(&reader, None, Builtins::Counted).await?,
        _ => before,
    };
    let (plan, chosen) = DrainPlan::make(&cluster, &nodes, &args.choice);
    let mut failed = refuse(&nodes, &chosen);
    failed.extend(uncordoned);
    let mut follow = Follow::new(in_order(&plan, order.as_ref()));
    if args.dry_run != DryRun::None {
        pretend(&follow, &drainer, args.dry_run).await;
        let drained = nodes.iter().filter(|node| !failed.contains_key(*node));
        drained.for_each(|node| println!("node/{node} drained{}", args.dry_run.suffix()));
        return Ok(finish(&nodes, &failed));
    }
    foretell(&plan);
    let drained = nodes.iter().filter(|node| !failed.contains_key(*node)).cloned().collect();
    let mut progress = Progress::new(drained);
    let timeout = (!args.timeout.is_zero()).then_some(args.timeout);
    let ended = Act::new(&mut cluster, &drainer, &mut follow, &mut progress).run(timeout).await;
    for node in nodes.iter().filter(|node| !progress.is_drained(node)) {
        if let Some(why) = left(&follow, node, args.timeout) {
            failed.entry(node.clone()).or_insert(why);
        }
    }
    match ended {
        Ended::Done => {}
        Ended::TimedOut => tell_state(&cluster, &follow, &progress, &nodes),
        Ended::Interrupted => {
            eprintln!("interrupted");
            tell_state(&cluster, &follow, &progress, &nodes);
            return Ok(Exit::Interrupted);
        }
    }
    Ok(finish(&nodes, &failed))
}

/// A budget of Holdfast's over a pod of these nodes. Without Holdfast, nobody holds the drain back by it.
fn of_holdfast(cluster: &Cluster, nodes: &[String]) -> Option<String> {
    let pods: BTreeSet<&ObjectKey> =
        nodes.iter().flat_map(|node| cluster.pods_on(node)).map(|(key, _)| key).collect();
    let budgets = cluster.budgets().filter(|given| given.api_version != "policy/v1");
    let keys = budgets.map(|given| &given.budget.key);
    keys.filter_map(|key| cluster.view(key)).find_map(|view| {
        let namespace = &view.key.object.namespace;
        let mut covered = view.all_pods().map(|pod| ObjectKey::new(namespace, &pod.name));
        covered.any(|pod| pods.contains(&pod)).then(|| view.key.to_string())
    })
}

fn read(path: &PathBuf) -> anyhow::Result<DrainPlan> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let plan: DrainPlan = serde_json::from_str(&text).with_context(|| {
        format!("{} is no plan of `holdfast plan drain -o json`", path.display())
    })?;
    if plan.schema_version != SCHEMA_VERSION {
        bail!("{}: schemaVersion {} is not known here", path.display(), plan.schema_version);
    }
    Ok(plan)
}

/// Those that could not be, and why.
async fn cordon(
    cluster: &Cluster,
    drainer: &Drainer,
    nodes: &[String],
    dry_run: DryRun,
) -> BTreeMap<String, String> {
    let mut failed = BTreeMap::new();
    for node in nodes {
        let known = cluster.nodes().find(|(name, _)| *name == node);
        let mut done = "already cordoned";
        if known.is_none_or(|(_, object)| object["spec"]["unschedulable"] != true) {
            done = "cordoned";
            if dry_run != DryRun::Client
                && let Err(why) = drainer.cordon(node).await
            {
                eprintln!("error: unable to cordon node {node:?}: {why}");
                failed.insert(node.clone(), why);
                continue;
            }
        }
        println!("node/{node} {done}{}", dry_run.suffix());
    }
    failed
}

/// Says what kubectl says of the pods of each node, and which nodes are left alone.
fn refuse(nodes: &[String], chosen: &BTreeMap<String, Chosen>) -> BTreeMap<String, String> {
    let mut refused = BTreeMap::new();
    for node in nodes {
        let Some(chosen) = chosen.get(node) else { continue };
        if let Some(why) = chosen.refusal() {
            refused.insert(node.clone(), why);
        } else if let Some(warning) = chosen.warning() {
            eprintln!("Warning: {warning}");
        }
    }
    refused
}

/// The plan's units; those that another plan names in its order first. And whether each may ever go.
fn in_order(plan: &DrainPlan, order: Option<&DrainPlan>) -> Vec<(Unit, bool)> {
    let mut units: Vec<_> = plan.units().cloned().collect();
    if let Some(order) = order {
        let given: Vec<_> = order.units().map(|unit| (&unit.namespace, &unit.name)).collect();
        units.sort_by_key(|unit| {
            let place = given.iter().position(|id| *id == (&unit.namespace, &unit.name));
            place.unwrap_or(usize::MAX)
        });
    }
    let may_go = |unit: &Unit| !plan.blocked.iter().any(|blocked| blocked.unit == *unit);
    units.into_iter().map(|unit| (unit.clone(), may_go(&unit))).collect()
}

/// What will hold it up, before it does.
fn foretell(plan: &DrainPlan) {
    for blocked in &plan.blocked {
        eprintln!("Warning: {} is blocked: {}", named(&blocked.unit), blocked.reason);
    }
    if plan.pods_without_room > 0 {
        let pods = plan.pods_without_room;
        eprintln!("Warning: no room on other nodes for {pods} pods, by an estimate");
    }
}

async fn pretend(follow: &Follow, drainer: &Drainer, dry_run: DryRun) {
    for going in follow.units() {
        let namespace = &going.unit.namespace;
        for (index, pod) in going.unit.pods.iter().enumerate() {
            if going.unit.follows && index > 0 {
                println!("pod {namespace}/{} goes with it{}", pod.name, dry_run.suffix());
                continue;
            }
            println!("evicting pod {namespace}/{}{}", pod.name, dry_run.suffix());
            if dry_run == DryRun::Server {
                let key = ObjectKey::new(namespace, &pod.name);
                let propagation = group::propagation(&going.unit, pod);
                match drainer.evict(&key, &pod.uid, propagation).await {
                    Evicted::Granted | Evicted::Gone => {}
                    Evicted::Denied(why) | Evicted::Unknown(why) | Evicted::Refused(why) => {
                        eprintln!(
                            "error when evicting pods/{:?} -n {namespace:?}: {why}",
                            pod.name
                        );
                    }
                }
            }
        }
    }
}

/// Why a node is not empty, in kubectl's words.
fn left(follow: &Follow, node: &str, timeout: Duration) -> Option<String> {
    follow.on(node).find_map(|(unit, pod, step)| {
        let (name, namespace) = (&pod.name, &unit.namespace);
        let why = match step {
            Step::Gone => return None,
            Step::Failed(why) => why.clone(),
            _ => format!("global timeout reached: {}", crate::ask::age(timeout)),
        };
        Some(format!("error when evicting pods/{name:?} -n {namespace:?}: {why}"))
    })
}

/// For whoever has to know what to do now.
fn tell_state(cluster: &Cluster, follow: &Follow, progress: &Progress, nodes: &[String]) {
    let (done, rest): (Vec<_>, Vec<_>) =
        nodes.iter().map(String::as_str).partition(|node| progress.is_drained(node));
    eprintln!("cordoned: {}", nodes.join(" "));
    for (what, nodes) in [("drained", done), ("not drained", rest)] {
        if !nodes.is_empty() {
            eprintln!("{what}: {}", nodes.join(" "));
        }
    }
    for (name, healthy, needs) in progress.down(&Replicas::of(cluster), follow) {
        eprintln!("down: {name}, with {healthy} of {needs} healthy pods");
    }
    eprintln!("hint: run it again to go on; `kubectl uncordon` lets pods come to the nodes again");
}

/// As kubectl ends.
fn finish(nodes: &[String], failed: &BTreeMap<String, String>) -> Exit {
    let failed: Vec<(&String, String)> =
        nodes.iter().filter_map(|node| Some((node, failed.get(node)?.clone()))).collect();
    if failed.is_empty() {
        return Exit::Fine;
    }
    for (node, why) in &failed {
        eprintln!(
            "error: unable to drain node {node:?} due to error: {why}, continuing command..."
        );
    }
    eprintln!("There are pending nodes to be drained:");
    for (node, _) in &failed {
        eprintln!(" {node}");
    }
    let mut whys: Vec<String> = failed.into_iter().map(|(_, why)| why).collect();
    whys.dedup();
    let whole = if whys.len() == 1 { whys.remove(0) } else { format!("[{}]", whys.join(", ")) };
    Exit::Failed(anyhow!(whole))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drain::plan::Wave;

    fn plan(names: &[&str]) -> DrainPlan {
        let unit = |name: &&str| Unit {
            namespace: "ns".to_owned(),
            name: (*name).to_owned(),
            replica: true,
            pods: Vec::new(),
            at_once: 0,
            costs: BTreeMap::new(),
            follows: false,
            ends: false,
            recovery: None,
        };
        let wave = Wave {
            after_seconds: 0,
            units: names.iter().map(unit).collect(),
            nodes_done: Vec::new(),
        };
        DrainPlan {
            schema_version: SCHEMA_VERSION,
            nodes: Vec::new(),
            waves: vec![wave],
            blocked: Vec::new(),
            waiting: BTreeMap::new(),
            refused: BTreeMap::new(),
            pods_without_room: 0,
            estimated_seconds: None,
        }
    }

    #[test]
    fn a_plan_from_a_file_gives_the_order_and_what_it_does_not_know_goes_last() {
        let order = |given: Option<&DrainPlan>| {
            let units = in_order(&plan(&["w", "x", "y", "z"]), given);
            units.into_iter().map(|(unit, _)| unit.name).collect::<Vec<_>>()
        };
        assert_eq!(order(None), ["w", "x", "y", "z"]);
        assert_eq!(order(Some(&plan(&["z", "gone", "x"]))), ["z", "x", "w", "y"]);
    }

    #[test]
    fn only_plans_of_a_known_version_are_carried_out() {
        let path = std::env::temp_dir().join(format!("holdfast-plan-{}", std::process::id()));
        let mut given = plan(&["x"]);
        let mut written = |version| {
            given.schema_version = version;
            std::fs::write(&path, serde_json::to_string(&given).unwrap()).unwrap();
            read(&path).map(|plan| plan.waves.len()).map_err(|error| error.to_string())
        };
        assert_eq!(written(SCHEMA_VERSION), Ok(1));
        assert!(written(99).unwrap_err().ends_with("schemaVersion 99 is not known here"));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn it_ends_as_kubectl_does() {
        let nodes = ["a", "b"].map(str::to_owned);
        assert!(matches!(finish(&nodes, &BTreeMap::new()), Exit::Fine));
        let failed =
            |nodes: &[&str]| nodes.iter().map(|n| ((*n).to_owned(), "no".to_owned())).collect();
        let said = |exit| match exit {
            Exit::Failed(error) => error.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(said(finish(&nodes, &failed(&["b"]))), "no");
        let two = [("a".to_owned(), "no".to_owned()), ("b".to_owned(), "never".to_owned())].into();
        assert_eq!(said(finish(&nodes, &two)), "[no, never]");
    }
}
