//! How the program ends: exit code, and for errors one line on stderr and perhaps a hint.

use std::process::{ExitCode, Termination};

#[derive(Debug)]
pub enum Exit {
    Fine,
    /// What was asked for was done, and the answer is not a good one.
    Findings,
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
            Self::Findings => return ExitCode::from(1),
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
