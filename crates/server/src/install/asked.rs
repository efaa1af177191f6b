//! Checks whether somebody has weakened the webhook so that evictions pass without a check.

use serde_json::Value;

use super::manifests::{self, Intercept};

/// Returns true if one of the webhooks covers all evictions that Holdfast's webhook covers, at any address:
/// without an answer the API server refuses the eviction.
pub fn is_whole(configuration: &Value, intercept: Intercept) -> bool {
    let wanted = &manifests::webhook("", &Value::Null, intercept).body["webhooks"][0];
    let webhooks = configuration["webhooks"].as_array();
    webhooks.into_iter().flatten().any(|webhook| {
        let is_no_narrower = |part: &str| is_empty(&webhook[part]) || webhook[part] == wanted[part];
        let mut rules = webhook["rules"].as_array().into_iter().flatten();
        matches!(webhook["failurePolicy"].as_str(), None | Some("Fail"))
            && rules.any(is_about_evictions)
            && ["namespaceSelector", "objectSelector", "matchConditions"]
                .iter()
                .all(|p| is_no_narrower(p))
    })
}

/// Returns true if the rule covers all evictions.
fn is_about_evictions(rule: &Value) -> bool {
    let names = |part: &str, any_of: &[&str]| {
        let mut named = rule[part].as_array().into_iter().flatten().filter_map(Value::as_str);
        named.any(|name| any_of.contains(&name))
    };
    names("apiGroups", &["", "*"])
        && names("apiVersions", &["v1", "*"])
        && names("resources", &["pods/eviction", "pods/*", "*/eviction", "*/*"])
        && names("operations", &["CREATE", "*"])
        && rule["scope"] != "Cluster"
}

/// Returns true for the values that API servers write for an absent field.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ALL: [Intercept; 2] = [Intercept::Outside, Intercept::All];

    /// Returns the configuration as an API server returns it.
    fn registered(intercept: Intercept) -> Value {
        let url = "https://127.0.0.1:9443/evict";
        let mut body = manifests::webhook(url, &json!("Q0E="), intercept).body;
        let webhook = &mut body["webhooks"][0];
        for selector in ["namespaceSelector", "objectSelector"] {
            if webhook[selector].is_null() {
                webhook[selector] = json!({});
            }
        }
        body
    }

    #[test]
    fn whoever_asks_about_more_asks_about_enough() {
        let enough = |now, wanted| is_whole(&registered(now), wanted);
        for wanted in ALL {
            assert!(enough(wanted, wanted) && enough(Intercept::All, wanted), "{wanted:?}");
        }
        assert!(!enough(Intercept::Outside, Intercept::All));
    }

    #[test]
    fn what_lets_evictions_pass_is_noticed() {
        let never = json!([{"name": "never", "expression": "false"}]);
        let weaker = [
            ("/webhooks/0/failurePolicy", json!("Ignore")),
            ("/webhooks/0/rules", json!([])),
            ("/webhooks/0/rules/0/resources/0", json!("pods")),
            ("/webhooks/0/rules/0/operations/0", json!("UPDATE")),
            ("/webhooks/0/rules/0/scope", json!("Cluster")),
            ("/webhooks/0/namespaceSelector", json!({"matchLabels": {"budgets": "yes"}})),
            ("/webhooks/0/objectSelector", json!({"matchLabels": {"budgets": "yes"}})),
            ("/webhooks", json!([])),
        ];
        for intercept in ALL {
            for (place, value) in &weaker {
                let mut object = registered(intercept);
                *object.pointer_mut(place).unwrap() = value.clone();
                assert!(!is_whole(&object, intercept), "{place}: {value}");
            }
            let mut object = registered(intercept);
            object["webhooks"][0]["matchConditions"] = never.clone();
            assert!(!is_whole(&object, intercept));
        }
        assert!(!is_whole(&Value::Null, Intercept::Outside));
    }

    #[test]
    fn what_does_not_is_left_to_others() {
        let mut object = registered(Intercept::Outside);
        object["webhooks"][0]["timeoutSeconds"] = json!(5);
        object["webhooks"][0]["clientConfig"] = json!({"url": "https://elsewhere/evict"});
        object["webhooks"][0]["rules"][0]["operations"] = json!(["*"]);
        let rule = json!({"apiGroups": ["apps"], "resources": ["deployments"]});
        object["webhooks"][0]["rules"].as_array_mut().unwrap().insert(0, rule);
        assert!(is_whole(&object, Intercept::Outside));
    }
}
