//! apiserver

pub mod store;
