//! The forms of values: how a text is read as a type, and what is said of one that is not of the form.

use std::{marker::PhantomData, path::PathBuf, time::Duration};

use secrecy::SecretString;
use serde::{Deserialize, Deserializer, de};
use url::Url as ParsedUrl;
use windlass_api::{GoDuration, GroupResource, RepositoryType, SyncTarget};

/// A form that texts have which stand for a `T`.
pub(crate) trait Form<T> {
    /// The form, as the reference says it.
    const DESCRIPTION: &'static str = "";

    /// The same, where it is not known before.
    fn describe() -> String {
        Self::DESCRIPTION.to_owned()
    }

    /// The value of a text, or what was expected instead.
    fn parse(text: &str) -> Result<T, String>;
}

/// A value as `config` reads it: the text of a key, in the form `F`.
pub(crate) struct Value<F, T>(pub(crate) T, PhantomData<F>);

impl<'de, F: Form<T>, T> Deserialize<'de> for Value<F, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        F::parse(&text).map(|value| Self(value, PhantomData)).map_err(de::Error::custom)
    }
}

/// Any text.
pub(crate) struct Text;

impl<T: FromText> Form<T> for Text {
    const DESCRIPTION: &'static str = "text";

    fn parse(text: &str) -> Result<T, String> {
        Ok(T::from_text(text))
    }
}

/// What any text is.
pub(crate) trait FromText {
    /// The value of a text; an empty one stands for none.
    fn from_text(text: &str) -> Self;
}

impl FromText for String {
    fn from_text(text: &str) -> Self {
        text.to_owned()
    }
}

impl FromText for SecretString {
    fn from_text(text: &str) -> Self {
        text.into()
    }
}

impl<T: FromText> FromText for Option<T> {
    fn from_text(text: &str) -> Self {
        (!text.is_empty()).then(|| T::from_text(text))
    }
}

/// A path; empty for none.
pub(crate) struct Path;

impl Form<Option<PathBuf>> for Path {
    const DESCRIPTION: &'static str = "path";

    fn parse(text: &str) -> Result<Option<PathBuf>, String> {
        Ok((!text.is_empty()).then(|| text.into()))
    }
}

/// Paths, separated by `|`; a path may have a comma in it.
pub(crate) struct Paths;

impl Form<Vec<PathBuf>> for Paths {
    const DESCRIPTION: &'static str = "paths, separated by `\\|`";

    fn parse(text: &str) -> Result<Vec<PathBuf>, String> {
        Ok(items(text, &['|']).into_iter().map(Into::into).collect())
    }
}

/// Texts, separated by `|` (or commas, which Grafana uses for some).
pub(crate) struct List;

impl Form<Vec<String>> for List {
    const DESCRIPTION: &'static str = "list, separated by `\\|`";

    fn parse(text: &str) -> Result<Vec<String>, String> {
        Ok(list(text).into_iter().map(str::to_owned).collect())
    }
}

/// `true` or `false`, in any of the spellings that Grafana reads.
pub(crate) struct Bool;

impl Form<bool> for Bool {
    const DESCRIPTION: &'static str = "`true` or `false`";

    fn parse(text: &str) -> Result<bool, String> {
        match text.to_ascii_lowercase().as_str() {
            "1" | "t" | "true" | "y" | "yes" | "on" => Ok(true),
            "0" | "f" | "false" | "n" | "no" | "off" => Ok(false),
            _ => Err("true or false".to_owned()),
        }
    }
}

/// `auto`, which leaves it open, or a truth value.
pub(crate) struct Switch;

impl Form<Option<bool>> for Switch {
    const DESCRIPTION: &'static str = "`auto`, `true` or `false`";

    fn parse(text: &str) -> Result<Option<bool>, String> {
        if text.eq_ignore_ascii_case("auto") {
            return Ok(None);
        }
        Bool::parse(text).map(Some).map_err(|_| "auto, true or false".to_owned())
    }
}

/// A whole number from the first to the second.
pub(crate) struct Number<const LEAST: i64, const MOST: i64>;

/// The most that is said of a number that has no other limit.
pub(crate) const MANY: i64 = 1 << 40;

