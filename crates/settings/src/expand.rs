//! `$__file{path}`, `$__env{NAME}` and `${NAME}` inside values.

use std::collections::BTreeMap;

/// Fills in every place-holder of a value. What is filled in is not looked at again.
pub(crate) fn expand(text: &str, env: &BTreeMap<String, String>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('$') {
        let (before, after) = rest.split_at(start);
        out.push_str(before);
        let Some((provider, argument, tail)) = place_holder(after) else {
            out.push('$');
            rest = &after[1..];
            continue;
        };
        out.push_str(&filled(provider, argument, env)?);
        rest = tail;
    }
    out.push_str(rest);
    Ok(out)
}

/// Provider, argument and rest of a text that begins with a place-holder.
fn place_holder(text: &str) -> Option<(&str, &str, &str)> {
    let (head, tail) = text.strip_prefix('$')?.split_once('{')?;
    let named = head
        .strip_prefix("__")
        .is_some_and(|name| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
    if !head.is_empty() && !named {
        return None;
    }
    let (argument, rest) = tail.split_once('}')?;
    (!argument.is_empty()).then_some((head, argument, rest))
}

fn filled(provider: &str, argument: &str, env: &BTreeMap<String, String>) -> Result<String, String> {
    match provider {
        "" | "__env" => env
            .get(argument)
            .cloned()
            .ok_or_else(|| format!("the environment variable {argument} is not set")),
        "__file" => std::fs::read_to_string(argument)
            .map(|text| text.trim_end().to_owned())
            .map_err(|error| format!("the file {argument} cannot be read: {error}")),
        other => Err(format!("${other}{{}} is not known; use $__file{{}} or $__env{{}}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, &str>) {
        let env = BTreeMap::from([("A".to_owned(), "1$B".to_owned()), ("B".to_owned(), "2".to_owned())]);
        match (expand(text, &env), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(found), Err(part)) => assert!(found.contains(part), "{found}"),
            (found, _) => panic!("{text}: {found:?}"),
        }
    }

    #[test]
    fn variables_are_filled_in_once() {
        check("$__env{B}", Ok("2"));
        check("a${B}c$__env{A}", Ok("a2c1$B"));
        check("$__env{NONE}", Err("NONE is not set"));
        check("$__vault{x}", Err("$__vault{}"));
    }

    #[test]
    fn other_dollars_are_text() {
        for text in ["$", "a$b", "$5{x}", "${", "${}", "$$", "pa$$w0rd", "$__env{A"] {
            check(text, Ok(text));
        }
    }

    #[test]
    fn files_are_filled_in_without_their_last_line_break() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, "secret\n").unwrap();
        check(&format!("$__file{{{}}}", path.display()), Ok("secret"));
        check(&format!("$__file{{{}}}", dir.path().join("none").display()), Err("cannot be read"));
    }
}
