//! Upstream's own unit tests of the disruption controller and the eviction handler (upstream 6.1 and
//! 6.2), as vectors for the engine. Each is named after the test that it comes from; where the ruling
//! differs from upstream, the test says so.

mod upstream;
