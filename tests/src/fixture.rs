//! The cluster that the tests run on, as the environment names it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::client::Client;

/// How to run the tests, for whoever ran them without a cluster.
pub const HOW_TO_RUN: &str = "`cargo xtask test` runs them on a control plane of their own, \
    `cargo xtask test --kubeconfig FILE` on a cluster that runs already";

/// How Holdfast stands in front of the Eviction API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Webhook,
    Native,
}

impl Mode {
    pub fn flag(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Native => "native",
        }
    }

    /// Of budgets.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::Webhook => "policy.holdfast.dev/v1",
            Self::Native => "policy/v1",
        }
    }
}

#[derive(Debug)]
pub struct Fixture {
    /// Everything.
    pub admin: Client,
    /// Drains nodes.
    pub drainer: Client,
    pub admin_kubeconfig: PathBuf,
    pub drainer_kubeconfig: PathBuf,
    /// Installs and runs Holdfast.
    pub holdfast_kubeconfig: PathBuf,
    pub kubectl: PathBuf,
    /// The program under test, and the mode it is tested in.
    pub holdfast: PathBuf,
    /// The same of an earlier revision, if there is one.
    previous: Option<PathBuf>,
    pub mode: Mode,
    /// Logs and the files of processes.
    pub dir: PathBuf,
}

static FIXTURE: OnceLock<Fixture> = OnceLock::new();

/// The fixture of this run.
pub fn fixture() -> &'static Fixture {
    FIXTURE.get().expect("tests run after the suite has set up the fixture")
}

/// Whether the environment names a cluster at all.
pub fn is_named() -> bool {
    env::var_os(LOCALKUBE_DIR).is_some() || env::var_os(KUBECONFIG).is_some()
}

/// Reads the environment and sees that all of it is there.
pub fn set_up() -> Result<(), String> {
    let fixture = Fixture::from_env()?;
    FIXTURE.get_or_init(|| fixture);
    Ok(())
}

const LOCALKUBE_DIR: &str = "HOLDFAST_LOCALKUBE_DIR";
const KUBECONFIG: &str = "HOLDFAST_E2E_KUBECONFIG";
const BIN: &str = "HOLDFAST_BIN";
const PREVIOUS: &str = "HOLDFAST_PREVIOUS_BIN";
const NATIVE: &str = "HOLDFAST_E2E_NATIVE";
/// The most API servers that localkube runs.
const APISERVERS_MAX: usize = 9;

/// In which Holdfast is tested.
pub fn mode() -> Mode {
    if env::var_os(NATIVE).is_some() { Mode::Native } else { Mode::Webhook }
}

impl Fixture {
    fn from_env() -> Result<Self, String> {
        let holdfast = env::var_os(BIN)
            .map(PathBuf::from)
            .ok_or_else(|| format!("{BIN} does not name the holdfast program; {HOW_TO_RUN}"))?;
        if !holdfast.is_file() {
            return Err(format!("{BIN}={} is no file", holdfast.display()));
        }
        let (dir, kubeconfigs) = match (env::var_os(KUBECONFIG), env::var_os(LOCALKUBE_DIR)) {
            (Some(kubeconfig), _) => {
                // One identity for all: whoever may do everything.
                let kubeconfig = PathBuf::from(kubeconfig);
                let dir = env::temp_dir().join(format!("holdfast-e2e-{}", std::process::id()));
                (dir, [kubeconfig.clone(), kubeconfig.clone(), kubeconfig])
            }
            (None, Some(dir)) => {
                let dir = PathBuf::from(dir);
                let of = |user: &str| dir.join("kubeconfigs").join(format!("{user}.kubeconfig"));
                let kubeconfigs = [of("admin"), of("drainer"), of("holdfast")];
                (dir, kubeconfigs)
            }
            (None, None) => return Err(format!("no cluster to run on; {HOW_TO_RUN}")),
        };
        let [admin_kubeconfig, drainer_kubeconfig, holdfast_kubeconfig] = kubeconfigs;
        for sub in ["logs", "home"] {
            let path = dir.join(sub);
            fs::create_dir_all(&path).map_err(|e| format!("create {}: {e}", path.display()))?;
        }
        Ok(Self {
            admin: Client::new(&admin_kubeconfig)?,
            drainer: Client::new(&drainer_kubeconfig)?,
            admin_kubeconfig,
            drainer_kubeconfig,
            holdfast_kubeconfig,
            // xtask puts localkube's on PATH.
            kubectl: PathBuf::from("kubectl"),
            holdfast,
            previous: env::var_os(PREVIOUS).map(PathBuf::from),
            mode: mode(),
            dir,
        })
    }

    /// For tests in which two releases meet.
    pub fn previous(&self) -> Result<&Path, String> {
        let program = self.previous.as_deref().filter(|program| program.is_file());
        program.ok_or_else(|| {
            format!("{PREVIOUS} names no holdfast of an earlier revision; `cargo xtask test --only upgrade` builds one")
        })
    }

    pub fn log(&self, name: &str) -> PathBuf {
        self.dir.join("logs").join(format!("{name}.log"))
    }

    /// Removes the files of this run, where nobody else does.
    pub fn clean_up(&self) {
        if env::var_os(KUBECONFIG).is_some() {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }

    /// The kubeconfig of this user for one of localkube's API servers, counted from 0.
    pub fn kubeconfig_of(&self, user: &str, apiserver: usize) -> PathBuf {
        let mut path = self.dir.join("kubeconfigs");
        if apiserver > 0 {
            path.push(format!("apiserver-{}", apiserver + 1));
        }
        path.join(format!("{user}.kubeconfig"))
    }

    /// How many API servers localkube runs.
    pub fn apiservers(&self) -> usize {
        (0..APISERVERS_MAX).take_while(|n| self.kubeconfig_of("admin", *n).exists()).count()
    }

    pub fn runs_lws(&self) -> bool {
        self.admin.get("/apis/leaderworkerset.x-k8s.io/v1").is_success()
    }

    pub fn runs_jobset(&self) -> bool {
        self.admin.get("/apis/jobset.x-k8s.io/v1alpha2").is_success()
    }

    /// Whether kube-scheduler starts gangs whole, or Holdfast has to.
    pub fn has_pod_groups(&self) -> bool {
        static KNOWN: OnceLock<bool> = OnceLock::new();
        let ask = || self.admin.get("/apis/scheduling.k8s.io/v1beta1").is_success();
        *KNOWN.get_or_init(ask)
    }

    pub fn is_localkube(&self) -> bool {
        env::var_os(KUBECONFIG).is_none()
    }

    /// Where localkube puts the descheduler if asked to.
    pub fn descheduler(&self) -> PathBuf {
        self.dir.join("descheduler")
    }

    /// Whether nodes are played on this cluster: whether one that a test creates turns Ready.
    pub fn plays_nodes(&self) -> bool {
        crate::world::World::try_node(self)
    }
}
