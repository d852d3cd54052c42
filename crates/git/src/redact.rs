//! Secrets in what others say: a server that echoes what it was sent must not bring a token into messages.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::ExposeSecret as _;

use crate::Credentials;

/// What stands in a secret's place.
const REDACTED: &str = "[redacted]";
/// Bytes below which a secret is none: leaving out every `a` would hide nothing but the message.
const MIN_SECRET: usize = 4;
/// What RFC 3986 leaves as it is.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// `text` without the token of `credentials`: as it is, escaped, percent-encoded, in base64 by itself or behind its
/// user, in any case (a host's name is read in lower case). Call it before text is cut: half a token is not known.
pub(crate) fn redact(credentials: Option<&Credentials>, text: &str) -> String {
    let mut clean = text.to_owned();
    let Some(credentials) = credentials else { return clean };
    for secret in spellings(credentials) {
        let mut lower = clean.to_ascii_lowercase();
        let secret = secret.to_ascii_lowercase();
        let mut from = 0;
        while let Some(found) = lower[from..].find(&secret).map(|at| from + at) {
            clean.replace_range(found..found + secret.len(), REDACTED);
            lower.replace_range(found..found + secret.len(), REDACTED);
            from = found + REDACTED.len();
        }
    }
    clean
}

/// How a server may write the secret, longer spellings first: one may hold another.
fn spellings(credentials: &Credentials) -> Vec<String> {
    let (user, token) = match credentials {
        Credentials::Basic { user, token } => (if user.is_empty() { "git" } else { user }, token),
        Credentials::Bearer(token) => ("", token),
        // The key is never sent.
        Credentials::Ssh(_) => return Vec::new(),
    };
    let token = token.expose_secret();
    if token.len() < MIN_SECRET {
        return Vec::new();
    }
    let pair = format!("{user}:{token}");
    let mut spellings = vec![token.to_owned(), token.escape_debug().to_string()];
    spellings.extend([NON_ALPHANUMERIC, RESERVED].map(|set| utf8_percent_encode(token, set).to_string()));
    for text in [token, &pair] {
        spellings.extend(
            [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD].iter().map(|engine| engine.encode(text)),
        );
    }
    spellings.sort_by_key(|spelling| std::cmp::Reverse(spelling.len()));
    spellings.dedup();
    spellings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_token_is_left_out() {
        let token = "s3cr/t+\"Token=é";
        let credentials = Credentials::Basic { user: "bot".to_owned(), token: token.to_owned().into() };
        for spelling in [
            token.to_owned(),
            token.to_uppercase().replace('É', "é"),
            format!("{token:?}").trim_matches('"').to_owned(),
            utf8_percent_encode(token, NON_ALPHANUMERIC).to_string().to_lowercase(),
            STANDARD.encode(token),
            STANDARD.encode(format!("bot:{token}")),
            URL_SAFE_NO_PAD.encode(format!("bot:{token}")),
        ] {
            let said = redact(Some(&credentials), &format!("no {spelling} here, {spelling}"));
            assert_eq!(said, "no [redacted] here, [redacted]", "{spelling}");
        }
        assert_eq!(redact(Some(&Credentials::Bearer("tok".to_owned().into())), "token"), "token");
        assert_eq!(redact(None, "anything"), "anything");
    }
}
