//! `holdfast serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use holdfast_server::{
    Addresses, CertificateOptions, ClusterOptions, Features, Files, GangOptions, LogLevel, Lull,
    ServeOptions,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::board;
use crate::logging::LogArgs;

#[derive(Debug, clap::Args)]
#[command(
    about = "Decide the evictions of a cluster",
    long_about = "Decide the evictions of a cluster\n\n\
        Watches pods, budgets and what they refer to, answers the API server's admission \
        requests for pods/eviction, and where PodUnavailableBudgets are for deletes and updates of \
        pods, and records every grant in the budget's status before answering. When ready, prints one line of JSON with its addresses to stdout.\n\n\
        SIGTERM or SIGINT: answers what is in flight, finishes its writes, exits 0. A second \
        one exits at once.",
    after_help = "Examples:\n  \
        holdfast serve --kubeconfig holdfast.kubeconfig --install\n  \
        holdfast serve --kubeconfig holdfast.kubeconfig --listen 127.0.0.1:0 --ready-file ready.json\n  \
        holdfast serve --kubeconfig holdfast.kubeconfig --listen 0.0.0.0:9443 --advertise https://holdfast.example:443/evict\n  \
        holdfast serve --kubeconfig holdfast.kubeconfig --feature-gates MultiPodPDBs=false"
)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct Args {
    /// Kubeconfig of Holdfast's own identity [default: ~/.kube/config, else the service account]
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// How to stand in front of the Eviction API
    #[arg(long, value_enum, default_value_t = Mode::Webhook, env = "HOLDFAST_MODE")]
    mode: Mode,
    /// First install what is missing: CustomResourceDefinitions, ClusterRole and binding, FlowSchema
    /// and PriorityLevelConfiguration, and when ready the webhooks
    #[arg(long, env = "HOLDFAST_INSTALL")]
    install: bool,
    /// With --install: replace the CustomResourceDefinition of PodUnavailableBudgets that somebody else,
    /// such as Kruise, has installed; the budgets stay
    #[arg(long, env = "HOLDFAST_TAKE_OVER")]
    take_over: bool,
    /// With --mode native and --install or --claim-policy: take over policy/v1 although webhooks, admission policies or
    /// quotas that name its budgets will no longer see them
    #[arg(long, env = "HOLDFAST_ACCEPT_BYPASS")]
    accept_bypass: bool,
    /// With --mode native, without --install: take over policy/v1 if it is not Holdfast's yet, when
    /// somebody else has installed what `holdfast manifests` prints
    #[arg(long, env = "HOLDFAST_CLAIM_POLICY")]
    claim_policy: bool,
    /// Address of the webhook, over TLS; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:9443", env = "HOLDFAST_LISTEN", value_name = "IP:PORT")]
    listen: SocketAddr,
    /// URL by which the API server calls the webhook, the same for all instances: that of whatever
    /// spreads the calls over them [default: https://<listen>/evict]
    #[arg(long, env = "HOLDFAST_ADVERTISE", value_name = "URL", value_parser = parse_advertise)]
    advertise: Option<String>,
    /// Address of /healthz, /readyz, /metrics and /debug/log-level, over plain HTTP; port 0 takes a free one
    #[arg(
        long,
        default_value = "127.0.0.1:9444",
        env = "HOLDFAST_METRICS_LISTEN",
        value_name = "IP:PORT"
    )]
    metrics_listen: SocketAddr,
    /// Address of a page for people, over plain HTTP: budgets, replicas, decisions, and what a drain would do.
    /// Whoever reaches it sees all of that [default: no page]
    #[arg(long, env = "HOLDFAST_PAGE_LISTEN", value_name = "IP:PORT")]
    page_listen: Option<SocketAddr>,
    /// Send a span of every decision to this OpenTelemetry collector, as OTLP over plain HTTP, such as
    /// http://127.0.0.1:4318/v1/traces [default: no traces]
    #[arg(long, env = "HOLDFAST_OTLP_TRACES", value_name = "URL", value_parser = parse_collector)]
    otlp_traces: Option<String>,
    /// Write the addresses to this file when ready, as one line of JSON; removed at the end
    #[arg(long, env = "HOLDFAST_READY_FILE", value_name = "FILE")]
    ready_file: Option<PathBuf>,
    /// Treat the groups of a LeaderWorkerSet as replicas by their labels
    #[arg(
        long,
        value_enum,
        default_value_t = Switch::On,
        env = "HOLDFAST_LWS_GROUPS",
        value_name = "on|off"
    )]
    lws_groups: Switch,
    /// Feature gates as NAME=true|false, separated by commas. MultiPodPDBs (default true): budgets
    /// with scope Workload count replicas; off, they count pods and say so in a condition
    #[arg(
        long,
        value_delimiter = ',',
        env = "HOLDFAST_FEATURE_GATES",
        value_name = "NAME=BOOL",
        value_parser = parse_gate
    )]
    feature_gates: Vec<Gate>,
    /// Set conditions DisruptionTarget to False on pods that were not deleted within two minutes.
    /// Only where kube-controller-manager's disruption-controller, which does the same, is off
    #[arg(long, env = "HOLDFAST_CLEAR_STALE_DISRUPTION_TARGETS")]
    clear_stale_disruption_targets: bool,
    /// Where the pod groups of workloads with annotation holdfast.dev/pod-groups: "true" are made, and
    /// who starts gangs
    #[arg(long, value_enum, default_value_t = PodGroups::Auto, env = "HOLDFAST_POD_GROUPS")]
    pod_groups: PodGroups,
    /// Take a gang back that is not bound whole this long after it was let go: its pods are evicted,
    /// and wait again. Only with pod groups of Holdfast's
    #[arg(
        long,
        default_value = "5m",
        env = "HOLDFAST_GANG_TIMEOUT",
        value_name = "TIME",
        value_parser = parse_timeout
    )]
    gang_timeout: Duration,
    /// Let the first gang in line go alone when there was no room for it this long, so that whoever adds
    /// nodes sees its pods; 0s: never. Only with pod groups of Holdfast's
    #[arg(
        long,
        default_value = "30s",
        env = "HOLDFAST_GANG_ROOM_WAIT",
        value_name = "TIME",
        value_parser = parse_time
    )]
    gang_room_wait: Duration,
    /// How long a certificate of Holdfast's own lasts; when half of it is over another follows
    #[arg(
        long,
        default_value = "720h",
        env = "HOLDFAST_CERTIFICATE_LIFETIME",
        value_name = "TIME",
        value_parser = parse_lifetime
    )]
    certificate_lifetime: Duration,
    /// Serve this certificate, PEM with its chain, instead of one of Holdfast's own. Read again when it
    /// changes. It has to name the host of --advertise, and in native mode holdfast.holdfast-system.svc
    #[arg(long, env = "HOLDFAST_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key of --tls-cert, PEM
    #[arg(long, env = "HOLDFAST_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The CA of --tls-cert, PEM, to be put into every caBundle. Without it somebody else has to, such as
    /// cert-manager's cainjector
    #[arg(long, env = "HOLDFAST_TLS_CA", value_name = "FILE", requires = "tls_cert")]
    tls_ca: Option<PathBuf>,
    #[command(flatten)]
    logging: LogArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PodGroups {
    /// Kubernetes' if the cluster serves them, else Holdfast's
    Auto,
    /// PodGroups of scheduling.k8s.io; kube-scheduler starts gangs
    Kubernetes,
    /// PodGroups of scheduling.holdfast.dev; Holdfast starts gangs, by scheduling gates
    Holdfast,
    /// None
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// An admission webhook on pods/eviction; budgets are of policy.holdfast.dev/v1
    Webhook,
    /// Serve policy/v1 itself: budgets are the PodDisruptionBudgets that every tool knows
    Native,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    MultiPodPdbs(bool),
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let options = options(args, args.logging.start());
    // A few MiB in pages of two would be half empty, and each is zeroed whole when it is first used.
    #[cfg(target_os = "linux")]
    rustix::thread::disable_transparent_huge_pages(true).ok();
    let lull = options.lull.clone();
    // One thread: the work is short and passes from task to task, and to wake another thread costs
    // more than most of it.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_park(move || lull.rest())
        .build()?;
    let result = runtime.block_on(async {
        let stop = stop_on_signals()?;
        holdfast_server::serve(options, stop, announce).await.map_err(anyhow::Error::from)
    });
    // Watches and the like hold nothing that needs an end of its own.
    runtime.shutdown_background();
    result
}

