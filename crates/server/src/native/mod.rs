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
#[cfg(test)]
pub mod fuzzed;
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
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use axum::{Extension, Router};
use futures_util::TryStreamExt;
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

/// As long as kube-apiserver gives a request.
const BODY_TIMEOUT: Duration = Duration::from_mins(1);

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
        Router::new().fallback(serve).with_state(self)
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

#[derive(Debug)]
struct Parts {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
}

/// Of somebody who is not believed nothing is read but the head.
async fn serve(
    State(native): State<Native>,
    Extension(peer): Extension<PeerCertificate>,
    request: Request,
) -> Response {
    let front_proxy = native.front_proxy.borrow().clone();
    let mut response = match front_proxy.user(&peer, request.headers()) {
        Err(distrust) => {
            tracing::debug!(path = request.uri().path(), %distrust, "refused");
            status::failure(StatusCode::UNAUTHORIZED, "Unauthorized", &distrust.to_string())
        }
        Ok(user) => match Parts::read(request).await {
            Ok(parts) => native.answer(user, parts).await,
            Err(refused) => refused,
        },
    };
    response.headers_mut().insert(SERVED_BY, HeaderValue::from_static("native"));
    response
}

impl Parts {
    async fn read(request: Request) -> Result<Self, Response> {
        let (head, body) = request.into_parts();
        let http::request::Parts { method, uri, headers, .. } = head;
        match tokio::time::timeout(BODY_TIMEOUT, read_body(body)).await {
            Ok(Ok(Some(body))) => Ok(Self { method, uri, headers, body }),
            Ok(Ok(None)) => Err(status::too_large()),
            Ok(Err(error)) => Err(status::bad_request(&error.to_string())),
            Err(_) => Err(status::bad_request("the request's body did not come in time")),
        }
    }
}

/// None: it is too long. Then some more is read and dropped: kube-apiserver passes on our answer only if
/// it could pass on the request.
async fn read_body(body: Body) -> Result<Option<Bytes>, axum::Error> {
    let mut data = body.into_data_stream();
    let (mut read, mut length) = (Vec::new(), 0);
    while let Some(chunk) = data.try_next().await? {
        length += chunk.len();
        if length <= BODY_MAX {
            read.extend_from_slice(&chunk);
        } else if length > 4 * BODY_MAX {
            break;
        } else {
            read = Vec::new();
        }
    }
    Ok((length <= BODY_MAX).then(|| read.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_that_is_too_long_is_refused_as_kube_apiserver_does() {
        let code = async |length: usize| {
            let refused = Parts::read(Request::new(Body::from(vec![0; length]))).await.err();
            refused.map(|response| response.status())
        };
        assert_eq!(code(BODY_MAX).await, None);
        assert_eq!(code(BODY_MAX + 1).await, Some(StatusCode::PAYLOAD_TOO_LARGE));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_not_awaited_for_ever() {
        let silent =
            Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
        let refused = Parts::read(Request::new(silent)).await.err();
        assert_eq!(refused.map(|response| response.status()), Some(StatusCode::BAD_REQUEST));
    }
}
