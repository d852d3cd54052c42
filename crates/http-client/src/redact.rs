//! Secrets in what others say: a server that echoes what it was sent must not bring them into messages.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What stands in a secret's place.
const REDACTED: &str = "[redacted]";
/// Bytes below which a secret is none: leaving out every `a` would hide nothing but the message.
const MIN_SECRET: usize = 4;
/// What RFC 3986 leaves as it is.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// `text` without `secret`: as it is, escaped, percent-encoded, in base64 by itself or behind `user` as in basic
/// authentication, in any case (a host's name is read in lower case). Call it before text is cut: half a secret is not
/// known.
pub fn redact_secret(text: &str, user: &str, secret: &str) -> String {
    let mut clean = text.to_owned();
    for secret in spellings(user, secret) {
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
fn spellings(user: &str, secret: &str) -> Vec<String> {
    if secret.len() < MIN_SECRET {
        return Vec::new();
    }
    let pair = format!("{user}:{secret}");
    let mut spellings = vec![secret.to_owned(), secret.escape_debug().to_string()];
    spellings.extend([NON_ALPHANUMERIC, RESERVED].map(|set| utf8_percent_encode(secret, set).to_string()));
    for text in [secret, &pair] {
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
    fn every_spelling_of_a_secret_is_left_out() {
        let secret = "s3cr/t+\"Token=é";
        for spelling in [
            secret.to_owned(),
            secret.to_uppercase().replace('É', "é"),
            format!("{secret:?}").trim_matches('"').to_owned(),
            utf8_percent_encode(secret, NON_ALPHANUMERIC).to_string().to_lowercase(),
            STANDARD.encode(secret),
            STANDARD.encode(format!("bot:{secret}")),
            URL_SAFE_NO_PAD.encode(format!("bot:{secret}")),
        ] {
            let said = redact_secret(&format!("no {spelling} here, {spelling}"), "bot", secret);
            assert_eq!(said, "no [redacted] here, [redacted]", "{spelling}");
        }
        assert_eq!(redact_secret("token", "", "tok"), "token");
    }
}
