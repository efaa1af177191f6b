//! How the program ends: exit code, and for errors one line on stderr and perhaps a hint.

use std::process::{ExitCode, Termination};

/// 1 is for findings, which no subcommand has yet.
#[derive(Debug)]
pub enum Exit {
    Fine,
    Error(anyhow::Error),
}

impl From<anyhow::Result<()>> for Exit {
    fn from(result: anyhow::Result<()>) -> Self {
        match result {
            Ok(()) => Self::Fine,
            Err(error) => Self::Error(error),
        }
    }
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        let error = match self {
            Self::Fine => return ExitCode::SUCCESS,
            Self::Error(error) => error,
        };
        eprintln!("error: {error:#}");
        let known = error.downcast_ref::<holdfast_server::Error>();
        if let Some(hint) = known.and_then(holdfast_server::Error::hint) {
            eprintln!("hint: {hint}");
        }
        ExitCode::from(2)
    }
}
