//! The clients of the API server. Each kind of client is a user with a token and a kubeconfig.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use serde_json::json;

use super::ports::random_bytes;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// The only identity in system:masters, only for localkube's first steps.
    Bootstrap,
    /// The user who runs a test. It may do everything, but priority and fairness applies to it.
    Admin,
    KubeControllerManager,
    KubeScheduler,
    Kwok,
    /// `LeaderWorkerSet`'s controller, as the service account with the rights of its manifests.
    Lws,
    /// `JobSet`'s controller, in the same way.
    JobSet,
    /// Holdfast, with only the rights to install itself.
    Holdfast,
    /// A platform engineer who drains nodes.
    Drainer,
    Descheduler,
}

impl Identity {
    /// Returns the path of the kubeconfig for the first API server.
    pub fn kubeconfig(self, dir: &Path) -> PathBuf {
        self.kubeconfig_of(dir, 0)
    }

    /// Returns the path of the kubeconfig for one API server, counted from 0. Those of the second API server
    /// are in the directory `apiserver-2`, and so on.
    pub fn kubeconfig_of(self, dir: &Path, apiserver: usize) -> PathBuf {
        // A separate directory, so that no test uses it by mistake.
        let sub = if self == Self::Bootstrap { "pki" } else { "kubeconfigs" };
        let mut path = dir.join(sub);
        if apiserver > 0 {
            path.push(format!("apiserver-{}", apiserver + 1));
        }
        path.join(format!("{}.kubeconfig", self.name()))
    }

    fn name(self) -> &'static str {
        match self {
            Self::Bootstrap => "bootstrap",
            Self::Admin => "admin",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::Kwok => "kwok",
            Self::Lws => "lws",
            Self::JobSet => "jobset",
            Self::Holdfast => "holdfast",
            Self::Drainer => "drainer",
            Self::Descheduler => "descheduler",
        }
    }

    fn user(self) -> &'static str {
        match self {
            Self::Bootstrap => "localkube:bootstrap",
            Self::KubeControllerManager => "system:kube-controller-manager",
            Self::KubeScheduler => "system:kube-scheduler",
            Self::Lws => "system:serviceaccount:lws-system:lws-controller-manager",
            Self::JobSet => "system:serviceaccount:jobset-system:jobset-controller-manager",
            other => other.name(),
        }
    }

    /// Returns the groups, separated by commas.
    fn groups(self) -> Option<&'static str> {
        match self {
            Self::Bootstrap => Some("system:masters"),
            Self::Admin => Some("localkube:admins"),
            // Only for priority and fairness, which must treat its requests as those of kubelets. (The node
            // authorizer gives this group rights, and localkube does not use it.)
            Self::Kwok => Some("system:nodes"),
            Self::Lws => Some("system:serviceaccounts,system:serviceaccounts:lws-system"),
            Self::JobSet => Some("system:serviceaccounts,system:serviceaccounts:jobset-system"),
            _ => None,
        }
    }
}

const ALL: [Identity; 10] = [
    Identity::Bootstrap,
    Identity::Admin,
    Identity::KubeControllerManager,
    Identity::KubeScheduler,
    Identity::Kwok,
    Identity::Lws,
    Identity::JobSet,
    Identity::Holdfast,
    Identity::Drainer,
    Identity::Descheduler,
];

/// Creates a token for every identity, and a kubeconfig for each of these API servers.
pub fn create(dir: &Path, servers: &[String], ca: &Path) -> Result<()> {
    let mut tokens = String::new();
    for identity in ALL {
        let token = random_token()?;
        let (user, groups) = (identity.user(), identity.groups().unwrap_or_default());
        writeln!(tokens, "{token},{user},{user},\"{groups}\"")?;

        for (apiserver, server) in servers.iter().enumerate() {
            let path = identity.kubeconfig_of(dir, apiserver);
            let sub = path.parent().context("a kubeconfig lies in a directory")?;
            fs::create_dir_all(sub).with_context(|| format!("create {}", sub.display()))?;
            let content = kubeconfig(identity.name(), server, ca, &token);
            fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
        }
    }
    let path = token_file(dir);
    fs::write(&path, tokens).with_context(|| format!("write {}", path.display()))
}

/// Returns the file with the users for kube-apiserver.
pub fn token_file(dir: &Path) -> PathBuf {
    dir.join("pki/tokens.csv")
}

/// Returns a kubeconfig in JSON, which is also YAML.
fn kubeconfig(name: &str, server: &str, ca: &Path, token: &str) -> String {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "localkube",
            "cluster": { "server": server, "certificate-authority": ca },
        }],
        "users": [{ "name": name, "user": { "token": token } }],
        "contexts": [{ "name": name, "context": { "cluster": "localkube", "user": name } }],
        "current-context": name,
    });
    format!("{config:#}\n")
}

fn random_token() -> Result<String> {
    let mut bytes = [0; 16];
    random_bytes(&mut bytes)?;
    Ok(bytes.iter().fold(String::new(), |mut token, byte| {
        write!(token, "{byte:02x}").expect("writing to a string cannot fail");
        token
    }))
}
