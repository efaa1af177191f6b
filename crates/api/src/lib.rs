//! The objects that Holdfast reads from and writes to a Kubernetes API server, and their conversion into
//! [`holdfast_core::model`].
//!
//! ```text
//!   JSON of any API version --decode--> wire struct --into--> holdfast_core::model
//!   AdmissionReview         --admission--> EvictionReview, PodReview --> holdfast_core::Eviction
//!                                          PlaceReview --> holdfast_core::gang::Pod
//!                                          BudgetReview, WorkloadReview --> the answer
//!   ConversionReview        --unavailable::convert--> the answer
//!   holdfast_core::BudgetStatus / Verdict --> JSON
//!   policy/v1 requests      --native--> requests on the custom resource, and back
//! ```
//!
//! The wire structs are small: they have the fields that the engine reads, and serde drops the rest while it
//! parses. So a pod costs about one kilobyte instead of twenty. They are also tolerant. One struct per kind covers
//! every release and draft of that kind. `null` means absent, as in Go. If the model has a place for it, an invalid
//! value reaches the engine, because an unreadable budget must block and not disappear.
//!
//! Start with [`decode::decode`] and, for gangs, [`gang::decode`]; the server's watches call nothing else.
#![forbid(unsafe_code)]

pub mod admission;
pub mod budget;
pub mod crd;
pub mod decode;
pub mod gang;
pub mod group;
pub mod meta;
pub mod native;
pub mod owner;
pub mod pod;
pub mod salvage;
pub mod time;
pub mod unavailable;

mod lenient;
mod printable;
mod quantity;

pub use printable::printable;
