mod cumulative;
mod kit;
mod modes;
mod signals;
