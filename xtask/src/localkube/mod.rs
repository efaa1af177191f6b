//! `cargo xtask localkube`: a real Kubernetes control plane on the loopback interface, for tests.
//!
//! ```text
//! build ──> programs (cache, by hash) ──┐
//! pki ──> certificates ──┐              │
//! identity ──> tokens ───┼─> component ─┴─> cluster ──> process (pids) ──> state.json
//! ports ─────────────────┘                    └──> probe (readyz)
//! ```
//!
//! Nodes and pods are played by kwok, which manages every node. This is all that a test has to
//! create for a node that turns Ready, keeps its lease and runs pods:
//!
//! ```yaml
//! apiVersion: v1
//! kind: Node
//! metadata:
//!   name: node-1
//!   labels: { kubernetes.io/hostname: node-1 }
//! ```
//!
//! Its capacity is 1000 CPUs, 1 Ti of memory and a million pods, unless `status.capacity` and
//! `status.allocatable` say otherwise. How a test keeps pods from being ready and the like is in
//! `localkube/README.md`.

mod build;
mod cluster;
mod component;
mod identity;
mod operator;
mod options;
mod parts;
mod pki;
mod ports;
mod probe;
mod process;
mod progress;
mod start;
mod state;
mod status;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
pub use build::helm;
use clap::Subcommand;
pub use cluster::Localkube;
use cluster::Started;
pub use identity::Identity;
pub use options::{Options, Release};
pub use process::Process;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

pub fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Build => {
            println!("{}", build::programs(Release::default())?.display());
            Ok(())
        }
        Command::Up { at, options } => up(&at.dir()?, options),
        Command::Restart { at, component, flags } => {
            Localkube::restart(&at.dir()?, component, flags)
        }
        Command::Status(at) => {
            print!("{}", status::table(&at.dir()?)?);
            Ok(())
        }
        Command::Down(at) => Localkube::down(&at.dir()?),
        Command::Env(at) => {
            for (name, value) in Localkube::open(&at.dir()?)?.env()? {
                println!("export {name}={}", shell_quote(&value));
            }
            Ok(())
        }
    }
}

#[derive(Subcommand)]
enum Command {
    /// Build the control plane's programs, if they are not in the cache (about 12 minutes on 2 cores)
    Build,
    /// Start a control plane, building it first if need be
    Up {
        #[command(flatten)]
        at: At,
        #[command(flatten)]
        options: Options,
    },
    /// Stop a component and start it again
    Restart {
        #[command(flatten)]
        at: At,
        /// A component of the control plane: kube-apiserver, kube-apiserver-2, kube-controller-manager, ...
        #[arg(value_name = "NAME")]
        component: String,
        /// A flag for it until it is restarted again; may be given several times
        #[arg(long = "flag", value_name = "--NAME=VALUE", allow_hyphen_values = true)]
        flags: Vec<String>,
    },
    /// Print its components: pid, port, and whether each runs, is paused or has ended
    Status(At),
    /// Stop the control plane and remove its directory
    Down(At),
    /// Print shell lines to use it: eval "$(cargo xtask localkube env)"
    Env(At),
}

#[derive(clap::Args)]
struct At {
    /// The control plane's directory; one of its own for each that runs [default: target/localkube]
    #[arg(long, value_name = "DIR", env = "HOLDFAST_LOCALKUBE_DIR")]
    dir: Option<PathBuf>,
}

impl At {
    fn dir(&self) -> Result<PathBuf> {
        let dir = match &self.dir {
            Some(dir) => dir.clone(),
            None => workspace().join("target/localkube"),
        };
        // The programs get this path, and their working directories differ.
        std::path::absolute(&dir).with_context(|| format!("resolve {}", dir.display()))
    }
}

fn up(dir: &Path, options: &Options) -> Result<()> {
    let (localkube, started) = Localkube::up(dir, options)?;
    if started == Started::Before {
        eprintln!("localkube runs already in {}", dir.display());
    }
    let kubeconfig = localkube.kubeconfig(Identity::Admin);
    println!("{}", kubeconfig.display());
    println!("export KUBECONFIG={}", shell_quote(&kubeconfig.to_string_lossy()));
    Ok(())
}

fn shell_quote(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}

/// Returns the cargo that runs this program, in the checkout.
pub fn cargo() -> std::process::Command {
    let cargo = std::env::var_os("CARGO");
    let mut cargo = std::process::Command::new(cargo.unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(workspace());
    cargo
}

/// Returns the checkout in which this program was compiled.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}
