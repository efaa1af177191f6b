//! The cluster for the tests, from environment variables.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::client::Client;

/// Says how to run the tests, if they run without a cluster.
pub const HOW_TO_RUN: &str = "`cargo xtask test` runs them on a control plane of their own, \
    `cargo xtask test --kubeconfig FILE` on a cluster that runs already";

/// The mode of Holdfast.
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

    /// Returns the API version of budgets.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::Webhook => "policy.holdfast.dev/v1",
            Self::Native => "policy/v1",
        }
    }
}

#[derive(Debug)]
pub struct Fixture {
    /// May do everything.
    pub admin: Client,
    /// May drain nodes.
    pub drainer: Client,
    pub admin_kubeconfig: PathBuf,
    pub drainer_kubeconfig: PathBuf,
    /// May install and run Holdfast.
    pub holdfast_kubeconfig: PathBuf,
    pub kubectl: PathBuf,
    /// The program under test, and its mode.
    pub holdfast: PathBuf,
    /// The program of an earlier revision, if there is one.
    previous: Option<PathBuf>,
    pub mode: Mode,
    /// The directory for logs and files of processes.
    pub dir: PathBuf,
}

static FIXTURE: OnceLock<Fixture> = OnceLock::new();

/// Returns the fixture of this run.
pub fn fixture() -> &'static Fixture {
    FIXTURE.get().expect("tests run after the suite has set up the fixture")
}

/// Returns true if the environment names a cluster.
pub fn is_named() -> bool {
    env::var_os(LOCALKUBE_DIR).is_some() || env::var_os(KUBECONFIG).is_some()
}

/// Reads the environment and checks that it is complete.
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
/// The largest number of API servers that localkube runs.
const APISERVERS_MAX: usize = 9;

/// Returns the mode of Holdfast in this run.
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
                // One identity for everything: a user who may do everything.
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
            // xtask puts localkube's kubectl on PATH.
            kubectl: PathBuf::from("kubectl"),
            holdfast,
            previous: env::var_os(PREVIOUS).map(PathBuf::from),
            mode: mode(),
            dir,
        })
    }

    /// Returns the earlier program, for tests with two releases.
    pub fn previous(&self) -> Result<&Path, String> {
        let program = self.previous.as_deref().filter(|program| program.is_file());
        program.ok_or_else(|| {
            format!("{PREVIOUS} names no holdfast of an earlier revision; `cargo xtask test --only upgrade` builds one")
        })
    }

    pub fn log(&self, name: &str) -> PathBuf {
        self.dir.join("logs").join(format!("{name}.log"))
    }

    /// Removes the files of this run, unless the caller does.
    pub fn clean_up(&self) {
        if env::var_os(KUBECONFIG).is_some() {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }

    /// Returns the kubeconfig of this user for one of localkube's API servers, counted from 0.
    pub fn kubeconfig_of(&self, user: &str, apiserver: usize) -> PathBuf {
        let mut path = self.dir.join("kubeconfigs");
        if apiserver > 0 {
            path.push(format!("apiserver-{}", apiserver + 1));
        }
        path.join(format!("{user}.kubeconfig"))
    }

    /// Returns how many API servers localkube runs.
    pub fn apiservers(&self) -> usize {
        (0..APISERVERS_MAX).take_while(|n| self.kubeconfig_of("admin", *n).exists()).count()
    }

    pub fn runs_lws(&self) -> bool {
        self.admin.get("/apis/leaderworkerset.x-k8s.io/v1").is_success()
    }

    pub fn runs_jobset(&self) -> bool {
        self.admin.get("/apis/jobset.x-k8s.io/v1alpha2").is_success()
    }

    /// Returns true if kube-scheduler starts gangs. Otherwise Holdfast does.
    pub fn has_pod_groups(&self) -> bool {
        static KNOWN: OnceLock<bool> = OnceLock::new();
        let ask = || self.admin.get("/apis/scheduling.k8s.io/v1beta1").is_success();
        *KNOWN.get_or_init(ask)
    }

    pub fn is_localkube(&self) -> bool {
        env::var_os(KUBECONFIG).is_none()
    }

    /// Returns the path at which localkube puts the descheduler.
    pub fn descheduler(&self) -> PathBuf {
        self.dir.join("descheduler")
    }

    /// Returns true if nodes are simulated on this cluster: a node that a test creates becomes Ready.
    pub fn plays_nodes(&self) -> bool {
        crate::world::World::try_node(self)
    }
}
