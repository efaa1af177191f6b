//! Patches. The CRD's endpoint knows three of the four kinds; what it must not decide is decided here.

use holdfast_api::native::{strategic, validate};
use http::{Method, StatusCode};
use json_patch::PatchOperation;
use serde_json::Value;

use super::document::{Document, content_type, unsupported};
use super::relay::{
    LEDGER, Relayed, answer, current, form, is_disruption_controller, keep_status, parse,
    passed_on, refuse_invalid, refuse_other_version, send, shown, unreachable,
};
use super::status::{self, Refusal};
use super::{BODY_MAX, Call, Native, words};
use crate::api_client::read;

const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub const MERGE: &str = "application/merge-patch+json";
pub const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// As many as kube-apiserver takes.
const OPERATIONS_MAX: usize = 10_000;

/// As often as kube-apiserver tries a patch on an object that changes meanwhile.
const PATCH_TRIES: usize = 5;

pub async fn patch(native: &Native, call: &Call) -> Relayed {
    let kind = content_type(&call.headers);
    if call.target.status && is_disruption_controller(call) {
        return Ok(shown(current(native, call).await?, &form(call)?));
    }
    match kind {
        APPLY if call.target.status => apply_status(native, call).await,
        APPLY => {
            let body = (APPLY, Document::read(call)?.stored());
            let request =
                passed_on(call, Method::PATCH, &call.target, "application/json", Some(body));
            answer(send(native, request).await?, &form(call)?).await
        }
        MERGE if !call.target.status => {
            let mut patch: Value = parse(call)?;
            words::stored(&mut patch);
            forward_patch(native, call, MERGE, patch.to_string().into_bytes()).await
        }
        JSON_PATCH if !call.target.status => {
            forward_patch(native, call, JSON_PATCH, call.body.to_vec()).await
        }
        STRATEGIC | MERGE | JSON_PATCH => patch_here(native, call, kind).await,
        other => Err(unsupported(other).into()),
    }
}

/// kube-apiserver removes what a manager owned and does not apply any more, and who owned what is in
/// the object, for everybody who may change it to write. So it is tried first whether the ledger stays.
async fn apply_status(native: &Native, call: &Call) -> Relayed {
    let mut document = Document::read(call)?;
    let mut status = document.field("status");
    if let Some(status) = status.as_object_mut() {
        status.retain(|field, _| !LEDGER.contains(&field.as_str()));
    }
    document.set("status", &status);
    let metadata = document.field("metadata");
    let pinned = !metadata["resourceVersion"].is_null();
    let mut tries = 0;
    loop {
        tries += 1;
        let current = current(native, call).await?;
        refuse_other_version(&metadata, &current)?;
        let mut metadata = metadata.clone();
        metadata["resourceVersion"] = current["metadata"]["resourceVersion"].clone();
        document.set("metadata", &metadata);
        let body = document.clone().stored();
        let request = |query: &str| {
            let body = Some((APPLY, body.clone()));
            let mut request =
                passed_on(call, Method::PATCH, &call.target, "application/json", body);
            if let Ok(uri) = format!("{}?{query}", call.target.stored()).parse() {
                *request.uri_mut() = uri;
            }
            request
        };
        let mut response = send(native, request(&format!("{}&dryRun=All", call.query))).await?;
        if response.status() == StatusCode::OK {
            let tried = read(response).await.map_err(unreachable)?;
            let tried: Value = tried.json().map_err(|e| status::unavailable(&e.to_string()))?;
            if LEDGER.iter().any(|field| tried["status"][field] != current["status"][field]) {
                let message = "status.grants, status.watermarks and status.pendingReplacements are \
                               written by Holdfast alone";
                return Ok(status::failure(StatusCode::FORBIDDEN, "Forbidden", message));
            }
            response = send(native, request(&call.query)).await?;
        }
        if response.status() == StatusCode::CONFLICT && !pinned && tries < PATCH_TRIES {
            continue;
        }
        return answer(response, &form(call)?).await;
    }
}

