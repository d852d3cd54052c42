//! What a transfer asks for.

use std::collections::HashSet;

use crate::ObjectId;
use crate::pktline::Body;

/// What a transfer asks for.
pub(crate) struct FetchRequest<'a> {
    pub(crate) wants: &'a [ObjectId],
    pub(crate) haves: &'a [ObjectId],
    pub(crate) scope: FetchScope,
}

/// How much of what is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FetchScope {
    /// The commits themselves with all files, on top of what the cache has of others.
    Tips,
    /// The commits and so many generations before them, without what the `have`s hold, and without what the filter names
    /// where the server can do that.
    History { depth: u32, filter: Option<&'static str> },
}

/// Commits whose parents a server left out because of the depth.
pub(crate) type Shallow = HashSet<ObjectId>;

impl FetchRequest<'_> {
    /// The lines that say how much.
    pub(super) fn bounds(&self, body: &mut Body) {
        match self.scope {
            FetchScope::Tips => {
                for have in self.haves {
                    body.line(&format!("shallow {have}"));
                }
                body.line("deepen 1");
            }
            FetchScope::History { depth, filter } => {
                body.line(&format!("deepen {depth}"));
                if let Some(filter) = filter {
                    body.line(&format!("filter {filter}"));
                }
            }
        }
    }

    /// Reads a line about what was cut off.
    pub(super) fn note(&self, line: &str, shallow: &mut Shallow) {
        if self.scope != FetchScope::Tips
            && let Some(Ok(id)) = line.strip_prefix("shallow ").map(str::parse)
        {
            shallow.insert(id);
        }
    }
}
