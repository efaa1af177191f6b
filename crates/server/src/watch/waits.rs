//! What a watcher does while it waits: it reports trouble, tells of a loss in time, and stops with the runtime.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{sleep, sleep_until};

use super::{Stopped, Watched, Watcher};

impl<W: Watched> Watcher<W> {
    /// Says what is wrong, the first time aloud, and waits.
    pub(super) async fn trouble(
        &mut self,
        what: &'static str,
        reason: &str,
    ) -> Result<(), Stopped> {
        if self.troubled {
            tracing::debug!(kind = %self.label, reason, "{what}");
        } else {
            tracing::warn!(kind = %self.label, reason, "{what}");
        }
        self.troubled = true;
        self.pause().await
    }

    pub(super) async fn pause(&mut self) -> Result<(), Stopped> {
        let pause = self.backoff.next_pause();
        self.unless_lost(sleep(pause)).await
    }

    /// Waits for the outcome. If the kind is cut off for too long meanwhile, tells of the loss, and goes on waiting.
    pub(super) async fn unless_lost<T>(
        &mut self,
        call: impl Future<Output = T>,
    ) -> Result<T, Stopped> {
        let mut call = pin!(call);
        if let Some(at) = self.cut_off.lost_at() {
            tokio::select! {
                biased;
                outcome = &mut call => return Ok(outcome),
                () = sleep_until(at) => {}
            }
            tracing::error!(kind = %self.label, "no watch for too long: lost until it is listed");
            self.cut_off.lose();
            self.tell_of(self.watched.lost()).await?;
        }
        Ok(call.await)
    }

    pub(super) async fn tell(&self, told: W::Told) -> Result<(), Stopped> {
        self.feed.send(told).await.map_err(|_| Stopped)
    }

    pub(super) async fn tell_of(&self, told: Option<W::Told>) -> Result<(), Stopped> {
        match told {
            Some(told) => self.tell(told).await,
            None => Ok(()),
        }
    }

    pub(super) async fn wait(&self, time: Duration) -> Result<(), Stopped> {
        tokio::select! {
            biased;
            () = self.feed.closed() => Err(Stopped),
            () = tokio::time::sleep(time) => Ok(()),
        }
    }
}
