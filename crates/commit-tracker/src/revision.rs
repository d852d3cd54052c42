//! Flux's revision strings: `main@sha1:…`, `latest@sha256:…`, `sha256:…`.

use std::fmt;
use std::str::FromStr;

/// A revision as Flux writes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Revision {
    text: String,
}

/// A string is no revision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no revision: expected NAME@ALGORITHM:HEX or ALGORITHM:HEX")]
pub struct ParseRevisionError {
    text: String,
}

impl Revision {
    /// The revision as Flux wrote it.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Revision {
    type Err = ParseRevisionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err(ParseRevisionError { text: text.to_owned() });
        }
        Ok(Self { text: text.to_owned() })
    }
}
