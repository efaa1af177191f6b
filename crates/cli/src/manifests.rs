//! `holdfast manifests`.

use std::io;

use clap::ValueEnum;
use holdfast_core::model::GroupApi;
use holdfast_server::package::{self, Choice, Run};
use serde_json::Value;

use crate::serve::Mode;
use crate::simulate::print;

#[derive(Debug, clap::Args)]
#[command(
    about = "Print what to apply to a cluster to install Holdfast",
    long_about = "Print what to apply to a cluster to install Holdfast\n\n\
        What `serve --install` installs, with a Deployment that serves, and nothing that it may not do \
        without. Needs no cluster. What was applied is removed by `holdfast uninstall`.",
    after_help = concat!(
        "Examples:\n  holdfast manifests --image registry.example/holdfast:",
        env!("CARGO_PKG_VERSION"),
        " | kubectl apply -f -\n  \
        holdfast manifests --mode native --pod-groups kubernetes\n  \
        holdfast manifests --mode native --static-pod node > /etc/kubernetes/manifests/holdfast.yaml"
    )
)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct Args {
    /// How to stand in front of the Eviction API
    #[arg(long, value_enum, default_value_t = Mode::Webhook)]
    mode: Mode,
    /// Container image with the program as its entry point
    #[arg(long, default_value = concat!("holdfast:", env!("CARGO_PKG_VERSION")))]
    image: String,
    /// Instances of the Deployment
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=8))]
    replicas: u32,
    /// Also serve the PodUnavailableBudgets of policy.kruise.io. Not where Kruise is installed: their
    /// definition would become Holdfast's (`serve --install --take-over` does that with care)
    #[arg(long)]
    pod_unavailable_budgets: bool,
    /// Where pod groups are made, as with `serve`
    #[arg(long, value_enum, default_value_t = PodGroups::Off)]
    pod_groups: PodGroups,
    /// Also serve a page for people, on loopback of the pods: `kubectl port-forward` reaches it at 9445
    #[arg(long)]
    page: bool,
    /// As with `serve`
    #[arg(long)]
    clear_stale_disruption_targets: bool,
    /// As with `serve --mode native`
    #[arg(long)]
    accept_bypass: bool,
    /// For static pods beside API servers, instead of a Deployment
    #[arg(long, value_enum, value_name = "PART")]
    static_pod: Option<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PodGroups {
    Off,
    Kubernetes,
    Holdfast,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// What to apply to the cluster; Holdfast is user `holdfast` there
    Cluster,
    /// The file for the kubelet of every node with an API server, which reads /etc/kubernetes/holdfast.conf
    Node,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let choice = Choice {
        native: args.mode == Mode::Native,
        accept_bypass: args.accept_bypass,
        unavailable: args.pod_unavailable_budgets,
        gangs: match args.pod_groups {
            PodGroups::Off => None,
            PodGroups::Kubernetes => Some(GroupApi::Kubernetes),
            PodGroups::Holdfast => Some(GroupApi::Holdfast),
        },
        clearing: args.clear_stale_disruption_targets,
        page: args.page,
    };
    let image = args.image.clone();
    let objects = match args.static_pod {
        None => package::objects(choice, &Run::Deployment { image, replicas: args.replicas }),
        Some(Part::Cluster) => package::objects(choice, &Run::StaticPods),
        Some(Part::Node) => vec![package::static_pod(choice, &image)],
    };
    Ok(print(&mut io::stdout(), &documents(&objects)?)?)
}

fn documents(objects: &[Value]) -> anyhow::Result<String> {
    let documents: Result<Vec<String>, _> = objects.iter().map(serde_saphyr::to_string).collect();
    Ok(documents?.join("---\n"))
}
