//! The engine against other judges, by its public interface.
//!
//! - `agree`: the engine agrees with a reference that evaluates everything anew.
//! - `upstream` and `kruise`: other projects' own unit tests as vectors for the engine: upstream's of the disruption
//!   controller and the eviction handler (upstream 6.1 and 6.2), and Kruise's of `PodUnavailableBudget`. Each is named
//!   after the test that it comes from. Where the ruling differs, the test says so.
//! - `gang`: gangs in a cluster of their own.

mod agree;
mod agreement;
mod gang;
mod kruise;
mod reference;
mod upstream;
