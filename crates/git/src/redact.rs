//! Secrets in what others say: a server that echoes what it was sent must not bring a token into messages.

use secrecy::ExposeSecret as _;
use windlass_http_client::redact_secret;

use crate::Credentials;

/// `text` without the token of `credentials`, in any spelling. Call it before text is cut: half a token is not known.
pub(crate) fn redact(credentials: Option<&Credentials>, text: &str) -> String {
    match credentials {
        Some(Credentials::Basic { user, token }) => {
            let user = if user.is_empty() { "git" } else { user };
            redact_secret(text, user, token.expose_secret())
        }
        Some(Credentials::Bearer(token)) => redact_secret(text, "", token.expose_secret()),
        // The key is never sent.
        Some(Credentials::Ssh(_)) | None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn credentials_are_left_out_as_they_are_sent() {
        let basic =
            |user: &str| Credentials::Basic { user: user.to_owned(), token: "s3cret".to_owned().into() };
        for (credentials, sent) in [
            (basic("bot"), STANDARD.encode("bot:s3cret")),
            (basic(""), STANDARD.encode("git:s3cret")),
            (Credentials::Bearer("s3cret".to_owned().into()), "s3cret".to_owned()),
        ] {
            assert_eq!(redact(Some(&credentials), &format!("no {sent} here")), "no [redacted] here");
        }
        assert_eq!(redact(None, "anything"), "anything");
    }
}
