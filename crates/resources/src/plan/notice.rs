//! What is reported and not acted upon.

use serde::Serialize;

use crate::Failure;

/// Something that a user should know although nothing is done about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// Path of the file.
    pub path: String,
    /// What is wrong.
    pub failure: Failure,
}
