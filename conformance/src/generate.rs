//! Random scripts from a seed.
