//! A small in-memory cluster around one or more engines.
//!
//! ```text
//!   test, demo --- apply, edit, delete, evict ---> truth (what the API server stores)
//!                                                    |  watch events       ^  reads, status writes
//!                                                    v                     |
//!                                                  Engine::handle ---> Engine::poll    (one per instance)
//! ```
//!
//! [`World`] is the API server and everything behind it: it stores the objects, gives out uids and
//! resource versions, serves the watch, and executes the engine's commands on a virtual clock.
//! Behind it stands a cluster (`cluster/`) with nodes, scheduler, kubelets and workload controllers, dead
//! until [`World::behave`] is called; [`Drain`] is the client that empties its nodes.
//! Nothing here reads a real clock, and what is drawn from [`Random`] is decided by its seed, so a run
//! is a function of its calls.
//!
//! What the world says about health ([`World::healthy_replicas`]) is what the auditor (`holdfast-audit`) counts from
//! the world's own objects. Nothing asks the engine. Reports and drains show it.
//!
//! ```
//! use holdfast_core::Config;
//! use holdfast_sim::{World, budget, group, pod};
//!
//! let mut world = World::new(Config::default());
//! world.apply_pod_group(group("g").gang(2));
//! world.apply_pod(pod("g-a").group("g").node("n1").ready());
//! world.apply_pod(pod("g-b").group("g").node("n1").ready());
//! world.apply_budget(budget("b").per_replica().min_available(1));
//! world.sync();
//! assert_eq!(world.healthy_replicas().len(), 1);
//! ```
#![forbid(unsafe_code)]

mod api_server;
mod audited;
mod builders;
pub mod chaos;
mod client;
mod cluster;
mod drain;
pub mod explore;
mod faults;
mod health;
mod instance;
mod name;
mod objects;
pub mod program;
pub mod random;
mod replica;
mod truth;
mod view;
mod world;

pub use builders::{
    BudgetBuilder, GroupBuilder, OwnerBuilder, PodBuilder, WorkloadBuilder, budget, group, owner,
    pod, workload,
};
pub use cluster::{Behaviour, NodeBuilder, Shape, Span, Taint, Toleration, node};
pub use drain::{Answer, Drain, DrainOptions, Target};
pub use instance::{Fate, InstanceMut};
pub use name::{NAMESPACE, Name};
pub use random::Random;
pub use replica::{Replica, ReplicaKind};
pub use view::View;
pub use world::{World, Written};