fn options(args: &Args, log_level: LogLevel) -> ServeOptions {
    let multi_pod_pdbs =
        args.feature_gates.iter().map(|Gate::MultiPodPdbs(on)| *on).next_back().unwrap_or(true);
    let cluster =
        ClusterOptions { kubeconfig: args.kubeconfig.clone(), context: args.context.clone() };
    let features = Features {
        lws_groups: args.lws_groups == Switch::On,
        multi_pod_pdbs,
        clear_stale_disruption_targets: args.clear_stale_disruption_targets,
    };
    ServeOptions {
        page: args.page_listen.map(|listen| board::options(listen, cluster.clone(), features)),
        cluster,
        mode: match args.mode {
            Mode::Webhook => holdfast_server::Mode::Webhook,
            Mode::Native => holdfast_server::Mode::Native {
                accept_bypass: args.accept_bypass,
                claim: args.claim_policy,
            },
        },
        install: args.install,
        take_over: args.take_over,
        listen: args.listen,
        advertise: args.advertise.clone(),
        metrics_listen: args.metrics_listen,
        log_level,
        lull: Lull::default(),
        // It was parsed as one.
        traces: args.otlp_traces.as_ref().and_then(|url| url.parse().ok()),
        ready_file: args.ready_file.clone(),
        features,
        gangs: GangOptions {
            pod_groups: match args.pod_groups {
                PodGroups::Auto => holdfast_server::PodGroups::Auto,
                PodGroups::Kubernetes => holdfast_server::PodGroups::Kubernetes,
                PodGroups::Holdfast => holdfast_server::PodGroups::Holdfast,
                PodGroups::Off => holdfast_server::PodGroups::Off,
            },
            timeout: args.gang_timeout,
            room_wait: args.gang_room_wait,
        },
        certificate: match (&args.tls_cert, &args.tls_key) {
            (Some(certificate), Some(key)) => CertificateOptions::Files(Files {
                certificate: certificate.clone(),
                key: key.clone(),
                ca: args.tls_ca.clone(),
            }),
            _ => CertificateOptions::Own { lifetime: args.certificate_lifetime },
        },
    }
}

