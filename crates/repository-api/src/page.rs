//! Pages of a list whose newest items come first.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use windlass_api::HistoricJob;

/// Items of a page when the request does not say.
const DEFAULT: usize = 100;
/// Items of a page at most; more are not an error, they come with the next.
const MOST: usize = 500;

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// Items at most.
    pub(crate) limit: usize,
    /// What the page before ended with.
    pub(crate) after: Option<Position>,
}

impl Page {
    /// Reads `limit` and `continue`; the error is for the caller.
    pub(crate) fn parse(query: &BTreeMap<String, String>) -> Result<Self, String> {
        let given = |name: &str| query.get(name).map(String::as_str).filter(|text| !text.is_empty());
        let limit = match given("limit").map(str::parse) {
            None | Some(Ok(0)) => DEFAULT,
            Some(Ok(limit)) => MOST.min(limit),
            Some(Err(_)) => return Err("limit is a number of jobs, such as 50".to_owned()),
        };
        let after = match given("continue").map(Position::parse) {
            None => None,
            Some(Some(position)) => Some(position),
            Some(None) => {
                return Err("continue is what metadata.continue of the page before says".to_owned());
            }
        };
        Ok(Self { limit, after })
    }
}

/// The place of an ended job in the list: the last to end is first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    finished: Reverse<i64>,
    name: String,
}

impl Position {
    /// Where a job stands.
    pub(crate) fn of(job: &HistoricJob) -> Self {
        let name = job.metadata.name.clone().unwrap_or_default();
        Self { finished: Reverse(job.status.finished), name }
    }

    /// When the job ended, in Unix milliseconds.
    pub(crate) fn finished(&self) -> i64 {
        self.finished.0
    }

    fn parse(text: &str) -> Option<Self> {
        let (finished, name) = text.split_once(':')?;
        Some(Self { finished: Reverse(finished.parse().ok()?), name: name.to_owned() })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.finished.0, self.name)
    }
}
