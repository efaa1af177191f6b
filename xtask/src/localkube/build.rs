//! Builds the programs of the control plane once and keeps them in a cache outside of the tree.

use std::{
    env,
    fmt::Write as _,
    fs::{self, File},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use sha2::{Digest as _, Sha256};

use super::{
    operator::{self, Operator},
    options::Release,
    progress, workspace,
};

/// Returns the directory of the programs. If those of this checkout are not in the cache, it builds them,
/// which takes minutes. A concurrent call waits.
pub fn programs(release: Release) -> Result<PathBuf> {
    let sources = workspace().join("localkube");
    let latest = ldflags(Release::default());
    let recipe = [&*latest].into_iter().chain(CONTROL_PLANE).chain(KWOK_STAGES);
    let name = hash(&sources, &["", "kwok", "lws"], recipe.chain(["lws.yaml"]))?;
    let usual = cached(&name, |target| build(&sources, target))?;
    let Some(module) = release.module() else { return Ok(usual.join("bin")) };
    let flags = ldflags(release);
    let name = format!("{module}-{}", hash(&sources, &["", module], [&*flags, &*name])?);
    let built = cached(&name, |target| build_older(&sources, module, &flags, &usual, target))?;
    Ok(built.join("bin"))
}

/// Builds an older control plane with the usual other programs.
fn build_older(
    sources: &Path,
    module: &str,
    flags: &str,
    usual: &Path,
    target: &Path,
) -> Result<()> {
    need_go()?;
    copy_tree(usual, target)?;
    // The same lines start every release. Only the linked modules differ.
    let own = target.join("source");
    fs::create_dir_all(&own).with_context(|| format!("create {}", own.display()))?;
    for file in ["main.go", &format!("{module}/go.mod"), &format!("{module}/go.sum")] {
        let file = sources.join(file);
        let name = file.file_name().context("a source is a file")?;
        fs::copy(&file, own.join(name)).with_context(|| format!("copy {}", file.display()))?;
    }
    let what = format!("Kubernetes {module}");
    progress::step(&format!("download the modules of {what}"), || download(&own))?;
    progress::step(&format!("build {what} (about 8 minutes on 2 cores)"), || {
        go_build_with(&own, ".", &target.join("bin/localkube"), flags)
    })
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    let status = Command::new("cp").arg("-a").args([from, to]).status().context("run cp")?;
    if !status.success() {
        bail!("copy {} to {}: {status}", from.display(), to.display());
    }
    Ok(())
}

/// Returns the descheduler's program. It is separate in the cache: few runs need it, and its changes must not
/// cause a build of the rest.
pub fn descheduler() -> Result<PathBuf> {
    let sources = workspace().join("localkube/descheduler");
    let name = format!("descheduler-{}", hash(&sources, &[""], [&*ldflags(Release::default())])?);
    let built = cached(&name, |target| {
        need_go()?;
        fs::create_dir_all(target).with_context(|| format!("create {}", target.display()))?;
        progress::step("download the modules of the descheduler", || download(&sources))?;
        progress::step("build the descheduler (about 3 minutes on 2 cores)", || {
            let package = "sigs.k8s.io/descheduler/cmd/descheduler";
            go_build(&sources, package, &target.join(DESCHEDULER))
        })
    })?;
    Ok(built.join(DESCHEDULER))
}

/// Returns Helm, which is not part of the control plane and is built in the same way. It is separate for the
/// same reasons.
pub fn helm() -> Result<PathBuf> {
    let sources = workspace().join("localkube/helm");
    let name = format!("helm-{}", hash(&sources, &[""], [&*ldflags(Release::default())])?);
    let built = cached(&name, |target| {
        need_go()?;
        fs::create_dir_all(target).with_context(|| format!("create {}", target.display()))?;
        progress::step("download the modules of Helm", || download(&sources))?;
        progress::step("build Helm (about 2 minutes on 2 cores)", || {
            go_build(&sources, "helm.sh/helm/v3/cmd/helm", &target.join("helm"))
        })
    })?;
    Ok(built.join("helm"))
}

/// Returns the directory of `JobSet`'s program. kubectl of [`programs`] renders its manifests. It is separate
/// for the same reasons.
pub fn jobset(programs: &Path) -> Result<PathBuf> {
    let sources = workspace().join("localkube/jobset");
    let name = format!("jobset-{}", hash(&sources, &[""], [&*ldflags(Release::default())])?);
    let built = cached(&name, |target| {
        need_go()?;
        progress::step("download the modules of JobSet", || download(&sources))?;
        progress::step("build JobSet (about 2 minutes on 2 cores)", || {
            build_operator(&operator::JOBSET, &sources, &target.join("bin"), programs)
        })
    })?;
    Ok(built.join("bin"))
}

/// Returns a directory of the cache. `build` fills it if it does not exist.
fn cached(name: &str, build: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let cache = cache()?;
    let built = cache.join(name);
    if built.exists() {
        return Ok(built);
    }
    fs::create_dir_all(&cache).with_context(|| format!("create {}", cache.display()))?;
    let lock = cache.join("lock");
    let lock = File::create(&lock).with_context(|| format!("create {}", lock.display()))?;
    if lock.try_lock().is_err() {
        progress::step("wait for another process that builds", || Ok(lock.lock()?))?;
    }
    if built.exists() {
        return Ok(built);
    }
    // Build under another name until everything is there. The remains of an interrupted build are useless,
    // because Go has its own cache.
    let unfinished = cache.join("unfinished");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished).context("remove an unfinished build")?;
    }
    build(&unfinished)?;
    fs::rename(&unfinished, &built).with_context(|| format!("create {}", built.display()))?;
    Ok(built)
}

