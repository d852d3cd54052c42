//! The variables of a process, as the OpenTelemetry specification has them written.

use percent_encoding::percent_decode_str;

/// The variables of a process, by name; an empty one is none.
pub(crate) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The variables of this process.
pub(crate) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// Whether a value says so: `true` in any case, and nothing else.
pub(crate) fn is_true(value: &str) -> bool {
    value.trim().eq_ignore_ascii_case("true")
}

/// The pairs of `key=value,…` whose values are percent-encoded; `None` for what is no such pair.
pub(crate) fn pairs(text: &str) -> impl Iterator<Item = Option<(&str, String)>> {
    text.split(',').filter(|pair| !pair.trim().is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=')?;
        let key = Some(key.trim()).filter(|key| !key.is_empty())?;
        Some((key, percent_decoded(value.trim())?))
    })
}

/// The text that is percent-encoded so; none where it is not.
pub(crate) fn percent_decoded(text: &str) -> Option<String> {
    let is_escape = |after: &str| {
        after.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !text.split('%').skip(1).all(is_escape) {
        return None;
    }
    Some(percent_decode_str(text).decode_utf8().ok()?.into_owned())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Variables with these values.
    pub(crate) fn variables<'a>(set: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        move |name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn pairs_are_percent_decoded_and_what_is_none_is_told() {
        let all: Vec<_> = pairs("a=b%20c, d = e=%C3%A4 ,,f,=g,h=%zz,i=%f,j=%ff,k=").collect();
        let pair = |key, value: &str| Some((key, value.to_owned()));
        assert_eq!(all, [pair("a", "b c"), pair("d", "e=ä"), None, None, None, None, None, pair("k", "")]);
    }
}
