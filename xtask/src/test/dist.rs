//! Checks the files of `cargo xtask dist` as a user gets them.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use super::{Test, run, tools};
use crate::dist::{self, VERSION};
use crate::localkube::{self, workspace};

impl Test<'_> {
    pub(super) fn dist(&mut self) {
        let target = workspace().join("target");
        let image = match can_build_image(&target) {
            Ok(()) => true,
            Err(error) => {
                self.summary.not_run("image", &format!("{error:#}"));
                false
            }
        };
        let Some(helm) = self.summary.time("helm", localkube::helm) else { return };
        let (dir, interrupt) = (target.join("dist-test"), &self.interrupt);
        self.summary.time("dist", || {
            let place = dir.to_string_lossy();
            let flags = ["dist", "--dir", &place, "--image"];
            run::xtask(if image { &flags } else { &flags[..3] }, interrupt)?;
            check(&dir, &helm, image)
        });
    }
}

/// Checks that an image can be built here with buildah, without a daemon.
fn can_build_image(dir: &Path) -> Result<()> {
    let Some(buildah) = tools::of_system(&["buildah"], &["buildah"]) else {
        bail!("there is no buildah, and none could be installed");
    };
    let scratch = dir.join("buildah");
    let mut command = Command::new(buildah);
    command.arg("--root").arg(scratch.join("root")).arg("--runroot").arg(scratch.join("run"));
    let tried = text(command.args(["--storage-driver", "vfs", "from", "scratch"]));
    if scratch.exists() {
        fs::remove_dir_all(&scratch).with_context(|| format!("remove {}", scratch.display()))?;
    }
    tried.map(drop).context("buildah does not work here")
}

/// Checks the files. Returns a summary.
fn check(dir: &Path, helm: &Path, image: bool) -> Result<()> {
    let mut sums = Command::new("sha256sum");
    let sums = text(sums.args(["--check", "--strict", "SHA256SUMS"]).current_dir(dir))?;
    println!("checksums of {} files", sums.lines().count());
    archive(dir).context("the archive")?;
    sbom(&read(&dir.join(dist::name() + ".cdx.json"))?).context("the SBOM")?;
    chart(&dir.join(format!("holdfast-{VERSION}.tgz")), helm).context("the chart")?;
    manifests(&dir.join("deploy")).context("the manifests")?;
    if image {
        self::image(&dir.join(dist::name() + ".oci.tar")).context("the image")?;
    }
    Ok(())
}

/// Unpacks the archive: the program runs, and has a man page for each of its commands.
fn archive(dir: &Path) -> Result<()> {
    let name = dist::name();
    let packed = dir.join(format!("{name}.tar.gz"));
    text(
        Command::new("tar").arg("--extract").arg("--directory").arg(dir).arg("--file").arg(packed),
    )?;
    let inside = dir.join(&name);
    let program = inside.join("holdfast");
    let version = text(Command::new(&program).arg("--version"))?;
    ensure!(version.trim() == format!("holdfast {VERSION}"), "it says that it is {version}");
    let mut pages = 0;
    for page in fs::read_dir(inside.join("man")).context("read the manual")? {
        let page = page?.path();
        ensure!(fs::read_to_string(&page)?.contains(".TH"), "{} is no page", page.display());
        pages += 1;
    }
    let help = text(Command::new(&program).arg("--help"))?;
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| line.starts_with("  ")).filter_map(|line| {
        // A line with more indentation continues the previous command.
        line.strip_prefix("  ").filter(|line| !line.starts_with(' '))?.split(' ').next()
    });
    let commands: Vec<&str> = commands.filter(|command| *command != "help").collect();
    ensure!(!commands.is_empty(), "it has no commands\n{help}");
    for command in &commands {
        let page = inside.join(format!("man/holdfast-{command}.1"));
        ensure!(page.is_file(), "there is no {}", page.display());
    }
    for shell in ["bash", "zsh", "fish"] {
        let file = inside.join(format!("completions/holdfast.{shell}"));
        ensure!(read(&file)?.contains("holdfast"), "{} is empty", file.display());
    }
    text(Command::new("bash").arg("-n").arg(inside.join("completions/holdfast.bash")))?;
    for file in ["LICENSE", "README.md", "CHANGELOG.md"] {
        ensure!(inside.join(file).is_file(), "there is no {file}");
    }
    let commands = commands.len();
    println!("the program, {pages} pages of its manual for {commands} commands, 3 completions");
    fs::remove_dir_all(&inside).with_context(|| format!("remove {}", inside.display()))
}

