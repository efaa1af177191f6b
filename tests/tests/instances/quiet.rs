//! In an idle cluster Holdfast writes nothing, except for the Lease, which its holder renews every two
//! seconds.

use std::time::Duration;

use holdfast_e2e::fleet::Fleet;
use holdfast_e2e::job::{Job, Shape};

const STATUS_WRITES: [&str; 4] = ["current", "gone", "rejected", "unknown"];

/// The number of writes so far, from the budgets and from the metrics of the running instances.
pub struct Writes {
    versions: Vec<String>,
    counted: f64,
    but: Option<usize>,
}

impl Writes {
    pub fn count(fleet: &Fleet, job: &Job, but: Option<usize>) -> Self {
        let counted = STATUS_WRITES
            .iter()
            .map(|outcome| format!("holdfast_status_writes_total{{outcome=\"{outcome}\"}}"))
            .map(|name| fleet.metric_but(&name, but))
            .sum();
        Self { versions: job.versions(), counted, but }
    }

    /// Checks that there were no writes since then.
    #[track_caller]
    pub fn assert_none(&self, fleet: &Fleet, job: &Job) {
        let now = Self::count(fleet, job, self.but);
        assert_eq!(self.versions, now.versions, "a budget was written");
        assert!((self.counted - now.counted).abs() < 0.5, "{} != {}", self.counted, now.counted);
    }
}

pub fn a_quiet_minute_has_no_writes() {
    let fleet = Fleet::start("quiet", 3);
    let shape = Shape { budgets: 5, replicas: 4, pods: 3, min_count: 2, min_available: 3 };
    let job = Job::create("quiet", shape);
    job.wait_status_is_true(Duration::from_secs(30));
    job.wait_alone();
    let quiet = Writes::count(&fleet, &job, None);
    std::thread::sleep(Duration::from_mins(1));
    quiet.assert_none(&fleet, &job);
    drop(job);
    fleet.stop();
}
