//! Runs the commands of the pages.

use std::fmt::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

use super::links;
use super::page::{Block, Page};
use crate::localkube::workspace;
use crate::test::interrupt::Interrupt;

/// The whole quickstart takes one minute, and two on a busy machine.
const PATIENCE: Duration = Duration::from_mins(5);

/// This page comes first: it starts the cluster for the other pages.
const QUICKSTART: &str = "docs/quickstart-localkube.md";

/// When the block with this command is done, its `LeaderWorkerSet` is protected. The test prints how long
/// that took.
const PROTECTED: &str = "kubectl wait lws/serving ";

/// The place to run a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Here,
    Localkube { last: bool },
    Nowhere,
}

/// Runs every block that needs no cluster. Each page has its own directory.
pub fn without_cluster(holdfast: &Path, dir: &Path, interrupt: &Interrupt) -> Result<()> {
    let pages = Page::all()?;
    let dead = links::dead(&pages);
    if !dead.is_empty() {
        bail!("links that lead nowhere:\n{}", dead.join("\n"));
    }
    for page in pages {
        let blocks = at(&page, Place::Here)?;
        if !blocks.is_empty() {
            let script: String = blocks.iter().map(|block| step(&page, block)).collect();
            execute(&script, holdfast, dir, &[], interrupt)
                .with_context(|| page.path.display().to_string())?;
        }
    }
    Ok(())
}

/// Runs the quickstart, other blocks that need its cluster, and the end of the quickstart, in one shell.
pub fn on_localkube(
    holdfast: &Path,
    dir: &Path,
    cluster: &Path,
    interrupt: &Interrupt,
) -> Result<()> {
    let mut pages = Page::all()?;
    pages.sort_by_key(|page| page.path != Path::new(QUICKSTART));
    let mut script = String::new();
    for last in [false, true] {
        for page in &pages {
            for block in at(page, Place::Localkube { last })? {
                script += &step(page, block);
                if page.path == Path::new(QUICKSTART) && block.text.contains(PROTECTED) {
                    script += "echo \"--- protected after $SECONDS s\"\n";
                }
            }
        }
    }
    let environment = [("HOLDFAST_LOCALKUBE_DIR", cluster)];
    execute(&script, holdfast, dir, &environment, interrupt)?;
    let log = fs::read_to_string(dir.join("log")).context("read what the quickstart said")?;
    let protected = log.lines().find_map(|line| line.strip_prefix("--- protected "));
    println!(
        "the quickstart: protected {}, from its first command on",
        protected.unwrap_or("never")
    );
    Ok(())
}

fn at(page: &Page, place: Place) -> Result<Vec<&Block>> {
    let placed = page.blocks.iter().map(|block| {
        let found =
            place_of(block).with_context(|| format!("{}:{}", page.path.display(), block.line))?;
        Ok((found, block))
    });
    let placed: Vec<(Place, &Block)> = placed.collect::<Result<_>>()?;
    Ok(placed.into_iter().filter(|(found, _)| *found == place).map(|(_, block)| block).collect())
}

/// Fails for an unknown info string, because its commands might never run.
fn place_of(block: &Block) -> Result<Place> {
    let words: Vec<&str> = block.info.iter().map(String::as_str).collect();
    let (language, rest) =
        words.split_first().context("the fence has no language: sh, text, yaml, ...")?;
    match (*language, rest) {
        ("bash" | "shell" | "console", _) => bail!("commands are `sh`"),
        ("sh", ["localkube", "last", ..]) => Ok(Place::Localkube { last: true }),
        ("sh", ["localkube", ..]) => Ok(Place::Localkube { last: false }),
        ("sh", []) => Ok(Place::Here),
        ("sh", [word, ..]) if word.starts_with("exit=") => Ok(Place::Here),
        ("sh", [word]) if word.strip_prefix("no-run=").is_some_and(|why| !why.is_empty()) => {
            Ok(Place::Nowhere)
        }
        ("sh", rest) => bail!("{rest:?}: expected localkube, exit=N or no-run=REASON"),
        _ => Ok(Place::Nowhere),
    }
}

/// Returns the block as a part of a script. It begins with the place of the block, to find a failing block.
fn step(page: &Page, Block { line, info, text }: &Block) -> String {
    let mut script = format!("echo \"--- $SECONDS s: {}:{line}\"\n", page.path.display());
    let Some(exit) = info.iter().find_map(|word| word.strip_prefix("exit=")) else {
        return script + text;
    };
    let _ = write!(script, "set +e\n{text}code=$?\nset -e\n");
    if exit != "any" {
        let _ = writeln!(
            script,
            "[ $code = {exit} ] || {{ echo \"exit code $code and not {exit}\"; exit 1; }}"
        );
    }
    script
}

/// Runs the script in a new directory with the examples of the repository and with the built program on the
/// PATH. No process survives it.
fn execute(
    script: &str,
    holdfast: &Path,
    dir: &Path,
    environment: &[(&str, &Path)],
    interrupt: &Interrupt,
) -> Result<()> {
    prepare(holdfast, dir)?;
    let (work, log) = (dir.join("work"), dir.join("log"));
    let output = fs::File::create(&log).with_context(|| format!("create {}", log.display()))?;
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([dir.join("bin")].into_iter().chain(env::split_paths(&path)))?;
    let mut child = Command::new("bash")
        .args(["-c", &format!("set -euo pipefail\n{script}")])
        .envs(environment.iter().copied())
        .env("PATH", path)
        .env_remove("KUBECONFIG")
        .current_dir(&work)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .process_group(0)
        .spawn()
        .context("start bash")?;
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("it has a pid")?;
    let began = Instant::now();
    let ended = loop {
        if let Some(status) = child.try_wait().context("wait for bash")? {
            break Some(status);
        }
        if interrupt.came() || began.elapsed() > PATIENCE {
            break None;
        }
        thread::sleep(Duration::from_millis(50));
    };
    // Background processes of the script, and the script itself if it has not ended.
    kill_process_group(group, Signal::TERM).ok();
    if ended.is_none() {
        child.wait().context("wait for bash")?;
    }
    interrupt.check()?;
    if ended.is_some_and(|status| status.success()) {
        return Ok(());
    }
    let said = fs::read_to_string(&log).unwrap_or_default();
    let tail: Vec<&str> = said.lines().rev().take(40).collect();
    let tail: Vec<&str> = tail.into_iter().rev().collect();
    match ended {
        Some(status) => bail!("{status}\n{}", tail.join("\n")),
        None => bail!("not done after {} s\n{}", PATIENCE.as_secs(), tail.join("\n")),
    }
}

