//! Tests of decoding: every shape of the objects, and the resulting input of the engine.

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
