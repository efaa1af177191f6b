//! What the watches have shown of one namespace.

mod pod;

pub(crate) use pod::{CachedPod, Controllers, Facts};
