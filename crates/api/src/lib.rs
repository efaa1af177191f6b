//! holdfast-api
