//! One kind's objects, as whoever decides by them wants them: a complete list, then every change.
//!
//! ```text
//!   find out what serves it --no--> NotServed, ask again later
//!          | yes      ^
//!          v          +---------------- expired, or the kind is gone ------+
//!   LIST page by page: ListBegan, Applied..., ListEnded                    |
//!          v                                                               |
//!   WATCH from there <--connection lost: resume from the last version--> changes
//! ```

mod backoff;
mod budgets;
mod source;
pub mod wire;

use std::collections::HashMap;
use std::pin::pin;
use std::time::Duration;

use futures_util::AsyncBufReadExt;
use holdfast_api::decode::DecodeError;
use holdfast_core::model::{ObjectKey, ResourceVersion};
use http::StatusCode;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::api_client::{Answer, ApiClient, NoAnswer, describe};
use crate::discovery::Resource;
use crate::metrics::{Heard, Metrics};
pub use backoff::Backoff;
pub use source::Source;
pub use wire::Page;
use wire::{ErrorStatus, Event, EventKind, Unread, object_of_change};

/// Large enough to need few requests, small enough to hold one page in memory as text.
const PAGE_SIZE: u32 = 500;

/// How often to ask for a kind that is not served. One that is needed is asked for more often, because
/// until it is there every eviction is denied.
const RECHECK: Duration = Duration::from_secs(30);
const RECHECK_NEEDED: Duration = Duration::from_secs(1);

/// The API server sends a bookmark every minute, so a longer silence is a dead connection.
const SILENCE: Duration = Duration::from_secs(150);

/// A cache that has been cut off for so long is too old to decide by.
const CUT_OFF_MAX: Duration = Duration::from_secs(10);

/// The API server ends a watch after this time. Watches then reopen from where they were.
const WATCH_SECONDS: u32 = 290;

/// Remembered versions of objects that could not be read; beyond it a report may repeat.
const UNDECODABLE_MAX: usize = 4096;

/// A kind to watch, and in which words to tell of it.
pub trait Watched: Send + Sync + 'static {
    type Told: Send + 'static;

    fn source(&self) -> Source;

    /// For logs and metrics.
    fn label(&self) -> String {
        self.source().to_string()
    }

    /// An object as it is now, or was when it was deleted, and its version.
    fn read(
        &self,
        resource: &Resource,
        json: &[u8],
        deleted: bool,
    ) -> Result<(ResourceVersion, Self::Told), DecodeError>;

    fn list_began(&self) -> Self::Told;

    fn list_ended(&self, version: ResourceVersion) -> Self::Told;

    /// A normal state, unless the kind is needed.
    fn not_served(&self) -> Self::Told;

    /// Nothing goes without it.
    fn is_needed(&self) -> bool {
        false
    }

    /// The cache is too old to decide by. None: it is decided by all the same.
    fn lost(&self) -> Option<Self::Told>;

    /// None: what was known of it holds until the next list.
    fn unreadable(&self, json: &[u8], key: ObjectKey, why: String) -> Option<Self::Told>;
}

pub struct Watcher<W: Watched> {
    client: ApiClient,
    watched: W,
    source: Source,
    label: String,
    feed: mpsc::Sender<W::Told>,
    metrics: Metrics,
    heard: Heard,
    /// uid and version of what was reported already.
    undecodable: HashMap<String, String>,
    backoff: Backoff,
    /// The trouble was reported, and its end was not yet.
    troubled: bool,
    /// Since when no watch could be opened.
    cut_off: Option<Instant>,
}

