//! Ranges of versions. Go: `Masterminds/semver`.

use semver::Version;

/// A range of versions as Flux and Helm write them: `>=1.0.0 <2.0.0`, `~1.2`, `^1.2.3`, `1.x`, `1.2 - 1.4`, alternatives
/// with `||`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionRange {
    alternatives: Vec<Vec<Comparator>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Comparator {
    operator: Operator,
    version: Version,
    /// How many of major, minor and patch were written.
    parts: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Tilde,
    Caret,
}

const OPERATORS: [(&str, Operator); 12] = [
    (">=", Operator::GreaterOrEqual),
    ("=>", Operator::GreaterOrEqual),
    ("<=", Operator::LessOrEqual),
    ("=<", Operator::LessOrEqual),
    ("!=", Operator::NotEqual),
    ("~>", Operator::Tilde),
    ("==", Operator::Equal),
    ("=", Operator::Equal),
    (">", Operator::Greater),
    ("<", Operator::Less),
    ("~", Operator::Tilde),
    ("^", Operator::Caret),
];

impl VersionRange {
    /// The range that a text describes; what is wrong with it otherwise.
    pub fn parse(text: &str) -> Result<Self, String> {
        let alternatives = text.split("||").map(alternative).collect::<Option<Vec<_>>>();
        match alternatives.filter(|found| found.iter().all(|all| !all.is_empty())) {
            Some(alternatives) => Ok(Self { alternatives }),
            None => Err(format!("{text:?} is no range of versions, such as \">=1.0.0 <2.0.0\" or \"1.x\"")),
        }
    }

    /// Whether a version is in it. One before a release is only where a bound names such a one.
    pub fn contains(&self, version: &Version) -> bool {
        self.alternatives.iter().any(|all| all.iter().all(|one| one.holds(version)))
    }
}

fn alternative(text: &str) -> Option<Vec<Comparator>> {
    let mut comparators = Vec::new();
    let mut words = text.split([' ', ',', '\t']).filter(|word| !word.is_empty()).peekable();
    while let Some(word) = words.next() {
        let (operator, rest) = OPERATORS
            .iter()
            .find_map(|(sign, operator)| Some((*operator, word.strip_prefix(sign)?)))
            .unwrap_or((Operator::Equal, word));
        let rest = if rest.is_empty() { words.next()? } else { rest };
        let (version, parts) = partial(rest)?;
        if words.peek() == Some(&"-") && operator == Operator::Equal {
            words.next();
            let (last, last_parts) = partial(words.next()?)?;
            comparators.push(Comparator { operator: Operator::GreaterOrEqual, version, parts });
            comparators.push(Comparator {
                operator: Operator::LessOrEqual,
                version: last,
                parts: last_parts,
            });
        } else {
            comparators.push(Comparator { operator, version, parts });
        }
    }
    Some(comparators)
}

/// A version of which parts may be missing, or `x`, `X` or `*`.
fn partial(text: &str) -> Option<(Version, usize)> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (numbers, suffix) = text.split_at(end);
    let mut parts = Vec::new();
    let mut wild = false;
    for part in numbers.split('.') {
        wild |= matches!(part, "x" | "X" | "*");
        if !wild {
            parts.push(part.parse::<u64>().ok()?);
        }
    }
    let known = parts.len();
    if known > 3 || numbers.split('.').count() > 3 {
        return None;
    }
    parts.resize(3, 0);
    let version = Version::parse(&format!("{}.{}.{}{suffix}", parts[0], parts[1], parts[2])).ok()?;
    Some((version, known))
}

/// The version that a tag names, with or without a `v` in front, and with parts missing.
pub fn version_of_tag(tag: &str) -> Option<Version> {
    let end = tag.find(['-', '+']).unwrap_or(tag.len());
    let is_wild = tag[..end].contains(['x', 'X', '*']);
    partial(tag).filter(|_| !is_wild).map(|(version, _)| version)
}

