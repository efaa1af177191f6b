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
#[cfg(any(test, feature = "fuzzing"))]
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
use crate::room::{Room, Taken, length};
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

/// Of the longest, being read or worked on. Budgets have a few KiB.
const BODIES_AT_ONCE: usize = 32;

#[derive(Clone)]
pub struct Native {
    client: ApiClient,
    gate: Arc<Gate>,
    front_proxy: channel::Receiver<Arc<FrontProxy>>,
    /// False when watches are to end, so that clients open them with whoever serves then.
    serves: channel::Receiver<bool>,
    rooms: Rooms,
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
        let gate = Arc::new(Gate::new(decider)?);
        Ok(Self { client, gate, front_proxy, serves, rooms: Rooms::new() })
    }

    pub fn router(self) -> Router {
        Router::new().fallback(serve).with_state(self)
    }

    async fn answer(&self, user: User, parts: Parts) -> Response {
        let Parts { method, uri, headers, body, taken: _taken } = parts;
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

/// Two of them: whoever may write budgets could take all of one with bodies that come slowly, and evictions are to
/// be asked about all the same.
#[derive(Clone, Debug)]
struct Rooms {
    gate: Room,
    others: Room,
}

impl Rooms {
    fn new() -> Self {
        let room = || Room::new(BODY_MAX, BODIES_AT_ONCE);
        Self { gate: room(), others: room() }
    }

    fn of(&self, user: &User) -> &Room {
        if gate::is_apiserver(user) { &self.gate } else { &self.others }
    }
}

#[derive(Debug)]
struct Parts {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
    /// The body's, until it is answered.
    taken: Taken,
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
        Ok(user) => match Parts::read(request, native.rooms.of(&user)).await {
            Ok(parts) => native.answer(user, parts).await,
            Err(refused) => refused,
        },
    };
    response.headers_mut().insert(SERVED_BY, HeaderValue::from_static("native"));
    response
}

impl Parts {
    async fn read(request: Request, room: &Room) -> Result<Self, Response> {
        let (head, body) = request.into_parts();
        let http::request::Parts { method, uri, headers, .. } = head;
        let taken = room.take(length(&body)).await;
        let max = if taken.is_some() { BODY_MAX } else { 0 };
        match (tokio::time::timeout(BODY_TIMEOUT, read_body(body, max)).await, taken) {
            (_, None) => Err(status::too_many()),
            (Ok(Ok(Some(body))), Some(taken)) => Ok(Self { method, uri, headers, body, taken }),
            (Ok(Ok(None)), _) => Err(status::too_large()),
            (Ok(Err(error)), _) => Err(status::bad_request(&error.to_string())),
            (Err(_), _) => Err(status::bad_request("the request's body did not come in time")),
        }
    }
}

/// None: it is longer than that. Then some more is read and dropped: kube-apiserver passes on our answer only if
/// it could pass on the request.
async fn read_body(body: Body, max: usize) -> Result<Option<Bytes>, axum::Error> {
    let mut data = body.into_data_stream();
    let (mut read, mut length) = (Vec::new(), 0);
    while let Some(chunk) = data.try_next().await? {
        length += chunk.len();
        if length <= max {
            read.extend_from_slice(&chunk);
        } else if length > 4 * BODY_MAX {
            break;
        } else {
            read = Vec::new();
        }
    }
    Ok((length <= max).then(|| read.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_that_is_too_long_is_refused_as_kube_apiserver_does() {
        let code = async |length: usize| {
            let room = Room::new(BODY_MAX, 1);
            let refused = Parts::read(Request::new(Body::from(vec![0; length])), &room).await.err();
            refused.map(|response| response.status())
        };
        assert_eq!(code(BODY_MAX).await, None);
        assert_eq!(code(BODY_MAX + 1).await, Some(StatusCode::PAYLOAD_TOO_LARGE));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_not_awaited_for_ever() {
        let refused = Parts::read(Request::new(silent()), &Room::new(BODY_MAX, 1)).await.err();
        assert_eq!(refused.map(|response| response.status()), Some(StatusCode::BAD_REQUEST));
    }

    fn silent() -> Body {
        Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>())
    }

    #[tokio::test(start_paused = true)]
    async fn what_there_is_no_room_for_is_shed_and_evictions_are_asked_about_all_the_same() {
        let rooms = Rooms::new();
        let user = |name: &str, group: &str| User { name: name.into(), groups: vec![group.into()] };
        let (alice, apiserver) =
            (user("alice", "tenants"), user("system:apiserver", "system:masters"));
        let read = async |user: &User, body: Body| {
            let parts = Parts::read(Request::new(body), rooms.of(user)).await;
            parts.map(|parts| parts.body.len()).map_err(|response| response.status())
        };
        // As many as there is room for, and none of them comes.
        let slow = (0..BODIES_AT_ONCE).map(|_| read(&alice, silent()));
        let slow = futures_util::future::join_all(slow);
        let meanwhile = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let refused = read(&alice, Body::from("{}")).await;
            assert_eq!(refused, Err(StatusCode::TOO_MANY_REQUESTS));
            assert_eq!(read(&alice, Body::empty()).await, Ok(0), "which needs none");
            assert_eq!(read(&apiserver, Body::from("{}")).await, Ok(2));
        };
        tokio::join!(slow, meanwhile);
        assert_eq!(read(&alice, Body::from("{}")).await, Ok(2), "it is free again");
    }
}