fn prepare(holdfast: &Path, dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("remove {}", dir.display()))?;
    }
    let (bin, work) = (dir.join("bin"), dir.join("work"));
    for made in [&bin, &work] {
        fs::create_dir_all(made).with_context(|| format!("create {}", made.display()))?;
    }
    for name in ["examples", "deploy", "docs", "crates"] {
        link(&workspace().join(name), &work.join(name))?;
    }
    // A reader has manifests in this directory.
    fs::create_dir(work.join("manifests")).context("create a directory of manifests")?;
    link(&workspace().join("examples/two-replicas.yaml"), &work.join("manifests/app.yaml"))?;
    for name in ["holdfast", "kubectl-holdfast"] {
        link(holdfast, &bin.join(name))?;
    }
    // The programs that the pages build are already built.
    let xtask = env::current_exe().context("find this program")?;
    let cargo = format!(
        "#!/bin/sh\ncase \"$1\" in\nxtask) shift; exec '{}' \"$@\" ;;\nrun) shift 3; exec holdfast \"$@\" ;;\n\
         build) ;;\n*) echo \"cargo $1: not in a test of the docs\" >&2; exit 1 ;;\nesac\n",
        xtask.display()
    );
    let shim = bin.join("cargo");
    fs::write(&shim, cargo).with_context(|| format!("write {}", shim.display()))?;
    fs::set_permissions(&shim, fs::Permissions::from_mode(0o755)).context("make it executable")
}

fn link(to: &Path, at: &PathBuf) -> Result<()> {
    symlink(to, at).with_context(|| format!("make {}", at.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(info: &str) -> Block {
        let info = info.split_whitespace().map(str::to_owned).collect();
        Block { line: 1, info, text: "ls\n".to_owned() }
    }

    #[test]
    fn blocks_say_where_they_are_run() {
        let place = |info: &str| place_of(&block(info)).ok();
        assert_eq!(place("sh"), Some(Place::Here));
        assert_eq!(place("sh exit=1"), Some(Place::Here));
        assert_eq!(place("sh localkube exit=1"), Some(Place::Localkube { last: false }));
        assert_eq!(place("sh localkube last"), Some(Place::Localkube { last: true }));
        assert_eq!(place("sh no-run=needs-kind"), Some(Place::Nowhere));
        assert_eq!(place("text"), Some(Place::Nowhere));
        for wrong in ["", "console", "sh no-run=", "sh someday", "sh no-run=a b"] {
            assert_eq!(place(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn every_block_of_the_docs_is_run_or_says_why_not() {
        for page in Page::all().unwrap() {
            at(&page, Place::Here).unwrap();
        }
    }

    #[test]
    fn the_quickstart_protects_something_once() {
        let pages = Page::all().unwrap();
        let page = pages.iter().find(|page| page.path == Path::new(QUICKSTART)).unwrap();
        let protecting = page.blocks.iter().filter(|block| block.text.contains(PROTECTED));
        assert_eq!(protecting.count(), 1);
    }

    /// Returns the lines without comments, which a page may leave out.
    fn plain(text: &str) -> Vec<&str> {
        text.lines().filter(|line| !line.starts_with('#')).collect()
    }

    #[test]
    fn what_is_shown_of_a_file_is_the_file() {
        for page in Page::all().unwrap() {
            for Block { line, info, text } in &page.blocks {
                let Some(file) = info.iter().find_map(|word| word.strip_prefix("file=")) else {
                    continue;
                };
                let there = fs::read_to_string(workspace().join(file)).unwrap_or_default();
                assert_eq!(plain(text), plain(&there), "{}:{line}: {file}", page.path.display());
            }
        }
    }

    #[test]
    fn exit_codes_are_looked_at() {
        let dir = env::temp_dir().join(format!("holdfast-docs-{}", std::process::id()));
        let page = Page::read("x.md".into(), "").unwrap();
        let interrupt = Interrupt::catch().unwrap();
        let run = |info: &str, text: &str| {
            let text = format!("{text}\n");
            let script = step(&page, &Block { text, ..block(info) });
            execute(&script, Path::new("/bin/false"), &dir, &[], &interrupt)
                .map_err(|e| e.to_string())
        };
        assert_eq!(run("sh", "true"), Ok(()));
        assert_eq!(run("sh exit=1", "holdfast"), Ok(()));
        assert_eq!(run("sh exit=any", "false"), Ok(()));
        assert_eq!(run("sh", "sleep 100 & true"), Ok(()), "nothing is waited for");
        assert!(run("sh", "echo said; false; true").unwrap_err().contains("x.md:1\nsaid"));
        assert!(run("sh exit=1", "true").unwrap_err().contains("exit code 0 and not 1"));
        fs::remove_dir_all(dir).unwrap();
    }
}
