//! Pod groups and gangs, by what they are told and what they then plan.

mod cluster;
mod competition;
mod gangs;
mod placement;
mod room;
mod slots;
