//! Requests about budgets, passed on to the CRD and back.
//!
//! kube-apiserver has authorized them for `policy/v1`; to the CRD they go in our name, with the client's
//! User-Agent, which is what field managers are called by. Three things are ours, because the CRD's
//! endpoint lacks them: upstream's validation messages, strategic merge patches, and keeping what older
//! clients do not know.

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use holdfast_api::native::{table, validate};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use serde_json::{Value, json};

use super::accept::{Form, negotiate};
use super::document::{Document, delete_options, parameter};
use super::path::Target;
use super::status::{self, Refusal};
use super::{Call, Native, patch, watch, words};
use crate::api_client::{Answer, NoAnswer, read};

/// Those of upstream's controller, in whose place we are: what it writes is dropped.
const DISRUPTION_CONTROLLERS: [&str; 2] =
    ["system:serviceaccount:kube-system:disruption-controller", "system:kube-controller-manager"];

/// Counts that a client built on older types does not know, and so does not send back.
const NEWER_COUNTS: [&str; 4] = [
    "disruptionsAllowedReplicas",
    "currentHealthyReplicas",
    "desiredHealthyReplicas",
    "expectedReplicas",
];

/// What the ledger rests on. Nobody writes it through `policy/v1`.
pub const LEDGER: [&str; 3] = ["grants", "watermarks", "pendingReplacements"];

pub async fn relay(native: &Native, call: Call) -> Response {
    let result = match (&call.method, call.target.name.is_some()) {
        (&Method::GET, _) => get(native, &call).await,
        (&Method::POST, false) if call.target.namespace.is_some() => create(native, &call).await,
        (&Method::PUT, true) => replace(native, &call).await,
        (&Method::PATCH, true) => patch::patch(native, &call).await,
        (&Method::DELETE, _) if !call.target.status => delete(native, &call).await,
        _ => return status::method_not_allowed(),
    };
    result.unwrap_or_else(Refusal::into_response)
}

pub type Relayed = Result<Response, Refusal>;

async fn get(native: &Native, call: &Call) -> Relayed {
    let form = form(call)?;
    let request = passed_on(call, Method::GET, &call.target, form.accept(), None);
    let response = send(native, request).await?;
    let watching = parameter(&call.query, "watch").is_some_and(is_on);
    if watching && call.target.name.is_none() && response.status() == StatusCode::OK {
        return Ok(watch::relay(response, form, native.serves.clone()));
    }
    answer(response, &form).await
}

/// As kube-apiserver reads a boolean parameter.
fn is_on(value: &str) -> bool {
    !value.eq_ignore_ascii_case("false") && value != "0"
}

async fn create(native: &Native, call: &Call) -> Relayed {
    let document = Document::read(call)?;
    check(&validate::create(&document.value()), &document)?;
    let body = ("application/json", document.stored());
    let request = passed_on(call, Method::POST, &call.target, "application/json", Some(body));
    answer(send(native, request).await?, &form(call)?).await
}

