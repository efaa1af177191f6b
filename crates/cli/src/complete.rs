//! `holdfast completion`, and completion of `kubectl holdfast`.
//!
//! kubectl asks an executable `kubectl_complete-holdfast` with the words typed so far; a link of that name
//! to `holdfast` is one.

use std::io;

use clap::builder::PossibleValue;
use clap::{Arg, Command};
use clap_complete::Shell;

use crate::simulate::print;

#[derive(Debug, clap::Args)]
#[command(
    about = "Print the completion script of a shell",
    after_help = "Examples:\n  \
        source <(holdfast completion bash)\n  \
        holdfast completion zsh > \"${fpath[1]}/_holdfast\"\n  \
        holdfast completion fish > ~/.config/fish/completions/holdfast.fish\n\n\
        For kubectl holdfast, put links to holdfast on the PATH: kubectl-holdfast and \
        kubectl_complete-holdfast"
)]
pub struct Args {
    shell: Shell,
}

pub fn run(args: &Args, command: &mut Command) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "holdfast", &mut script);
    Ok(print(&mut io::stdout(), &String::from_utf8_lossy(&script))?)
}

/// Answers in kubectl's form: candidates, then a directive; 4 is to offer no files.
pub fn for_kubectl(command: Command) -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut text: String =
        candidates(command, &words).into_iter().map(|word| word + "\n").collect();
    text.push_str(":4\n");
    Ok(print(&mut io::stdout(), &text)?)
}

/// What the last word, which may be empty, can become.
fn candidates(mut command: Command, words: &[String]) -> Vec<String> {
    command.build();
    let Some((last, before)) = words.split_last() else { return Vec::new() };
    let mut at = &command;
    for word in before {
        at = at.find_subcommand(word).unwrap_or(at);
    }
    let is_of = |arg: &&Arg, word: &str| {
        arg.get_long().is_some_and(|long| word == format!("--{long}"))
            || arg.get_short().is_some_and(|short| word == format!("-{short}"))
    };
    let valued = before.last().and_then(|word| at.get_arguments().find(|arg| is_of(arg, word)));
    let valued = valued.filter(|arg| arg.get_action().takes_values());
    let found: Vec<String> = if let Some(arg) = valued {
        names(&arg.get_possible_values())
    } else if last.starts_with('-') {
        let longs = at.get_arguments().filter_map(Arg::get_long);
        longs.map(|long| format!("--{long}")).collect()
    } else {
        let positional = at.get_positionals().flat_map(|arg| names(&arg.get_possible_values()));
        let commands = at.get_subcommands().map(|command| command.get_name().to_owned());
        commands.chain(positional).collect()
    };
    found.into_iter().filter(|word| word.starts_with(last)).collect()
}

fn names(values: &[PossibleValue]) -> Vec<String> {
    values.iter().map(|value| value.get_name().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    fn complete(words: &[&str]) -> Vec<String> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        candidates(crate::Cli::command(), &words)
    }

    #[test]
    fn kubectl_completes_commands_flags_and_values() {
        assert_eq!(complete(&["wh"]), ["why"]);
        assert_eq!(complete(&["why", "--req"]), ["--request-timeout"]);
        assert_eq!(complete(&["status", "-o", "j"]), ["json"]);
        assert_eq!(complete(&["lint", "-A", "--output", "s"]), ["sarif"]);
        assert_eq!(complete(&["completion", "f"]), ["fish"]);
        assert_eq!(complete(&["why", "po"]), [""; 0]);
    }

    #[test]
    fn every_shell_gets_a_script_that_knows_the_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut crate::Cli::command(), "holdfast", &mut script);
            let script = String::from_utf8(script).unwrap();
            for word in ["status", "why", "lint", "request-timeout"] {
                assert!(script.contains(word), "{shell} {word}");
            }
        }
    }
}
