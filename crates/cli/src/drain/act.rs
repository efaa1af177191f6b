//! Carries a plan out: sends what [`Follow`] asks for, and tells it what is answered and seen.

use std::collections::BTreeSet;
use std::time::Duration;

use holdfast_core::model::{GroupApi, ObjectKey, Pod};
use holdfast_core::{Change, Input, Kind};
use holdfast_server::{Drainer, Evicted};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::follow::{Ask, Follow, Seen};
use super::group;
use super::progress::{Progress, Replicas};
use crate::ask::Cluster;

/// Evictions under way at the same time. An API server lets each user have a few dozen.
const UNDER_WAY_MAX: usize = 16;

/// How often to look whether replicas are whole again, and to draw.
const LOOK: Duration = Duration::from_millis(200);

/// How a drain ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// Everything is gone that could be evicted.
    Done,
    TimedOut,
    Interrupted,
}

pub struct Act<'a> {
    pub cluster: &'a mut Cluster,
    pub drainer: &'a Drainer,
    pub follow: &'a mut Follow,
    pub progress: &'a mut Progress,
    started: Instant,
    /// Pods of the list that is being read.
    listed: Option<BTreeSet<(ObjectKey, String)>>,
    synced: bool,
    waiting: Vec<Ask>,
    under_way: JoinSet<(Ask, Evicted)>,
}

impl<'a> Act<'a> {
    pub fn new(
        cluster: &'a mut Cluster,
        drainer: &'a Drainer,
        follow: &'a mut Follow,
        progress: &'a mut Progress,
    ) -> Self {
        Self {
            cluster,
            drainer,
            follow,
            progress,
            started: Instant::now(),
            listed: None,
            synced: false,
            waiting: Vec::new(),
            under_way: JoinSet::new(),
        }
    }

    /// Until everything is gone, the time is over, or somebody presses Ctrl-C.
    pub async fn run(mut self, timeout: Option<Duration>) -> Ended {
        let groups = [GroupApi::Kubernetes, GroupApi::Holdfast].map(Kind::PodGroup);
        let mut news = self.drainer.watch([Kind::Pod].into_iter().chain(groups));
        let end = timeout.map(|timeout| self.started + timeout);
        let mut look = tokio::time::interval(LOOK);
        let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
        loop {
            self.ask();
            if self.synced && self.follow.is_done() && self.under_way.is_empty() {
                self.progress.look(self.cluster, self.follow);
                return Ended::Done;
            }
            let due = self.follow.next_due(self.started.elapsed()).map(|due| self.started + due);
            tokio::select! {
                _ = &mut interrupt => return Ended::Interrupted,
                () = at(end) => return Ended::TimedOut,
                () = at(due) => {}
                _ = look.tick() => {
                    if self.follow.recovering().next().is_some() {
                        let replicas = Replicas::of(self.cluster);
                        let now = self.started.elapsed();
                        self.follow.look(now, |unit| replicas.can_spare(unit));
                    }
                    self.progress.look(self.cluster, self.follow);
                }
                Some(answered) = self.under_way.join_next() => {
                    // The task does not panic.
                    if let Ok((ask, answer)) = answered {
                        self.follow.answer(self.started.elapsed(), ask, answer);
                    }
                }
                Some(input) = news.recv() => self.take_in(input, &mut news),
            }
        }
    }

    fn ask(&mut self) {
        // What is leaving already need not be asked about.
        if !self.synced {
            return;
        }
        self.waiting.extend(self.follow.poll(self.started.elapsed()));
        while self.under_way.len() < UNDER_WAY_MAX && !self.waiting.is_empty() {
            let ask = self.waiting.remove(0);
            let going = &self.follow.units()[ask.unit];
            let pod = &going.unit.pods[ask.pod];
            self.progress.asking(going, pod);
            let key = ObjectKey::new(&going.unit.namespace, &pod.name);
            let propagation = group::propagation(&going.unit, pod);
            let (drainer, uid) = (self.drainer.clone(), pod.uid.clone());
            self.under_way
                .spawn(async move { (ask, drainer.evict(&key, &uid, propagation).await) });
        }
    }

    /// And whatever else is there already.
    fn take_in(&mut self, first: Input, news: &mut mpsc::Receiver<Input>) {
        let mut next = Some(first);
        while let Some(input) = next {
            self.see(&input);
            self.cluster.hear(input);
            next = news.try_recv().ok();
        }
    }

    fn see(&mut self, input: &Input) {
        match input {
            Input::ListBegan(Kind::Pod) => self.listed = Some(BTreeSet::new()),
            Input::ListEnded(Kind::Pod, _) => {
                let listed = self.listed.take().unwrap_or_default();
                self.forget_unlisted(&listed);
                self.synced = true;
            }
            Input::Pod(Change::Applied(pod)) => {
                if let Some(listed) = &mut self.listed {
                    listed.insert((pod.key.clone(), pod.uid.clone()));
                }
                self.see_pod(pod, false);
            }
            Input::Pod(Change::Deleted(pod)) => self.see_pod(pod, true),
            _ => {}
        }
    }

    fn see_pod(&mut self, pod: &Pod, deleted: bool) {
        let now = self.started.elapsed();
        self.follow.saw(now, &pod.key, |of| match (of.uid == pod.uid, deleted, pod.terminating) {
            (true, true, _) => Some(Seen::Gone),
            (true, false, true) => Some(Seen::Leaving),
            (false, false, _) => Some(Seen::Replaced),
            _ => None,
        });
        // Room comes from pods that turn Ready, and from those that are at last gone and no longer expected.
        if pod.ready || deleted {
            self.follow.changed(now, &pod.key.namespace);
        }
    }

    fn forget_unlisted(&mut self, listed: &BTreeSet<(ObjectKey, String)>) {
        let ours = self.follow.units().iter().flat_map(|going| {
            let key = |name: &str| ObjectKey::new(&going.unit.namespace, name);
            going.unit.pods.iter().map(move |pod| (key(&pod.name), pod.uid.clone()))
        });
        let gone: Vec<_> = ours.filter(|pod| !listed.contains(pod)).collect();
        let now = self.started.elapsed();
        for (key, uid) in gone {
            self.follow.saw(now, &key, |of| (of.uid == uid).then_some(Seen::Gone));
        }
    }
}

/// Never, if there is no such time.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