/// One page of a list: the first, or the one that the page before names.
pub async fn page(client: &ApiClient, path: &str, from: &str) -> Result<Answer, String> {
    // No resourceVersion: a consistent read. "0" would be any state, however old.
    let path = format!("{path}?limit={PAGE_SIZE}&continue={from}");
    match client.list(&path).await {
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

/// The runtime is gone: the process is stopping.
struct Stopped;

/// How a watch came to its end.
enum Ended {
    /// In good order: open it again from the last version.
    Resume,
    /// As above, after a pause.
    Broken(String),
    /// The last version is of no use any more.
    Relist(String),
}

impl<W: Watched> Watcher<W> {
    pub fn new(
        client: ApiClient,
        watched: W,
        feed: mpsc::Sender<W::Told>,
        metrics: Metrics,
    ) -> Self {
        let source = watched.source();
        let label = watched.label();
        let heard = metrics.listen(&label);
        Self {
            client,
            watched,
            source,
            label,
            feed,
            metrics,
            heard,
            undecodable: HashMap::new(),
            backoff: Backoff::new(),
            troubled: false,
            cut_off: None,
        }
    }

    /// Runs until the runtime goes away.
    pub async fn run(mut self) {
        loop {
            let Ok(resource) = self.find().await else { return };
            let reason = match self.list(&resource).await {
                Err(Stopped) => return,
                Ok(Err(reason)) => reason,
                Ok(Ok(version)) => {
                    self.backoff.reset();
                    self.heard.now();
                    match self.follow(&resource, version).await {
                        Err(Stopped) => return,
                        Ok(reason) => reason,
                    }
                }
            };
            self.metrics.watch_restarted(&self.label);
            self.trouble("listing again", &reason).await;
        }
    }

    /// Waits until the kind is served.
    async fn find(&mut self) -> Result<Resource, Stopped> {
        let mut told = false;
        loop {
            match self.source.find(&self.client).await {
                Ok(Some(resource)) => {
                    tracing::debug!(kind = %self.label, path = %resource.path(), "found");
                    return Ok(resource);
                }
                Ok(None) => {
                    let needed = self.watched.is_needed();
                    if !told {
                        told = true;
                        if needed {
                            tracing::error!(kind = %self.label, "our own kind is not served");
                        } else {
                            tracing::info!(kind = %self.label, "not served");
                        }
                        self.tell(self.watched.not_served()).await?;
                    }
                    self.backoff.reset();
                    self.wait(if needed { RECHECK_NEEDED } else { RECHECK }).await?;
                }
                Err(NoAnswer(reason)) => {
                    self.trouble("discovery failed", &reason).await;
                }
            }
        }
    }

    /// The version to watch from, or why the list could not be completed.
    async fn list(
        &mut self,
        resource: &Resource,
    ) -> Result<Result<ResourceVersion, String>, Stopped> {
        self.tell(self.watched.list_began()).await?;
        let mut token = String::new();
        loop {
            let answer = match page(&self.client, &resource.path(), &token).await {
                Ok(answer) => answer,
                Err(reason) => return Ok(Err(reason)),
            };
            let page = match Page::of(&answer) {
                Ok(page) => page,
                Err(reason) => return Ok(Err(reason)),
            };
            for item in page.items.unwrap_or_default() {
                let told = match self.read(resource, item, false) {
                    Ok((_, told)) => Some(told),
                    Err(unreadable) => unreadable,
                };
                self.tell_of(told).await?;
            }
            if page.metadata.r#continue.is_empty() {
                let version = ResourceVersion::from(page.metadata.resource_version.as_str());
                self.tell(self.watched.list_ended(version.clone())).await?;
                tracing::debug!(kind = %self.label, %version, "listed");
                return Ok(Ok(version));
            }
            token = page.metadata.r#continue;
        }
    }

    /// Watches until a new list is needed, and says why.
    async fn follow(
        &mut self,
        resource: &Resource,
        mut version: ResourceVersion,
    ) -> Result<String, Stopped> {
        loop {
            let opened = Instant::now();
            match self.watch(resource, &mut version).await? {
                // A server that ends every watch at once must not be asked in a tight loop.
                Ended::Resume if opened.elapsed() < Duration::from_secs(1) => {
                    self.backoff.pause().await;
                }
                Ended::Resume => {}
                Ended::Broken(reason) => {
                    self.metrics.watch_restarted(&self.label);
                    let since = *self.cut_off.get_or_insert_with(Instant::now);
                    if since.elapsed() > CUT_OFF_MAX {
                        tracing::error!(kind = %self.label, reason, "cut off until it can be listed");
                        self.tell_of(self.watched.lost()).await?;
                        return Ok(reason);
                    }
                    self.trouble("watch broke off", &reason).await;
                }
                Ended::Relist(reason) => return Ok(reason),
            }
        }
    }

    async fn watch(
        &mut self,
        resource: &Resource,
        version: &mut ResourceVersion,
    ) -> Result<Ended, Stopped> {
        let path = format!(
            "{}?watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={version}",
            resource.path()
        );
        let mut lines = match self.client.stream(&path).await {
            Ok(Ok(lines)) => {
                self.cut_off = None;
                if std::mem::take(&mut self.troubled) {
                    tracing::info!(kind = %self.label, "watching again");
                }
                lines
            }
            Ok(Err(answer)) => {
                return Ok(match answer.code {
                    // The version expired, or the kind went away.
                    StatusCode::GONE | StatusCode::NOT_FOUND => Ended::Relist(answer.message()),
                    _ => Ended::Broken(answer.message()),
                });
            }
            Err(NoAnswer(reason)) => return Ok(Ended::Broken(reason)),
        };
        // These two are there once and not anew for every line: there are thousands.
        let feed = self.feed.clone();
        let mut closed = pin!(feed.closed());
        let mut silence = pin!(sleep(SILENCE));
        let mut heard = Instant::now();
        let mut line = Vec::new();
        loop {
            tokio::select! {
                biased;
                () = &mut closed => return Err(Stopped),
                read = lines.read_until(b'\n', &mut line) => match read {
                    Ok(0) => return Ok(Ended::Resume),
                    Ok(_) => heard = self.heard.now(),
                    Err(error) => return Ok(Ended::Broken(describe(&error))),
                },
                // Only when there is nothing to read: we may have been slow ourselves.
                () = &mut silence => {
                    if heard.elapsed() >= SILENCE {
                        return Ok(Ended::Broken(format!("nothing came for {} s", SILENCE.as_secs())));
                    }
                    // What has come of a line is in it, and stays there.
                    silence.as_mut().reset(heard + SILENCE);
                    continue;
                }
            }
            if let Some(ended) = self.event(resource, &line, version).await? {
                return Ok(ended);
            }
            line.clear();
            self.backoff.reset();
        }
    }

    async fn event(
        &mut self,
        resource: &Resource,
        line: &[u8],
        version: &mut ResourceVersion,
    ) -> Result<Option<Ended>, Stopped> {
        // Nearly all of them.
        if let Some((kind, object)) = object_of_change(line)
            && let Ok(change) = self.watched.read(resource, object, kind == EventKind::Deleted)
        {
            self.changed(change, version).await?;
            return Ok(None);
        }
        let event: Event<'_> = match serde_json::from_slice(line) {
            Ok(event) => event,
            // The connection was cut in the middle of a line.
            Err(error) if error.is_eof() => return Ok(Some(Ended::Resume)),
            Err(error) => return Ok(Some(Ended::Relist(format!("cannot read an event: {error}")))),
        };
        match event.kind {
            EventKind::Error => {
                let status: ErrorStatus =
                    serde_json::from_str(event.object.get()).unwrap_or_default();
                let reason = format!("{} ({})", status.message, status.code);
                return Ok(Some(Ended::Relist(reason)));
            }
            EventKind::Bookmark => {
                if let Ok(bookmark) = serde_json::from_str::<Unread>(event.object.get()) {
                    advance(version, bookmark.metadata.resource_version.as_str().into());
                }
            }
            EventKind::Added | EventKind::Modified | EventKind::Deleted => {
                let deleted = event.kind == EventKind::Deleted;
                match self.read(resource, event.object, deleted) {
                    Ok(change) => self.changed(change, version).await?,
                    // It may be known from a state that could be read; the list will not hold it.
                    Err(_) if deleted => {
                        return Ok(Some(Ended::Relist("an unreadable object is gone".to_owned())));
                    }
                    Err(unreadable) => self.tell_of(unreadable).await?,
                }
            }
        }
        Ok(None)
    }

    async fn changed(
        &self,
        (to, told): (ResourceVersion, W::Told),
        version: &mut ResourceVersion,
    ) -> Result<(), Stopped> {
        advance(version, to);
        self.tell(told).await
    }

    /// What cannot be read is reported once per version, because a relist shows it again.
    fn read(
        &mut self,
        resource: &Resource,
        object: &RawValue,
        deleted: bool,
    ) -> Result<(ResourceVersion, W::Told), Option<W::Told>> {
        let error = match self.watched.read(resource, object.get().as_bytes(), deleted) {
            Ok(change) => return Ok(change),
            Err(error) => error,
        };
        let unread: Unread = serde_json::from_str(object.get()).unwrap_or_default();
        let Unread { metadata } = unread;
        let known = self.undecodable.get(&metadata.uid) == Some(&metadata.resource_version);
        if !known {
            if self.undecodable.len() >= UNDECODABLE_MAX {
                self.undecodable.clear();
            }
            let (uid, version) = (metadata.uid, metadata.resource_version);
            tracing::warn!(kind = %self.label, %uid, %version, %error, "cannot read an object");
            self.metrics.undecodable_object(&self.label);
            self.undecodable.insert(uid, version);
        }
        let key = ObjectKey::new(metadata.namespace, metadata.name);
        Err(self.watched.unreadable(object.get().as_bytes(), key, error.to_string()))
    }

    /// Says what is wrong, the first time aloud, and waits.
    async fn trouble(&mut self, what: &'static str, reason: &str) {
        if self.troubled {
            tracing::debug!(kind = %self.label, reason, "{what}");
        } else {
            tracing::warn!(kind = %self.label, reason, "{what}");
        }
        self.troubled = true;
        self.backoff.pause().await;
    }

    async fn tell(&self, told: W::Told) -> Result<(), Stopped> {
        self.feed.send(told).await.map_err(|_| Stopped)
    }

    async fn tell_of(&self, told: Option<W::Told>) -> Result<(), Stopped> {
        match told {
            Some(told) => self.tell(told).await,
            None => Ok(()),
        }
    }

    async fn wait(&self, time: Duration) -> Result<(), Stopped> {
        tokio::select! {
            () = self.feed.closed() => Err(Stopped),
            () = tokio::time::sleep(time) => Ok(()),
        }
    }
}

fn advance(version: &mut ResourceVersion, to: ResourceVersion) {
    if !to.is_empty() {
        *version = to;
    }
}
