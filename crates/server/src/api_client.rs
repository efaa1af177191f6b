//! Plain requests to the API server: method, path, JSON in, status code and bytes out.
//!
//! The typed client of kube would hide the status code and decode whole objects; both matter here.

use std::time::Duration;

use futures_util::{AsyncBufRead, TryStreamExt};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use kube::client::Body;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub const APPLY_PATCH: &str = "application/apply-patch+yaml";
pub const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";
pub const MERGE_PATCH: &str = "application/merge-patch+json";

/// An ordinary request that takes longer than this has failed. Shorter than the webhook's deadline,
/// so that a second try still fits into it.
const TIMEOUT: Duration = Duration::from_secs(4);

/// A page of 500 pods is megabytes.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub struct ApiClient {
    client: kube::Client,
}

/// No complete answer came; whether the request was carried out is not known.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoAnswer(pub String);

#[derive(Debug)]
pub struct Answer {
    pub code: StatusCode,
    pub body: Vec<u8>,
}

impl ApiClient {
    pub fn new(client: kube::Client) -> Self {
        Self { client }
    }

    /// That of the kubeconfig's context.
    pub fn default_namespace(&self) -> &str {
        self.client.default_namespace()
    }

    pub async fn get(&self, path: &str) -> Result<Answer, NoAnswer> {
        self.call(Method::GET, path, None).await
    }

    /// As [`Self::get`], with the time that a page of objects may take.
    pub async fn list(&self, path: &str) -> Result<Answer, NoAnswer> {
        let request = request(Method::GET, path, None)?;
        in_time(LIST_TIMEOUT, self.exchange(request)).await
    }

    pub async fn put(&self, path: &str, body: &impl Serialize) -> Result<Answer, NoAnswer> {
        self.call(Method::PUT, path, Some(("application/json", json(body)?))).await
    }

    pub async fn post(&self, path: &str, body: &impl Serialize) -> Result<Answer, NoAnswer> {
        self.call(Method::POST, path, Some(("application/json", json(body)?))).await
    }

    pub async fn patch(
        &self,
        path: &str,
        content_type: &'static str,
        body: &impl Serialize,
    ) -> Result<Answer, NoAnswer> {
        self.call(Method::PATCH, path, Some((content_type, json(body)?))).await
    }

    pub async fn delete(&self, path: &str) -> Result<Answer, NoAnswer> {
        self.call(Method::DELETE, path, None).await
    }

    /// Only if it still is the object with this `uid`, or has this `resourceVersion`.
    pub async fn delete_only(&self, path: &str, preconditions: Value) -> Result<Answer, NoAnswer> {
        let options = serde_json::json!({"preconditions": preconditions});
        self.call(Method::DELETE, path, Some(("application/json", json(&options)?))).await
    }

    /// Open a stream of lines. An answer other than 200 comes back as `Ok(Err(answer))`.
    pub async fn stream(
        &self,
        path: &str,
    ) -> Result<Result<impl AsyncBufRead + Unpin + use<>, Answer>, NoAnswer> {
        let request = request(Method::GET, path, None)?;
        let opening = async {
            let response = self.client.send(request).await.map_err(|e| NoAnswer(describe(&e)))?;
            if response.status() == StatusCode::OK {
                let data = response.into_body().into_data_stream();
                return Ok(Ok(data.map_err(std::io::Error::other).into_async_read()));
            }
            read(response).await.map(Err)
        };
        in_time(TIMEOUT, opening).await
    }

    /// A request made elsewhere; the answer's body is still to be read.
    pub async fn send(&self, request: Request<Vec<u8>>) -> Result<Response<Body>, NoAnswer> {
        let sending = async {
            let request = request.map(Body::from);
            self.client.send(request).await.map_err(|e| NoAnswer(describe(&e)))
        };
        in_time(LIST_TIMEOUT, sending).await
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<(&'static str, Vec<u8>)>,
    ) -> Result<Answer, NoAnswer> {
        let request = request(method, path, body)?;
        in_time(TIMEOUT, self.exchange(request)).await
    }

    async fn exchange(&self, request: Request<Body>) -> Result<Answer, NoAnswer> {
        let response = self.client.send(request).await.map_err(|e| NoAnswer(describe(&e)))?;
        read(response).await
    }
}

impl std::fmt::Debug for ApiClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ApiClient")
    }
}

