//! What is removed because something else was: dependants by owner reference, the content of namespaces, the objects
//! of a kind whose definition is deleted.
//!
//! One task ([`collector`]) follows the events of every kind and keeps in memory who belongs to whom ([`graph`]): only
//! objects that have owners, or that wait for their dependants, are in it. What is to be done is done through the same
//! code as a client's request, a bounded number at a time, and may be done twice: after a crash the task looks at all
//! of them anew.

mod cleaning;
mod collector;
mod definitions;
mod events;
mod graph;
mod item;
mod namespaces;

use std::sync::Arc;

use crate::state::Inner;

/// Starts what removes objects on its own.
pub(crate) fn spawn(inner: &Arc<Inner>) {
    collector::spawn(inner);
    events::spawn(inner);
}