async fn replace(native: &Native, call: &Call) -> Relayed {
    if call.target.status && is_disruption_controller(call) {
        return Ok(unheard(call));
    }
    let mut document = Document::read(call)?;
    let current = current(native, call).await?;
    if call.target.status {
        refuse_other_version(&document.field("metadata"), &current)?;
        let mut status = document.field("status");
        keep_status(&mut status, &current["status"]);
        document.set("status", &status);
        check(&validate::status_update(&document.value()), &document)?;
        return put(native, call, document.stored()).await;
    }
    check(&validate::update(&document.value(), &current), &document)?;
    let kept = keep_scope(&mut document, &current);
    let mut response = put(native, call, document.stored()).await?;
    if let Some(scope) = kept {
        let warning = format!(
            "299 - \"spec.budgetScope is missing and was kept as {scope}: clients that do not know \
             it leave it out; to count pods, set it to Pod\""
        );
        if let Ok(value) = HeaderValue::from_str(&warning) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    Ok(response)
}

async fn delete(native: &Native, call: &Call) -> Relayed {
    let body = delete_options(call)?.map(|options| ("application/json", options));
    let request = passed_on(call, Method::DELETE, &call.target, "application/json", body);
    answer(send(native, request).await?, &form(call)?).await
}

async fn put(native: &Native, call: &Call, body: Vec<u8>) -> Relayed {
    let body = Some(("application/json", body));
    let request = passed_on(call, Method::PUT, &call.target, "application/json", body);
    answer(send(native, request).await?, &form(call)?).await
}

/// The budget as the CRD has it.
pub async fn current(native: &Native, call: &Call) -> Result<Value, Refusal> {
    let target = call.target.object();
    let mut request = passed_on(call, Method::GET, &target, "application/json", None);
    // The client's parameters are about another request.
    if let Ok(uri) = target.stored().parse() {
        *request.uri_mut() = uri;
    }
    let response = send(native, request).await?;
    if response.status() != StatusCode::OK {
        return Err(answer(response, &Form::Plain).await?.into());
    }
    let answer = read(response).await.map_err(unreachable)?;
    Ok(answer.json().map_err(|e| status::unavailable(&e.to_string()))?)
}

/// The ledger is kept as it was read, so what is written has to be for that version. A client that
/// guesses a later one would otherwise undo the grants in between.
pub fn refuse_other_version(metadata: &Value, current: &Value) -> Result<(), Refusal> {
    let wanted = metadata["resourceVersion"].as_str().unwrap_or_default();
    if wanted.is_empty() || current["metadata"]["resourceVersion"] == wanted {
        return Ok(());
    }
    let name = current["metadata"]["name"].as_str().unwrap_or_default();
    Err(status::modified(name).into())
}

pub fn is_disruption_controller(call: &Call) -> bool {
    DISRUPTION_CONTROLLERS.contains(&call.user.name.as_str())
}

/// Upstream's controller writes a status for every pod that changes, and reads nothing of the answer. What it
/// counts we count ourselves: it gets back what it has sent, which costs nobody anything.
fn unheard(call: &Call) -> Response {
    let mut response = Response::new(Body::from(call.body.clone()));
    if let Some(kind) = call.headers.get(header::CONTENT_TYPE) {
        response.headers_mut().insert(header::CONTENT_TYPE, kind.clone());
    }
    response
}

/// A Go client built on older types would otherwise turn replica counting into pod counting unnoticed.
fn keep_scope(document: &mut Document, current: &Value) -> Option<String> {
    let scope = current["spec"]["budgetScope"].as_str().filter(|scope| *scope != "Pod")?;
    let mut spec = document.field("spec");
    if !spec["budgetScope"].is_null() {
        return None;
    }
    spec["budgetScope"] = json!(scope);
    document.set("spec", &spec);
    Some(scope.to_owned())
}

pub fn keep_status(status: &mut Value, current: &Value) {
    if !status.is_object() {
        *status = json!({});
    }
    for field in NEWER_COUNTS {
        if status[field].is_null() {
            status[field] = current[field].clone();
        }
    }
    for field in LEDGER {
        status[field] = current[field].clone();
    }
    if let Some(status) = status.as_object_mut() {
        status.retain(|_, value| !value.is_null());
    }
}

fn check(errors: &[validate::FieldError], document: &Document) -> Result<(), Refusal> {
    refuse_invalid(errors, &document.value())
}

pub fn refuse_invalid(errors: &[validate::FieldError], object: &Value) -> Result<(), Refusal> {
    if errors.is_empty() {
        return Ok(());
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    Err(as_json(StatusCode::UNPROCESSABLE_ENTITY, &validate::invalid(name, errors)).into())
}

pub fn parse(call: &Call) -> Result<Value, Refusal> {
    Ok(serde_json::from_slice(&call.body).map_err(|e| status::bad_request(&e.to_string()))?)
}

pub fn form(call: &Call) -> Result<Form, Refusal> {
    let form = negotiate(&call.headers, &call.query).ok_or_else(|| {
        let message = "only the following media types are accepted: application/json, \
            application/json;as=Table;v=v1;g=meta.k8s.io, \
            application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        status::failure(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    })?;
    Ok(form)
}

/// Made anew, so that nothing of the client's passes but what is named here.
pub fn passed_on(
    call: &Call,
    method: Method,
    target: &Target,
    accept: &str,
    body: Option<(&'static str, Vec<u8>)>,
) -> Request<Vec<u8>> {
    let mut path = target.stored();
    if !call.query.is_empty() {
        path.push('?');
        path.push_str(&call.query);
    }
    let (content, bytes) = body.unzip();
    let mut request = Request::new(bytes.unwrap_or_default());
    *request.method_mut() = method;
    // Path and query were part of a URI before.
    *request.uri_mut() = path.parse().unwrap_or_default();
    let headers = request.headers_mut();
    let mut set = |name: HeaderName, value: Option<HeaderValue>| {
        value.map(|value| headers.insert(name, value));
    };
    set(header::ACCEPT, HeaderValue::from_str(accept).ok());
    set(header::CONTENT_TYPE, content.map(HeaderValue::from_static));
    set(header::USER_AGENT, call.headers.get(header::USER_AGENT).cloned());
    request
}

pub async fn send(
    native: &Native,
    request: Request<Vec<u8>>,
) -> Result<http::Response<kube::client::Body>, Refusal> {
    native.client.send(request).await.map_err(unreachable)
}

/// The CRD's answer in the client's words and form.
pub async fn answer(response: http::Response<kube::client::Body>, form: &Form) -> Relayed {
    let headers = response.headers().clone();
    let answer = read(response).await.map_err(unreachable)?;
    if is_storage_missing(&answer) {
        return Err(status::unavailable("the CustomResourceDefinition is not served").into());
    }
    let mut value: Value = answer
        .json()
        .map_err(|e| status::unavailable(&format!("an answer that is no JSON: {e}")))?;
    words::served(&mut value);
    let mut response = as_json(answer.code, &in_form(value, form));
    copy(&headers, response.headers_mut());
    Ok(response)
}

pub fn shown(mut object: Value, form: &Form) -> Response {
    words::served(&mut object);
    as_json(StatusCode::OK, &in_form(object, form))
}

pub fn unreachable(NoAnswer(why): NoAnswer) -> Refusal {
    status::unavailable(&why).into()
}

pub fn in_form(value: Value, form: &Form) -> Value {
    match form {
        Form::Table(include) if value["kind"] != "Status" => {
            table::table(&value, *include, true, jiff::Timestamp::now())
        }
        _ => value,
    }
}

fn copy(from: &HeaderMap, to: &mut HeaderMap) {
    for warning in from.get_all(header::WARNING) {
        let text = warning.to_str().map(words::served_text);
        if let Some(value) = text.ok().and_then(|text| HeaderValue::from_str(&text).ok()) {
            to.append(header::WARNING, value);
        }
    }
    if let Some(after) = from.get(header::RETRY_AFTER) {
        to.insert(header::RETRY_AFTER, after.clone());
    }
}

/// 404 of the path and not of an object: to pass it on would tell clients that their budget is gone.
fn is_storage_missing(answer: &Answer) -> bool {
    answer.code == StatusCode::NOT_FOUND
        && answer
            .json::<Value>()
            .map_or(true, |status| status["details"]["name"].as_str().is_none_or(str::is_empty))
}

fn as_json(code: StatusCode, value: &Value) -> Response {
    let mut response = Response::new(Body::from(value.to_string()));
    *response.status_mut() = code;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_older_clients_leave_out_is_kept_and_the_ledger_is_ours() {
        let current = json!({"currentHealthyReplicas": 3, "expectedReplicas": 4,
            "grants": [{"pod": "p"}], "disruptedPods": {"p": "t"}});
        let mut status = json!({"currentHealthy": 1, "expectedReplicas": 9, "grants": [],
            "watermarks": {"pods": "7"}});
        keep_status(&mut status, &current);
        let expected = json!({"currentHealthy": 1, "currentHealthyReplicas": 3,
            "expectedReplicas": 9, "grants": [{"pod": "p"}]});
        assert_eq!(status, expected);
    }

    #[test]
    fn a_status_is_written_for_the_version_that_was_read() {
        let current = json!({"metadata": {"name": "b", "resourceVersion": "7"}});
        let code = |metadata: Value| {
            let refused = refuse_other_version(&metadata, &current).err();
            refused.map(|refusal| refusal.into_response().status())
        };
        assert_eq!(code(json!({"resourceVersion": "7"})), None);
        assert_eq!(code(json!({})), None);
        assert_eq!(code(json!({"resourceVersion": "8"})), Some(StatusCode::CONFLICT));
        assert_eq!(code(json!({"resourceVersion": "6"})), Some(StatusCode::CONFLICT));
    }

    #[test]
    fn a_watch_is_asked_for_as_of_kube_apiserver() {
        for (value, on) in [("true", true), ("1", true), ("", true), ("False", false), ("0", false)]
        {
            assert_eq!(is_on(value), on, "{value:?}");
        }
    }

    #[test]
    fn a_missing_kind_is_told_from_a_missing_object() {
        let missing = |body: &str| {
            let body = body.as_bytes().to_vec();
            is_storage_missing(&Answer { code: StatusCode::NOT_FOUND, body })
        };
        assert!(!missing(r#"{"kind":"Status","details":{"name":"b"}}"#));
        assert!(missing(r#"{"kind":"Status","details":{}}"#));
        assert!(missing("404 page not found"));
    }
}
