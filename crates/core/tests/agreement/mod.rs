//! The parts of `agree.rs`: what may happen (`ops`, drawn by `draw`), what it does to the world (`world`,
//! `names`), which grants are alive (`ledger`), and two engines driven through it (`harness`).

pub mod draw;
pub mod harness;
pub mod ledger;
pub mod names;
pub mod ops;
pub mod world;