impl<T: TryFrom<i64>, const LEAST: i64, const MOST: i64> Form<T> for Number<LEAST, MOST> {
    fn describe() -> String {
        if MOST >= MANY { format!("number from {LEAST}") } else { format!("number from {LEAST} to {MOST}") }
    }

    fn parse(text: &str) -> Result<T, String> {
        let number = text.parse::<i64>().ok().filter(|number| (LEAST..=MOST).contains(number));
        number
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| format!("a whole number from {LEAST} to {MOST}"))
    }
}

/// A duration as Go writes it, not below zero.
pub(crate) struct AnyDuration;

impl Form<Duration> for AnyDuration {
    const DESCRIPTION: &'static str = "duration, 0 or more";

    fn parse(text: &str) -> Result<Duration, String> {
        let duration = text
            .parse::<GoDuration>()
            .map_err(|error| format!("a duration such as 30s or 1h30m ({error})"))?;
        duration.to_std().ok_or_else(|| "a duration not below zero, such as 30s or 1h30m".to_owned())
    }
}

/// A duration above zero.
pub(crate) struct PositiveDuration;

impl Form<Duration> for PositiveDuration {
    const DESCRIPTION: &'static str = "duration above 0";

    fn parse(text: &str) -> Result<Duration, String> {
        let expected = || "a duration above zero, such as 30s or 1h30m".to_owned();
        AnyDuration::parse(text)
            .and_then(|duration| (!duration.is_zero()).then_some(duration).ok_or_else(expected))
    }
}

/// An http or https URL; empty for none.
pub(crate) struct Url;

impl Form<String> for Url {
    const DESCRIPTION: &'static str = "URL";

    fn parse(text: &str) -> Result<String, String> {
        if text.is_empty() || http_url(text).is_some() {
            return Ok(text.to_owned());
        }
        Err("a URL such as https://localhost:6446, without a user or password in it".to_owned())
    }
}

/// Origins `scheme://host:port`, separated by `|`; each in its one spelling.
pub(crate) struct Origins;

impl Form<Vec<String>> for Origins {
    const DESCRIPTION: &'static str = "origins, separated by `\\|`";

    fn parse(text: &str) -> Result<Vec<String>, String> {
        let origin = |item: &str| {
            if let Some(ssh) = other_origin(item) {
                return Some(ssh);
            }
            let url = http_url(item)?;
            let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
            bare.then(|| url.origin().ascii_serialization())
        };
        distinct(list(text).into_iter().map(origin)).ok_or_else(|| {
            "origins such as http://git.internal:8080, separated by `|`, without paths".to_owned()
        })
    }
}

/// `ssh://host:port`, or `socks5://…` of a proxy, with its port.
fn other_origin(item: &str) -> Option<String> {
    let url = ParsedUrl::parse(item).ok()?;
    let usual = match url.scheme() {
        "ssh" => 22,
        "socks5" => 1080,
        _ => return None,
    };
    let bare = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
    let host = url.host_str().filter(|_| bare && url.username().is_empty())?.to_ascii_lowercase();
    Some(format!("{}://{host}:{}", url.scheme(), url.port().unwrap_or(usual)))
}

/// Git servers in Grafana's form, read as their origins: a URL, or a host with or without a port, which means https.
pub(crate) struct GitServers;

impl Form<Vec<String>> for GitServers {
    const DESCRIPTION: &'static str = "list, separated by `\\|`";

    fn parse(text: &str) -> Result<Vec<String>, String> {
        let origin = |item: &str| {
            let url = http_url(item).or_else(|| http_url(&format!("https://{item}")))?;
            Some(url.origin().ascii_serialization())
        };
        distinct(list(text).into_iter().map(origin))
            .ok_or_else(|| "hosts, host:port or URLs, separated by `|`".to_owned())
    }
}

/// `host:port`, where `:port` is every interface, as it is in Go; empty for none.
pub(crate) struct Address;

impl Form<String> for Address {
    const DESCRIPTION: &'static str = "`host:port`";

    fn parse(text: &str) -> Result<String, String> {
        match text {
            // Off, as Kubernetes' controllers write it.
            "" | "0" => Ok(String::new()),
            // Every interface, of IPv4 and IPv6.
            _ if text.starts_with(':') => listen_address(text).map(|_| format!("[::]{text}")),
            _ => listen_address(text).map_err(|form| form + ", or nothing"),
        }
    }
}

