//! Where a repository is to be looked at with a browser.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire::is_zero;

/// Links into the provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct RepositoryUrls {
    /// The repository's page.
    #[serde(rename = "repositoryURL", default, skip_serializing_if = "is_zero")]
    pub repository_url: String,
    /// The page of the file or ref.
    #[serde(rename = "sourceURL", default, skip_serializing_if = "is_zero")]
    pub source_url: String,
    /// The page that opens a pull request.
    #[serde(rename = "newPullRequestURL", default, skip_serializing_if = "is_zero")]
    pub new_pull_request_url: String,
    /// The page that compares the ref with the repository's branch.
    #[serde(rename = "compareURL", default, skip_serializing_if = "is_zero")]
    pub compare_url: String,
}
