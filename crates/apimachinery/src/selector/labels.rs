//! Reading a label selector: the grammar of `k8s.io/apimachinery/pkg/labels`.

use super::{LabelRequirement, LabelTest};
use crate::names;

/// The requirements of a selector.
pub(super) fn parse(text: &str) -> Result<Vec<LabelRequirement>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let mut depth = 0;
    let ends_here = |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth <= 0
    };
    let terms: Vec<&str> = text.split(ends_here).collect();
    let read = |term: &str| {
        requirement(term.trim()).map_err(|problem| format!("unable to parse requirement: {problem}"))
    };
    terms.into_iter().map(read).collect()
}

/// `key`, `!key`, `key=value`, `key in (a, b)` and the like.
fn requirement(term: &str) -> Result<LabelRequirement, String> {
    let not_understood = || format!("can't understand '{term}'");
    let (is_absent, term) = term.strip_prefix('!').map_or((false, term), |rest| (true, rest.trim_start()));
    let (key, rest) = term.split_at(term.find(ends_word).unwrap_or(term.len()));
    let rest = rest.trim_start();
    if key.is_empty() {
        return Err(not_understood());
    }
    let problems = names::qualified_problems(key);
    if !problems.is_empty() {
        return Err(format!("<nil>: Invalid value: {key:?}: {}", problems.join("; ")));
    }
    if rest.is_empty() {
        let test = if is_absent { LabelTest::Absent } else { LabelTest::Exists };
        return Ok(LabelRequirement { key: key.to_owned(), test });
    }
    let operator = ["==", "!=", "=", "<", ">"].into_iter().find(|operator| rest.starts_with(operator));
    let (operator, values) = match (operator, rest.split_once('(')) {
        (Some(operator), _) => (operator, vec![rest[operator.len()..].trim()]),
        (None, Some((operator, list))) => {
            let list = list.strip_suffix(')').ok_or_else(not_understood)?;
            (operator.trim_end(), list.split(',').map(str::trim).collect())
        }
        (None, None) => return Err(not_understood()),
    };
    if is_absent || values.iter().any(|value| value.contains(ends_word)) {
        return Err(not_understood());
    }
    for (index, value) in values.iter().enumerate() {
        let problems = names::label_value_problems(value);
        if !problems.is_empty() {
            return Err(format!("values[{index}][{key}]: Invalid value: {value:?}: {}", problems.join("; ")));
        }
    }
    let number = || {
        values.concat().parse().map_err(|_| {
            format!(
                "values[0]: Invalid value: {:?}: for 'Gt', 'Lt' operators, the value must be an integer",
                values[0]
            )
        })
    };
    let texts = || {
        let mut texts: Vec<String> = values.iter().map(|&value| value.to_owned()).collect();
        texts.sort();
        texts.dedup();
        texts
    };
    let test = match operator {
        "=" | "==" | "in" => LabelTest::In(texts()),
        "!=" | "notin" => LabelTest::NotIn(texts()),
        ">" => LabelTest::Greater(number()?),
        "<" => LabelTest::Less(number()?),
        _ => return Err(not_understood()),
    };
    Ok(LabelRequirement { key: key.to_owned(), test })
}

/// Whether no word of a selector has this character.
fn ends_word(c: char) -> bool {
    c.is_whitespace() || "=!(),<>".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_selector_is_refused() {
        for text in [
            ",",
            "a,",
            "a===b",
            "a in b",
            "a in (b",
            "a in (b))",
            "a in (b c)",
            "a in (b=c)",
            "a like b",
            "a like (b)",
            "a=b c",
            "a=(b)",
            "a (b)",
            "!",
            "!a=b",
            "a>b",
            "a!",
            "-a",
            "a=-b",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn blanks_and_empty_values_may_stand_anywhere() {
        let key = |test| Ok(vec![LabelRequirement { key: "a".to_owned(), test }]);
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        for text in ["a in(b,,c)", " a  in ( c, b,)"] {
            assert_eq!(parse(text), key(LabelTest::In(texts(&["", "b", "c"]))), "{text}");
        }
        assert_eq!(parse("a = "), key(LabelTest::In(texts(&[""]))));
        assert_eq!(parse("a notin ()"), key(LabelTest::NotIn(texts(&[""]))));
        assert_eq!(parse("! a"), key(LabelTest::Absent));
        assert_eq!(parse("a > 1"), key(LabelTest::Greater(1)));
        assert_eq!(parse("in in (in)").map(|all| all.len()), Ok(1));
        assert_eq!(parse(" "), Ok(Vec::new()));
    }
}
