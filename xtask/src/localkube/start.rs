//! Starts a control plane, one component after the other, in the order of their dependencies.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, bail};

use super::{
    build,
    component::{self, Component},
    identity::{self, Identity},
    operator::{self, Operator},
    pki::Pki,
    ports::Reserved,
    probe::{Probe, Prober},
    process::Process,
    state::State,
    workspace,
};

/// Starts everything in `dir`. After a failure, `state` has the components that were started.
pub fn start(dir: &Path, state: &mut State) -> Result<()> {
    // Write the record before any other file of the directory: see `State::load`.
    state.save(dir)?;
    for sub in ["logs", "home"] {
        fs::create_dir_all(dir.join(sub)).with_context(|| format!("create {sub}"))?;
    }
    if state.options.descheduler {
        let (program, link) = (build::descheduler()?, dir.join("descheduler"));
        symlink(&program, &link).with_context(|| format!("link {}", link.display()))?;
    }
    let options = state.options.clone();
    let [etcd, etcd_peer, controllers, scheduler, kwok, lws, jobset] = reserve()?;
    let apiservers: Vec<Reserved> =
        (0..options.apiservers).map(|_| Reserved::any()).collect::<Result<_>>()?;

    let pki = Pki::create(dir)?;
    let server = |port: &Reserved| Ok(format!("https://127.0.0.1:{}", port.port()?));
    let servers: Vec<String> = apiservers.iter().map(server).collect::<Result<_>>()?;
    identity::create(dir, &servers, &pki.cert("ca"))?;
    let spread = Spread { dir, apiservers: servers.len(), given: 0 };
    let mut starter = Starter { dir, state, prober: Prober::new(&pki.cert("ca"))?, spread };

    let component = component::etcd(dir, etcd.port()?, etcd_peer.port()?);
    let etcd_port = etcd.port()?;
    let running = starter.spawn(&component, [etcd, etcd_peer])?;
    starter.await_ready(&running)?;

    starter.apiservers(&pki, apiservers, etcd_port)?;

    let kubeconfig = starter.spread.next(Identity::KubeControllerManager);
    let port = controllers.port()?;
    let component = component::kube_controller_manager(&kubeconfig, &pki, port, &options);
    let controllers = starter.spawn(&component, [controllers])?;
    let kubeconfig = starter.spread.next(Identity::KubeScheduler);
    let component = component::kube_scheduler(&kubeconfig, &pki, scheduler.port()?, &options);
    let scheduler = starter.spawn(&component, [scheduler])?;

    starter.kubectl(&["apply", "--server-side", "-f", &rbac().display().to_string()])?;
    let stages = build::stages(&starter.state.programs)?;
    let kubeconfig = starter.spread.next(Identity::Kwok);
    let component = component::kwok(&kubeconfig, stages.iter().map(PathBuf::as_path), kwok.port()?);
    let kwok = starter.spawn(&component, [kwok])?;
    for running in [&controllers, &scheduler, &kwok] {
        starter.await_ready(running)?;
    }
    // The controllers create it. No pod can be created in a namespace before that.
    starter.kubectl(&["wait", "--for=create", "serviceaccount/default", "--timeout=30s"])?;
    starter.operators(&pki, lws, jobset)?;

    starter.state.ready = true;
    starter.state.save(dir)
}

/// Restarts a component with the flags of `up`, and with `more` flags until the next restart.
pub fn restart(dir: &Path, state: &mut State, name: &str, more: &[String]) -> Result<()> {
    let Some(index) = state.components.iter().position(|component| component.name == name) else {
        let names: Vec<_> = state.components.iter().map(|known| known.name.as_str()).collect();
        bail!("no component is called {name:?}; there are: {}", names.join(", "));
    };
    let mut component = state.components[index].clone();
    component.args.extend(more.iter().cloned());
    // Kill it soon: kube-apiserver would wait until the last client ends its watch.
    state.processes[index].stop(Duration::from_secs(1))?;
    let apiservers = usize::from(state.options.apiservers);
    let spread = Spread { dir, apiservers, given: 0 };
    let starter = Starter { dir, state, prober: Prober::new(&Pki::open(dir).cert("ca"))?, spread };
    keep(&starter.log(name))?;
    let running = starter.launch(&component)?;
    starter.state.processes[index] = running.process.clone();
    starter.state.save(dir)?;
    starter.await_ready(&running)
}

struct Starter<'a> {
    dir: &'a Path,
    state: &'a mut State,
    prober: Prober,
    spread: Spread<'a>,
}

/// Assigns the API servers to the components in turn.
struct Spread<'a> {
    dir: &'a Path,
    apiservers: usize,
    /// The number of components that have one.
    given: usize,
}

impl Spread<'_> {
    /// Returns the kubeconfig for the next API server in turn.
    fn next(&mut self, identity: Identity) -> PathBuf {
        let kubeconfig = identity.kubeconfig_of(self.dir, self.given % self.apiservers);
        self.given += 1;
        kubeconfig
    }
}

/// A process that may not be ready yet.
struct Running {
    process: Process,
    probe: Probe,
    log: PathBuf,
}

