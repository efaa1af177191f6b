//! Every command with its flags, out of clap.

use std::fmt::Write as _;

use clap::{Arg, Command};

use super::cell;

pub fn page(mut program: Command) -> String {
    // Not as wide as the terminal that this runs in.
    program = program.term_width(0);
    program.build();
    let mut text = "# Commands and flags\n\nMade from the program by `cargo xtask fix`; `holdfast COMMAND --help` says the same. \
        Exit codes: 0 fine, 1 blocked or findings, 2 error.\n"
        .to_owned();
    commands(&mut text, &program, "");
    text
}

fn commands(text: &mut String, of: &Command, path: &str) {
    for command in of.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help") {
        let path = format!("{path} {}", command.get_name());
        describe(text, command, &path);
        commands(text, command, &path);
    }
}

fn describe(text: &mut String, command: &Command, path: &str) {
    let _ = write!(text, "\n## holdfast{path}\n");
    if let Some(about) = command.get_long_about().or(command.get_about()) {
        let _ = write!(text, "\n{about}\n");
    }
    let shown = |arg: &&Arg| !arg.is_hide_set() && arg.get_id() != "help";
    let args: Vec<&Arg> = command.get_arguments().filter(shown).collect();
    if args.is_empty() {
        return;
    }
    text.push_str("\n| flag | environment | default | |\n|---|---|---|---|\n");
    for arg in args {
        let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string);
        let env = arg.get_env().map(|env| format!("`{}`", env.to_string_lossy()));
        let defaults: Vec<_> =
            arg.get_default_values().iter().map(|v| v.to_string_lossy()).collect();
        let takes_value = arg.get_action().takes_values() && !defaults.is_empty();
        let default = if takes_value { format!("`{}`", defaults.join(",")) } else { String::new() };
        let row =
            [name(arg), env.unwrap_or_default(), default, help.unwrap_or_default() + &values(arg)];
        let _ = writeln!(text, "| {} |", row.map(|column| cell(&column)).join(" | "));
    }
}

/// `-n, --namespace NAME`, or the name of what has no flag.
fn name(arg: &Arg) -> String {
    let value = arg.get_value_names().unwrap_or_default().join(" ");
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let mut words: Vec<String> =
        vec![[short, long].into_iter().flatten().collect::<Vec<_>>().join(", ")];
    if arg.is_positional() || arg.get_action().takes_values() {
        words.push(value);
    }
    format!("`{}`", words.join(" ").trim())
}

fn values(arg: &Arg) -> String {
    let values = arg.get_possible_values();
    let named: Vec<String> = values
        .iter()
        .filter(|value| !value.is_hide_set() && arg.get_action().takes_values())
        .map(|value| match value.get_help() {
            Some(help) => format!("`{}` ({help})", value.get_name()),
            None => format!("`{}`", value.get_name()),
        })
        .collect();
    if named.is_empty() { String::new() } else { format!("; one of {}", named.join(", ")) }
}
