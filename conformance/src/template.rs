//! `{{…}}` in scripts: captured values, versions derived from them, and long or raw bytes.

use std::collections::HashMap;

/// The values that a script's text may name.
pub(crate) type Values = HashMap<String, String>;

/// The text with every `{{…}}` replaced.
///
/// * `{{name}}`: a captured value, or `@name` of the file, which may itself hold `{{…}}`.
/// * `{{name+5}}`, `{{name-1}}`: a captured number, moved.
/// * `{{repeat 300 a}}`: this text as often as said.
/// * `{{hex 00ff}}`: these bytes.
pub(crate) fn expand(text: &str, values: &Values) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    expand_into(text, values, 0, &mut out)?;
    Ok(out)
}

/// As [`expand`], for what must be text.
pub(crate) fn expand_text(text: &str, values: &Values) -> Result<String, String> {
    String::from_utf8(expand(text, values)?).map_err(|_| format!("{text:?} is not text when expanded"))
}

fn expand_into(text: &str, values: &Values, depth: usize, out: &mut Vec<u8>) -> Result<(), String> {
    if depth > 4 {
        return Err(format!("{text:?} expands without end"));
    }
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        let Some(length) = rest[start..].find("}}") else { break };
        let inside = &rest[start + 2..start + length];
        let is_ours =
            inside.starts_with(|c: char| c.is_ascii_alphabetic()) && !inside.contains(['{', ':', ',']);
        if !is_ours {
            // Braces of a flow mapping.
            out.extend_from_slice(&rest.as_bytes()[..=start]);
            rest = &rest[start + 1..];
            continue;
        }
        out.extend_from_slice(&rest.as_bytes()[..start]);
        value(inside, values, depth, out)?;
        rest = &rest[start + length + 2..];
    }
    out.extend_from_slice(rest.as_bytes());
    Ok(())
}

fn value(inside: &str, values: &Values, depth: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let mut words = inside.splitn(3, ' ');
    match (words.next(), words.next(), words.next()) {
        (Some("repeat"), Some(times), Some(text)) => {
            let times = times.parse().map_err(|_| format!("{inside:?}: not a number"))?;
            for _ in 0..times {
                out.extend_from_slice(text.as_bytes());
            }
            Ok(())
        }
        (Some("hex"), Some(digits), None) => {
            for pair in digits.as_bytes().chunks(2) {
                let pair = std::str::from_utf8(pair).unwrap_or_default();
                out.push(u8::from_str_radix(pair, 16).map_err(|_| format!("{inside:?}: not hexadecimal"))?);
            }
            Ok(())
        }
        _ => {
            if let Some(value) = values.get(inside) {
                return expand_into(value, values, depth + 1, out);
            }
            let (name, by) = match inside.split_once('+') {
                Some((name, by)) => (name, by.parse::<i64>()),
                None => {
                    let (name, by) =
                        inside.rsplit_once('-').ok_or_else(|| format!("no value is named {inside:?}"))?;
                    (name, by.parse::<i64>().map(|by| -by))
                }
            };
            let by = by.map_err(|_| format!("no value is named {inside:?}"))?;
            let number = values.get(name).and_then(|value| value.parse::<i64>().ok());
            let number = number.ok_or_else(|| format!("no number is named {name:?}"))?;
            out.extend_from_slice((number + by).to_string().as_bytes());
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_numbers_repeats_and_bytes_are_expanded() {
        let values: Values = [("rv", "7"), ("cm", "/x/{{ns}}/y"), ("ns", "n1")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        for (text, expected) in [
            ("a{{rv}}b", "a7b"),
            ("{{rv+10}} {{rv-1}}", "17 6"),
            ("{{cm}}/z", "/x/n1/y/z"),
            ("{{repeat 3 ab}}", "ababab"),
            ("{a: {b: {{rv}}}}", "{a: {b: 7}}"),
            ("{a: {{{rv}}: {}}}", "{a: {7: {}}}"),
        ] {
            assert_eq!(expand_text(text, &values).as_deref(), Ok(expected), "{text}");
        }
        assert_eq!(expand("{{hex 00ff}}", &values), Ok(vec![0, 255]));
        assert!(expand("{{nothing}}", &values).is_err());
    }
}
