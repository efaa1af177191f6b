//! Logs go to stderr; stdout is for data.

use std::io::IsTerminal;
use std::str::FromStr;
use std::sync::Arc;

use clap::ValueEnum;
use holdfast_server::LogLevel;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::reload::Handle;

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
    /// From now on there is a log, and the means to change what is in it.
    pub fn start(&self) -> LogLevel {
        let logs = tracing_subscriber::fmt()
            .with_writer(std::io::stderr)
            .with_env_filter(self.log_level.clone())
            .with_target(false);
        match self.log_format {
            Format::Json => {
                let logs = logs.json().flatten_event(true).with_filter_reloading();
                let level = changeable(logs.reload_handle());
                logs.init();
                level
            }
            Format::Text => {
                let colour = std::io::stderr().is_terminal()
                    && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
                let logs = logs.with_ansi(colour).with_filter_reloading();
                let level = changeable(logs.reload_handle());
                logs.init();
                level
            }
        }
    }
}

fn changeable<S: 'static>(filter: Handle<EnvFilter, S>) -> LogLevel {
    let shown = filter.clone();
    LogLevel {
        get: Arc::new(move || shown.with_current(EnvFilter::to_string).unwrap_or_default()),
        set: Arc::new(move |text| {
            filter.reload(parse_filter(text)?).map_err(|error| error.to_string())
        }),
    }
}
