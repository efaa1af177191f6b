//! Simple blocking requests to the API server: method, path and JSON in, status code and JSON out.

use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use futures_util::{AsyncBufRead, TryStreamExt};
use holdfast_audit::json;
use http::{HeaderMap, HeaderValue, Method, Request, header};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use tokio::runtime::Runtime;

pub const MERGE_PATCH: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const JSON: &str = "application/json";

/// Evictions may wait ten seconds for the webhook, and the machine may be busy.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Runs the requests of all tests. The tests have their own threads.
pub static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("threads can be started")
});

/// One user's connection.
#[derive(Clone)]
pub struct Client {
    client: kube::Client,
}

#[derive(Clone, Debug)]
pub struct Answer {
    pub code: u16,
    pub headers: HeaderMap,
    /// Null if the body is not JSON.
    pub body: Value,
}

impl Client {
    pub fn new(kubeconfig: &Path) -> Result<Self, String> {
        Self::connect(kubeconfig, None)
    }

    /// Connects to a server without authentication, such as etcd's gateway.
    pub fn plain(url: &str) -> Result<Self, String> {
        let url = url.parse().map_err(|e| format!("{url}: {e}"))?;
        let _guard = RUNTIME.enter();
        let mut config = kube::Config::new(url);
        config.default_retry = false;
        let client = kube::Client::try_from(config).map_err(|e| e.to_string())?;
        Ok(Self { client })
    }

    /// Connects as an identity that is marked in the audit log, because its requests will be refused
    /// (xtask/src/test/rights.rs).
    pub fn intruder(kubeconfig: &Path) -> Result<Self, String> {
        Self::connect(kubeconfig, Some("holdfast-e2e-intruder"))
    }

    fn connect(kubeconfig: &Path, agent: Option<&'static str>) -> Result<Self, String> {
        // The provider may already be set.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", kubeconfig.display());
        let file = Kubeconfig::read_from(kubeconfig).map_err(|e| failed(&e))?;
        let choice = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(file, &choice);
        let _guard = RUNTIME.enter();
        let mut config = RUNTIME.block_on(config).map_err(|e| failed(&e))?;
        // Tests must see the first answer.
        config.default_retry = false;
        let agent = agent.map(|agent| (header::USER_AGENT, HeaderValue::from_static(agent)));
        config.headers.extend(agent);
        let client = kube::Client::try_from(config).map_err(|e| failed(&e))?;
        Ok(Self { client })
    }

    #[track_caller]
    pub fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, path, JSON, None)
    }

    #[track_caller]
    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.call(Method::POST, path, JSON, Some(body))
    }

    #[track_caller]
    pub fn put(&self, path: &str, body: &Value) -> Answer {
        self.call(Method::PUT, path, JSON, Some(body))
    }

    #[track_caller]
    pub fn patch(&self, path: &str, body: &Value) -> Answer {
        self.call(Method::PATCH, path, MERGE_PATCH, Some(body))
    }

    #[track_caller]
    pub fn json_patch(&self, path: &str, body: &Value) -> Answer {
        self.call(Method::PATCH, path, JSON_PATCH, Some(body))
    }

    /// Server-side apply.
    #[track_caller]
    pub fn apply(&self, path: &str, body: &Value) -> Answer {
        self.call(Method::PATCH, &format!("{path}?fieldManager=e2e"), APPLY, Some(body))
    }

    #[track_caller]
    pub fn delete(&self, path: &str) -> Answer {
        self.call(Method::DELETE, path, JSON, None)
    }

    /// Returns the objects of a list.
    #[track_caller]
    pub fn list(&self, path: &str) -> Vec<Value> {
        json::items(self.get(path).ok().body)
    }

    /// Opens a watch and returns its lines.
    pub async fn stream(&self, path: &str) -> Result<impl AsyncBufRead + Unpin + use<>, String> {
        self.lines(request(Method::GET, path, JSON, None)).await
    }

    /// Like [`Self::stream`], with a request body.
    pub async fn stream_post(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<impl AsyncBufRead + Unpin + use<>, String> {
        self.lines(request(Method::POST, path, JSON, Some(body))).await
    }

    async fn lines(
        &self,
        request: Request<Body>,
    ) -> Result<impl AsyncBufRead + Unpin + use<>, String> {
        let path = request.uri().to_string();
        let response = self.client.send(request).await.map_err(|e| e.to_string())?;
        if !response.status().is_success() {
            return Err(format!("{path}: {}", response.status()));
        }
        let data = response.into_body().into_data_stream();
        Ok(data.map_err(std::io::Error::other).into_async_read())
    }

    /// For servers that may be down or not answer: returns an error instead of panicking, within this time.
    pub fn attempt(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        limit: Duration,
    ) -> Result<Answer, String> {
        self.exchange(request(method, path, JSON, body), limit)
    }

    #[track_caller]
    fn call(&self, method: Method, path: &str, content: &str, body: Option<&Value>) -> Answer {
        let what = format!("{method} {path}");
        self.exchange(request(method, path, content, body), TIMEOUT)
            .unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    fn exchange(&self, request: Request<Body>, limit: Duration) -> Result<Answer, String> {
        let exchange = async {
            let response = self.client.send(request).await.map_err(|e| format!("{e:?}"))?;
            let code = response.status().as_u16();
            let headers = response.headers().clone();
            let body = response.into_body().collect().await.map_err(|e| e.to_string())?;
            let body = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
            Ok::<_, String>(Answer { code, headers, body })
        };
        RUNTIME
            .block_on(async { tokio::time::timeout(limit, exchange).await })
            .unwrap_or_else(|late| Err(format!("no answer within {} s ({late})", limit.as_secs())))
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl Answer {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// Returns itself if the request succeeded, else panics.
    #[track_caller]
    #[must_use]
    pub fn ok(self) -> Self {
        assert!(self.is_success(), "{}: {}", self.code, self.message());
        self
    }

    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

fn request(method: Method, path: &str, content: &str, body: Option<&Value>) -> Request<Body> {
    let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
    Request::builder()
        .method(method)
        .uri(path)
        .header(header::ACCEPT, JSON)
        .header(header::CONTENT_TYPE, content)
        .body(Body::from(bytes))
        .expect("the paths of tests are legal")
}
