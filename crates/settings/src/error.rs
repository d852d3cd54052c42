//! What is wrong with settings, and what to do about it.

use std::{io, path::PathBuf};

use crate::key::variable;

/// One thing that is wrong with the settings.
#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    /// The file cannot be read.
    #[error("failed to read the configuration {}: {source}", path.display())]
    ReadFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line of the file is neither a section, nor a key with a value, nor a comment.
    #[error("{origin}: {message}")]
    ParseLine {
        /// Where.
        origin: String,
        /// What is wrong with it.
        message: String,
    },
    /// The key is not known.
    #[error("{origin}: unknown key `{key}` in [{section}] section{}", did_you_mean(*nearest))]
    UnknownKey {
        /// Where.
        origin: String,
        /// The section.
        section: String,
        /// The key.
        key: String,
        /// The known key that is most like it.
        nearest: Option<&'static str>,
    },
    /// The key is there twice.
    #[error("{origin}: `{key}` in [{section}] section is set twice: first in line {first}")]
    RepeatKey {
        /// Where it is the second time.
        origin: String,
        /// Line of the first time.
        first: usize,
        /// The section.
        section: String,
        /// The key.
        key: String,
    },
    /// The value is not what the key needs.
    #[error("{origin}: `{key}` in [{section}] section is {shown}, expected {expected}")]
    ParseValue {
        /// Where.
        origin: String,
        /// The section.
        section: &'static str,
        /// The key.
        key: &'static str,
        /// The value, unless it is a secret.
        shown: String,
        /// What was expected.
        expected: String,
    },
    /// A `$__file{}` or `$__env{}` cannot be filled in.
    #[error("{origin}: failed to fill in `{key}` in [{section}] section: {message}")]
    Expand {
        /// Where.
        origin: String,
        /// The section.
        section: &'static str,
        /// The key.
        key: &'static str,
        /// Why.
        message: String,
    },
    /// The sources cannot be put together.
    #[error("failed to put the settings together: {message}")]
    Merge {
        /// Why.
        message: String,
    },
    /// A key has no value and needs one.
    #[error("`{key}` is required in [{section}] section (or {} in the environment)", variable(section, key))]
    Require {
        /// The section.
        section: &'static str,
        /// The key.
        key: &'static str,
    },
    /// Values that are good each by itself do not go together.
    #[error("{message}")]
    Combine {
        /// Which, where they come from, and what to set.
        message: String,
    },
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map(|key| format!("; did you mean `{key}`?")).unwrap_or_default()
}
