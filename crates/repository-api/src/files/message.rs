//! Messages of commits.

use windlass_api::{CommitOptions, ResourceAction, status};
use windlass_repository::MessageVariables;

use super::change::Change;
use crate::answer::Refusal;

/// Bytes of a message at most.
const MAX_MESSAGE: usize = 4 << 10;

/// A message as a request gave it, if it can be a commit's.
pub(super) fn check(message: &str) -> Result<String, Refusal> {
    if message.len() > MAX_MESSAGE {
        let text = format!("message has {} bytes; at most {MAX_MESSAGE} are allowed", message.len());
        return Err(status::bad_request(text).into());
    }
    if message.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
        return Err(
            status::bad_request("message contains a control character other than line feed and tab").into()
        );
    }
    if message.trim().is_empty() {
        return Err(status::bad_request("message is blank; leave it out to have one made").into());
    }
    Ok(message.trim_end().to_owned())
}

/// What is done, as a template has it.
pub(super) fn action(action: ResourceAction) -> &'static str {
    match action {
        ResourceAction::Create => "create",
        ResourceAction::Update => "update",
        ResourceAction::Delete => "delete",
        ResourceAction::Move => "move",
    }
}

/// The message of a commit: the caller's, else by the repository's template, else one that says what is done.
pub(super) fn of(
    change: &Change,
    given: Option<&str>,
    options: Option<&CommitOptions>,
    variables: &MessageVariables<'_>,
) -> Result<String, Refusal> {
    let template =
        options.map(|options| options.single_resource_message_template.as_str()).filter(|it| !it.is_empty());
    match (given, template) {
        (Some(_), Some(template)) if options.is_some_and(|options| options.enforce_template) => {
            let message = format!(
                "the repository's commits have messages by its template, {template:?} (spec.commit.enforceTemplate); leave message out"
            );
            Err(status::bad_request(message).into())
        }
        (Some(given), _) => Ok(given.to_owned()),
        (None, Some(template)) => Ok(variables.fill_in(template)),
        (None, None) => Ok(match (&change.original, change.action) {
            (Some(original), _) => format!("Move {} to {}", original.text, change.path.text),
            (None, ResourceAction::Create) => format!("Create {}", change.path.text),
            (None, ResourceAction::Delete) => format!("Delete {}", change.path.text),
            (None, ResourceAction::Update | ResourceAction::Move) => format!("Update {}", change.path.text),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_text() {
        assert_eq!(check("one\n\n\ttwo\n").unwrap(), "one\n\n\ttwo");
        for bad in ["a\0", "a\u{1b}[31m", "a\r", " \n", &"x".repeat(5_000)] {
            assert_eq!(check(bad).unwrap_err().0.code, Some(400), "{bad:?}");
        }
    }
}
