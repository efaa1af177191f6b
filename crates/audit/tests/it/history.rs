//! Whole histories: which grant broke the promise.

use holdfast_audit::objects::{Object, Threshold};
use holdfast_audit::{Finding, Rule};
use serde_json::json;

use crate::{History, gang, member, pairs, pods, replicas, with};

/// Two of three replicas are needed.
fn three() -> History {
    let mut history = pairs(&["a", "b", "c"]);
    history.store(replicas("one", &json!({"minAvailable": 2})));
    assert_eq!(history.look(), []);
    history
}

fn rules(findings: &[Finding]) -> Vec<Rule> {
    findings.iter().map(|finding| finding.rule).collect()
}

#[test]
fn one_of_one_is_kept_and_the_second_is_found() {
    let mut history = three();
    history.evict("one", "a-0");
    assert_eq!(history.look(), []);
    history.evict("one", "b-0");
    assert_eq!(rules(&history.look()), [Rule::S1]);
}

#[test]
fn an_allow_that_may_still_be_executed_counts() {
    let mut history = three();
    history.grant("one", "a-0");
    history.allow("a-0");
    history.grant("one", "b-0");
    assert_eq!(history.look(), []);
    let second = history.allow("b-0");
    assert_eq!(rules(&history.look()), [Rule::S1]);
    history.auditor.end(&second);
    assert_eq!(history.look(), []);
}

/// The grant and the edit are in an order, and the grant came first.
#[test]
fn an_answer_to_a_grant_from_before_an_edit_is_no_loss_of_the_edited_budget() {
    let mut history = three();
    history.grant("one", "a-0");
    history.edit_budget("one", |budget| budget.min_available = Some(Threshold::Count(3)));
    assert_eq!(history.look(), []);
    history.allow("a-0");
    assert_eq!(history.look(), []);
}

#[test]
fn a_grant_that_is_renewed_after_an_edit_is_judged_by_the_edited_budget() {
    let mut history = three();
    history.grant("one", "a-0");
    history.edit_budget("one", |budget| budget.min_available = Some(Threshold::Count(3)));
    assert_eq!(history.look(), []);
    history.edit_budget("one", |budget| budget.status.grants[0].eviction = "again".to_owned());
    assert_eq!(history.look(), []);
    history.allow("a-0");
    assert_eq!(rules(&history.look()), [Rule::S1]);
}

#[test]
fn an_eviction_by_name_may_hit_the_next_pod() {
    let mut history = three();
    history.grant("one", "a-0");
    let id = history.allow("a-0");
    let mut allow = history.auditor.end(&id).expect("in flight");
    allow.by_name = true;
    history.auditor.allow(allow.clone());
    history.drop_grants("one");
    history.store(with(member("a-0", "a"), "/metadata/uid", json!("next")));
    history.evict("one", "b-0");
    assert_eq!(rules(&history.look()), [Rule::S1]);
}

#[test]
fn a_recreated_budget_is_the_same_budget() {
    let mut history = three();
    history.evict("one", "a-0");
    assert_eq!(history.look(), []);
    let mut again = history.budget("one");
    history.auditor.deleted(&Object::Budget(again.clone()));
    again.uid = "another".to_owned();
    history.auditor.stored(Object::Budget(again));
    history.evict("one", "b-0");
    assert_eq!(rules(&history.look()), [Rule::S1]);
}

#[test]
fn an_edit_is_not_a_loss_and_a_grant_after_it_is() {
    let mut history = three();
    history.evict("one", "a-0");
    history.look();
    history.edit_budget("one", |budget| budget.min_available = Some(Threshold::Count(3)));
    assert_eq!(history.look(), [], "nobody granted anything since");
    history.evict("one", "b-0");
    assert_eq!(rules(&history.look()), [Rule::S1], "it was below, and lost another");
}

