//! The programs of the control plane and their flags.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{
    identity,
    operator::Operator,
    options::Options,
    pki::{FRONT_PROXY_CLIENT, Pki},
    probe::{Probe, Scheme},
};

/// A program to run, and the check of its readiness.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Component {
    pub name: String,
    /// The name of the program, if it differs from the component's name.
    #[serde(default)]
    pub program: Option<String>,
    /// The directory of the program, if it differs from the usual one.
    #[serde(default)]
    pub programs: Option<PathBuf>,
    pub args: Vec<String>,
    pub probe: Probe,
}

pub fn etcd(dir: &Path, port: u16, peer_port: u16) -> Component {
    let (url, peer_url) =
        (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer_port}"));
    let args = flags([
        ("name", "localkube"),
        ("data-dir", &text(&dir.join("etcd"))),
        ("listen-client-urls", &url),
        ("advertise-client-urls", &url),
        ("listen-peer-urls", &peer_url),
        ("initial-advertise-peer-urls", &peer_url),
        ("initial-cluster", &format!("localkube={peer_url}")),
        // The data need not survive a crash of the machine.
        ("unsafe-no-fsync", "true"),
    ]);
    component("etcd", args, http(port, "/health"))
}

impl Component {
    /// Returns the name of its program.
    pub fn program(&self) -> &str {
        self.program.as_deref().unwrap_or(&self.name)
    }
}

/// Returns one of several API servers, counted from 0. The second is the component `kube-apiserver-2`.
pub fn kube_apiserver(
    dir: &Path,
    pki: &Pki,
    number: usize,
    port: u16,
    etcd_port: u16,
    options: &Options,
) -> Component {
    let mut args = flags([
        ("etcd-servers", &format!("http://127.0.0.1:{etcd_port}")),
        ("advertise-address", "127.0.0.1"),
        // A loopback address is not allowed in the endpoints of the Service `kubernetes`.
        ("endpoint-reconciler-type", "none"),
        ("service-cluster-ip-range", "10.96.0.0/16"),
        ("token-auth-file", &text(&identity::token_file(dir))),
        ("client-ca-file", &text(&pki.cert("ca"))),
        ("authorization-mode", "RBAC"),
        ("service-account-issuer", "https://kubernetes.default.svc"),
        ("service-account-key-file", &text(&pki.service_account_public_key())),
        ("service-account-signing-key-file", &text(&pki.key("service-account"))),
        // For aggregated API servers.
        ("requestheader-client-ca-file", &text(&pki.cert("front-proxy-ca"))),
        ("requestheader-allowed-names", FRONT_PROXY_CLIENT),
        ("requestheader-username-headers", "X-Remote-User"),
        ("requestheader-group-headers", "X-Remote-Group"),
        ("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
        ("proxy-client-cert-file", &text(&pki.cert(FRONT_PROXY_CLIENT))),
        ("proxy-client-key-file", &text(&pki.key(FRONT_PROXY_CLIENT))),
        ("feature-gates", feature_gates(options)),
    ]);
    if options.has_pod_groups() {
        args.extend(flags([("runtime-config", "scheduling.k8s.io/v1beta1=true")]));
    }
    args.extend(serving(pki, port));
    // They come last, so that they override the others.
    args.extend(options.apiserver_flags.iter().cloned());
    let mut apiserver = component("kube-apiserver", args, https(port, "/readyz"));
    if number > 0 {
        let name = format!("{}-{}", apiserver.name, number + 1);
        apiserver.program = Some(std::mem::replace(&mut apiserver.name, name));
    }
    apiserver
}

pub fn kube_controller_manager(
    kubeconfig: &Path,
    pki: &Pki,
    port: u16,
    options: &Options,
) -> Component {
    let mut args = flags([
        ("kubeconfig", &text(kubeconfig)),
        ("leader-elect", "false"),
        // Each controller is a separate user, as in real clusters.
        ("use-service-account-credentials", "true"),
        ("service-account-private-key-file", &text(&pki.key("service-account"))),
        ("root-ca-file", &text(&pki.cert("ca"))),
        // A client-side rate limit would only delay tests.
        ("kube-api-qps", "200"),
        ("kube-api-burst", "400"),
        ("feature-gates", feature_gates(options)),
    ]);
    args.extend(serving(pki, port));
    component("kube-controller-manager", args, https(port, "/healthz"))
}

pub fn kube_scheduler(kubeconfig: &Path, pki: &Pki, port: u16, options: &Options) -> Component {
    let mut args = flags([
        ("kubeconfig", &text(kubeconfig)),
        ("leader-elect", "false"),
        ("feature-gates", feature_gates(options)),
    ]);
    args.extend(serving(pki, port));
    component("kube-scheduler", args, https(port, "/readyz"))
}

/// Returns kwok, which simulates the kubelets of all nodes. `stages` are the files that define the stages of
/// nodes and pods.
pub fn kwok<'a>(kubeconfig: &Path, stages: impl Iterator<Item = &'a Path>, port: u16) -> Component {
    let mut args = flags([
        ("kubeconfig", &text(kubeconfig)),
        ("manage-all-nodes", "true"),
        ("node-ip", "127.0.0.1"),
        ("cidr", "10.128.0.0/9"),
        ("server-address", &format!("127.0.0.1:{port}")),
        // Without renewed leases the nodes, and then their pods, become NotReady after 40 s.
        ("node-lease-duration-seconds", "40"),
    ]);
    args.extend(stages.map(|stage| format!("--config={}", stage.display())));
    component("kwok", args, http(port, "/readyz"))
}

/// Returns a controller of workloads. It is ready when its last webhook answers, which starts after its
/// controllers.
pub fn operator(
    of: &Operator,
    programs: PathBuf,
    kubeconfig: &Path,
    config: &Path,
    webhook_port: u16,
) -> Component {
    let args = flags([
        ("kubeconfig", &text(kubeconfig)),
        ("config", &text(config)),
        // Otherwise both listen on every interface and on fixed ports.
        ("metrics-bind-address", "0"),
        ("health-probe-bind-address", "0"),
    ]);
    let probe = https(webhook_port, "/validate--v1-pod");
    Component { name: of.name.to_owned(), program: None, programs: Some(programs), args, probe }
}

/// Returns the feature gates. `PodGroup`s and gang scheduling are off by default in this version.
fn feature_gates(options: &Options) -> &'static str {
    if options.has_pod_groups() { "GenericWorkload=true" } else { "GenericWorkload=false" }
}

fn serving(pki: &Pki, port: u16) -> Vec<String> {
    flags([
        ("bind-address", "127.0.0.1"),
        ("secure-port", &port.to_string()),
        ("tls-cert-file", &text(&pki.cert("serving"))),
        ("tls-private-key-file", &text(&pki.key("serving"))),
    ])
}

fn component(name: &str, args: Vec<String>, probe: Probe) -> Component {
    Component { name: name.to_owned(), program: None, programs: None, args, probe }
}

fn http(port: u16, path: &str) -> Probe {
    Probe { port, path: path.to_owned(), scheme: Scheme::Http }
}

fn https(port: u16, path: &str) -> Probe {
    Probe { port, path: path.to_owned(), scheme: Scheme::Https }
}

fn flags<const N: usize>(flags: [(&str, &str); N]) -> Vec<String> {
    flags.iter().map(|(name, value)| format!("--{name}={value}")).collect()
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