impl Starter<'_> {
    /// Starts the first alone, because it creates objects that all need, and then the others at the same
    /// time.
    fn apiservers(&mut self, pki: &Pki, ports: Vec<Reserved>, etcd_port: u16) -> Result<()> {
        let options = self.state.options.clone();
        let mut others = Vec::new();
        for (number, port) in ports.into_iter().enumerate() {
            let own = port.port()?;
            let component =
                component::kube_apiserver(self.dir, pki, number, own, etcd_port, &options);
            let running = self.spawn(&component, [port])?;
            if number == 0 {
                self.await_ready(&running)?;
            } else {
                others.push(running);
            }
        }
        others.iter().try_for_each(|running| self.await_ready(running))
    }

    /// Starts the controllers of workloads that the options ask for.
    fn operators(&mut self, pki: &Pki, lws: Reserved, jobset: Reserved) -> Result<()> {
        let programs = self.state.programs.clone();
        if self.state.options.lws {
            self.operator(&operator::LWS, programs.clone(), pki, lws)?;
        }
        if self.state.options.jobset {
            self.operator(&operator::JOBSET, build::jobset(&programs)?, pki, jobset)?;
        }
        Ok(())
    }

    fn spawn<const N: usize>(
        &mut self,
        component: &Component,
        ports: [Reserved; N],
    ) -> Result<Running> {
        ports.into_iter().for_each(Reserved::release);
        let running = self.launch(component)?;
        self.state.processes.push(running.process.clone());
        self.state.components.push(component.clone());
        self.state.save(self.dir)?;
        Ok(running)
    }

    /// Starts a component. It is not recorded yet.
    fn launch(&self, component: &Component) -> Result<Running> {
        let name = &component.name;
        let programs = component.programs.as_ref().unwrap_or(&self.state.programs);
        let (program, home) = (programs.join(component.program()), self.dir.join("home"));
        let log = self.log(name);
        let process = Process::spawn(name, &program, &component.args, &home, &log)?;
        Ok(Running { process, probe: component.probe.clone(), log })
    }

    fn log(&self, name: &str) -> PathBuf {
        self.dir.join("logs").join(format!("{name}.log"))
    }

    fn operator(
        &mut self,
        of: &Operator,
        programs: PathBuf,
        pki: &Pki,
        port: Reserved,
    ) -> Result<()> {
        let manifests = build::manifests(&programs, of);
        let files = of.create(self.dir, &manifests, pki, port.port()?)?;
        let kustomization = files.kustomization.display().to_string();
        self.kubectl(&["apply", "--server-side", "-k", &kustomization])?;
        self.kubectl_soon(&["wait", "--for=condition=Established", of.crd, "--timeout=30s"])?;
        let kubeconfig = self.spread.next(of.identity);
        let component = component::operator(of, programs, &kubeconfig, &files.config, port.port()?);
        let running = self.spawn(&component, [port])?;
        self.await_ready(&running)
    }

    fn await_ready(&self, running: &Running) -> Result<()> {
        // Three API servers on two busy cores take more than a minute. The loop notices at once if one has
        // ended.
        const PATIENCE: Duration = Duration::from_mins(3);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let Err(reason) = self.prober.check(&running.probe) else { return Ok(()) };
            let name = &running.process.name;
            if !running.process.is_alive() {
                return Err(with_log(&anyhow!("{name} ended while starting"), &running.log));
            }
            if Instant::now() > deadline {
                let late =
                    anyhow!("{name} is not ready after {} s: {reason:#}", PATIENCE.as_secs());
                return Err(with_log(&late, &running.log));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Repeats `kubectl wait`, which fails at once for an object without conditions.
    fn kubectl_soon(&self, args: &[&str]) -> Result<()> {
        const PATIENCE: Duration = Duration::from_secs(30);
        let began = Instant::now();
        loop {
            let result = self.kubectl(args);
            if result.is_ok() || began.elapsed() > PATIENCE {
                return result;
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn kubectl(&self, args: &[&str]) -> Result<()> {
        let output = Command::new(self.state.programs.join("kubectl"))
            .args(args)
            .env("KUBECONFIG", Identity::Bootstrap.kubeconfig(self.dir))
            .env("HOME", self.dir.join("home"))
            .stdin(Stdio::null())
            .output()
            .context("run kubectl")?;
        if !output.status.success() {
            bail!("kubectl {} failed: {}", args.join(" "), String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }
}

fn reserve<const N: usize>() -> Result<[Reserved; N]> {
    let ports = (0..N).map(|_| Reserved::any()).collect::<Result<Vec<_>>>()?;
    ports.try_into().map_err(|_| anyhow!("reserved another number of ports than asked for"))
}

fn rbac() -> PathBuf {
    workspace().join("localkube/rbac.yaml")
}

/// Renames the earlier log to `NAME.1.log` and so on, because a process overwrites its log.
fn keep(log: &Path) -> Result<()> {
    let mut names = (1..).map(|n| log.with_extension(format!("{n}.log")));
    let free = names.find(|path| !path.exists()).context("numbers do not end")?;
    fs::rename(log, &free)
        .with_context(|| format!("rename {} to {}", log.display(), free.display()))
}

fn with_log(error: &anyhow::Error, log: &Path) -> anyhow::Error {
    const LINES: usize = 20;
    let content = fs::read(log).unwrap_or_default();
    let content = String::from_utf8_lossy(&content);
    let lines: Vec<_> = content.lines().collect();
    let tail = lines[lines.len().saturating_sub(LINES)..].join("\n");
    anyhow!("{error:#}\nthe end of {}:\n{tail}", log.display())
}
