//! Texts as values: whether a text is what its key needs.

use std::time::Duration;

use url::Url;
use windlass_api::{GoDuration, GroupResource};

use crate::keys::Kind;

/// Whether a text is what a key needs; otherwise what was expected.
pub(crate) fn check(kind: Kind, text: &str) -> Result<(), String> {
    match kind {
        Kind::Text | Kind::Path | Kind::Paths | Kind::List => Ok(()),
        Kind::Bool => boolean(text).map(drop).ok_or_else(|| "true or false".to_owned()),
        Kind::Integer(least, most) => match text.parse::<i64>() {
            Ok(number) if (least..=most).contains(&number) => Ok(()),
            _ => Err(format!("a whole number from {least} to {most}")),
        },
        Kind::Duration => match text.parse::<GoDuration>() {
            Ok(duration) if duration >= GoDuration::ZERO => Ok(()),
            Ok(_) => Err("a duration not below zero, such as 30s or 1h30m".to_owned()),
            Err(error) => Err(format!("a duration such as 30s or 1h30m ({error})")),
        },
        Kind::PositiveDuration => match text.parse::<GoDuration>() {
            Ok(duration) if duration > GoDuration::ZERO => Ok(()),
            Ok(_) => Err("a duration above zero, such as 30s or 1h30m".to_owned()),
            Err(error) => Err(format!("a duration such as 30s or 1h30m ({error})")),
        },
        Kind::Url => {
            if text.is_empty() || is_http_url(text) {
                Ok(())
            } else {
                Err("a URL such as https://localhost:6446, without a user or password in it".to_owned())
            }
        }
        Kind::Origins => {
            if list(text).iter().all(|item| origin(item).is_some()) {
                Ok(())
            } else {
                Err("origins such as http://git.internal:8080, separated by `|`, without paths".to_owned())
            }
        }
        Kind::Address => {
            address(text).map(drop).ok_or_else(|| "host:port, such as 127.0.0.1:3000, or nothing".to_owned())
        }
        Kind::Switch => match switch(text) {
            Some(_) => Ok(()),
            None => Err("auto, true or false".to_owned()),
        },
        Kind::Namespace => {
            if text.is_empty() || is_namespace(text) {
                Ok(())
            } else {
                Err("a namespace: at most 63 small letters, digits and hyphens, such as monitoring"
                    .to_owned())
            }
        }
        Kind::Resources => list(text).iter().try_for_each(|item| resource(item).map(drop)),
        Kind::Choice(known) => {
            if known.contains(&text) {
                Ok(())
            } else {
                Err(format!("one of {}", known.join(", ")))
            }
        }
        Kind::Choices(known) => match list(text).iter().find(|item| !known.contains(&item.as_str())) {
            None => Ok(()),
            Some(item) => {
                Err(format!("some of {}, separated by `|` ({item:?} is none of them)", known.join(", ")))
            }
        },
    }
}

/// A truth value in the spellings that Grafana reads.
pub(crate) fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "t" | "true" | "y" | "yes" | "on" => Some(true),
        "0" | "f" | "false" | "n" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// A truth value, or `auto`, which is neither.
#[expect(clippy::option_option, reason = "whether it can be read, and whether it says")]
pub(crate) fn switch(text: &str) -> Option<Option<bool>> {
    if text.eq_ignore_ascii_case("auto") { Some(None) } else { boolean(text).map(Some) }
}

/// A number that has been checked.
pub(crate) fn integer(text: &str) -> i64 {
    text.parse().unwrap_or_default()
}

/// A duration that has been checked.
pub(crate) fn duration(text: &str) -> Duration {
    text.parse::<GoDuration>().ok().and_then(GoDuration::to_std).unwrap_or_default()
}

/// The items of a list, each once, in the order in which they are given.
pub(crate) fn list(text: &str) -> Vec<String> {
    split(text, &['|', ','])
}

/// A kind that repositories may write; otherwise what was expected.
fn resource(item: &str) -> Result<GroupResource, String> {
    let form = "plurals with their groups, such as `configmaps|widgets.example.com`";
    let resource: GroupResource = item.parse().map_err(|_| format!("{form} ({item:?} is none)"))?;
    match resource.refusal() {
        None => Ok(resource),
        Some(why) => Err(format!("{form} without {item:?}: {why}")),
    }
}

