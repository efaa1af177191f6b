//! How the program ends: exit code, and for errors one line on stderr and perhaps a hint.

use std::fmt;
use std::process::{ExitCode, Termination};

#[derive(Debug)]
pub enum Exit {
    Fine,
    /// What was asked for was done, and the answer is not a good one.
    Findings,
    /// An error of a command that ends as kubectl's of that name does: with 1.
    Failed(anyhow::Error),
    /// By Ctrl-C, as shells count it; what is left has been said.
    Interrupted,
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

/// Whether the answer is a good one.
impl From<anyhow::Result<bool>> for Exit {
    fn from(result: anyhow::Result<bool>) -> Self {
        match result {
            Ok(true) => Self::Fine,
            Ok(false) => Self::Findings,
            Err(error) => Self::Error(error),
        }
    }
}

/// Does it on this thread.
pub fn block_on<T, E: Into<anyhow::Error>>(
    work: impl Future<Output = Result<T, E>>,
) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work).map_err(Into::into)
}

/// An error of the command line's own, and what to do about it.
#[derive(Debug)]
pub struct Hinted {
    what: String,
    hint: String,
}

impl Hinted {
    pub fn error(what: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
        anyhow::Error::new(Self { what: what.into(), hint: hint.into() })
    }
}

impl fmt::Display for Hinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Hinted {}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        let (error, code) = match self {
            Self::Fine => return ExitCode::SUCCESS,
            Self::Findings => return ExitCode::from(1),
            Self::Interrupted => return ExitCode::from(130),
            Self::Failed(error) => (error, 1),
            Self::Error(error) => (error, 2),
        };
        eprintln!("error: {error:#}");
        let known = error.downcast_ref::<holdfast_server::Error>();
        let own = error.downcast_ref::<Hinted>().map(|own| own.hint.clone());
        if let Some(hint) = own.or_else(|| known.and_then(holdfast_server::Error::hint)) {
            eprintln!("hint: {hint}");
        }
        ExitCode::from(code)
    }
}
