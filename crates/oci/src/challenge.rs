//! How a registry asks for credentials: `WWW-Authenticate` (RFC 9110, section 11.6.1).

/// What a registry asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// User name and password with each request.
    Basic,
    /// A token of a token service.
    Bearer {
        /// The token service's URL.
        realm: String,
        /// What it is to be asked about.
        service: Option<String>,
        /// The right that is missing; the pull of the repository where the registry does not say.
        scope: Option<String>,
    },
}

impl Challenge {
    /// The best of what the headers offer: a token service before passwords; nothing that we know is nothing.
    pub(crate) fn of<'a>(headers: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut basic = None;
        for header in headers.take(8) {
            for (scheme, parameters) in challenges(header) {
                let value = |name: &str| {
                    parameters
                        .iter()
                        .find(|(key, _)| key.eq_ignore_ascii_case(name))
                        .map(|(_, value)| value.clone())
                };
                if scheme.eq_ignore_ascii_case("bearer")
                    && let Some(realm) = value("realm")
                {
                    return Some(Self::Bearer { realm, service: value("service"), scope: value("scope") });
                }
                if scheme.eq_ignore_ascii_case("basic") {
                    basic = Some(Self::Basic);
                }
            }
        }
        basic
    }
}

type Parameters = Vec<(String, String)>;

/// `scheme key=value, key="value", scheme …`
fn challenges(header: &str) -> Vec<(String, Parameters)> {
    let mut found: Vec<(String, Parameters)> = Vec::new();
    let mut rest = header.trim_start();
    while !rest.is_empty() {
        rest = rest.trim_start_matches([',', ' ', '\t']);
        let end = rest.find([' ', '\t', '=', ',']).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if word.is_empty() {
            break;
        }
        let after = after.trim_start();
        match after.strip_prefix('=') {
            Some(value) => {
                let (value, after) = parameter(value.trim_start());
                if let Some((_, parameters)) = found.last_mut() {
                    parameters.push((word.to_owned(), value));
                }
                rest = after;
            }
            None => {
                found.push((word.to_owned(), Vec::new()));
                rest = after;
            }
        }
    }
    found
}

/// A token or a quoted string, and what follows it.
fn parameter(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let (mut value, mut escaped) = (String::new(), false);
    for (at, c) in quoted.char_indices() {
        match c {
            _ if escaped => {
                value.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return (value, &quoted[at + 1..]),
            _ => value.push(c),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::Challenge;

    fn of(header: &str) -> Option<Challenge> {
        Challenge::of([header].into_iter())
    }

    fn bearer(realm: &str, service: Option<&str>, scope: Option<&str>) -> Challenge {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Challenge::Bearer { realm: realm.into(), service: owned(service), scope: owned(scope) }
    }

    #[test]
    fn registries_are_understood_in_all_their_spellings() {
        let all = r#"Bearer realm="https://auth.example.org/token",service="registry",scope="repository:a/b:pull,push""#;
        let expected =
            bearer("https://auth.example.org/token", Some("registry"), Some("repository:a/b:pull,push"));
        assert_eq!(of(all), Some(expected));
        assert_eq!(
            of(r#"bearer realm = "https://a/t" , SERVICE=x"#),
            Some(bearer("https://a/t", Some("x"), None))
        );
        assert_eq!(
            of(r#"Basic realm="x", Bearer realm="https://a/t""#),
            Some(bearer("https://a/t", None, None))
        );
        assert_eq!(of(r#"Basic realm="basic \"realm\", with a comma""#), Some(Challenge::Basic));
        assert_eq!(of("Basic"), Some(Challenge::Basic));
    }

    #[test]
    fn nonsense_asks_for_nothing() {
        for nonsense in
            ["", ",", "=", "Bearer", "Bearer realm", "Negotiate abc==", "\"", "Bearer service=\"x"]
        {
            assert_eq!(of(nonsense), None, "{nonsense}");
        }
    }
}
