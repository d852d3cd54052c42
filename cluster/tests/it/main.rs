//! A control plane as tests use it.

mod control_plane;
mod supervision;
