//! `holdfast uninstall`.

use std::io::Write as _;
use std::path::PathBuf;

use crate::exit::block_on;
use holdfast_server::{ClusterOptions, Removal, UninstallOptions};

#[derive(Debug, clap::Args)]
#[command(
    about = "Remove from a cluster what `serve --install` put there",
    long_about = "Remove from a cluster what `serve --install` put there\n\n\
        The webhooks go first, so that nothing depends on Holdfast any more. A \
        CustomResourceDefinition is kept while there are budgets, or pod groups that others made, \
        because deleting it deletes them all, and if it was there before Holdfast; --delete-budgets \
        removes it all the same. Pods that wait for their gang are let go. Safe to repeat.",
    after_help = "Examples:\n  \
        holdfast uninstall --kubeconfig admin.kubeconfig\n  \
        holdfast uninstall --kubeconfig admin.kubeconfig --delete-budgets"
)]
pub struct Args {
    /// Kubeconfig of somebody who may uninstall [default: ~/.kube/config, else the service account]
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Also delete the CustomResourceDefinitions if there are budgets, and with them every one of those
    #[arg(long)]
    delete_budgets: bool,
    /// From native mode: give policy/v1 back although budgets that count replicas will count pods
    #[arg(long)]
    allow_scope_loss: bool,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let options = UninstallOptions {
        cluster: ClusterOptions {
            kubeconfig: args.kubeconfig.clone(),
            context: args.context.clone(),
        },
        delete_budgets: args.delete_budgets,
        allow_scope_loss: args.allow_scope_loss,
    };
    let mut kept = false;
    block_on(holdfast_server::uninstall(&options, |removal| {
        let line = match removal {
            Removal::Removed(object) => format!("removed {object}"),
            Removal::Progress(step) => step.clone(),
            Removal::NotThere(object) => format!("absent {object}"),
            Removal::Kept { object, why } => {
                kept |=
                    object.starts_with("customresourcedefinition") && !why.starts_with("not ours");
                format!("kept {object} ({why})")
            }
        };
        // Whoever reads may have gone (`| head`), and this is no place to stop at.
        let _ = writeln!(std::io::stdout(), "{line}");
    }))?;
    if kept && !args.delete_budgets {
        eprintln!(
            "hint: --delete-budgets also removes CustomResourceDefinitions and all budgets of ours"
        );
    }
    Ok(())
}
