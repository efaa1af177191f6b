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
//!
//! A kind without an open watch for 10 seconds is lost: the engine denies until the next complete list. The time counts
//! from the moment at which the watch ended, whatever is tried meanwhile.
//!
//! etcd may be restored from a backup. A watch from a version that etcd has forgotten delivers nothing and reports no
//! error, so the version of a list is compared with the watch's before the watch is opened again.

mod backoff;
mod budgets;
mod cut_off;
mod page;
mod source;
#[cfg(test)]
mod tests;
mod waits;
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

use crate::api_client::{ApiClient, NoAnswer, describe};
use crate::discovery::Resource;
use crate::metrics::{Heard, Metrics};
pub use backoff::Backoff;
pub use budgets::is_skipped;
use cut_off::CutOff;
pub use page::{items, page, page_path};
pub use source::Source;
pub use wire::Page;
use wire::{ErrorStatus, Event, EventKind, Unread, object_of_change};

/// How often to ask for a kind that is not served. One that is needed is asked for more often, because
/// until it is there every eviction is denied.
const RECHECK: Duration = Duration::from_secs(30);
const RECHECK_NEEDED: Duration = Duration::from_secs(1);

/// The API server sends a bookmark every minute, so a longer silence is a dead connection.
const SILENCE: Duration = Duration::from_secs(150);

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

    /// etcd was restored to an older state; the objects of the list that is under way follow. None: the list alone
    /// replaces what was known.
    fn restored(&self) -> Option<Self::Told> {
        None
    }

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
    cut_off: CutOff,
    /// The newest version that was told of. The watch goes on from there.
    seen: ResourceVersion,
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
            cut_off: CutOff::default(),
            seen: ResourceVersion::default(),
        }
    }

    /// Runs until the runtime goes away.
    pub async fn run(mut self) {
        loop {
            let Ok(resource) = self.find().await else { return };
            let reason = match self.list(&resource).await {
                Err(Stopped) => return,
                Ok(Err(reason)) => reason,
                Ok(Ok(())) => {
                    self.backoff.reset();
                    self.heard.now();
                    match self.follow(&resource).await {
                        Err(Stopped) => return,
                        Ok(reason) => reason,
                    }
                }
            };
            self.metrics.watch_restarted(&self.label);
            if self.trouble("listing again", &reason).await.is_err() {
                return;
            }
        }
    }

    /// Waits until the kind is served.
    async fn find(&mut self) -> Result<Resource, Stopped> {
        let mut told = false;
        loop {
            let (source, client) = (self.source.clone(), self.client.clone());
            match self.unless_lost(source.find(&client)).await? {
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
                        self.cut_off.end();
                    }
                    self.backoff.reset();
                    self.wait(if needed { RECHECK_NEEDED } else { RECHECK }).await?;
                }
                Err(NoAnswer(reason)) => {
                    self.trouble("discovery failed", &reason).await?;
                }
            }
        }
    }

    /// Lists everything, or says why the list could not be completed.
    async fn list(&mut self, resource: &Resource) -> Result<Result<(), String>, Stopped> {
        self.tell(self.watched.list_began()).await?;
        let (client, path) = (self.client.clone(), resource.path());
        let mut token = String::new();
        loop {
            let answer = match self.unless_lost(page(&client, &path, &token)).await? {
                Ok(answer) => answer,
                Err(reason) => return Ok(Err(reason)),
            };
            let page = match Page::of(&answer) {
                Ok(page) => page,
                Err(reason) => return Ok(Err(reason)),
            };
            let version = ResourceVersion::from(page.metadata.resource_version.as_str());
            // Nothing else tells of this kind while it is listed, so `seen` is from before the list was sent.
            if version.is_older_than(&self.seen) {
                self.rebuild(&version).await?;
            }
            for item in page.items.unwrap_or_default() {
                let told = match self.read(resource, item, false) {
                    Ok((_, told)) => Some(told),
                    Err(unreadable) => unreadable,
                };
                self.tell_of(told).await?;
            }
            if page.metadata.r#continue.is_empty() {
                self.tell(self.watched.list_ended(version.clone())).await?;
                tracing::debug!(kind = %self.label, %version, "listed");
                self.seen = version;
                self.cut_off.listed();
                return Ok(Ok(()));
            }
            token = page.metadata.r#continue;
        }
    }

    /// etcd was restored to a state from before the one that was told of.
    async fn rebuild(&mut self, version: &ResourceVersion) -> Result<(), Stopped> {
        tracing::error!(
            kind = %self.label, seen = %self.seen, listed = %version,
            "etcd was restored from a backup: the list is older than what was seen before; reading everything again"
        );
        self.metrics.etcd_restored(&self.label);
        self.seen = version.clone();
        self.tell_of(self.watched.restored()).await
    }

    /// Watches until a new list is needed, and says why.
    async fn follow(&mut self, resource: &Resource) -> Result<String, Stopped> {
        let mut resumes = false;
        loop {
            let opened = Instant::now();
            let ended = self.watch(resource, resumes).await?;
            resumes = true;
            self.cut_off.begin();
            match ended {
                // A server that ends every watch at once must not be asked in a tight loop.
                Ended::Resume if opened.elapsed() < Duration::from_secs(1) => self.pause().await?,
                Ended::Resume => {}
                Ended::Broken(reason) => {
                    self.metrics.watch_restarted(&self.label);
                    self.trouble("watch broke off", &reason).await?;
                }
                Ended::Relist(reason) => {
                    if planted!(KeepCacheWhileListing) {
                        self.cut_off.end();
                    }
                    return Ok(reason);
                }
            }
            if self.cut_off.is_lost() {
                return Ok("no watch could be opened in time".to_owned());
            }
        }
    }

    /// Whether the API server's state is older than the version that the watch goes on from.
    async fn is_restored(&mut self, resource: &Resource) -> Result<Result<bool, Ended>, Stopped> {
        let (client, path) = (self.client.clone(), format!("{}?limit=1", resource.path()));
        let answer = match self.unless_lost(client.list(&path)).await? {
            Ok(answer) => answer,
            Err(NoAnswer(reason)) => return Ok(Err(Ended::Broken(reason))),
        };
        Ok(match answer.code {
            StatusCode::OK => match Page::of(&answer) {
                Ok(page) => {
                    let version = ResourceVersion::from(page.metadata.resource_version.as_str());
                    Ok(version.is_older_than(&self.seen))
                }
                Err(reason) => Err(Ended::Broken(reason)),
            },
            StatusCode::NOT_FOUND => Err(Ended::Relist(answer.message())),
            _ => Err(Ended::Broken(answer.message())),
        })
    }

    async fn watch(&mut self, resource: &Resource, resumes: bool) -> Result<Ended, Stopped> {
        if resumes {
            match self.is_restored(resource).await? {
                Ok(false) => {}
                Ok(true) => return Ok(Ended::Relist("etcd was restored".to_owned())),
                Err(ended) => return Ok(ended),
            }
        }
        let path = format!(
            "{}?watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={}",
            resource.path(),
            self.seen
        );
        let client = self.client.clone();
        let mut lines = match self.unless_lost(client.stream(&path)).await? {
            // The engine waits for a complete list by now.
            Ok(Ok(_)) if self.cut_off.is_lost() => {
                return Ok(Ended::Relist("the watch was opened too late".to_owned()));
            }
            Ok(Ok(lines)) => {
                self.cut_off.end();
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
            if let Some(ended) = self.event(resource, &line).await? {
                return Ok(ended);
            }
            line.clear();
            self.backoff.reset();
        }
    }

    async fn event(&mut self, resource: &Resource, line: &[u8]) -> Result<Option<Ended>, Stopped> {
        // Nearly all of them.
        if let Some((kind, object)) = object_of_change(line)
            && let Ok(change) = self.watched.read(resource, object, kind == EventKind::Deleted)
        {
            self.changed(change).await?;
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
                    self.advance(bookmark.metadata.resource_version.as_str().into());
                }
            }
            EventKind::Added | EventKind::Modified | EventKind::Deleted => {
                let deleted = event.kind == EventKind::Deleted;
                match self.read(resource, event.object, deleted) {
                    Ok(change) => self.changed(change).await?,
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

    async fn changed(&mut self, (to, told): (ResourceVersion, W::Told)) -> Result<(), Stopped> {
        self.advance(to);
        self.tell(told).await
    }

    fn advance(&mut self, to: ResourceVersion) {
        if self.seen.is_older_than(&to) {
            self.seen = to;
        }
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
}
