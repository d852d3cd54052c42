mod connections;
mod cumulative;
mod failures;
mod kit;
mod modes;
mod signals;