/// Returns the files with the stages of nodes and pods for kwok: kwok's own, copied by the build, and
/// localkube's.
pub fn stages(programs: &Path) -> Result<Vec<PathBuf>> {
    let dir = programs.with_file_name(STAGES);
    let mut stages = fs::read_dir(&dir)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, _>>())
        .with_context(|| format!("read {}", dir.display()))?;
    stages.sort();
    stages.push(workspace().join("localkube/kwok/stages.yaml"));
    Ok(stages)
}

/// Returns an operator's manifests, which the build rendered from its module.
pub fn manifests(programs: &Path, of: &Operator) -> PathBuf {
    programs.with_file_name(format!("{}.yaml", of.name))
}

/// Returns the linker flags. The programs of Kubernetes read their version from them, and choose their
/// feature gates by it.
fn ldflags(release: Release) -> String {
    let version = release.version();
    let minor = version.split('.').nth(1).unwrap_or_default();
    format!(
        "-s -w -X k8s.io/component-base/version.gitVersion=v{version} \
         -X k8s.io/component-base/version.gitMajor=1 \
         -X k8s.io/component-base/version.gitMinor={minor} \
         -X k8s.io/component-base/version.gitTreeState=clean"
    )
}

const CONTROL_PLANE: [&str; 5] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"];

/// The name of the directory beside the programs.
const STAGES: &str = "stages";

const DESCHEDULER: &str = "descheduler";

/// The stages of kwok for a fast cluster that localkube uses. pod-complete is not among them: it ends the
/// pods of a Job as soon as they run, so tests could not evict them.
const KWOK_STAGES: [&str; 4] = [
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-delete.yaml",
];

fn build(sources: &Path, target: &Path) -> Result<()> {
    need_go()?;
    let programs = target.join("bin");
    fs::create_dir_all(&programs).with_context(|| format!("create {}", programs.display()))?;

    let (kwok, lws) = (sources.join("kwok"), sources.join("lws"));
    let modules = [(sources, "the control plane"), (&kwok, "kwok"), (&lws, "LeaderWorkerSet")];
    for (module, what) in modules {
        progress::step(&format!("download the modules of {what}"), || download(module))?;
    }
    let localkube = programs.join("localkube");
    progress::step("build the control plane (about 8 minutes on 2 cores)", || {
        go_build(sources, ".", &localkube)
    })?;
    for name in CONTROL_PLANE {
        symlink("localkube", programs.join(name)).with_context(|| format!("link {name}"))?;
    }
    progress::step("build kwok (about 2 minutes on 2 cores)", || {
        go_build(&kwok, "sigs.k8s.io/kwok/cmd/kwok", &programs.join("kwok"))
    })?;
    copy_stages(&kwok, &target.join(STAGES))?;
    progress::step("build LeaderWorkerSet (about 2 minutes on 2 cores)", || {
        build_operator(&operator::LWS, &lws, &programs, &programs)
    })
}

/// Builds a program into this directory, with its manifests beside it. kubectl comes from another directory.
fn build_operator(of: &Operator, module: &Path, programs: &Path, kubectl: &Path) -> Result<()> {
    fs::create_dir_all(programs).with_context(|| format!("create {}", programs.display()))?;
    go_build(module, of.package, &programs.join(of.name))?;
    render(of, module, &kubectl.join("kubectl"), &manifests(programs, of))
}

