//! What the query of a request says.

use std::collections::BTreeMap;

use windlass_api::{paths, status};
use windlass_git::ObjectId;

use super::message;
use super::path::FilePath;
use crate::answer::Refusal;

/// The options of a request; what is empty is absent.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// A branch, or the id of a commit; empty for the repository's own branch.
    pub(crate) reference: String,
    /// The commit's message.
    pub(crate) message: Option<String>,
    /// Where what is moved is now.
    pub(crate) original_path: Option<FilePath>,
    /// Whether the API is not asked what it would do.
    pub(crate) skip_dry_run: bool,
    /// Whether the file is wanted as it is.
    pub(crate) raw: bool,
}

impl Options {
    pub(super) fn parse(query: &BTreeMap<String, String>) -> Result<Self, Refusal> {
        let given = |name: &str| query.get(name).map(String::as_str).filter(|text| !text.is_empty());
        let reference = given("ref").unwrap_or_default().to_owned();
        if !reference.is_empty() && reference.parse::<ObjectId>().is_err() {
            paths::branch_name(&reference).map_err(|why| status::bad_request(format!("ref: {why}")))?;
        }
        let message = given("message").map(message::check).transpose()?;
        Ok(Self {
            reference,
            message,
            original_path: given("originalPath").map(FilePath::parse).transpose()?,
            skip_dry_run: flag(query, "skipDryRun")?,
            raw: flag(query, "raw")?,
        })
    }
}

fn flag(query: &BTreeMap<String, String>, name: &str) -> Result<bool, Refusal> {
    match query.get(name).map(String::as_str) {
        None | Some("" | "false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(status::bad_request(format!("{name} is true or false")).into()),
    }
}
