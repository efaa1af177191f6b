//! Which pods a drain evicts, as kubectl chooses and in its words.

use std::collections::BTreeMap;

use holdfast_core::model::ObjectKey;
use serde_json::Value;

use crate::ask::{Selector, controller_kind};

#[derive(Clone, Debug, Default, clap::Args)]
pub struct Choice {
    /// Continue even if there are pods that do not declare a controller
    #[arg(long)]
    pub force: bool,
    /// Ignore DaemonSet-managed pods
    #[arg(long)]
    pub ignore_daemonsets: bool,
    /// Continue even if there are pods using emptyDir (local data that will be deleted when the node is drained)
    #[arg(long)]
    pub delete_emptydir_data: bool,
    /// Label selector to filter pods on the node
    #[arg(long, value_name = "SELECTOR")]
    pub pod_selector: Option<Selector>,
}

/// The pods of a node, or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    pub evicted: Vec<ObjectKey>,
    /// What is said, of which pods.
    pub warnings: BTreeMap<&'static str, Vec<String>>,
    /// Why the node is not drained, for which pods.
    pub refusals: BTreeMap<&'static str, Vec<String>>,
}

enum Fate {
    Evict,
    EvictWith(&'static str),
    Leave,
    LeaveWith(&'static str),
    Refuse(&'static str),
}

impl Choice {
    #[cfg(test)]
    pub fn forced() -> Self {
        Self { force: true, ..Self::default() }
    }

    pub fn choose<'a>(&self, pods: impl Iterator<Item = (&'a ObjectKey, &'a Value)>) -> Chosen {
        let mut chosen = Chosen::default();
        for (key, pod) in pods.filter(|(_, pod)| self.selects(pod)) {
            let fate = self.fate(pod);
            if matches!(fate, Fate::Evict | Fate::EvictWith(_)) {
                chosen.evicted.push(key.clone());
            }
            let told = match fate {
                Fate::Evict | Fate::Leave => continue,
                Fate::EvictWith(what) | Fate::LeaveWith(what) => {
                    chosen.warnings.entry(what).or_default()
                }
                Fate::Refuse(what) => chosen.refusals.entry(what).or_default(),
            };
            told.push(key.to_string());
        }
        chosen
    }

    fn selects(&self, pod: &Value) -> bool {
        self.pod_selector.as_ref().is_none_or(|selector| selector.matches_object(pod))
    }

    /// In the order of kubectl's filters: the first that refuses or leaves decides, the last warning counts.
    fn fate(&self, pod: &Value) -> Fate {
        let finished = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        let controller = controller_kind(pod);
        if controller == Some("DaemonSet") && !finished {
            return if self.ignore_daemonsets {
                Fate::LeaveWith("ignoring DaemonSet-managed Pods")
            } else {
                Fate::Refuse("DaemonSet-managed Pods (use --ignore-daemonsets to ignore)")
            };
        }
        if !pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_null() {
            return Fate::Leave;
        }
        if finished {
            return Fate::Evict;
        }
        let volumes = pod["spec"]["volumes"].as_array();
        let local = volumes.is_some_and(|all| all.iter().any(|v| v["emptyDir"].is_object()));
        if local && !self.delete_emptydir_data {
            return Fate::Refuse(
                "Pods with local storage (use --delete-emptydir-data to override)",
            );
        }
        match controller {
            None if self.force => Fate::EvictWith("deleting Pods that declare no controller"),
            None => Fate::Refuse("Pods that declare no controller (use --force to override)"),
            Some(_) if local => Fate::EvictWith("deleting Pods with local storage"),
            Some(_) => Fate::Evict,
        }
    }
}

impl Chosen {
    /// One line, if there is anything to warn of.
    pub fn warning(&self) -> Option<String> {
        let told = told(&self.warnings, "");
        (!told.is_empty()).then(|| told.join("; "))
    }

    /// As Go joins errors.
    pub fn refusal(&self) -> Option<String> {
        let told = told(&self.refusals, "cannot delete ");
        match told.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            several => Some(format!("[{}]", several.join(", "))),
        }
    }
}

fn told(of: &BTreeMap<&str, Vec<String>>, verb: &str) -> Vec<String> {
    of.iter().map(|(what, pods)| format!("{verb}{what}: {}", pods.join(", "))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A pod of each kind that matters.
    fn pods() -> BTreeMap<ObjectKey, Value> {
        let owned = |kind: &str| json!([{"kind": kind, "name": "x", "controller": true}]);
        let pods = [
            (
                "web",
                json!({"metadata": {"ownerReferences": owned("ReplicaSet"), "labels": {"app": "web"}}}),
            ),
            ("agent", json!({"metadata": {"ownerReferences": owned("DaemonSet")}})),
            (
                "static",
                json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"},
                "ownerReferences": owned("Node")}}),
            ),
            ("bare", json!({})),
            (
                "scratch",
                json!({"metadata": {"ownerReferences": owned("StatefulSet")},
                "spec": {"volumes": [{"emptyDir": {}}]}}),
            ),
            (
                "done",
                json!({"status": {"phase": "Succeeded"}, "spec": {"volumes": [{"emptyDir": {}}]}}),
            ),
        ];
        pods.into_iter().map(|(name, pod)| (ObjectKey::new("ns", name), pod)).collect()
    }

    fn names(chosen: &Chosen) -> Vec<&str> {
        chosen.evicted.iter().map(|key| key.name.as_str()).collect()
    }

    #[test]
    fn without_flags_what_would_be_lost_is_refused_in_kubectls_words() {
        let chosen = Choice::default().choose(pods().iter());
        assert_eq!(names(&chosen), ["done", "web"]);
        assert_eq!(
            chosen.refusal().unwrap(),
            "[cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore): ns/agent, \
             cannot delete Pods that declare no controller (use --force to override): ns/bare, \
             cannot delete Pods with local storage (use --delete-emptydir-data to override): ns/scratch]"
        );
    }

    #[test]
    fn with_flags_it_goes_or_stays_with_a_warning() {
        let all = Choice {
            force: true,
            ignore_daemonsets: true,
            delete_emptydir_data: true,
            pod_selector: None,
        };
        let chosen = all.choose(pods().iter());
        assert_eq!(names(&chosen), ["bare", "done", "scratch", "web"]);
        assert_eq!(chosen.refusal(), None);
        assert_eq!(
            chosen.warning().unwrap(),
            "deleting Pods that declare no controller: ns/bare; \
             deleting Pods with local storage: ns/scratch; ignoring DaemonSet-managed Pods: ns/agent"
        );
    }

    #[test]
    fn a_selector_leaves_the_other_pods_out_of_it() {
        let choice = Choice { pod_selector: Some("app=web".parse().unwrap()), ..Choice::default() };
        let chosen = choice.choose(pods().iter());
        assert_eq!((names(&chosen), chosen.refusal()), (vec!["web"], None));
    }
}
