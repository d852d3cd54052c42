//! What names, labels and annotations may be: RFC 1123 and Kubernetes' qualified names, with its words.

use serde_json::Value;

use crate::field_error::FieldError;

const LABEL_TEXT: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
    must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
    or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const DNS1035_TEXT: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with \
    an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED_TEXT: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and \
    end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_TEXT: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
    used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

const DATA_KEY_TEXT: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. \
    'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

/// At most this many bytes of annotations.
const ANNOTATIONS_MAX: usize = 256 * 1024;

/// Whether a word is among those of a text.
pub(crate) fn is_among(word: &str, words: &str) -> bool {
    words.split(' ').any(|one| one == word)
}

fn lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Whether a text is of such characters, and begins and ends with one that may stand there.
fn is_made_of(text: &str, outer: fn(u8) -> bool, inner: &[u8]) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|first| outer(*first))
        && bytes.last().is_some_and(|last| outer(*last))
        && bytes.iter().all(|byte| outer(*byte) || inner.contains(byte))
}

/// `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
fn is_label(text: &str) -> bool {
    is_made_of(text, lower, b"-")
}

/// `([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`
fn is_name_part(text: &str) -> bool {
    is_made_of(text, |byte| byte.is_ascii_alphanumeric(), b"-_.")
}

fn too_long(text: &str, most: usize) -> Vec<String> {
    (text.len() > most).then(|| format!("must be no more than {most} bytes")).into_iter().collect()
}

/// What is wrong with a DNS subdomain, the rule for most prefixes and for the names of most kinds.
pub fn subdomain_problems(text: &str) -> Vec<String> {
    let mut problems = too_long(text, 253);
    if !text.split('.').all(is_label) {
        problems.push(SUBDOMAIN_TEXT.to_owned());
    }
    problems
}

/// What is wrong with a name of a kind that keeps foreign identifiers: any safe segment of a path.
pub fn free_problems(text: &str) -> Vec<String> {
    let mut problems = too_long(text, 253);
    let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if text.is_empty() || matches!(text, "." | "..") || !text.bytes().all(safe) {
        problems
            .push("must consist of letters, digits, '-', '_' and '.' and be neither '.' nor '..'".to_owned());
    }
    problems
}

/// What is wrong with a DNS label, the rule for namespaces.
pub fn label_problems(text: &str) -> Vec<String> {
    let mut problems = too_long(text, 63);
    if !is_label(text) {
        let has_dots = text.split('.').all(is_label);
        problems.push(if has_dots { "must not contain dots" } else { LABEL_TEXT }.to_owned());
    }
    problems
}

/// What is wrong with a key of the data of a `ConfigMap` or a Secret.
pub fn data_key_problems(key: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if key.len() > 253 {
        problems.push("must be no more than 253 characters".to_owned());
    }
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
        problems.push(DATA_KEY_TEXT.to_owned());
    }
    match key {
        "." => problems.push("must not be '.'".to_owned()),
        ".." => problems.push("must not be '..'".to_owned()),
        key if key.starts_with("..") => problems.push("must not start with '..'".to_owned()),
        _ => {}
    }
    problems
}

/// What keeps a name from being a part of a path.
pub fn path_segment_problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if matches!(text, "." | "..") {
        problems.push(format!("may not be '{text}'"));
    }
    let contained = ["/", "%"].into_iter().filter(|part| text.contains(part));
    problems.extend(contained.map(|part| format!("may not contain '{part}'")));
    problems
}

/// What is wrong with a label as RFC 1035 has it: it starts with a letter.
pub fn dns1035_problems(text: &str) -> Vec<String> {
    let mut problems = too_long(text, 63);
    if !is_label(text) || text.as_bytes().first().is_some_and(u8::is_ascii_digit) {
        problems.push(DNS1035_TEXT.to_owned());
    }
    problems
}

/// What is wrong with a name that may have a DNS prefix (`example.com/MyName`).
pub fn qualified_problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                QUALIFIED_TEXT.trim_start_matches("name part ")
            )];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".to_owned());
            } else {
                problems.extend(
                    subdomain_problems(prefix).iter().map(|problem| format!("prefix part {problem}")),
                );
            }
            name
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_name_part(name) {
        problems.push(QUALIFIED_TEXT.to_owned());
    }
    problems
}

/// What is wrong with the value of a label.
pub fn label_value_problems(text: &str) -> Vec<String> {
    let mut problems = too_long(text, 63);
    if !text.is_empty() && !is_name_part(text) {
        problems.push(VALUE_TEXT.to_owned());
    }
    problems
}

/// Appends what is wrong with `metadata.labels`.
pub fn check_labels(labels: &serde_json::Map<String, Value>, errors: &mut Vec<FieldError>) {
    const FIELD: &str = "metadata.labels";
    for (key, value) in labels {
        for problem in qualified_problems(key) {
            errors.push(FieldError::invalid(FIELD, &Value::String(key.clone()), &problem));
        }
        for problem in label_value_problems(value.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid(FIELD, value, &problem));
        }
    }
}

/// Appends what is wrong with `metadata.annotations`.
pub fn check_annotations(annotations: &serde_json::Map<String, Value>, errors: &mut Vec<FieldError>) {
    const FIELD: &str = "metadata.annotations";
    let mut size = 0;
    for (key, value) in annotations {
        for problem in qualified_problems(&key.to_lowercase()) {
            errors.push(FieldError::invalid(FIELD, &Value::String(key.clone()), &problem));
        }
        size += key.len() + value.as_str().unwrap_or_default().len();
    }
    if size > ANNOTATIONS_MAX {
        errors.push(FieldError::too_long(FIELD, ANNOTATIONS_MAX as u64));
    }
}

/// The characters of generated suffixes: no vowels, so that no words come out.
const SUFFIX: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// `base` (cut to 58 characters) and five random characters.
pub fn generate(base: &str) -> String {
    use rand::Rng as _;
    let mut rng = rand::rng();
    let mut end = base.len().min(58);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = base[..end].to_owned();
    for _ in 0..5 {
        name.push(char::from(SUFFIX[rng.random_range(0..SUFFIX.len())]));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_by_rfc_1123() {
        for good in ["a", "a-b.c1", "0"] {
            assert_eq!(subdomain_problems(good), Vec::<String>::new(), "{good}");
        }
        for bad in ["", "A", "-a", "a-", "a..b", "a_b", &"a".repeat(254)] {
            assert_ne!(subdomain_problems(bad), Vec::<String>::new(), "{bad}");
        }
        assert_ne!(label_problems("a.b"), Vec::<String>::new());
        for good in ["rYdddlPWk", "000000012", "a_b"] {
            assert_eq!(free_problems(good), Vec::<String>::new(), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "a%2Fb", "a b", "\u{e4}"] {
            assert_ne!(free_problems(bad), Vec::<String>::new(), "{bad}");
        }
    }

    #[test]
    fn label_keys_may_have_one_dns_prefix() {
        for good in ["a", "A_b.c", "example.com/A"] {
            assert_eq!(qualified_problems(good), Vec::<String>::new(), "{good}");
        }
        for bad in ["", "/a", "a/", "a/b/c", "Example.com/a", "-a"] {
            assert_ne!(qualified_problems(bad), Vec::<String>::new(), "{bad}");
        }
    }

    #[test]
    fn generated_names_fit_a_label() {
        let name = generate(&"x".repeat(80));
        assert_eq!(name.len(), 63);
        assert_ne!(generate("a-"), generate("a-"));
    }
}
