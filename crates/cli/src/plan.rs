//! `holdfast plan drain`: the order that breaks the fewest replicas.

use anyhow::bail;
use clap::Subcommand;

use crate::ask::{Builtins, Cluster, ClusterArgs, Output, emit};
use crate::drain::{Choice, DrainPlan, Which, render};
use crate::exit::{Exit, block_on};
use crate::simulate::may_colour;

#[derive(Debug, clap::Args)]
#[command(about = "Say what would be done, and in which order, without doing it")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Drain(DrainArgs),
}

#[derive(Debug, clap::Args)]
#[command(
    about = "Plan the drain of nodes that breaks the fewest replicas",
    long_about = "Plan the drain of nodes that breaks the fewest replicas\n\n\
        All nodes are cordoned first. Then whole replicas go, with all their pods on any of the nodes \
        together, as many at a time as the budgets allow; when one is back elsewhere, the next. The plan \
        says what goes in which wave, when nodes are empty, what will block for ever and why, and how \
        long it takes if replicas come back as fast as they did last. Nothing is changed.",
    after_help = "Examples:\n  \
        holdfast plan drain worker-1 worker-2 --ignore-daemonsets\n  \
        holdfast plan drain -l pool=a -o json > plan.json && holdfast drain --plan plan.json\n\n\
        Exit codes: 0 the nodes can be drained, 1 something blocks for ever or no pod
  \
        has room elsewhere, 2 error"
)]
struct DrainArgs {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Form of the plan; `name` prints the pods in their order
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

pub fn run(args: &Args) -> Exit {
    let What::Drain(args) = &args.what;
    plan(args).into()
}

/// Whether all nodes can be drained.
fn plan(args: &DrainArgs) -> anyhow::Result<bool> {
    let cluster = block_on(async {
        let reader = args.cluster.connect().await?;
        Cluster::read(&reader, None, Builtins::Counted).await
    })?;
    let nodes = args.which.find(&cluster)?;
    if nodes.is_empty() {
        bail!("there is nothing to plan");
    }
    let (plan, _) = DrainPlan::make(&cluster, &nodes, &args.choice);
    let colour = may_colour(&std::io::stdout());
    let pods = || {
        let of = |namespace: &str, name: &str| format!("pod/{namespace}/{name}");
        plan.units()
            .flat_map(|unit| unit.pods.iter().map(|pod| of(&unit.namespace, &pod.name)))
            .collect()
    };
    emit(args.output, &plan, || render(&plan, colour), pods)?;
    Ok(plan.can_be_drained())
}
