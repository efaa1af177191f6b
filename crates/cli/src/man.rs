//! `holdfast man`.

use std::io::stdout;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Command;
use clap_mangen::Man;

use crate::simulate::print;

#[derive(Debug, clap::Args)]
#[command(
    about = "Write man pages, made of the help texts",
    after_help = "Examples:\n  \
        holdfast man | man -l -\n  \
        holdfast man ~/.local/share/man/man1"
)]
pub struct Args {
    /// Directory for the pages of all commands [default: that of holdfast itself, to stdout]
    directory: Option<PathBuf>,
}

pub fn run(args: &Args, command: Command) -> anyhow::Result<()> {
    if let Some(directory) = &args.directory {
        let at = || format!("cannot write man pages to {}", directory.display());
        std::fs::create_dir_all(directory).with_context(at)?;
        return clap_mangen::generate_to(command, directory).with_context(at);
    }
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    Ok(print(&mut stdout(), &String::from_utf8_lossy(&page))?)
}
