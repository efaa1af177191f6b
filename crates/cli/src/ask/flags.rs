//! Flags as kubectl has them.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use holdfast_server::{ClusterOptions, Reader};
use serde::Serialize;

use crate::serve::parse_time;
use crate::simulate::print;

#[derive(Debug, clap::Args)]
pub struct ClusterArgs {
    /// Kubeconfig, or several with : between [default: ~/.kube/config, else the service account]
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Longest time that a single request may take
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_time)]
    request_timeout: Duration,
    /// Namespace [default: that of the context]
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
}

impl ClusterArgs {
    /// In the time of one request: without an answer to the first there is no second.
    pub async fn connect(&self) -> Result<Reader, holdfast_server::Error> {
        let options =
            ClusterOptions { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() };
        // As kubectl: 0 is no limit.
        let limit = Some(self.request_timeout).filter(|limit| !limit.is_zero());
        let limit = limit.unwrap_or(Duration::MAX);
        let connected = tokio::time::timeout(limit, Reader::connect(&options, limit)).await;
        connected.unwrap_or_else(|_| {
            Err(holdfast_server::Error::Unreachable {
                url: "of the kubeconfig".to_owned(),
                reason: format!("no answer within {} s", limit.as_secs_f32()),
            })
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Table,
    /// A table with more columns
    Wide,
    /// The schema is stable
    Json,
    Yaml,
    /// Names only
    Name,
}

/// To stdout, in this form; the first of the two makes the text for people, the second the names.
pub fn emit(
    output: Output,
    data: &impl Serialize,
    text: impl FnOnce() -> String,
    names: impl FnOnce() -> Vec<String>,
) -> anyhow::Result<()> {
    let text = match output {
        Output::Table | Output::Wide => text(),
        Output::Json => serde_json::to_string_pretty(data)? + "\n",
        Output::Yaml => serde_saphyr::to_string(data)?,
        Output::Name => names().into_iter().map(|name| name + "\n").collect(),
    };
    Ok(print(&mut io::stdout().lock(), &text)?)
}