fn need_go() -> Result<()> {
    if Command::new("go").arg("version").stdout(Stdio::null()).status().is_err() {
        bail!("localkube is built with Go, and no `go` is on PATH: install Go 1.26 or newer");
    }
    Ok(())
}

/// Downloads modules. Proxies sometimes answer "too many requests". Downloaded modules are not fetched again.
fn download(module: &Path) -> Result<()> {
    const ATTEMPTS: u32 = 6;
    for attempt in 1.. {
        let error = match go(module).args(["mod", "download"]).status().context("run go")? {
            status if status.success() => break,
            status => format!("`go mod download` in {}: {status}", module.display()),
        };
        if attempt == ATTEMPTS {
            bail!("{error}, {ATTEMPTS} times: is the Go module proxy reachable?");
        }
        let pause = Duration::from_secs(5) * attempt;
        eprintln!("localkube: {error}; once more in {} s", pause.as_secs());
        thread::sleep(pause);
    }
    Ok(())
}

fn go_build(module: &Path, package: &str, output: &Path) -> Result<()> {
    go_build_with(module, package, output, &ldflags(Release::default()))
}

fn go_build_with(module: &Path, package: &str, output: &Path, flags: &str) -> Result<()> {
    let status = go(module)
        .args(["build", "-mod=readonly", "-trimpath", "-ldflags", flags, "-o"])
        .args([output, Path::new(package)])
        .status()
        .context("run go")?;
    if !status.success() {
        bail!("`go build {package}` in {}: {status}", module.display());
    }
    Ok(())
}

fn go(module: &Path) -> Command {
    let mut go = Command::new("go");
    // No C compiler is needed, and a go.work around the checkout does not apply.
    go.current_dir(module).env("CGO_ENABLED", "0").env("GOWORK", "off");
    go
}

/// Returns where Go keeps the sources of a dependency.
fn module_dir(module: &Path, dependency: &str) -> Result<PathBuf> {
    let output = go(module)
        .args(["list", "-m", "-f", "{{.Dir}}", dependency])
        .stderr(Stdio::inherit())
        .output()
        .context("run go")?;
    if !output.status.success() {
        bail!("`go list -m {dependency}`: {}", output.status);
    }
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

fn render(of: &Operator, module: &Path, kubectl: &Path, target: &Path) -> Result<()> {
    let config = module_dir(module, of.module)?.join("config/default");
    let output = Command::new(kubectl)
        .arg("kustomize")
        .arg(&config)
        .output()
        .context("run kubectl kustomize")?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!("`kubectl kustomize {}`: {why}", config.display());
    }
    fs::write(target, output.stdout).with_context(|| format!("write {}", target.display()))
}

fn copy_stages(kwok: &Path, target: &Path) -> Result<()> {
    let module = module_dir(kwok, "sigs.k8s.io/kwok")?;
    fs::create_dir_all(target).with_context(|| format!("create {}", target.display()))?;
    for stage in KWOK_STAGES {
        let source = module.join("kustomize/stage").join(stage);
        let name = Path::new(stage).file_name().context("a stage is a file")?;
        let content = fs::read(&source).with_context(|| format!("read {}", source.display()))?;
        // Write instead of copy, because files in the module cache are read-only.
        fs::write(target.join(name), content).with_context(|| format!("write {stage}"))?;
    }
    Ok(())
}

fn cache() -> Result<PathBuf> {
    let base = match env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()) {
        Some(dir) => PathBuf::from(dir),
        None => env::home_dir().context("neither XDG_CACHE_HOME nor HOME is set")?.join(".cache"),
    };
    Ok(base.join("holdfast/localkube"))
}

/// Returns a hash of all inputs of the build: the Go modules and the constants of this file.
fn hash<'a>(
    sources: &Path,
    modules: &[&str],
    recipe: impl IntoIterator<Item = &'a str>,
) -> Result<String> {
    let mut files = Vec::new();
    for module in modules {
        let dir = sources.join(module);
        for entry in fs::read_dir(&dir).with_context(|| format!("read {}", dir.display()))? {
            files.push(entry?.path());
        }
    }
    files.retain(|file| {
        file.extension().is_some_and(|ext| ["go", "mod", "sum"].iter().any(|go| ext == *go))
    });
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        let content = fs::read(&file).with_context(|| format!("read {}", file.display()))?;
        hash.update(file.strip_prefix(sources)?.to_string_lossy().as_bytes());
        hash.update([0]);
        hash.update(content.len().to_le_bytes());
        hash.update(content);
    }
    for part in recipe {
        hash.update(part);
        hash.update([0]);
    }
    Ok(hash.finalize().iter().take(8).fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        text
    }))
}
