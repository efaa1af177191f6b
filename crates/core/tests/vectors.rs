//! Other projects' own unit tests as vectors for the engine: upstream's of the disruption controller
//! and the eviction handler (upstream 6.1 and 6.2), and Kruise's of `PodUnavailableBudget`. Each is
//! named after the test that it comes from; where the ruling differs, the test says so.

mod kruise;
mod upstream;
