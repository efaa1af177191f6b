//! Logs go to stderr; stdout is for data.

use std::io::IsTerminal;
use std::str::FromStr;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

#[derive(Debug, clap::Args)]
pub struct LogArgs {
    /// Form of the log lines on stderr
    #[arg(long, value_enum, default_value_t = Format::Text, env = "HOLDFAST_LOG_FORMAT")]
    log_format: Format,
    /// Least severe level to log: error, warn, info, debug, trace, or a filter such as
    /// `info,holdfast_server::watch=debug`
    #[arg(long, default_value = "info", env = "HOLDFAST_LOG_LEVEL", value_name = "LEVEL", value_parser = parse_filter)]
    log_level: EnvFilter,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// A bare level is meant for our own crates; what HTTP and TLS have to say helps nobody who did not
/// ask for it by name. kube logs failed connections as errors, which we report where they matter.
fn parse_filter(text: &str) -> Result<EnvFilter, String> {
    let filter = if LevelFilter::from_str(text).is_ok() {
        format!("warn,kube_client=off,holdfast={text},holdfast_server={text}")
    } else {
        text.to_owned()
    };
    EnvFilter::try_new(filter).map_err(|error| error.to_string())
}

impl LogArgs {
    pub fn start(&self) {
        let logs = tracing_subscriber::fmt()
            .with_writer(std::io::stderr)
            .with_env_filter(self.log_level.clone())
            .with_target(false);
        match self.log_format {
            Format::Json => logs.json().flatten_event(true).init(),
            Format::Text => {
                let colour = std::io::stderr().is_terminal()
                    && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
                logs.with_ansi(colour).init();
            }
        }
    }
}
