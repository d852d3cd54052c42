//! What is removed because something else was: the objects of a kind whose definition is deleted.

mod definitions;

pub(crate) use definitions::mark as mark_definition;
