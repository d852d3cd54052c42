//! Messages of commits.

use windlass_api::{CommitOptions, ResourceAction, status};

use super::change::Change;
use crate::answer::Refusal;

/// Bytes of a message at most.
const MAX_MESSAGE: usize = 4 << 10;
/// Bytes of a value in a template at most.
const MAX_VALUE: usize = 200;

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

/// What a template may name.
#[derive(Debug, Default)]
pub(super) struct Variables<'a> {
    pub(super) kind: &'a str,
    pub(super) name: &'a str,
    pub(super) title: &'a str,
    pub(super) user_name: &'a str,
    pub(super) user_email: &'a str,
}

/// The message of a commit: the caller's, else by the repository's template, else one that says what is done.
pub(super) fn of(
    change: &Change,
    given: Option<&str>,
    options: Option<&CommitOptions>,
    variables: &Variables<'_>,
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
        (None, Some(template)) => Ok(render(template, change.action, variables)),
        (None, None) => Ok(match (&change.original, change.action) {
            (Some(original), _) => format!("Move {} to {}", original.text, change.path.text),
            (None, ResourceAction::Create) => format!("Create {}", change.path.text),
            (None, ResourceAction::Delete) => format!("Delete {}", change.path.text),
            (None, ResourceAction::Update | ResourceAction::Move) => format!("Update {}", change.path.text),
        }),
    }
}

/// A template with `{{name}}` for each variable; unknown names stay as they are.
fn render(template: &str, action: ResourceAction, variables: &Variables<'_>) -> String {
    let action = match action {
        ResourceAction::Create => "create",
        ResourceAction::Update => "update",
        ResourceAction::Delete => "delete",
        ResourceAction::Move => "move",
    };
    let (mut out, mut rest) = (String::new(), template);
    while let Some(start) = rest.find("{{") {
        let Some(length) = rest[start..].find("}}") else { break };
        let name = rest[start + 2..start + length].trim();
        let value = match name {
            "action" => Some(action),
            "resourceKind" => Some(variables.kind),
            "resourceID" => Some(variables.name),
            "title" => Some(variables.title),
            "userName" | "userLogin" => Some(variables.user_name),
            "userEmail" => Some(variables.user_email),
            _ => None,
        };
        out.push_str(&rest[..start]);
        match value {
            Some(value) => out.extend(value.chars().filter(|c| !c.is_control()).take(MAX_VALUE)),
            None => out.push_str(&rest[start..start + length + 2]),
        }
        rest = &rest[start + length + 2..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_filled_in_and_what_it_does_not_know_stays() {
        let variables = Variables {
            kind: "Dashboard",
            name: "abc",
            title: "A\nB",
            user_name: "ann",
            user_email: "a@b.c",
        };
        let template = "{{action}} {{ resourceKind }} {{title}} ({{resourceID}}) {{x}} by {{userLogin}} <{{userEmail}}> {{";
        assert_eq!(
            render(template, ResourceAction::Update, &variables),
            "update Dashboard AB (abc) {{x}} by ann <a@b.c> {{"
        );
    }

    #[test]
    fn a_message_is_text() {
        assert_eq!(check("one\n\n\ttwo\n").unwrap(), "one\n\n\ttwo");
        for bad in ["a\0", "a\u{1b}[31m", "a\r", " \n", &"x".repeat(5_000)] {
            assert_eq!(check(bad).unwrap_err().0.code, Some(400), "{bad:?}");
        }
    }
}
