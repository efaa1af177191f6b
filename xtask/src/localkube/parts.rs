//! Access to single parts of a running control plane.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use super::{
    cluster::Localkube, component, identity::Identity, pki::Pki, ports::Reserved, probe::Prober,
    process::Process, state::State,
};

impl Localkube {
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the path of a program of the control plane, such as kubectl.
    pub fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    /// Stops a component permanently.
    pub fn stop_component(&self, name: &str) -> Result<()> {
        let state = State::load(&self.dir)?.context("a control plane that runs has a state")?;
        let mut processes = state.processes.iter().filter(|process| process.name == name);
        processes.try_for_each(|process| process.stop(Duration::from_secs(10)))
    }

    /// Starts another kube-controller-manager with only these controllers (`--controllers`) and waits until
    /// it is ready. The caller must stop it.
    pub fn start_controllers(&self, name: &str, controllers: &str) -> Result<Process> {
        let pki = Pki::open(&self.dir);
        let port = Reserved::any()?;
        let state = State::load(&self.dir)?.context("a control plane that runs has a state")?;
        let kubeconfig = self.kubeconfig(Identity::KubeControllerManager);
        let mut component =
            component::kube_controller_manager(&kubeconfig, &pki, port.port()?, &state.options);
        component.args.push(format!("--controllers={controllers}"));
        port.release();
        let log = self.dir.join("logs").join(format!("{name}.log"));
        let program = self.programs.join(component.program());
        let process =
            Process::spawn(name, &program, &component.args, &self.dir.join("home"), &log)?;
        let prober = Prober::new(&pki.cert("ca"))?;
        for _ in 0..1200 {
            if prober.check(&component.probe).is_ok() {
                return Ok(process);
            }
            if !process.is_alive() {
                bail!("{name} ended while starting: see {}", log.display());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        process.stop(Duration::ZERO)?;
        bail!("{name} is not ready after a minute: see {}", log.display())
    }
}