#[test]
fn a_loss_that_no_grant_explains_is_not_blamed_until_it_is_known() {
    let mut history = three();
    history.look();
    history.remove("a-0");
    assert_eq!(history.auditor.look(&|_| false, &|_| true), []);
    history.evict("one", "b-0");
    assert_eq!(history.auditor.look(&|_| false, &|_| true), [], "its writer was not told of a-0");
    assert_eq!(history.look(), [], "now all know, and nothing was granted since");
    history.evict("one", "c-0");
    assert_eq!(rules(&history.look()), [Rule::S1]);
}

#[test]
fn a_grant_is_judged_by_what_its_writer_knew() {
    let mut history = three();
    let known = history.auditor.state().clone();
    history.evict("one", "a-0");
    history.grant("one", "b-0");
    let budget = history.budget("one");
    let new = &budget.status.grants;
    let finding = history.auditor.judge_grants(&budget, (&[], new), &known);
    assert_eq!(finding.map(|f| f.rule), Some(Rule::S1), "a-0 went by a grant of this budget");
    // The same loss without a grant is nothing that the writer could know.
    let mut history = three();
    let known = history.auditor.state().clone();
    history.remove("a-0");
    history.grant("one", "b-0");
    let budget = history.budget("one");
    assert_eq!(history.auditor.judge_grants(&budget, (&[], &budget.status.grants), &known), None);
    let told = history.auditor.state().clone();
    assert!(history.auditor.judge_grants(&budget, (&[], &budget.status.grants), &told).is_some());
}

/// An earlier grant makes the group look broken, and may come to nothing.
#[test]
fn a_group_that_only_a_grant_makes_look_broken_is_still_needed() {
    let mut history = three();
    history.grant("one", "a-0");
    // A node dies with c, so none may go any more.
    history.remove("c-0");
    let old = history.budget("one").status.grants;
    history.grant("one", "a-1");
    let (budget, known) = (history.budget("one"), history.auditor.state().clone());
    let finding = history.auditor.judge_grants(&budget, (&old, &budget.status.grants[1..]), &known);
    assert_eq!(finding.map(|finding| finding.rule), Some(Rule::S1));
    // What has gone by a grant comes to something.
    history.take("a-0");
    let (budget, known) = (history.budget("one"), history.auditor.state().clone());
    let finding = history.auditor.judge_grants(&budget, (&old, &budget.status.grants[1..]), &known);
    assert_eq!(finding, None);
}

#[test]
fn a_grant_of_a_budget_that_failed_closed_is_found() {
    let mut history = three();
    history.store(member("d-0", "missing"));
    history.grant("one", "a-0");
    let (budget, known) = (history.budget("one"), history.auditor.state().clone());
    let finding = history.auditor.judge_grants(&budget, (&[], &budget.status.grants), &known);
    assert_eq!(finding.map(|f| f.rule), Some(Rule::S7));
    assert!(history.auditor.closed(&budget, &known).is_some());
}

#[test]
fn an_eviction_that_only_the_pod_shows_is_attributed_by_the_record() {
    let mut history = three();
    for pod in ["a-0", "b-0"] {
        history.grant("one", pod);
        history.edit_pod(pod, |pod| (pod.evicted, pod.terminating) = (true, true));
    }
    assert_eq!(rules(&history.look()), [Rule::S1]);
    assert_eq!(history.auditor.unrecorded(), []);
    history.edit_pod("c-0", |pod| (pod.evicted, pod.terminating) = (true, true));
    assert_eq!(rules(&history.auditor.unrecorded()), [Rule::S3], "no budget has a record of c-0");
}

