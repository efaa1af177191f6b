//! Command lines of the programs of this crate.

use std::process::ExitCode;
use std::str::FromStr;

/// Reads the arguments of the program as names, each with a value, except the names in `plain`.
///
/// # Errors
/// If a value is missing.
pub fn flags(plain: &[&str]) -> Result<Vec<(String, String)>, String> {
    let mut args = std::env::args().skip(1);
    let mut flags = Vec::new();
    while let Some(name) = args.next() {
        let value = if plain.contains(&name.as_str()) { Some(String::new()) } else { args.next() };
        let value = value.ok_or_else(|| format!("{name} needs a value"))?;
        flags.push((name, value));
    }
    Ok(flags)
}

/// Reads the number that a flag has as its value.
///
/// # Errors
/// If the value is not a number.
pub fn number<T: FromStr>((name, value): (&str, &str)) -> Result<T, String> {
    value.parse().map_err(|_| format!("{name}: {value}?"))
}

/// Runs the program, or prints its help if the arguments ask for that. Exit code 0 says that everything held, 1 that
/// something did not, 2 that the program could not run.
pub fn run(help: &str, program: impl FnOnce() -> Result<bool, String>) -> ExitCode {
    if std::env::args().skip(1).any(|arg| arg == "--help" || arg == "-h") {
        print!("{help}");
        return ExitCode::SUCCESS;
    }
    match program() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprint!("error: {why}\n\n{help}");
            ExitCode::from(2)
        }
    }
}