async fn forward_patch(native: &Native, call: &Call, kind: &'static str, body: Vec<u8>) -> Relayed {
    let request =
        passed_on(call, Method::PATCH, &call.target, "application/json", Some((kind, body)));
    let response = send(native, request).await?;
    if response.status() == StatusCode::UNPROCESSABLE_ENTITY {
        // Upstream's words for it, if it has some.
        let mut current = current(native, call).await?;
        words::served(&mut current);
        let patched = apply(kind, &current, &parse(call)?)?;
        refuse_invalid(&validate::update(&patched, &current), &patched)?;
    }
    answer(response, &form(call)?).await
}

/// Patches that the CRD's endpoint does not know, or may not decide about.
async fn patch_here(native: &Native, call: &Call, kind: &str) -> Relayed {
    let patch: Value = parse(call)?;
    let pinned = !patch["metadata"]["resourceVersion"].is_null();
    let mut tries = 0;
    loop {
        tries += 1;
        let mut current = current(native, call).await?;
        words::served(&mut current);
        let mut patched = apply(kind, &current, &patch)?;
        if call.target.status {
            refuse_other_version(&patched["metadata"], &current)?;
            keep_status(&mut patched["status"], &current["status"]);
        } else {
            refuse_invalid(&validate::update(&patched, &current), &patched)?;
        }
        words::stored(&mut patched);
        let body = ("application/json", patched.to_string().into_bytes());
        let request = passed_on(call, Method::PUT, &call.target, "application/json", Some(body));
        let response = send(native, request).await?;
        if response.status() == StatusCode::CONFLICT && !pinned && tries < PATCH_TRIES {
            continue;
        }
        return answer(response, &form(call)?).await;
    }
}

pub fn apply(kind: &str, current: &Value, patch: &Value) -> Result<Value, Refusal> {
    let wrong = |why: String| Refusal::from(status::bad_request(&why));
    if kind == STRATEGIC {
        return strategic::merge(current, patch).map_err(|e| wrong(e.to_string()));
    }
    let mut patched = current.clone();
    if kind == MERGE {
        json_patch::merge(&mut patched, patch);
        return Ok(patched);
    }
    let json_patch::Patch(operations) =
        serde_json::from_value(patch.clone()).map_err(|e| wrong(e.to_string()))?;
    if operations.len() > OPERATIONS_MAX {
        return Err(status::too_large().into());
    }
    let mut copied = 0;
    for operation in operations {
        // Each may double what is there.
        if let PatchOperation::Copy(copy) = &operation {
            let source = patched.pointer(copy.from.as_str());
            copied += source.map_or(0, |source| source.to_string().len());
            if copied > BODY_MAX {
                return Err(status::too_large().into());
            }
        }
        json_patch::patch(&mut patched, &[operation]).map_err(|e| wrong(e.to_string()))?;
    }
    Ok(patched)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::response::IntoResponse as _;
    use serde_json::json;

    #[test]
    fn copies_of_copies_are_refused_as_kube_apiserver_does() {
        let current = json!({"metadata": {"annotations": {"a": "b"}}});
        let copy =
            |i: usize| json!({"op": "copy", "from": "/metadata", "path": format!("/metadata/{i}")});
        let apply = |copies: usize| {
            let patch: Vec<Value> = (0..copies).map(copy).collect();
            apply(JSON_PATCH, &current, &patch.into())
        };
        assert_eq!(apply(1).unwrap()["metadata"]["0"]["annotations"]["a"], "b");
        let refused = apply(64).unwrap_err().into_response();
        assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
        let test = json!({"op": "test", "path": "/metadata/annotations/a", "value": "b"});
        let many: Value = vec![test; OPERATIONS_MAX + 1].into();
        let refused = super::apply(JSON_PATCH, &current, &many).unwrap_err().into_response();
        assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
    }
}
