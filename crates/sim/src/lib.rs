//! holdfast-sim
