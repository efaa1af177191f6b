//! The program itself, and what is committed that it has printed.

mod commands;
mod packaged;
mod program;
mod simulate;
