//! Reading a label selector: the grammar of `k8s.io/apimachinery/pkg/labels`, with its words for what is wrong.

use super::{LabelRequirement, LabelTest};
use crate::names;

const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

/// The requirements of a selector.
pub(super) fn parse(text: &str) -> Result<Vec<LabelRequirement>, String> {
    let mut parser = Parser { tokens: tokens(text), at: 0 };
    let mut requirements = Vec::new();
    loop {
        match parser.peek_value() {
            Token::Word(_) | Token::Symbol("!") => {}
            Token::End => return Ok(requirements),
            other @ Token::Symbol(_) => {
                return Err(format!("found '{other}', expected: !, identifier, or 'end of string'"));
            }
        }
        let requirement =
            parser.requirement().map_err(|problem| format!("unable to parse requirement: {problem}"))?;
        requirements.push(requirement);
        match parser.next_value() {
            Token::End => return Ok(requirements),
            Token::Symbol(",") => match parser.peek_value() {
                Token::Word(_) | Token::Symbol("!") => {}
                other => return Err(format!("found '{other}', expected: identifier after ','")),
            },
            other => return Err(format!("found '{other}', expected: ',' or 'end of string'")),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    /// Anything without blanks and symbols; `in` and `notin` are operators where one is expected.
    Word(&'a str),
    Symbol(&'a str),
    End,
}

impl std::fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Word(text) | Self::Symbol(text) => f.write_str(text),
            Self::End => Ok(()),
        }
    }
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let is_symbol = |c: char| "=!(),<>".contains(c);
    let is_blank = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(is_blank);
    while let Some(first) = rest.chars().next() {
        let length = if is_symbol(first) {
            ["==", "!="].iter().find(|token| rest.starts_with(**token)).map_or(1, |token| token.len())
        } else {
            rest.find(|c| is_symbol(c) || is_blank(c)).unwrap_or(rest.len())
        };
        let (token, after) = rest.split_at(length);
        tokens.push(if is_symbol(first) { Token::Symbol(token) } else { Token::Word(token) });
        rest = after.trim_start_matches(is_blank);
    }
    tokens
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek_value(&self) -> Token<'a> {
        self.tokens.get(self.at).copied().unwrap_or(Token::End)
    }

    fn next_value(&mut self) -> Token<'a> {
        let token = self.peek_value();
        self.at += 1;
        token
    }

    fn requirement(&mut self) -> Result<LabelRequirement, String> {
        let mut token = self.next_value();
        let absent = token == Token::Symbol("!");
        if absent {
            token = self.next_value();
        }
        let Token::Word(key) = token else {
            return Err(format!("found '{token}', expected: identifier"));
        };
        let problems = names::qualified_problems(key);
        if !problems.is_empty() {
            return Err(format!("<nil>: Invalid value: {key:?}: {}", problems.join("; ")));
        }
        let key = key.to_owned();
        if absent {
            return Ok(LabelRequirement { key, test: LabelTest::Absent });
        }
        if matches!(self.peek_value(), Token::End | Token::Symbol(",")) {
            return Ok(LabelRequirement { key, test: LabelTest::Exists });
        }
        let test = match self.next_value() {
            Token::Word("in") => LabelTest::In(set(&key, self.values()?)?),
            Token::Word("notin") => LabelTest::NotIn(set(&key, self.values()?)?),
            Token::Symbol("=" | "==") => LabelTest::In(checked(&key, vec![self.exact()?])?),
            Token::Symbol("!=") => LabelTest::NotIn(checked(&key, vec![self.exact()?])?),
            Token::Symbol(">") => LabelTest::Greater(number(&key, self.exact()?)?),
            Token::Symbol("<") => LabelTest::Less(number(&key, self.exact()?)?),
            other => return Err(format!("found '{other}', expected: {OPERATORS}")),
        };
        Ok(LabelRequirement { key, test })
    }

    /// `(a, b)`
    fn values(&mut self) -> Result<Vec<String>, String> {
        let token = self.next_value();
        if token != Token::Symbol("(") {
            return Err(format!("found '{token}' expected: '('"));
        }
        match self.peek_value() {
            Token::Word(_) | Token::Symbol(",") => {}
            Token::Symbol(")") => {
                self.at += 1;
                // The empty value, as on a real server.
                return Ok(vec![String::new()]);
            }
            other => return Err(format!("found '{other}', expected: ',', ')' or identifier")),
        }
        let values = self.identifiers()?;
        match self.next_value() {
            Token::Symbol(")") => Ok(values),
            other => Err(format!("found '{other}', expected: ')'")),
        }
    }

    /// What stands between parentheses. A comma without a word before or after it stands for an empty value.
    fn identifiers(&mut self) -> Result<Vec<String>, String> {
        let mut values: Vec<String> = Vec::new();
        loop {
            match self.next_value() {
                Token::Word(value) => {
                    values.push(value.to_owned());
                    match self.peek_value() {
                        Token::Symbol(",") => {}
                        Token::Symbol(")") => return Ok(values),
                        other => return Err(format!("found '{other}', expected: ',' or ')'")),
                    }
                }
                Token::Symbol(",") => {
                    if values.is_empty() {
                        values.push(String::new());
                    }
                    match self.peek_value() {
                        Token::Symbol(")") => {
                            values.push(String::new());
                            return Ok(values);
                        }
                        Token::Symbol(",") => {
                            self.at += 1;
                            values.push(String::new());
                        }
                        _ => {}
                    }
                }
                other => return Err(format!("found '{other}', expected: ',', or identifier")),
            }
        }
    }

    fn exact(&mut self) -> Result<String, String> {
        if matches!(self.peek_value(), Token::End | Token::Symbol(",")) {
            return Ok(String::new());
        }
        match self.next_value() {
            Token::Word(value) => Ok(value.to_owned()),
            other => Err(format!("found '{other}', expected: identifier")),
        }
    }
}

fn set(key: &str, mut values: Vec<String>) -> Result<Vec<String>, String> {
    if values.is_empty() {
        return Err(
            "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty".to_owned()
        );
    }
    values.sort();
    values.dedup();
    checked(key, values)
}

fn checked(key: &str, values: Vec<String>) -> Result<Vec<String>, String> {
    joined(value_problems(key, &values))?;
    Ok(values)
}

fn number(key: &str, value: String) -> Result<i64, String> {
    let number = value.parse::<i64>();
    let mut problems = Vec::new();
    if number.is_err() {
        problems.push(format!(
            "values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
        ));
    }
    problems.extend(value_problems(key, &[value]));
    joined(problems)?;
    Ok(number.unwrap_or_default())
}

fn value_problems(key: &str, values: &[String]) -> Vec<String> {
    let problem = |(index, value): (usize, &String)| {
        let problems = names::label_value_problems(value);
        (!problems.is_empty())
            .then(|| format!("values[{index}][{key}]: Invalid value: {value:?}: {}", problems.join("; ")))
    };
    values.iter().enumerate().filter_map(problem).collect()
}

fn joined(problems: Vec<String>) -> Result<(), String> {
    match problems.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_in_the_words_of_the_real_server() {
        for (text, expected) in [
            (",", "found ',', expected: !, identifier, or 'end of string'"),
            ("a,", "found '', expected: identifier after ','"),
            ("a===b", "unable to parse requirement: found '=', expected: identifier"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("a like b", "unable to parse requirement: found 'like', expected: in, notin, =, ==, !=, gt, lt"),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
        ] {
            assert_eq!(parse(text), Err(expected.to_owned()), "{text}");
        }
    }
}
