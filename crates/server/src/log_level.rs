//! `/debug/log-level`: what is logged, read and changed while Holdfast runs.
//!
//! The log is the record of every decision, so who may reach the port must not be able to silence it: only
//! connections from this machine are listened to. `kubectl port-forward` is one.

use std::fmt;
use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Extension, Router};

use crate::listen::Peer;

/// A filter is a line.
const FILTER_MAX: usize = 4096;

/// The means to do so, of whoever writes the log.
#[derive(Clone)]
pub struct LogLevel {
    pub get: Arc<dyn Fn() -> String + Send + Sync>,
    /// An error says what is wrong with the text.
    pub set: Arc<Set>,
}

type Set = dyn Fn(&str) -> Result<(), String> + Send + Sync;

impl fmt::Debug for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LogLevel").field(&(self.get)()).finish()
    }
}

pub fn router(level: LogLevel) -> Router {
    Router::new()
        .route("/debug/log-level", get(read).put(change))
        .layer(DefaultBodyLimit::max(FILTER_MAX))
        .with_state(level)
}

async fn read(State(level): State<LogLevel>, peer: Extension<Peer>) -> (StatusCode, String) {
    refused(&peer).unwrap_or_else(|| (StatusCode::OK, (level.get)() + "\n"))
}

async fn change(
    State(level): State<LogLevel>,
    peer: Extension<Peer>,
    text: String,
) -> (StatusCode, String) {
    if let Some(refusal) = refused(&peer) {
        return refusal;
    }
    let text = text.trim();
    // Before it holds, so that the record shows where it was silenced.
    tracing::warn!(from = (level.get)(), to = text, peer = %peer.0.0, "the log level is to change");
    match (level.set)(text) {
        Ok(()) => (StatusCode::OK, (level.get)() + "\n"),
        Err(why) => (StatusCode::BAD_REQUEST, why + "\n"),
    }
}

fn refused(Extension(Peer(peer)): &Extension<Peer>) -> Option<(StatusCode, String)> {
    let why = "only from this machine, or through kubectl port-forward\n";
    // As IPv4 is shown on a socket of both.
    let here = peer.ip().to_canonical().is_loopback();
    (!here).then(|| (StatusCode::FORBIDDEN, why.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn level() -> LogLevel {
        let now = Arc::new(Mutex::new("info".to_owned()));
        let shown = now.clone();
        LogLevel {
            get: Arc::new(move || shown.lock().unwrap().clone()),
            set: Arc::new(move |text| match text {
                "loud" => Err("no such level".to_owned()),
                text => {
                    text.clone_into(&mut now.lock().unwrap());
                    Ok(())
                }
            }),
        }
    }

    fn peer(address: &str) -> Extension<Peer> {
        Extension(Peer(address.parse().unwrap()))
    }

    #[tokio::test]
    async fn is_changed_from_this_machine_alone() {
        let level = level();
        for elsewhere in ["10.0.0.7:1", "[2001:db8::1]:1", "[::ffff:10.0.0.7]:1"] {
            let answer = change(State(level.clone()), peer(elsewhere), "off".to_owned()).await;
            assert_eq!(answer.0, StatusCode::FORBIDDEN, "{elsewhere}");
            let answer = read(State(level.clone()), peer(elsewhere)).await;
            assert_eq!(answer.0, StatusCode::FORBIDDEN, "{elsewhere}");
        }
        assert_eq!((level.get)(), "info");
        for here in ["127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            let answer = change(State(level.clone()), peer(here), "debug\n".to_owned()).await;
            assert_eq!(answer, (StatusCode::OK, "debug\n".to_owned()), "{here}");
        }
        let wrong = change(State(level.clone()), peer("127.0.0.1:1"), "loud".to_owned()).await;
        assert_eq!(wrong, (StatusCode::BAD_REQUEST, "no such level\n".to_owned()));
        let answer = read(State(level), peer("127.0.0.1:1")).await;
        assert_eq!(answer.1, "debug\n");
    }
}
