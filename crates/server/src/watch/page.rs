//! Lists, page by page, by consistent reads.

use http::StatusCode;
use serde_json::value::RawValue;

use super::wire::Page;
use crate::api_client::{Answer, ApiClient, NoAnswer};

/// Large enough to need few requests, small enough to hold one page in memory as text.
const PAGE_SIZE: u32 = 500;

/// The path of one page: the first, or the one that the page before names.
pub fn page_path(path: &str, from: &str) -> String {
    // No resourceVersion: a consistent read. "0" would be any state, however old.
    format!("{path}?limit={PAGE_SIZE}&continue={from}")
}

/// One page of a list: the first, or the one that the page before names.
pub async fn page(client: &ApiClient, path: &str, from: &str) -> Result<Answer, String> {
    match client.list(&page_path(path, from)).await {
        Ok(answer) if answer.code == StatusCode::OK => Ok(answer),
        Ok(answer) => Err(answer.message()),
        Err(NoAnswer(reason)) => Err(reason),
    }
}

/// Takes every item of a list, page by page. The version of the list.
pub async fn items(
    client: &ApiClient,
    path: &str,
    mut take: impl FnMut(&RawValue) -> Result<(), String>,
) -> Result<String, String> {
    let mut from = String::new();
    loop {
        let answer = page(client, path, &from).await?;
        let page = Page::of(&answer)?;
        page.items.unwrap_or_default().into_iter().try_for_each(&mut take)?;
        if page.metadata.r#continue.is_empty() {
            return Ok(page.metadata.resource_version);
        }
        from = page.metadata.r#continue;
    }
}
