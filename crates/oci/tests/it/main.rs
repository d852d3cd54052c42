//! The client against a real registry, and against what no real one does.

mod fixture;
mod odd_registries;
mod registry;
mod tokens;