/// The first signal asks for an orderly end, the second does not wait for it.
fn stop_on_signals() -> anyhow::Result<watch::Receiver<bool>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(async move {
        let mut next = async || {
            tokio::select! {
                _ = terminate.recv() => 143,
                _ = interrupt.recv() => 130,
            }
        };
        next().await;
        stop.send_replace(true);
        std::process::exit(next().await);
    });
    Ok(stopped)
}

fn announce(addresses: &Addresses) {
    // Writing structs of strings and numbers does not fail.
    println!("{}", serde_json::to_string(addresses).unwrap_or_default());
}

/// The API server calls nothing but https, and the certificate has to name the host.
fn parse_advertise(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("https://").map(|rest| rest.split('/').next().unwrap_or_default());
    match host {
        None | Some("") => Err("expected https://HOST[:PORT]/evict".to_owned()),
        Some(_) if !text.ends_with("/evict") => Err("the path must be /evict".to_owned()),
        Some(_) => Ok(text.to_owned()),
    }
}

/// Without TLS: a collector is on the same machine or in the same cluster.
fn parse_collector(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("http://").and_then(|rest| rest.split_once('/'));
    match rest {
        Some((host, path)) if !host.is_empty() && !path.is_empty() => Ok(text.to_owned()),
        _ => Err("expected http://HOST:PORT/v1/traces".to_owned()),
    }
}

/// As Kubernetes writes durations: `90s`, `5m`, `1h30m`.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let malformed = || format!("{text:?} is no time such as 30s, 5m or 1h30m");
    let (mut rest, mut time) = (text, Duration::ZERO);
    while !rest.is_empty() || text.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(malformed)?;
        let number: u32 = rest[..digits].parse().map_err(|_| malformed())?;
        let end = rest[digits..].find(|c: char| c.is_ascii_digit());
        let end = end.map_or(rest.len(), |end| digits + end);
        let unit = match &rest[digits..end] {
            "ms" => Duration::from_millis(1),
            "s" => Duration::from_secs(1),
            "m" => Duration::from_mins(1),
            "h" => Duration::from_hours(1),
            _ => return Err(malformed()),
        };
        time += unit * number;
        rest = &rest[end..];
    }
    Ok(time)
}

/// No gang is bound at once.
pub fn parse_timeout(text: &str) -> Result<Duration, String> {
    match parse_time(text)? {
        time if time < Duration::from_secs(1) => Err("must be at least 1s".to_owned()),
        time => Ok(time),
    }
}

/// Time to tell every API server of the next one before it is needed.
fn parse_lifetime(text: &str) -> Result<Duration, String> {
    match parse_time(text)? {
        time if time < Duration::from_secs(10) => Err("must be at least 10s".to_owned()),
        time => Ok(time),
    }
}