impl Answer {
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.body)
    }

    /// What the API server says is wrong: the message of its Status, else the body's beginning.
    pub fn message(&self) -> String {
        let text = match self.json::<Status>() {
            Ok(Status { message: Some(message), .. }) => message,
            _ => String::from_utf8_lossy(&self.body).chars().take(200).collect(),
        };
        format!("{} ({})", text.trim(), self.code.as_u16())
    }

    /// 404 of this very object, and not of its path: a kind that is not served (any more) and an
    /// object that is gone both answer 404, and only the latter may be taken for "gone".
    pub fn is_object_not_found(&self, name: &str) -> bool {
        self.code == StatusCode::NOT_FOUND
            && self.json::<Status>().is_ok_and(|status| {
                status.reason.as_deref() == Some("NotFound")
                    && status.details.is_some_and(|details| details.name.as_deref() == Some(name))
            })
    }

    /// Worth asking again soon: the server is overloaded, starting or stopping.
    pub fn is_transient(&self) -> bool {
        self.code.is_server_error() || self.code == StatusCode::TOO_MANY_REQUESTS
    }
}

#[derive(Debug, Deserialize)]
struct Status {
    message: Option<String>,
    reason: Option<String>,
    details: Option<Details>,
}

#[derive(Debug, Deserialize)]
struct Details {
    name: Option<String>,
}

fn request(
    method: Method,
    path: &str,
    body: Option<(&'static str, Vec<u8>)>,
) -> Result<Request<Body>, NoAnswer> {
    let mut builder =
        Request::builder().method(method).uri(path).header(header::ACCEPT, "application/json");
    let bytes = match body {
        Some((content_type, bytes)) => {
            builder = builder.header(header::CONTENT_TYPE, content_type);
            bytes
        }
        None => Vec::new(),
    };
    // Paths are made of names that the API server has accepted before, so this does not happen.
    builder.body(Body::from(bytes)).map_err(|e| NoAnswer(format!("bad request path {path}: {e}")))
}

fn json(body: &impl Serialize) -> Result<Vec<u8>, NoAnswer> {
    serde_json::to_vec(body).map_err(|e| NoAnswer(format!("cannot encode the request: {e}")))
}

pub async fn read(response: Response<Body>) -> Result<Answer, NoAnswer> {
    let code = response.status();
    let body = response.into_body().collect().await.map_err(|e| NoAnswer(describe(&e)))?;
    Ok(Answer { code, body: body.to_bytes().to_vec() })
}

async fn in_time<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, NoAnswer>>,
) -> Result<T, NoAnswer> {
    match tokio::time::timeout(limit, call).await {
        Ok(result) => result,
        Err(_) => Err(NoAnswer(format!("no answer within {} s", limit.as_secs()))),
    }
}

/// The innermost cause: the outer ones ("`ServiceError`: client error (Connect)") say nothing.
pub fn describe(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16, body: &str) -> Answer {
        Answer { code: StatusCode::from_u16(code).unwrap(), body: body.as_bytes().to_vec() }
    }

    #[test]
    fn a_missing_object_is_told_from_a_missing_kind() {
        let object = r#"{"kind":"Status","reason":"NotFound","details":{"name":"web","kind":"pods"},
            "message":"pods \"web\" not found"}"#;
        assert!(answer(404, object).is_object_not_found("web"));
        assert!(!answer(404, object).is_object_not_found("other"));
        assert!(!answer(404, "404 page not found\n").is_object_not_found("web"));
        let path = r#"{"kind":"Status","reason":"NotFound","details":{},
            "message":"the server could not find the requested resource"}"#;
        assert!(!answer(404, path).is_object_not_found("web"));
    }

    #[test]
    fn messages_come_from_the_status() {
        assert_eq!(answer(403, r#"{"message":"no"}"#).message(), "no (403)");
        assert_eq!(answer(404, "404 page not found\n").message(), "404 page not found (404)");
    }
}
