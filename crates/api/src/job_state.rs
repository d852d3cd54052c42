//! How far a job is.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far a job is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum JobState {
    /// Nothing is known yet.
    #[default]
    #[serde(rename = "")]
    Unset,
    /// Queued.
    Pending,
    /// A worker is at it.
    Working,
    /// Ended, all well.
    Success,
    /// Ended, and something has to be looked at.
    Error,
    /// Ended, and some files were left out.
    Warning,
}

impl JobState {
    /// The wire's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unset => "",
            Self::Pending => "pending",
            Self::Working => "working",
            Self::Success => "success",
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }

    /// Whether the job has ended.
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Success | Self::Error | Self::Warning)
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