fn parse_gate(text: &str) -> Result<Gate, String> {
    let Some((name, value)) = text.split_once('=') else {
        return Err("expected NAME=true or NAME=false".to_owned());
    };
    let on = value.parse().map_err(|_| format!("{value:?} is neither true nor false"))?;
    match name {
        "MultiPodPDBs" => Ok(Gate::MultiPodPdbs(on)),
        _ => Err(format!("unknown gate {name:?}; there is MultiPodPDBs")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::sync::Arc;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn parse(flags: &[&str]) -> Result<ServeOptions, String> {
        let all = ["serve"].iter().chain(flags);
        let cli = Cli::try_parse_from(all).map_err(|error| error.to_string())?;
        let log_level =
            LogLevel { get: Arc::new(String::new), set: Arc::new(|_| Err("not here".to_owned())) };
        Ok(options(&cli.args, log_level))
    }

    #[test]
    fn defaults_are_those_of_the_help() {
        let options = parse(&[]).unwrap();
        assert!(options.features.lws_groups && options.features.multi_pod_pdbs);
        assert!(!options.install && !options.take_over);
        assert!(!options.features.clear_stale_disruption_targets);
        assert_eq!(options.listen.to_string(), "127.0.0.1:9443");
        assert_eq!(options.advertise, None);
        assert_eq!(options.gangs.pod_groups, holdfast_server::PodGroups::Auto);
        assert_eq!(options.gangs.timeout, Duration::from_mins(5));
        assert_eq!(options.gangs.room_wait, Duration::from_secs(30));
    }

    #[test]
    fn what_is_advertised_can_be_called() {
        let url = "https://holdfast.holdfast-system.svc:9443/evict";
        assert_eq!(parse(&["--advertise", url]).unwrap().advertise.as_deref(), Some(url));
        for wrong in ["http://h/evict", "https:///evict", "https://h/", "h:1"] {
            assert!(parse(&["--advertise", wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn traces_go_where_they_are_told() {
        assert_eq!(parse(&[]).unwrap().traces, None);
        let url = "http://127.0.0.1:4318/v1/traces";
        let traces = parse(&["--otlp-traces", url]).unwrap().traces;
        assert_eq!(traces.unwrap().to_string(), url);
        for wrong in ["https://h:1/v1/traces", "127.0.0.1:4318", "http://h:1", "http:///v1/traces"]
        {
            assert!(parse(&["--otlp-traces", wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn gates_and_switches() {
        let options = parse(&["--feature-gates", "MultiPodPDBs=false", "--lws-groups", "off"]);
        let options = options.unwrap();
        assert!(!options.features.lws_groups && !options.features.multi_pod_pdbs);
        assert!(
            parse(&["--feature-gates", "MultiPodPDB=false"]).unwrap_err().contains("unknown gate")
        );
        assert!(parse(&["--feature-gates", "MultiPodPDBs"]).unwrap_err().contains("NAME=true"));
        assert!(parse(&["--mode", "other"]).unwrap_err().contains("possible values: webhook"));
    }

    #[test]
    fn certificates_are_our_own_or_of_files() {
        let of = |flags: &[&str]| parse(flags).map(|options| options.certificate);
        let month = CertificateOptions::Own { lifetime: Duration::from_hours(720) };
        assert_eq!(of(&[]), Ok(month));
        let files = ["--tls-cert", "c", "--tls-key", "k", "--tls-ca", "a"];
        let [certificate, key, ca] = ["c", "k", "a"].map(PathBuf::from);
        let expected = CertificateOptions::Files(Files { certificate, key, ca: Some(ca) });
        assert_eq!(of(&files), Ok(expected));
        for wrong in [&files[..2], &files[2..4], &files[4..], &["--certificate-lifetime", "9s"]] {
            assert!(of(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn times_are_written_as_kubernetes_writes_them() {
        let room_wait =
            |text: &str| parse(&["--gang-room-wait", text]).map(|options| options.gangs.room_wait);
        assert_eq!(room_wait("1h30m"), Ok(Duration::from_mins(90)));
        assert_eq!(room_wait("1500ms"), Ok(Duration::from_millis(1500)));
        assert_eq!(room_wait("0s"), Ok(Duration::ZERO));
        for wrong in ["", "5", "5x", "m", "5m3", "99999999999s"] {
            assert!(room_wait(wrong).is_err(), "{wrong}");
        }
        assert!(parse(&["--gang-timeout", "0s"]).unwrap_err().contains("at least 1s"));
    }
}
