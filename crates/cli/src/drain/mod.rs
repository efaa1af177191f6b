//! Draining nodes replica by replica: what would be done (`holdfast plan drain`), and doing it.
//!
//! ```text
//!   Cluster --choose--> pods to evict --units--> replicas, what they cost --plan--> waves --text, json--> stdout
//!   waves --follow--> what to ask about now --act--> Eviction API, pod watch --> progress
//! ```

mod act;
#[cfg(test)]
mod beside;
mod choose;
mod command;
mod follow;
mod group;
mod plan;
mod progress;
mod report;
#[cfg(test)]
mod tests;
mod text;
mod units;
mod which;

pub use choose::Choice;
pub use command::{Args, run};
pub use report::DrainPlan;
pub use text::render;
pub use which::Which;
