//! `holdfast why`: may this pod go, who says no, and what would help.

#[cfg(test)]
mod agreement;
mod answer;
mod explain;
#[cfg(test)]
mod tests;
mod text;

use anyhow::anyhow;
use holdfast_core::model::ObjectKey;
use holdfast_server::Reader;

use crate::ask::{Builtins, Cluster, ClusterArgs, Output, emit};
use crate::exit::{Exit, Hinted, block_on};
use crate::simulate::may_colour;
use answer::Answer;

#[derive(Debug, clap::Args)]
#[command(
    about = "Say whether a pod may be evicted now, who says no, and what would help",
    long_about = "Say whether a pod may be evicted now, who says no, and what would help\n\n\
        Asks the engine that decides evictions, fed with the cluster as it is now: every budget that \
        covers the pod with its arithmetic, those that block, and what would unblock it: replicas \
        that have to recover, grants that expire, a threshold that would do. Of a node, all its pods, \
        each as if it were the only one to go. Nothing is evicted, and no server has to run.",
    after_help = "Examples:\n  \
        holdfast why llama-0-1 -n serving\n  \
        holdfast why node/worker-3\n  \
        kubectl holdfast why pod/llama-0-1 -o json | jq .unblock\n\n\
        Exit codes: 0 allowed, 1 blocked, 2 error"
)]
pub struct Args {
    /// pod/NAME, node/NAME, or NAME: a pod, else a node
    #[arg(value_name = "POD|NODE")]
    what: String,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Form of the answer; `name` prints the budgets that block
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

pub fn run(args: &Args) -> Exit {
    ask(args).into()
}

/// Whether everything asked about may go.
fn ask(args: &Args) -> anyhow::Result<bool> {
    let answer = block_on(async {
        let reader = args.cluster.connect().await?;
        let namespace = args.cluster.namespace.as_deref().unwrap_or(reader.namespace()).to_owned();
        find(&reader, &args.what, &namespace).await
    })?;
    let colour = may_colour(&std::io::stdout());
    let text = || text::render(&answer, args.output == Output::Wide, colour);
    emit(args.output, &answer, text, || answer.blocking())?;
    Ok(answer.is_allowed())
}

async fn find(reader: &Reader, what: &str, namespace: &str) -> anyhow::Result<Answer> {
    let (kind, name) = what.split_once('/').unwrap_or(("", what));
    let (pods, nodes) = match kind.to_ascii_lowercase().as_str() {
        "" => (true, true),
        "pod" | "pods" | "po" => (true, false),
        "node" | "nodes" | "no" => (false, true),
        other => {
            return Err(Hinted::error(
                format!("cannot ask about {other:?}"),
                "name a pod/NAME or a node/NAME",
            ));
        }
    };
    if pods {
        let mut cluster = Cluster::read(reader, Some(namespace), Builtins::Gate).await?;
        let key = ObjectKey::new(namespace, name);
        if cluster.pod(&key).is_some() {
            return Ok(Answer::Pod(answer::of_pod(&mut cluster, &key)));
        }
    }
    if nodes {
        let mut cluster = Cluster::read(reader, None, Builtins::Gate).await?;
        if cluster.has_node(name) {
            return Ok(Answer::Node(answer::of_node(&mut cluster, name)));
        }
    }
    Err(match (pods, nodes) {
        (true, true) => Hinted::error(
            format!("there is no pod {name} in namespace {namespace}, and no node of that name"),
            "-n NAMESPACE looks for the pod in another namespace",
        ),
        (true, false) => Hinted::error(
            format!("there is no pod {name} in namespace {namespace}"),
            "-n NAMESPACE looks for the pod in another namespace",
        ),
        _ => anyhow!("there is no node {name}"),
    })
}