/// An address to listen on with its host: `:port` is every interface, as it is in Go. A host may be a name.
///
/// # Errors
/// What was expected instead.
pub fn listen_address(text: &str) -> Result<String, String> {
    let (host, port) = text
        .rsplit_once(':')
        .filter(|(host, port)| is_host(host) && port.parse::<u16>().is_ok())
        .ok_or_else(|| "host:port, such as 127.0.0.1:3000".to_owned())?;
    Ok(if host.is_empty() { format!("0.0.0.0:{port}") } else { text.to_owned() })
}

/// Resources with their groups that repositories may write, separated by `|`.
pub(crate) struct Resources;

impl Form<Vec<GroupResource>> for Resources {
    const DESCRIPTION: &'static str = "plurals with their groups, separated by `\\|`";

    fn parse(text: &str) -> Result<Vec<GroupResource>, String> {
        let form = "plurals with their groups, such as `configmaps|widgets.example.com`";
        list(text)
            .into_iter()
            .map(|item| {
                let resource: GroupResource =
                    item.parse().map_err(|_| format!("{form} ({item:?} is none)"))?;
                match resource.refusal() {
                    None => Ok(resource),
                    Some(why) => Err(format!("{form} without {item:?}: {why}")),
                }
            })
            .collect()
    }
}

/// A name that Kubernetes takes for a namespace, an RFC 1123 label; empty for none.
pub(crate) struct Namespace;

impl Form<Option<String>> for Namespace {
    const DESCRIPTION: &'static str = "namespace";

    fn parse(text: &str) -> Result<Option<String>, String> {
        let is_label = text.len() <= 63
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && !text.starts_with('-')
            && !text.ends_with('-');
        if !is_label {
            return Err(
                "a namespace: at most 63 small letters, digits and hyphens, such as monitoring".to_owned()
            );
        }
        Ok(Option::from_text(text))
    }
}

/// A type whose values have words.
pub(crate) trait Words: Sized + 'static {
    /// Every value, by its word.
    fn words() -> Vec<(&'static str, Self)>;
}

/// One word of a type.
pub(crate) struct Choice;

impl<T: Words> Form<T> for Choice {
    fn describe() -> String {
        code(&words::<T>()).join(" or ")
    }

    fn parse(text: &str) -> Result<T, String> {
        let found = T::words().into_iter().find(|(word, _)| *word == text);
        found.map(|(_, value)| value).ok_or_else(|| format!("one of {}", words::<T>().join(", ")))
    }
}

/// Some words of a type, separated by `|`.
pub(crate) struct Choices;

impl<T: Words> Form<Vec<T>> for Choices {
    fn describe() -> String {
        format!("any of {}, separated by `\\|`", code(&words::<T>()).join(", "))
    }

    fn parse(text: &str) -> Result<Vec<T>, String> {
        list(text)
            .into_iter()
            .map(|item| {
                Choice::parse(item).map_err(|_: String| {
                    let words = words::<T>().join(", ");
                    format!("some of {words}, separated by `|` ({item:?} is none of them)")
                })
            })
            .collect()
    }
}

fn words<T: Words>() -> Vec<&'static str> {
    T::words().into_iter().map(|(word, _)| word).collect()
}

fn code(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| format!("`{word}`")).collect()
}

impl Words for RepositoryType {
    fn words() -> Vec<(&'static str, Self)> {
        Self::ALL.into_iter().map(|kind| (kind.as_str(), kind)).collect()
    }
}

impl Words for SyncTarget {
    fn words() -> Vec<(&'static str, Self)> {
        [Self::Instance, Self::Folder, Self::Folderless]
            .into_iter()
            .map(|target| (target.as_str(), target))
            .collect()
    }
}

/// The telemetry modes, as the telemetry crate names them.
pub const TELEMETRY_MODES: [&str; 5] =
    ["stdout-logs", "stdout-all", "stdout-logs+otlp", "stdout-all+otlp", "otlp"];

/// One of [`TELEMETRY_MODES`].
pub(crate) struct TelemetryMode;

impl Form<String> for TelemetryMode {
    fn describe() -> String {
        code(&TELEMETRY_MODES).join(" or ")
    }

