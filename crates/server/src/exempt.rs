//! The system at work, which no `PodUnavailableBudget` stands in the way of (semantics 9): it is known
//! by what is being taken down, and not by who asks.
//!
//! Looked at live, and only when a request is about to be denied. What cannot be read exempts nothing.
