//! The two documents that a watch reads. Objects stay raw here and are decoded one by one, so that one
//! that cannot be read does not take its neighbours with it.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::api_client::Answer;

#[derive(Debug, Deserialize)]
pub struct Page<'a> {
    pub metadata: PageMeta,
    #[serde(borrow, default)]
    pub items: Option<Vec<&'a RawValue>>,
}

impl<'a> Page<'a> {
    pub fn of(answer: &'a Answer) -> Result<Self, String> {
        answer.json().map_err(|error| format!("cannot read the list: {error}"))
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PageMeta {
    pub resource_version: String,
    #[serde(default)]
    pub r#continue: String,
}

#[derive(Debug, Deserialize)]
pub struct Event<'a> {
    #[serde(rename = "type")]
    pub kind: EventKind,
    #[serde(borrow)]
    pub object: &'a RawValue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum EventKind {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

/// The object of a change, if the event looks as API servers write it. Found without reading what is
/// in between, because to skip an object costs as much as to decode it.
pub fn object_of_change(line: &[u8]) -> Option<(EventKind, &[u8])> {
    let starts: [(_, &[u8]); 3] = [
        (EventKind::Modified, br#"{"type":"MODIFIED","object":"#),
        (EventKind::Added, br#"{"type":"ADDED","object":"#),
        (EventKind::Deleted, br#"{"type":"DELETED","object":"#),
    ];
    // A line that was cut off has no newline.
    let line = line.strip_suffix(b"}\n")?;
    starts.into_iter().find_map(|(kind, start)| Some((kind, line.strip_prefix(start)?)))
}

/// What can be said of an object that cannot be decoded.
#[derive(Debug, Default, Deserialize)]
pub struct Unread {
    #[serde(default)]
    pub metadata: UnreadMeta,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnreadMeta {
    #[serde(default)]
    pub namespace: String,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub uid: String,
    #[serde(default)]
    pub resource_version: String,
}

/// The Status inside of an ERROR event.
#[derive(Debug, Default, Deserialize)]
pub struct ErrorStatus {
    #[serde(default)]
    pub code: u16,
    #[serde(default)]
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_stay_raw() {
        let page: Page<'_> = serde_json::from_str(
            r#"{"metadata":{"resourceVersion":"7","continue":"x"},"items":[{"a":1},"what"]}"#,
        )
        .unwrap();
        assert_eq!(page.metadata.r#continue, "x");
        let items: Vec<&str> = page.items.unwrap().iter().map(|item| item.get()).collect();
        assert_eq!(items, [r#"{"a":1}"#, r#""what""#]);
        // Go writes an empty list as null.
        let page: Page<'_> =
            serde_json::from_str(r#"{"metadata":{"resourceVersion":"7"},"items":null}"#).unwrap();
        assert!(page.items.is_none());
    }

    #[test]
    fn changes_are_found_in_lines_of_an_api_server_and_nowhere_else() {
        let found = |line: &'static str| object_of_change(line.as_bytes());
        let line = "{\"type\":\"DELETED\",\"object\":{\"a\":{}}}\n";
        assert_eq!(found(line), Some((EventKind::Deleted, br#"{"a":{}}"#.as_slice())));
        for line in [
            "",
            "\n",
            "{\"type\":\"DELETED\",\"object\":{\"a\":{}}}",
            "{\"type\": \"DELETED\", \"object\":{}}\n",
            "{\"type\":\"BOOKMARK\",\"object\":{}}\n",
            "{\"object\":{},\"type\":\"DELETED\"}\n",
        ] {
            assert_eq!(found(line), None, "{line:?}");
        }
    }

    #[test]
    fn events_of_unknown_types_are_errors() {
        assert!(serde_json::from_str::<Event<'_>>(r#"{"type":"NEW","object":{}}"#).is_err());
        let event: Event<'_> =
            serde_json::from_str(r#"{"type":"BOOKMARK","object":{"metadata":{}}}"#).unwrap();
        assert_eq!(event.kind, EventKind::Bookmark);
    }
}