impl Comparator {
    fn holds(&self, version: &Version) -> bool {
        if !version.pre.is_empty() && self.version.pre.is_empty() {
            return false;
        }
        let own = &self.version;
        // Beyond what was written.
        let above = || match self.parts {
            0 => None,
            1 => Some(Version::new(own.major + 1, 0, 0)),
            2 => Some(Version::new(own.major, own.minor + 1, 0)),
            _ => None,
        };
        let order = version.cmp_precedence(own);
        let within = || order.is_ge() && above().is_none_or(|above| version.cmp_precedence(&above).is_lt());
        match self.operator {
            Operator::Equal if self.parts < 3 => within(),
            Operator::Equal => order.is_eq(),
            Operator::NotEqual if self.parts < 3 => !within(),
            Operator::NotEqual => order.is_ne(),
            Operator::Greater => match above() {
                Some(above) => version.cmp_precedence(&above).is_ge(),
                None => order.is_gt(),
            },
            Operator::GreaterOrEqual => order.is_ge(),
            Operator::Less => order.is_lt(),
            Operator::LessOrEqual => match above() {
                Some(above) => version.cmp_precedence(&above).is_lt(),
                None => order.is_le(),
            },
            Operator::Tilde => {
                let same = self.parts == 0
                    || version.major == own.major && (self.parts == 1 || version.minor == own.minor);
                order.is_ge() && same
            }
            Operator::Caret => {
                let same = match (self.parts, own.major, own.minor) {
                    (0, ..) => true,
                    (1, ..) | (_, 1.., _) => version.major == own.major,
                    (2, ..) | (_, _, 1..) => version.major == 0 && version.minor == own.minor,
                    _ => version.major == 0 && version.minor == 0 && version.patch == own.patch,
                };
                order.is_ge() && same
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_mean_what_they_mean_to_flux() {
        // From the table of Masterminds/semver.
        for (range, version, expected) in [
            ("=2.0.0", "1.2.3", false),
            ("=2.0.0", "2.0.0", true),
            ("4.1", "4.1.0", true),
            ("4.1", "4.2.0", false),
            ("!=4.1", "4.1.3", false),
            (">1.1", "1.1.1", false),
            (">1.1", "1.2.0", true),
            (">= 1.1.0", "1.1.0", true),
            ("<=11", "11.2.3", true),
            ("<11", "11.1.0", false),
            ("1.x", "1.9.9", true),
            ("1.x", "2.0.0", false),
            ("*", "4.5.6", true),
            ("*", "1.2.3-alpha", false),
            ("~1", "1.9.0", true),
            ("~1.2", "1.3.0", false),
            ("~1.2.3", "1.2.9", true),
            ("^1.2", "1.9.0", true),
            ("^0.2.3", "0.2.9", true),
            ("^0.2.3", "0.3.0", false),
            ("^0.0.3", "0.0.4", false),
            ("1.2 - 1.4", "1.4.9", true),
            ("1.2 - 1.4.5", "1.4.6", false),
            (">=1.0.0 <2.0.0", "1.5.0", true),
            (">=1.0.0, <2.0.0", "2.0.0", false),
            ("<1.0.0 || >=3.0.0", "3.1.0", true),
            (">=1.0.0-0", "1.2.0-rc.1", true),
            (">=1.0.0", "1.2.0-rc.1", false),
            ("v1.2.3", "1.2.3", true),
        ] {
            let parsed = VersionRange::parse(range).unwrap();
            assert_eq!(parsed.contains(&Version::parse(version).unwrap()), expected, "{range} {version}");
        }
        for bad in ["", "a", ">=", "1.2.3.4", "1.2 -", "|| 1"] {
            assert!(VersionRange::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn tags_are_versions_with_or_without_a_v_and_all_parts() {
        assert_eq!(version_of_tag("v1.2"), Some(Version::new(1, 2, 0)));
        assert_eq!(version_of_tag("1.2.3-rc.1+x").unwrap().pre.as_str(), "rc.1");
        for none in ["latest", "release-1", "v", "*", "1.x"] {
            assert_eq!(version_of_tag(none), None, "{none}");
        }
    }
}
