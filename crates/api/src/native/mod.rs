//! Native mode serves `policy/v1` as a translation onto the CRD `policy.holdfast.dev/v1`. Storage,
//! watches and server-side apply come from the API server; here is what it does not do for a custom
//! resource, as functions from bytes and JSON to JSON.

pub mod protobuf;
pub mod strategic;
pub mod table;
pub mod validate;