    fn parse(text: &str) -> Result<String, String> {
        let known = TELEMETRY_MODES.contains(&text);
        known.then(|| text.to_owned()).ok_or_else(|| format!("one of {}", TELEMETRY_MODES.join(", ")))
    }
}

/// The items of a list, each once, in the order in which they are given.
fn list(text: &str) -> Vec<&str> {
    items(text, &['|', ','])
}

fn items<'a>(text: &'a str, separators: &[char]) -> Vec<&'a str> {
    let mut items = Vec::new();
    for item in text.split(separators).map(str::trim).filter(|item| !item.is_empty()) {
        if !items.contains(&item) {
            items.push(item);
        }
    }
    items
}

/// All of them, each once; nothing if one is missing.
fn distinct(items: impl Iterator<Item = Option<String>>) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for item in items {
        let item = item?;
        if !all.contains(&item) {
            all.push(item);
        }
    }
    Some(all)
}

fn http_url(text: &str) -> Option<ParsedUrl> {
    let url = ParsedUrl::parse(text).ok()?;
    let good = matches!(url.scheme(), "http" | "https")
        && url.host_str().is_some_and(|host| !host.is_empty())
        && url.username().is_empty()
        && url.password().is_none();
    good.then_some(url)
}

/// Whether a text can be the host of an address: a name, an address of IPv4, or one of IPv6 in brackets.
fn is_host(text: &str) -> bool {
    let bracketed = text.starts_with('[') && text.ends_with(']');
    (bracketed || !text.contains(':')) && !text.contains(char::is_whitespace) && !text.contains('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<F: Form<T>, T>(good: &[&str], bad: &[&str]) {
        for text in good {
            assert_eq!(F::parse(text).err(), None, "{} {text:?}", F::describe());
        }
        for text in bad {
            assert!(F::parse(text).is_err(), "{} {text:?}", F::describe());
        }
    }

    #[test]
    fn texts_of_a_form_are_told_from_others() {
        check::<Bool, _>(&["true", "False", "1", "off", "YES"], &["", "2", "maybe"]);
        check::<Switch, _>(&["auto", "AUTO", "on", "0"], &["", "maybe"]);
        check::<Number<1, 10>, u8>(&["1", "10"], &["0", "11", "", "1.5", "x", "1 ", "true"]);
        check::<Number<0, MANY>, u8>(&["255"], &["256"]);
        check::<AnyDuration, _>(&["0", "0s", "1h30m", "1.5s"], &["", "30", "-1s", "1d", "soon"]);
        check::<PositiveDuration, _>(&["1ns", "20m"], &["0", "0s", "-1s", "5"]);
        check::<Url, _>(
            &["", "http://a", "https://a.b:1/c"],
            &["a", "ftp://a", "https://", "https://u:p@a", "https://u@a"],
        );
        check::<Origins, _>(
            &["", "http://a:80|https://b", "HTTP://[::1]:8080/", "ssh://A|ssh://[::1]:2222"],
            &["a", "http://a/b", "http://a|b", "http://a?x", "ssh://u@a", "ssh://a/b"],
        );
        check::<GitServers, _>(
            &["", "git.corp, git.lan:8443", "http://10.0.0.1/x"],
            &["a b", "git.lan:port"],
        );
        check::<Address, _>(
            &["", "0", "a:1", ":3000", "[::1]:80", "0.0.0.0:0"],
            &["a", "a:", ":", "a:99999", "::1:80", "http://a:1", "a b:1"],
        );
        check::<Resources, _>(
            &["", "configmaps", "configmaps.|widgets.example.com"],
            &["ConfigMap", "secrets", "roles.rbac.authorization.k8s.io", "v1/configmaps"],
        );
        check::<Choice, RepositoryType>(&["git"], &["", "svn", "GIT"]);
        check::<Choices, Vec<RepositoryType>>(&["", "git", "local | git | git"], &["svn", "git|svn"]);
    }

    #[test]
    fn origins_and_addresses_have_one_spelling() {
        assert_eq!(
            Origins::parse("HTTP://Example.com:80/|https://10.0.0.1:8443|http://example.com").unwrap(),
            ["http://example.com", "https://10.0.0.1:8443"]
        );
        assert_eq!(Address::parse(":3000").unwrap(), "[::]:3000");
        assert_eq!(Address::parse("0").unwrap(), "");
    }
}
