//! `holdfast uninstall`.

use std::io::Write as _;
use std::path::PathBuf;

use crate::exit::{Exit, block_on};
use holdfast_server::{ClusterOptions, Removal, UninstallOptions};

#[derive(Debug, clap::Args)]
#[command(
    about = "Remove from a cluster what `serve --install` put there",
    long_about = "Remove from a cluster what `serve --install` put there\n\n\
        First of all it says which budgets will no longer be enforced, or not as they are, and refuses \
        if there are any, unless they are to be deleted (--delete-budgets) or --allow-loss is given. \
        --dry-run says the same, changes nothing, and ends with 1 if it would be refused.\n\n\
        The webhooks go first, so that nothing depends on Holdfast any more. A \
        CustomResourceDefinition is kept while there are budgets, or pod groups that others made, \
        because deleting it deletes them all, and if it was there before Holdfast; --delete-budgets \
        removes it all the same. Pods that wait for their gang are let go. Safe to repeat.",
    after_help = "Examples:\n  \
        holdfast uninstall --kubeconfig admin.kubeconfig --dry-run\n  \
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
    /// Go on although budgets lose what they protect: nobody will enforce them, or, from native mode,
    /// those that count replicas will count pods
    #[arg(long, alias = "allow-scope-loss")]
    allow_loss: bool,
    /// Only say which budgets would lose what they protect; end with 1 if there are any that no flag
    /// has given up
    #[arg(long)]
    dry_run: bool,
}

pub fn run(args: &Args) -> Exit {
    let options = UninstallOptions {
        cluster: ClusterOptions {
            kubeconfig: args.kubeconfig.clone(),
            context: args.context.clone(),
        },
        delete_budgets: args.delete_budgets,
        allow_loss: args.allow_loss,
    };
    if args.dry_run { dry_run(&options).into() } else { uninstall(&options).into() }
}

/// Whether it would not be refused.
fn dry_run(options: &UninstallOptions) -> anyhow::Result<bool> {
    let losses = block_on(holdfast_server::losses(options))?;
    for loss in &losses {
        tell(&loss.to_string());
    }
    if losses.is_empty() {
        eprintln!("no budget would lose what it protects");
    }
    Ok(options.allow(&losses))
}

fn uninstall(options: &UninstallOptions) -> anyhow::Result<()> {
    let mut kept = false;
    block_on(holdfast_server::uninstall(options, |removal| {
        tell(&match removal {
            Removal::Loses(loss) => loss.to_string(),
            Removal::Removed(object) => format!("removed {object}"),
            Removal::Progress(step) => step.clone(),
            Removal::NotThere(object) => format!("absent {object}"),
            Removal::Kept { object, why } => {
                kept |=
                    object.starts_with("customresourcedefinition") && !why.starts_with("not ours");
                format!("kept {object} ({why})")
            }
        });
    }))?;
    if kept && !options.delete_budgets {
        eprintln!(
            "hint: --delete-budgets also removes CustomResourceDefinitions and all budgets of ours"
        );
    }
    Ok(())
}

/// Whoever reads may have gone (`| head`), and this is no place to stop at.
fn tell(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
