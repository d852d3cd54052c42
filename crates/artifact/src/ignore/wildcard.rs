//! Wildcards within one segment of a path. Go: `path/filepath.Match`.

use std::str::Chars;

/// A pattern: `*` any text, `?` one character, `[a-z]` and `[^a-z]` classes, `\` the next character itself.
#[derive(Debug, Clone)]
pub(super) struct Wildcard {
    text: String,
    /// Nothing if it is malformed.
    tokens: Option<Vec<Token>>,
}

impl Wildcard {
    pub(super) fn new(text: &str) -> Self {
        let characters: Vec<char> = text.chars().collect();
        Self { text: text.to_owned(), tokens: parse(&characters) }
    }

    /// The pattern itself.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether it describes `name` as a whole. A pattern that is malformed describes nothing.
    pub(super) fn matches(&self, name: &str) -> bool {
        let Some(tokens) = &self.tokens else { return false };
        // Backtracking to the last star alone is enough: what an earlier one took can stay as it is.
        let (mut rest, mut token) = (name.chars(), 0);
        let mut star: Option<(usize, Chars<'_>)> = None;
        loop {
            let here = rest.clone();
            let Some(c) = rest.next() else {
                return tokens[token..].iter().all(|left| matches!(left, Token::Any));
            };
            match tokens.get(token) {
                Some(Token::Any) => {
                    token += 1;
                    rest = here.clone();
                    star = Some((token, here));
                }
                Some(one) if one.takes(c) => token += 1,
                _ => {
                    let Some((after, from)) = star.as_mut() else { return false };
                    from.next();
                    (token, rest) = (*after, from.clone());
                }
            }
        }
    }
}

#[derive(Debug, Clone)]
enum Token {
    Any,
    One,
    Literal(char),
    Class { negated: bool, ranges: Vec<(char, char)> },
}

impl Token {
    fn takes(&self, c: char) -> bool {
        match self {
            Self::Any => false,
            Self::One => true,
            Self::Literal(own) => *own == c,
            Self::Class { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated
            }
        }
    }
}

fn parse(pattern: &[char]) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = pattern;
    while let [first, tail @ ..] = rest {
        rest = tail;
        tokens.push(match first {
            '*' => Token::Any,
            '?' => Token::One,
            '\\' => {
                let (literal, tail) = rest.split_first()?;
                rest = tail;
                Token::Literal(*literal)
            }
            '[' => {
                let negated = rest.first() == Some(&'^');
                rest = &rest[usize::from(negated)..];
                let mut ranges = Vec::new();
                while ranges.is_empty() || rest.first() != Some(&']') {
                    let low = bound(&mut rest)?;
                    let mut high = low;
                    if rest.first() == Some(&'-') {
                        rest = &rest[1..];
                        high = bound(&mut rest)?;
                    }
                    ranges.push((low, high));
                }
                rest = &rest[1..];
                Token::Class { negated, ranges }
            }
            literal => Token::Literal(*literal),
        });
    }
    Some(tokens)
}

/// One end of a range in a class.
fn bound(rest: &mut &[char]) -> Option<char> {
    let (mut first, mut tail) = rest.split_first()?;
    if matches!(first, '-' | ']') {
        return None;
    }
    if *first == '\\' {
        (first, tail) = tail.split_first()?;
    }
    // A class that nothing closes.
    if tail.is_empty() {
        return None;
    }
    *rest = tail;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::Wildcard;

    #[test]
    fn names_are_matched_as_go_does() {
        // From Go's own table (path/filepath/match_test.go), what has no slash in it.
        for (pattern, name, expected) in [
            ("abc", "abc", true),
            ("*", "abc", true),
            ("*c", "abc", true),
            ("a*", "a", true),
            ("a*", "abc", true),
            ("a*b*c*d*e*", "axbxcxdxe", true),
            ("a*b?c*x", "abxbbxdbxebxczzx", true),
            ("a*b?c*x", "abxbbxdbxebxczzy", false),
            ("ab[c]", "abc", true),
            ("ab[b-d]", "abc", true),
            ("ab[e-g]", "abc", false),
            ("ab[^c]", "abc", false),
            ("ab[^e-g]", "abc", true),
            ("a\\*b", "a*b", true),
            ("a\\*b", "ab", false),
            ("a?b", "a☺b", true),
            ("a[^a]b", "a☺b", true),
            ("a???b", "a☺b", false),
            ("[a-ζ]*", "α", true),
            ("*[a-ζ]", "A", false),
            ("[\\]a]", "]", true),
            ("[\\-x]", "-", true),
            ("[x\\-]", "z", false),
            ("[]a]", "]", false),
            ("[-]", "-", false),
            ("[x-]", "x", false),
            ("[a-b-c]", "a", false),
            ("[", "a", false),
            ("[^", "a", false),
            ("a[", "ab", false),
            ("*x", "xxx", true),
        ] {
            assert_eq!(Wildcard::new(pattern).matches(name), expected, "{pattern} {name}");
        }
    }
}
