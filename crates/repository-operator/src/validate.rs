//! What a repository says of itself, before its source is asked.

use windlass_api::repositories::{self, RepositoryRules};
use windlass_api::{ErrorDetails, Repository};

/// A repository whose specification keeps the rules: what may be checked and pulled.
pub(crate) struct Valid<'a>(pub(crate) &'a Repository);

/// Holds the specification to the rules of the definition and of this process's settings.
pub(crate) fn validate<'a>(
    repository: &'a Repository,
    rules: &RepositoryRules,
) -> Result<Valid<'a>, Vec<ErrorDetails>> {
    let errors = repositories::review(repository, rules);
    if errors.is_empty() {
        return Ok(Valid(repository));
    }
    Err(errors.iter().map(|error| ErrorDetails { bad_value: None, ..error.details() }).collect())
}
