//! A watch, translated event by event as it comes.

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures_util::TryStreamExt;
use futures_util::io::{AsyncBufRead, AsyncBufReadExt};
use futures_util::stream::unfold;
use http::{HeaderValue, header};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::sync::watch as channel;

use super::accept::Form;
use super::words;
use holdfast_api::native::table;

/// Ends when the CRD's watch ends, when the client goes, or when we serve no more.
pub fn relay(
    response: http::Response<kube::client::Body>,
    form: Form,
    serves: channel::Receiver<bool>,
) -> Response {
    let data = response.into_body().into_data_stream();
    let lines = data.map_err(std::io::Error::other).into_async_read();
    let events = Events { lines, form, serves, first: true };
    let stream = unfold(events, |mut events| async move {
        let event = events.next().await?;
        Some((Ok::<_, std::io::Error>(event), events))
    });
    let mut response = Response::new(Body::from_stream(stream));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

struct Events<R> {
    lines: R,
    form: Form,
    serves: channel::Receiver<bool>,
    /// A table's columns come with its first event only.
    first: bool,
}

impl<R: AsyncBufRead + Unpin> Events<R> {
    /// None: the client opens another watch, from where this one has come to.
    async fn next(&mut self) -> Option<Bytes> {
        let mut line = Vec::new();
        let read = tokio::select! {
            read = self.lines.read_until(b'\n', &mut line) => read,
            // An error means that the sender is gone, which is as good a reason to end.
            _ = self.serves.wait_for(|serves| !serves) => return None,
        };
        // An end in the middle of a line is the connection's, and no event.
        if !matches!(read, Ok(1..)) || line.last() != Some(&b'\n') {
            return None;
        }
        translated(&line, &self.form, &mut self.first)
    }
}

/// An event of the CRD's watch in the words of `policy/v1`. None: it is no event.
pub fn translated(line: &[u8], form: &Form, first: &mut bool) -> Option<Bytes> {
    let mut event: Value = serde_json::from_slice(line).ok()?;
    let mut object = event.get_mut("object")?.take();
    words::served(&mut object);
    if let Form::Table(include) = *form
        && object["kind"] != "Status"
    {
        object = table::table(&object, include, *first, jiff::Timestamp::now());
        *first = false;
    }
    event["object"] = object;
    let mut text = event.to_string();
    text.push('\n');
    Some(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[tokio::test]
    async fn events_are_translated_and_a_torn_one_is_none() {
        let text = "{\"type\":\"ADDED\",\"object\":{\"apiVersion\":\"policy.holdfast.dev/v1\"}}\n{\"type\":\"AD";
        let (_keep, serves) = channel::channel(true);
        let mut events = Events { lines: text.as_bytes(), form: Form::Plain, serves, first: true };
        let event: Value = serde_json::from_slice(&events.next().await.unwrap()).unwrap();
        assert_eq!(event, json!({"type": "ADDED", "object": {"apiVersion": "policy/v1"}}));
        assert!(events.next().await.is_none());
        for other in ["[]\n", "1\n", "{}\n"] {
            assert!(translated(other.as_bytes(), &Form::Plain, &mut true).is_none(), "{other}");
        }
    }

    #[tokio::test]
    async fn a_watch_ends_when_we_serve_no_more() {
        let (tell, serves) = channel::channel(true);
        let silent = futures_util::io::BufReader::new(Pending);
        let mut events = Events { lines: silent, form: Form::Plain, serves, first: true };
        tell.send_replace(false);
        assert!(events.next().await.is_none());
    }

    struct Pending;

    impl futures_util::io::AsyncRead for Pending {
        fn poll_read(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            _: &mut [u8],
        ) -> std::task::Poll<std::io::Result<usize>> {
            std::task::Poll::Pending
        }
    }
}
