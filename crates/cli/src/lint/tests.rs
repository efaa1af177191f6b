//! Each code found where it should be, and nowhere else.

use super::code::Code;
use super::files::lint;
use super::finding::Findings;
use crate::simulate::Input;

fn found(text: &str) -> Findings {
    let mut input = Input::default();
    input.parse("test.yaml", text);
    lint(input, "default")
}

/// A budget over a Deployment of so many.
fn budget(replicas: u32, spec: &str) -> String {
    format!(
        r"
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: web}}
spec:
  selector: {{matchLabels: {{app: web}}}}
  {spec}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec: {{containers: [{{name: c, image: i}}]}}
"
    )
}

/// Two replicas of two pods, by annotation, under a budget of this API with this spec.
fn replicas(api: &str, spec: &str, policy: &str) -> String {
    let mut text = format!(
        r"
apiVersion: {api}
kind: PodDisruptionBudget
metadata: {{name: train}}
spec:
  selector: {{matchLabels: {{app: train}}}}
  {spec}
"
    );
    for group in ["a", "b"] {
        let group_document = format!(
            "---\napiVersion: scheduling.holdfast.dev/v1alpha1\nkind: PodGroup\n\
             metadata: {{name: {group}}}\nspec: {{schedulingPolicy: {policy}}}\n"
        );
        text.push_str(&group_document);
        for pod in 0..2 {
            let pod_document = format!(
                "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: {group}-{pod}\n  labels: {{app: train}}\n  \
                 annotations: {{holdfast.dev/pod-group: {group}}}\n\
                 spec: {{containers: [{{name: c, image: i}}]}}\n"
            );
            text.push_str(&pod_document);
        }
    }
    text
}

const GANG: &str = "{gang: {minCount: 2}}";
const OURS: &str = "policy.holdfast.dev/v1";

#[test]
fn a_good_budget_has_no_findings() {
    assert_eq!(found(&budget(3, "maxUnavailable: 1")).codes(), []);
    assert_eq!(found(&budget(10, "minAvailable: 90%")).codes(), []);
    let counted = "minAvailable: 1\n  budgetScope: Workload";
    assert_eq!(found(&replicas(OURS, counted, GANG)).codes(), []);
}

#[test]
fn thresholds_that_leave_no_room() {
    assert_eq!(found(&budget(3, "maxUnavailable: 0")).codes(), [Code::NeverAllows]);
    assert_eq!(found(&budget(3, "minAvailable: 3")).codes(), [Code::NeverAllows]);
    assert_eq!(found(&budget(3, "minAvailable: 100%")).codes(), [Code::NeverAllows]);
    assert_eq!(found(&budget(5, "minAvailable: 90%")).codes(), [Code::NoRoomInPercent]);
    for one in ["maxUnavailable: 1", "minAvailable: 1", "maxUnavailable: 0"] {
        assert_eq!(found(&budget(1, one)).codes(), [Code::OnlyOne], "{one}");
    }
}

#[test]
fn selectors_that_select_nothing_or_too_much() {
    let other = budget(3, "maxUnavailable: 1").replacen("app: web", "app: wob", 1);
    assert_eq!(found(&other).codes(), [Code::SelectsNothing]);
    let twice = budget(3, "maxUnavailable: 1");
    let second = twice.replacen("name: web", "name: web-2", 1);
    let second = second.split("---").next().unwrap();
    assert_eq!(found(&format!("{twice}---{second}")).codes(), [Code::SeveralBudgets]);
    let two = found(&format!("{twice}---{second}"));
    assert_eq!(two.worst(), Some(super::Severity::Error));
}

#[test]
fn replicas_that_cannot_be_counted() {
    let counted = "minAvailable: 1\n  budgetScope: Workload";
    let missing =
        replicas(OURS, counted, GANG).replacen("metadata: {name: b}", "metadata: {name: c}", 1);
    assert_eq!(found(&missing).codes(), [Code::MissingReference]);
    assert_eq!(found(&replicas(OURS, counted, "{basic: {}}")).codes(), [Code::BasicGroup]);
    let bare = budget(3, "minAvailable: 1\n  budgetScope: Workload").replacen("policy/v1", OURS, 1);
    assert_eq!(found(&bare).codes(), [Code::NoReplica]);
    let in_pods = replicas("policy/v1", "minAvailable: 2", GANG);
    assert_eq!(found(&in_pods).codes(), [Code::CountsPodsOfReplicas]);
    // That kind has no budgetScope to set.
    assert!(found(&in_pods).into_vec()[0].fix.contains("use policy.holdfast.dev/v1"));
    let of_unknown = replicas(OURS, "maxUnavailable: 1\n  budgetScope: Workload", GANG);
    assert_eq!(found(&of_unknown).codes(), [Code::NotComputed]);
}

#[test]
fn an_unavailable_budget_of_pods_without_a_scale() {
    let text = "
apiVersion: policy.kruise.io/v1alpha1
kind: PodUnavailableBudget
metadata: {name: web}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec: {containers: [{name: c, image: i}]}
";
    assert_eq!(found(text).codes(), [Code::NoScale]);
}

#[test]
fn a_key_that_is_there_twice_is_told_in_words_for_whoever_wrote_it() {
    let text = found("kind: Pod\nkind: Pod\n").text(false);
    assert!(text.contains("line 2: duplicate mapping key: kind\n"), "{text}");
}

#[test]
fn what_cannot_be_read_is_a_finding_with_its_place() {
    insta::assert_snapshot!(found("kind: Pod\n---\n: : :\n").text(false));
}

#[test]
fn findings_are_told_as_text_json_and_sarif() {
    let findings = found(&budget(3, "maxUnavailable: 0"));
    assert_eq!(findings.names(false), ["poddisruptionbudget/web"]);
    assert_eq!(findings.names(true), ["poddisruptionbudget/default/web"]);
    insta::assert_snapshot!(findings.text(false));
    insta::assert_snapshot!(serde_json::to_string_pretty(&findings).unwrap());
    let mut sarif = findings.sarif();
    let rules = sarif["runs"][0]["tool"]["driver"]["rules"].take();
    assert_eq!(rules.as_array().unwrap().len(), Code::ALL.len());
    assert_eq!(rules[1]["id"], sarif["runs"][0]["results"][0]["ruleId"]);
    insta::assert_snapshot!(serde_json::to_string_pretty(&sarif).unwrap());
}

#[test]
fn the_documentation_lists_every_code_as_it_is() {
    let docs = include_str!("../../../../docs/lint.md");
    let rows: Vec<&str> = docs.lines().filter(|line| line.starts_with("| HF")).collect();
    let expected: Vec<String> = Code::ALL
        .iter()
        .map(|code| {
            format!(
                "| {} | {} | {} | {} |",
                code.id(),
                code.severity().name(),
                code.what(),
                code.fix()
            )
        })
        .collect();
    assert_eq!(rows, expected);
}
