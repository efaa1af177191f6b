//! What a pod's object says that the engine does not ask about.

use serde_json::Value;

/// Where a pod is and how it is doing, as a person would say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    pub node: Option<String>,
    pub state: String,
}

impl PodFacts {
    /// `node_ready` tells whether a node is there and well.
    pub fn of(pod: &Value, node_ready: impl Fn(&str) -> Option<bool>) -> Self {
        let node = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty());
        let well = node.and_then(node_ready);
        let state = match (state(pod), well) {
            (state, Some(false)) => format!("{state}; its node is not ready"),
            (state, _) => state,
        };
        Self { node: node.map(str::to_owned), state }
    }
}

/// The kind of the controller.
pub fn controller_kind(pod: &Value) -> Option<&str> {
    let owners = pod["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true)?["kind"].as_str()
}

fn state(pod: &Value) -> String {
    let status = &pod["status"];
    let phase = status["phase"].as_str().unwrap_or("Unknown");
    if pod["metadata"]["deletionTimestamp"].is_string() {
        return "terminating".to_owned();
    }
    if let Some(scheduled) = condition(pod, "PodScheduled").filter(|c| c["status"] == "False") {
        let reason = scheduled["reason"].as_str().unwrap_or("not scheduled");
        return match scheduled["message"].as_str().map(first_sentence) {
            Some(message) if !message.is_empty() => format!("{phase}, {reason}: {message}"),
            _ => format!("{phase}, {reason}"),
        };
    }
    let waiting = ["initContainerStatuses", "containerStatuses"].iter().find_map(|list| {
        status[list].as_array()?.iter().find_map(|c| c["state"]["waiting"]["reason"].as_str())
    });
    if let Some(reason) = waiting {
        return format!("{phase}, {reason}");
    }
    match condition(pod, "Ready") {
        Some(ready) if ready["status"] == "True" => "ready".to_owned(),
        Some(ready) => {
            let reason = ready["reason"].as_str().filter(|reason| !reason.is_empty());
            format!("{phase}, not ready{}", reason.map(|r| format!(": {r}")).unwrap_or_default())
        }
        None if phase == "Running" => "Running, not ready".to_owned(),
        None => phase.to_owned(),
    }
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// Condition Ready of a node.
pub fn node_ready(node: &Value) -> bool {
    condition(node, "Ready").is_none_or(|ready| ready["status"] == "True")
}

/// The scheduler goes on for lines about each node and preemption.
fn first_sentence(message: &str) -> &str {
    message.split(". ").next().unwrap_or(message).trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_state_says_what_is_wrong() {
        let of = |status: Value| PodFacts::of(&json!({"status": status}), |_| None).state;
        assert_eq!(
            of(
                json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
                "reason": "Unschedulable", "message": "0/6 nodes are available: 6 Insufficient cpu. preemption: no"}]})
            ),
            "Pending, Unschedulable: 0/6 nodes are available: 6 Insufficient cpu"
        );
        assert_eq!(
            of(json!({"phase": "Running",
                "containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]})),
            "Running, CrashLoopBackOff"
        );
        assert_eq!(
            of(json!({"phase": "Running",
                "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}]})),
            "Running, not ready: ContainersNotReady"
        );
        let placed = json!({"spec": {"nodeName": "n"}, "status": {"phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}]}});
        assert_eq!(PodFacts::of(&placed, |_| Some(true)).state, "ready");
        assert_eq!(PodFacts::of(&placed, |_| Some(false)).state, "ready; its node is not ready");
    }
}
