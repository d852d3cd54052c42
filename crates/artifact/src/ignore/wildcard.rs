//! Wildcards within one segment of a path. Go: `path/filepath.Match`.

/// Whether `name` as a whole is what `pattern` describes: `*` any text, `?` one character, `[a-z]` and `[^a-z]` classes,
/// `\` the next character itself. A pattern that is malformed describes nothing.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let Some(tokens) = parse(&pattern) else { return false };
    // Backtracking to the last star alone is enough: what an earlier one took can stay as it is.
    let (mut at, mut token) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while at < name.len() {
        match tokens.get(token) {
            Some(Token::Any) => {
                token += 1;
                star = Some((token, at));
            }
            Some(one) if one.takes(name[at]) => {
                token += 1;
                at += 1;
            }
            _ => match star.as_mut() {
                Some((after, from)) => {
                    *from += 1;
                    (token, at) = (*after, *from);
                }
                None => return false,
            },
        }
    }
    tokens[token..].iter().all(|rest| matches!(rest, Token::Any))
}

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
    use super::matches;

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
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