#[test]
fn an_update_in_place_is_over_when_it_is_in_effect() {
    let mut history = History::default();
    for name in ["p", "q"] {
        history.store(member(name, name));
    }
    history.store(pods("b", &json!({"minAvailable": 1})));
    history.look();
    history.grant("b", "p");
    let id = history.allow("p");
    let mut allow = history.auditor.end(&id).expect("in flight");
    allow.operation = holdfast_audit::objects::Operation::Change;
    history.auditor.take(&allow, &history.pod("p").key);
    history.edit_pod("p", |pod| (pod.generation, pod.applied) = (pod.generation + 1, false));
    history.drop_grants("b");
    let loss = history.auditor.loss("uid-p").expect("taken");
    assert!(loss.budgets.contains(&history.budget("b").key) && loss.is_lost(&history.pod("p")));
    history.edit_pod("p", |pod| pod.applied = true);
    assert!(history.auditor.loss("uid-p").is_none());
    // Found by seed 7701556 of unavailable: the node of the pod died later.
    history.edit_pod("p", |pod| pod.ready = false);
    assert!(history.auditor.loss("uid-p").is_none(), "nobody granted that");
}

#[test]
fn a_loss_without_a_record_that_all_know_at_once_is_not_blamed() {
    let mut history = three();
    history.remove("a-0");
    history.remove("b-0");
    assert_eq!(history.look(), [], "nothing was granted");
    history.evict("one", "c-0");
    assert_eq!(rules(&history.look()), [Rule::S1]);
}

#[test]
fn a_change_that_was_allowed_before_the_budget_existed_is_not_blamed() {
    let mut history = History::default();
    history.store(member("p", "p"));
    let id = history.allow("p");
    let mut allow = history.auditor.end(&id).expect("in flight");
    allow.operation = holdfast_audit::objects::Operation::Change;
    history.store(pods("b", &json!({"minAvailable": 1})));
    assert_eq!(history.look(), []);
    history.auditor.take(&allow, &history.pod("p").key);
    history.edit_pod("p", |pod| (pod.generation, pod.applied) = (pod.generation + 1, false));
    assert_eq!(history.look(), []);
    history.edit_pod("p", |pod| pod.ready = false);
    assert_eq!(history.look(), [], "the budget has no record of the change");
}

/// Found by seed 304507 of swarm.
#[test]
fn a_replacement_does_not_enlarge_a_group_whose_loss_nobody_knows_of() {
    let mut history = pairs(&["a", "b"]);
    for name in ["a", "b"] {
        history.store(with(gang(name, 1), "/spec/disruptionMode", json!({"all": {}})));
    }
    history.store(replicas("one", &json!({"minAvailable": 2})));
    assert_eq!(history.look_untold(), []);
    for (lost, replacement) in [("a-0", "a-2"), ("a-1", "a-3")] {
        history.remove(lost);
        history.store(with(member(replacement, "a"), "/status/conditions", json!([])));
        assert_eq!(history.look_untold(), [], "nothing was granted");
    }
    history.evict("one", "b-0");
    assert_eq!(rules(&history.look_untold()), [Rule::S1]);
}

/// Found by seed 5109 of native: the group counted as four pods, of which one was never ready.
#[test]
fn pods_that_followed_each_other_under_one_name_do_not_enlarge_their_group() {
    let mut history = pairs(&["a", "b"]);
    for name in ["a", "b"] {
        history.store(with(gang(name, 1), "/spec/disruptionMode", json!({"all": {}})));
    }
    history.store(replicas("one", &json!({"minAvailable": 2})));
    assert_eq!(history.look_untold(), []);
    let next = |name: &str, uid: &str| with(member(name, "a"), "/metadata/uid", json!(uid));
    let starting = |name: &str, uid: &str| with(next(name, uid), "/status/conditions", json!([]));
    history.remove("a-0");
    history.store(starting("a-0", "second"));
    assert_eq!(history.look_untold(), []);
    history.remove("a-0");
    history.store(next("a-0", "third"));
    assert_eq!(history.look_untold(), []);
    history.remove("a-1");
    history.store(starting("a-1", "fourth"));
    assert_eq!(history.look_untold(), [], "nothing was granted");
    history.evict("one", "b-0");
    assert_eq!(rules(&history.look_untold()), [Rule::S1]);
}
