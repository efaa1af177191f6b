//! holdfast-server
