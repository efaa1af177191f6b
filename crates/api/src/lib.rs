//! What Holdfast reads from and writes to a Kubernetes API server, and its conversion into
//! [`holdfast_core::model`].
//!
//! ```text
//!   JSON of any API version --decode--> wire struct --into--> holdfast_core::model
//!   AdmissionReview         --admission--> EvictionReview, PodReview --> holdfast_core::Eviction
//!                                          PlaceReview --> holdfast_core::gang::Pod
//!                                          BudgetReview, WorkloadReview --> the answer
//!   ConversionReview        --unavailable::convert--> the answer
//!   holdfast_core::BudgetStatus / Verdict --> JSON
//!   policy/v1 requests      --native--> what the CRD's API server understands, and back
//! ```
//!
//! The wire structs are slim: they hold what the engine reads, and serde drops the rest while it
//! parses, so that a pod costs about a kilobyte and not twenty. They are also tolerant: one struct
//! per kind covers every release and draft of that kind, `null` means absent as it does in Go, and
//! a value that makes no sense is carried to the engine as such wherever the model has a place for
//! it, because a budget that we cannot read must block and not vanish.
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
