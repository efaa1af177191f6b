//! Native mode: `policy/v1` itself, served by us.
//!
//! ```text
//!   kubectl, controllers ---> kube-apiserver ==front proxy==> relay ---> kube-apiserver: the CRD
//!   POST pods/eviction   ---> kube-apiserver: its own handler
//!                                  | LISTs budgets, PUTs a status, as system:apiserver
//!                                  +=====front proxy=========> gate ---> Decider (the engine)
//! ```
//!
//! `trust` finds out who asks, `path` what for. Everybody sees the true budgets through `relay`, which
//! translates between `policy/v1` and our CRD: storage, versions, watches and server-side apply are
//! those of kube-apiserver. Only its eviction handler, at the `gate`, is shown one budget that selects
//! every pod, so that each eviction ends in one PUT that we decide.

mod accept;
mod discovery;
mod document;
mod gate;
mod openapi;
mod patch;
mod path;
mod relay;
mod status;
pub mod trust;
mod watch;
pub mod words;

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use tokio::sync::watch as channel;

use crate::api_client::ApiClient;
use crate::decide::Decider;
use crate::listen::PeerCertificate;
use gate::Gate;
use path::{Path, Target};
use trust::{FrontProxy, User};

pub use words::SERVED;

/// On every answer of ours: by it the installer tells that an API server asks us.
pub const SERVED_BY: &str = "x-holdfast-served";

/// As much as kube-apiserver takes.
const BODY_MAX: usize = 3 * 1024 * 1024;

#[derive(Clone)]
pub struct Native {
    client: ApiClient,
    gate: Arc<Gate>,
    front_proxy: channel::Receiver<Arc<FrontProxy>>,
    /// False when watches are to end, so that clients open them with whoever serves then.
    serves: channel::Receiver<bool>,
}

/// A request about budgets, by somebody whom kube-apiserver vouches for.
#[derive(Debug)]
pub struct Call {
    pub user: User,
    pub method: Method,
    pub target: Target,
    pub query: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Native {
    pub fn new(
        client: ApiClient,
        decider: Decider,
        front_proxy: channel::Receiver<Arc<FrontProxy>>,
        serves: channel::Receiver<bool>,
    ) -> Result<Self, crate::Error> {
        Ok(Self { client, gate: Arc::new(Gate::new(decider)?), front_proxy, serves })
    }

    pub fn router(self) -> Router {
        Router::new().fallback(serve).layer(DefaultBodyLimit::max(BODY_MAX)).with_state(self)
    }

    async fn answer(&self, user: User, parts: Parts) -> Response {
        let Parts { method, uri, headers, body } = parts;
        let query = uri.query().unwrap_or_default().to_owned();
        let target = match Path::parse(uri.path()) {
            Some(Path::Budgets(target)) => target,
            Some(path) if method == Method::GET || method == Method::HEAD => match path {
                Path::Groups => return discovery::groups(&headers),
                Path::Group => return discovery::group(),
                Path::Resources => return discovery::resources(),
                Path::OpenApi(document) => return openapi::serve(&self.client, document).await,
                Path::Budgets(_) => return status::not_found(),
            },
            Some(_) => return status::method_not_allowed(),
            None => return status::not_found(),
        };
        let call = Call { user, method, target, query, headers, body };
        if let Some(knock) = gate::Knock::of(&call) {
            return self.gate.answer(knock, &call).await;
        }
        relay::relay(self, call).await
    }
}

struct Parts {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
}

async fn serve(
    State(native): State<Native>,
    Extension(peer): Extension<PeerCertificate>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let front_proxy = native.front_proxy.borrow().clone();
    let mut response = match (front_proxy.user(&peer, &headers), body) {
        (Err(distrust), _) => {
            tracing::debug!(path = uri.path(), %distrust, "refused");
            status::failure(StatusCode::UNAUTHORIZED, "Unauthorized", &distrust.to_string())
        }
        (Ok(_), Err(rejection)) => rejection.into_response(),
        (Ok(user), Ok(body)) => native.answer(user, Parts { method, uri, headers, body }).await,
    };
    response.headers_mut().insert(SERVED_BY, HeaderValue::from_static("native"));
    response
}
