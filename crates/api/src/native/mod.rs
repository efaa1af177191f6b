//! Native mode serves `policy/v1` as a translation onto the CRD `policy.holdfast.dev/v1`. The API server
//! provides storage, watches and server-side apply. This module has the features that it does not provide for
//! a custom resource, as functions from bytes and JSON to JSON.

pub mod protobuf;
pub mod strategic;
pub mod table;
pub mod validate;
