//! What comes over the wire, shape by shape, and what the engine gets to see of it.

mod admission;
mod budget;
mod conversion;
mod crd;
mod draft_job;
mod errors;
mod gang_admission;
mod gang_encode;
mod gang_objects;
mod gang_pods;
mod groups;
mod owners;
mod pod_admission;
mod pods;
mod settled;
mod unavailable;
mod validation;
