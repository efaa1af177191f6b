//! The nodes that are meant.

use crate::ask::{Cluster, Selector};
use crate::exit::Hinted;

#[derive(Clone, Debug, clap::Args)]
pub struct Which {
    /// Nodes
    #[arg(value_name = "NODE")]
    nodes: Vec<String>,
    /// All nodes with these labels, such as pool=a,zone!=b
    #[arg(
        short = 'l',
        long = "all-matching",
        visible_alias = "selector",
        value_name = "SELECTOR",
        conflicts_with = "nodes"
    )]
    selector: Option<Selector>,
}

impl Which {
    pub fn named(nodes: Vec<String>) -> Self {
        Self { nodes, selector: None }
    }

    /// Each once, in the order given, or by name. That no node has the labels is no error to kubectl.
    pub fn find(&self, cluster: &Cluster) -> anyhow::Result<Vec<String>> {
        let mut found: Vec<String> = Vec::new();
        if let Some(selector) = &self.selector {
            let matching = cluster.nodes().filter(|(_, node)| selector.matches_object(node));
            found.extend(matching.map(|(name, _)| name.clone()));
            if found.is_empty() {
                eprintln!("No resources found");
                return Ok(found);
            }
        }
        for given in &self.nodes {
            let name = given.strip_prefix("node/").unwrap_or(given);
            if !cluster.nodes().any(|(known, _)| known == name) {
                return Err(Hinted::error(
                    format!("nodes {name:?} not found"),
                    "`kubectl get nodes` lists them",
                ));
            }
            if !found.iter().any(|known| known == name) {
                found.push(name.to_owned());
            }
        }
        if found.is_empty() {
            return Err(Hinted::error("no node is named", "name nodes, or -l SELECTOR"));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::{Builtins, documents};
    use holdfast_core::Config;
    use holdfast_core::model::Timestamp;
    use serde_json::json;

    #[test]
    fn labels_that_no_node_has_are_no_error_and_a_name_that_none_has_is() {
        let node = json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "a", "labels": {"pool": "a"}}});
        let lists = documents::lists(vec![node], "default");
        let cluster = Cluster::new(Config::default(), lists, Timestamp(0), Builtins::Counted);
        let labelled = |selector: &str| {
            let which = Which { nodes: Vec::new(), selector: selector.parse().ok() };
            which.find(&cluster).unwrap()
        };
        assert_eq!(labelled("pool=a"), ["a"]);
        assert_eq!(labelled("pool=b"), [""; 0]);
        assert!(Which::named(vec!["b".to_owned()]).find(&cluster).is_err());
    }
}