/// Kinds that have been checked.
pub(crate) fn resources(text: &str) -> Vec<GroupResource> {
    list(text).iter().filter_map(|item| resource(item).ok()).collect()
}

/// The paths of a list; a path may have a comma in it.
pub(crate) fn paths(text: &str) -> Vec<std::path::PathBuf> {
    split(text, &['|']).into_iter().map(Into::into).collect()
}

fn split(text: &str, separators: &[char]) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for item in text.split(separators).map(str::trim).filter(|item| !item.is_empty()) {
        if !items.iter().any(|known| known == item) {
            items.push(item.to_owned());
        }
    }
    items
}

fn is_http_url(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.host_str().is_some_and(|host| !host.is_empty())
            && url.username().is_empty()
            && url.password().is_none()
    })
}

/// Whether Kubernetes takes a name for a namespace: an RFC 1123 label.
fn is_namespace(text: &str) -> bool {
    text.len() <= 63
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// An origin in its one spelling: lower case, without the scheme's own port.
pub(crate) fn origin(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    let bare = is_http_url(text) && url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    bare.then(|| url.origin().ascii_serialization())
}

/// An address in its full form; `:3000` means every interface, as it does in Go.
pub(crate) fn address(text: &str) -> Option<String> {
    if text.is_empty() {
        return Some(String::new());
    }
    let (host, port) = text.rsplit_once(':')?;
    port.parse::<u16>().ok()?;
    let bracketed = host.starts_with('[') && host.ends_with(']');
    if host.contains(':') && !bracketed || host.contains(char::is_whitespace) || host.contains('/') {
        return None;
    }
    Some(if host.is_empty() { format!("0.0.0.0:{port}") } else { text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_every_kind_are_told_from_what_is_none() {
        for (kind, good, bad) in [
            (Kind::Bool, &["true", "False", "1", "off", "YES"][..], &["", "2", "maybe"][..]),
            (Kind::Integer(1, 10), &["1", "10"], &["0", "11", "", "1.5", "x", "1 "]),
            (Kind::Duration, &["0", "0s", "1h30m", "1.5s"], &["", "30", "-1s", "1d", "soon"]),
            (Kind::PositiveDuration, &["1ns", "20m"], &["0", "0s", "-1s", "5"]),
            (
                Kind::Url,
                &["", "http://a", "https://a.b:1/c"],
                &["a", "ftp://a", "https://", "https://u:p@a", "https://u@a"],
            ),
            (
                Kind::Origins,
                &["", "http://a:80|https://b", "HTTP://[::1]:8080/"],
                &["a", "http://a/b", "http://a|b", "http://a?x"],
            ),
            (
                Kind::Address,
                &["", "a:1", ":3000", "[::1]:80", "0.0.0.0:0"],
                &["a", "a:", "a:99999", "::1:80", "http://a:1", "a b:1"],
            ),
            (
                Kind::Resources,
                &["", "configmaps", "configmaps.|widgets.example.com"],
                &["ConfigMap", "secrets", "roles.rbac.authorization.k8s.io", "v1/configmaps"],
            ),
            (Kind::Choice(&["json", "pretty"]), &["json"], &["", "xml", "JSON"]),
            (Kind::Choices(&["git", "local"]), &["", "git", "local | git | git"], &["svn", "git|svn"]),
        ] {
            for text in good {
                assert_eq!(check(kind, text), Ok(()), "{kind:?} {text:?}");
            }
            for text in bad {
                check(kind, text).expect_err(&format!("{kind:?} {text:?}"));
            }
        }
    }

    #[test]
    fn origins_and_addresses_have_one_spelling() {
        assert_eq!(origin("HTTP://Example.com:80/").as_deref(), Some("http://example.com"));
        assert_eq!(origin("https://10.0.0.1:8443").as_deref(), Some("https://10.0.0.1:8443"));
        assert_eq!(address(":3000").as_deref(), Some("0.0.0.0:3000"));
    }
}
