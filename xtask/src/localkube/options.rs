//! The optional features of a control plane.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The record of a control plane has these options, so that none is mistaken for another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Options {
    /// How many kube-apiservers to run on the one etcd
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=9))]
    #[serde(default = "one")]
    pub apiservers: u8,
    /// Run LWS too, whose replicas are groups of a leader and its workers
    #[arg(long)]
    pub lws: bool,
    /// Run the controller of job sets too, whose replicas are Jobs
    #[arg(long)]
    #[serde(default)]
    pub jobset: bool,
    /// Put the descheduler into the directory, for tests to run
    #[arg(long)]
    #[serde(default)]
    pub descheduler: bool,
    /// Serve no pod groups and schedule no gangs, as most clusters do
    #[arg(long)]
    #[serde(default)]
    pub without_pod_groups: bool,
    /// The release of the control plane; without pod groups, if it is not the latest
    #[arg(long, value_enum, default_value_t, value_name = "RELEASE")]
    #[serde(default)]
    pub kubernetes: Release,
    /// A flag for kube-apiserver, which overrules localkube's own; may be given several times
    #[arg(long = "apiserver-flag", value_name = "--NAME=VALUE", allow_hyphen_values = true)]
    pub apiserver_flags: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            apiservers: one(),
            lws: false,
            jobset: false,
            descheduler: false,
            without_pod_groups: false,
            kubernetes: Release::default(),
            apiserver_flags: Vec::new(),
        }
    }
}

/// Returns the number of API servers for a record without this number.
fn one() -> u8 {
    1
}

/// A release of Kubernetes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum Release {
    #[value(name = "1.35")]
    V1_35,
    #[default]
    #[value(name = "1.37")]
    V1_37,
}

impl Release {
    pub fn version(self) -> &'static str {
        match self {
            Self::V1_35 => "1.35.4",
            Self::V1_37 => "1.37.1",
        }
    }

    /// Returns the directory of its own module, unless it is the latest release.
    pub fn module(self) -> Option<&'static str> {
        match self {
            Self::V1_35 => Some("1.35"),
            Self::V1_37 => None,
        }
    }
}

impl Options {
    pub fn has_pod_groups(&self) -> bool {
        !self.without_pod_groups && self.kubernetes == Release::default()
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = [
            (self.lws, "--lws"),
            (self.jobset, "--jobset"),
            (self.descheduler, "--descheduler"),
            (self.without_pod_groups, "--without-pod-groups"),
        ];
        let given = given.into_iter().filter(|(is_given, _)| *is_given);
        let given = given.map(|(_, option)| option.to_owned());
        let older = self.kubernetes.module().map(|module| format!("--kubernetes={module}"));
        let flags = self.apiserver_flags.iter().map(|flag| format!("--apiserver-flag={flag}"));
        let several =
            (self.apiservers != one()).then(|| format!("--apiservers={}", self.apiservers));
        let options: Vec<String> =
            several.into_iter().chain(given).chain(older).chain(flags).collect();
        f.write_str(if options.is_empty() { "no options" } else { "" })?;
        f.write_str(&options.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_without_a_number_of_api_servers_is_of_one() {
        let record = r#"{"lws": true, "apiserver_flags": []}"#;
        let options: Options = serde_json::from_str(record).unwrap();
        assert_eq!(options, Options { lws: true, ..Options::default() });
        assert_eq!(options.to_string(), "--lws");

        let several = Options { apiservers: 3, ..options };
        assert_eq!(several.to_string(), "--apiservers=3 --lws");
    }
}
