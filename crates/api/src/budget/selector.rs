use std::collections::BTreeMap;

use holdfast_core::model::{self, Operator};
use serde::{Deserialize, Serialize};

use crate::lenient::null_default;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    #[serde(
        default,
        deserialize_with = "null_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub match_labels: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<Requirement>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requirement {
    #[serde(default, deserialize_with = "null_default")]
    pub key: String,
    #[serde(default, deserialize_with = "null_default")]
    pub operator: String,
    #[serde(default, deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

impl From<LabelSelector> for model::LabelSelector {
    fn from(selector: LabelSelector) -> Self {
        Self {
            match_labels: selector.match_labels,
            match_expressions: selector.match_expressions.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<Requirement> for model::Requirement {
    fn from(requirement: Requirement) -> Self {
        let operator = match requirement.operator.as_str() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            _ => Operator::Other(requirement.operator),
        };
        Self { key: requirement.key, operator, values: requirement.values }
    }
}
