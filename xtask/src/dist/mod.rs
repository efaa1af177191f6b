//! `cargo xtask dist`: what a release consists of, in `target/dist`.
//!
//! ```text
//! holdfast-VERSION-ARCHITECTURE-linux.tar.gz     the program, static, with man pages and completions
//! holdfast-VERSION-ARCHITECTURE-linux.cdx.json   the crates in it (CycloneDX)
//! holdfast-VERSION-ARCHITECTURE-linux.oci.tar    the image, with --image
//! holdfast-VERSION.tgz                           the chart
//! deploy/                                        the plain manifests
//! SHA256SUMS
//! ```
//!
//! The architecture is that of this machine. The release workflow runs it on one machine of each.
//! The same commit gives the same bytes, on the same toolchain.

mod sbom;

use std::{
    env,
    env::consts::ARCH,
    ffi::OsStr,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};
use sha2::{Digest as _, Sha256};

use crate::localkube::{cargo, workspace};

pub const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(clap::Args)]
pub struct Args {
    /// Also build the container image, with buildah, and keep it as an OCI archive
    #[arg(long)]
    image: bool,
    /// Where to put it all [default: target/dist]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub fn run(args: &Args) -> Result<()> {
    let dir = args.dir.clone().unwrap_or_else(|| workspace().join("target/dist"));
    if dir.exists() {
        fs::remove_dir_all(&dir).with_context(|| format!("remove {}", dir.display()))?;
    }
    make_dir(&dir)?;
    let program = build()?;
    archive(&program, &dir)?;
    let chart = dir.join(format!("holdfast-{VERSION}.tgz"));
    tar(&workspace().join("charts"), &["holdfast"], &chart)?;
    let sbom = serde_json::to_string_pretty(&sbom::sbom(workspace(), &target())?)? + "\n";
    write(&dir.join(name() + ".cdx.json"), sbom)?;
    copy_all(&workspace().join("deploy"), &dir.join("deploy"))?;
    if args.image {
        image(&program, &dir.join(name() + ".oci.tar"))?;
    }
    write(&dir.join("SHA256SUMS"), sums(&dir)?)?;
    println!("{}", dir.display());
    Ok(())
}

/// Returns the name, without extension, of the files for one architecture.
pub fn name() -> String {
    format!("holdfast-{VERSION}-{ARCH}-linux")
}

fn target() -> String {
    format!("{ARCH}-unknown-linux-gnu")
}

/// Builds a static program, for an image without anything else. It includes the C library. The musl target
/// would need a C library from outside of the package registries.
fn build() -> Result<PathBuf> {
    let mut command = cargo();
    command
        // With an explicit target, the flags do not apply to build scripts.
        .args(["build", "--profile=dist", "--locked", "--bin=holdfast", "--target", &target()])
        .env("RUSTFLAGS", "-C target-feature=+crt-static --remap-path-prefix=/=/src/")
        .env("CARGO_PROFILE_DIST_STRIP", "symbols");
    run_command(&mut command)?;
    let built =
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from);
    let program = built.join(target()).join("dist/holdfast");
    let bytes = fs::read(&program).with_context(|| format!("read {}", program.display()))?;
    let loader = b"/ld-linux";
    ensure!(!bytes.windows(loader.len()).any(|at| at == loader), "the program is not static");
    Ok(program)
}

/// Packs the program and the files made from its help texts.
fn archive(program: &Path, dir: &Path) -> Result<()> {
    let name = name();
    let inside = dir.join(&name);
    make_dir(&inside.join("completions"))?;
    copy(program, &inside.join("holdfast"))?;
    for file in ["LICENSE", "README.md", "CHANGELOG.md"] {
        copy(&workspace().join(file), &inside.join(file))?;
    }
    run_command(Command::new(program).arg("man").arg(inside.join("man")))?;
    for shell in ["bash", "zsh", "fish"] {
        let output = Command::new(program).args(["completion", shell]).output()?;
        ensure!(output.status.success(), "holdfast completion {shell}: {}", output.status);
        write(&inside.join("completions").join(format!("holdfast.{shell}")), output.stdout)?;
    }
    tar(dir, &[&name], &dir.join(format!("{name}.tar.gz")))?;
    fs::remove_dir_all(&inside).with_context(|| format!("remove {}", inside.display()))
}

/// Packs files. The same files give the same archive.
fn tar(from: &Path, names: &[&str], to: &Path) -> Result<()> {
    let mut command = Command::new("tar");
    command
        .args(["--create", "--gzip", "--sort=name", "--mtime=@0", "--mode=u+rwX,go=rX"])
        .args(["--owner=0", "--group=0", "--numeric-owner", "--format=gnu"])
        .arg("--file")
        .arg(to)
        .arg("--directory")
        .arg(from)
        .args(names);
    run_command(&mut command)
}

/// Builds the image without a daemon and without a base image. buildah keeps its data in a separate directory
/// here.
fn image(program: &Path, to: &Path) -> Result<()> {
    if Command::new("buildah").arg("--version").output().is_err() {
        bail!("the image is built with buildah, and there is none: apt-get install buildah");
    }
    let scratch = workspace().join("target/dist-image");
    if scratch.exists() {
        fs::remove_dir_all(&scratch).with_context(|| format!("remove {}", scratch.display()))?;
    }
    let context = scratch.join("context");
    make_dir(&context)?;
    copy(program, &context.join("holdfast"))?;
    copy(&workspace().join("Containerfile"), &context.join("Containerfile"))?;
    // Use the full name: programs that load the archive into a node keep it, and kubelets look for
    // `holdfast:VERSION` under this name.
    let name = format!("docker.io/library/holdfast:{VERSION}");
    let buildah = |args: &[&OsStr]| {
        let mut command = Command::new("buildah");
        command.arg("--root").arg(scratch.join("root")).arg("--runroot").arg(scratch.join("run"));
        run_command(command.args(["--storage-driver", "vfs"]).args(args))
    };
    let words = ["build", "--isolation=chroot", "--timestamp=0", "--tag", &name].map(OsStr::new);
    buildah(&[&words[..], &[context.as_os_str()]].concat())?;
    let archive = format!("oci-archive:{}:{name}", to.display());
    buildah(&["push", &name, &archive].map(OsStr::new))?;
    fs::remove_dir_all(&scratch).with_context(|| format!("remove {}", scratch.display()))
}

/// Returns checksums in the format of `sha256sum --check`.
fn sums(dir: &Path) -> Result<String> {
    let mut files = Vec::new();
    list(dir, &mut files)?;
    files.sort();
    let mut text = String::new();
    for file in files {
        let content = fs::read(&file).with_context(|| format!("read {}", file.display()))?;
        for byte in Sha256::digest(content) {
            write!(text, "{byte:02x}")?;
        }
        writeln!(text, "  {}", file.strip_prefix(dir)?.display())?;
    }
    Ok(text)
}

fn list(dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("read {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() { list(&path, files)? } else { files.push(path) }
    }
    Ok(())
}

fn copy_all(from: &Path, to: &Path) -> Result<()> {
    let mut files = Vec::new();
    list(from, &mut files)?;
    for file in files {
        let target = to.join(file.strip_prefix(from)?);
        make_dir(target.parent().context("a file is in a directory")?)?;
        copy(&file, &target)?;
    }
    Ok(())
}

fn run_command(command: &mut Command) -> Result<()> {
    let what = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("start {what}"))?;
    ensure!(status.success(), "{what}: {status}");
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("copy {}", from.display())).map(drop)
}

fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    fs::write(path, content).with_context(|| format!("write {}", path.display()))
}

fn make_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("create {}", path.display()))
}