/// Every crate has a licence, and every dependency is a listed crate.
fn sbom(text: &str) -> Result<()> {
    let sbom: Value = serde_json::from_str(text)?;
    ensure!(
        sbom["bomFormat"] == "CycloneDX" && sbom["specVersion"] == "1.6",
        "it is no CycloneDX 1.6"
    );
    let root = &sbom["metadata"]["component"];
    ensure!(root["name"] == "holdfast" && root["version"] == VERSION, "it is of {root}");
    let components: Vec<&Value> = list(&sbom["components"]).collect();
    let (mut known, mut hashed) = (BTreeSet::from([&root["bom-ref"]].map(Value::to_string)), 0);
    for component in &components {
        let is_whole = ["name", "version", "purl"].iter().all(|field| component[field].is_string());
        ensure!(is_whole && !component["licenses"].is_null(), "{component} is not whole");
        known.insert(component["bom-ref"].to_string());
        hashed += usize::from(!component["hashes"].is_null());
    }
    for dependency in list(&sbom["dependencies"]) {
        let mut of = list(&dependency["dependsOn"]).chain([&dependency["ref"]]);
        if let Some(unknown) = of.find(|name| !known.contains(&name.to_string())) {
            bail!("{unknown} is no component");
        }
    }
    // All except the crates of this workspace.
    ensure!(hashed > components.len() / 2, "{hashed} of {} have hashes", components.len());
    println!("the SBOM: {} components, {hashed} with hashes", components.len());
    Ok(())
}

fn chart(packed: &Path, helm: &Path) -> Result<()> {
    let lint = ["lint", "--strict", "--namespace", "holdfast-system"];
    text(Command::new(helm).args(lint).arg(packed))?;
    let shown = text(Command::new(helm).args(["show", "chart"]).arg(packed))?;
    let chart: Value = serde_saphyr::from_str(&shown)?;
    let is = |field: &str| chart[field] == VERSION;
    ensure!(is("version") && is("appVersion"), "it is not of {VERSION}:\n{shown}");
    println!("the chart, by helm lint");
    Ok(())
}

fn manifests(dir: &Path) -> Result<()> {
    let mut objects = 0;
    for file in [
        "webhook.yaml",
        "native.yaml",
        "native-static-pod/cluster.yaml",
        "native-static-pod/node.yaml",
    ] {
        let read: Vec<Value> = serde_saphyr::from_multiple(&read(&dir.join(file))?)?;
        ensure!(read.iter().all(|object| object["kind"].is_string()), "{file} has other things");
        objects += read.len();
    }
    println!("the manifests: {objects} objects");
    Ok(())
}

/// The image has one layer with the program, and runs as a user without rights.
fn image(archive: &Path) -> Result<()> {
    let json = |file: &str| {
        let mut tar = Command::new("tar");
        let content =
            text(tar.args(["--extract", "--to-stdout", "--file"]).arg(archive).arg(file))?;
        serde_json::from_str::<Value>(&content).with_context(|| format!("read {file}"))
    };
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap_or_default();
        json(&format!("blobs/{}", digest.replace(':', "/")))
    };
    let manifest = blob(&json("index.json")?["manifests"][0])?;
    let config = blob(&manifest["config"])?["config"].take();
    let is_ours = config["Entrypoint"] == json!(["/holdfast"]) && config["User"] == "65532:65532";
    ensure!(is_ours && list(&manifest["layers"]).count() == 1, "{manifest} {config}");
    println!("the image: {} as {}", config["Entrypoint"], config["User"]);
    Ok(())
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
}

/// Returns the output of a command.
fn text(command: &mut Command) -> Result<String> {
    let what = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("start {what}"))?;
    let [out, err] =
        [output.stdout, output.stderr].map(|b| String::from_utf8_lossy(&b).into_owned());
    ensure!(output.status.success(), "{what}: {}\n{out}{err}", output.status);
    Ok(out)
}
