//! `PodUnavailableBudget`: Kruise's vectors, our corrections, and groups by label (semantics 9).

mod admission;
mod ends;
mod expected;
mod groups;
mod leaders;
mod make;
mod owners;
mod reconcile;
