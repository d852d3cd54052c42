//! Deliveries of providers' webhooks: who vouches for one, and what it says. Pure: nothing is asked, stored or sent, and
//! no URL of a payload is ever used to reach anything.
//!
//! A delivery is worked on in this order: [`Announced::of`] reads its headers, [`Announced::is_signed_with`] holds the
//! body against a secret, and only then [`Announced::event`] parses it.

mod bitbucket;
mod event;
mod gitea;
mod github;
mod gitlab;
mod limits;
mod signature;

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use secrecy::SecretString;
use windlass_api::RepositoryType;

pub use self::event::{Branch, Event, ParseError, PullRequestEvent, Push, RepositoryId};
pub use self::limits::{BodyError, LARGEST_BODY, Reception, Reserved};
use self::signature::Proof;

/// Whose delivery it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// GitHub, or GitHub Enterprise Server.
    Github,
    /// GitLab.
    Gitlab,
    /// Gitea, Forgejo or Gogs.
    Gitea,
    /// Bitbucket, in the cloud or on a server.
    Bitbucket,
}

impl Provider {
    /// Whether repositories of this type are told of events by the provider. Any of them may tell a plain Git one.
    pub fn serves(self, kind: RepositoryType) -> bool {
        match kind {
            RepositoryType::Local => false,
            RepositoryType::Git => true,
            RepositoryType::Github | RepositoryType::GithubEnterprise => self == Self::Github,
            RepositoryType::Gitlab => self == Self::Gitlab,
            RepositoryType::Bitbucket => self == Self::Bitbucket,
        }
    }
}

/// What the headers of a delivery say.
#[derive(Clone)]
pub struct Announced {
    provider: Provider,
    event: String,
    /// The provider's own number of the delivery, if it is one that can be shown.
    delivery: Option<String>,
    form: bool,
    proof: Proof,
}

impl Announced {
    /// Reads the headers. Nothing for a request that names no event, or brings no proof of the kind that is accepted: a
    /// header that is there twice counts as none, and so does a SHA-1 signature.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let only = |name: &str| only(headers, name);
        // Gitea says in GitHub's headers what it says in its own, so GitHub comes last.
        let (provider, event, delivery, proof) = if let Some(event) = only("x-gitlab-event") {
            let proof = Proof::token(only("x-gitlab-token")?);
            (Provider::Gitlab, event, only("x-gitlab-event-uuid"), proof?)
        } else if let Some(event) = only("x-gitea-event").or_else(|| only("x-forgejo-event")) {
            let own = only("x-gitea-signature").or_else(|| only("x-forgejo-signature"));
            (Provider::Gitea, event, only("x-gitea-delivery"), Proof::hmac(own?)?)
        } else if let Some(event) = only("x-event-key") {
            let proof = Proof::prefixed_hmac(only("x-hub-signature")?);
            (Provider::Bitbucket, event, only("x-request-uuid"), proof?)
        } else {
            let proof = Proof::prefixed_hmac(only("x-hub-signature-256")?);
            (Provider::Github, only("x-github-event")?, only("x-github-delivery"), proof?)
        };
        Some(Self::read(headers, provider, event, delivery, proof))
    }

    /// The same of a delivery of GitHub's that is signed with SHA-1 alone, as very old servers do it. One that brings a
    /// better signature is not judged by this one.
    pub fn with_sha1(headers: &HeaderMap) -> Option<Self> {
        let only = |name: &str| only(headers, name);
        let others =
            ["x-hub-signature-256", "x-gitlab-event", "x-gitea-event", "x-forgejo-event", "x-event-key"];
        if others.iter().any(|name| headers.contains_key(*name)) {
            return None;
        }
        let proof = Proof::prefixed_sha1(only("x-hub-signature")?)?;
        let (event, delivery) = (only("x-github-event")?, only("x-github-delivery"));
        Some(Self::read(headers, Provider::Github, event, delivery, proof))
    }

    fn read(
        headers: &HeaderMap,
        provider: Provider,
        event: &str,
        delivery: Option<&str>,
        proof: Proof,
    ) -> Self {
        let harmless = |text: &&str| {
            !text.is_empty()
                && text.len() <= 64
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        let media =
            only(headers, CONTENT_TYPE.as_str()).unwrap_or_default().split(';').next().unwrap_or_default();
        Self {
            provider,
            event: event.to_owned(),
            delivery: delivery.map(|text| text.trim_matches(['{', '}'])).filter(harmless).map(str::to_owned),
            form: media.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded"),
            proof,
        }
    }

    /// Whose delivery it is.
    pub fn provider(&self) -> Provider {
        self.provider
    }

    /// What happened, by the provider's name for it: `push`, `Push Hook`.
    pub fn event_name(&self) -> &str {
        &self.event
    }

    /// The provider's number of the delivery: letters, digits and dashes.
    pub fn delivery(&self) -> Option<&str> {
        self.delivery.as_deref()
    }

    /// Whether somebody who knows `secret` sent exactly this body. Takes as long for a near miss as for any other. No
    /// delivery is signed with an empty secret.
    pub fn is_signed_with(&self, body: &[u8], secret: &SecretString) -> bool {
        self.proof.holds(body, secret)
    }

    /// What the body says.
    ///
    /// # Errors
    ///
    /// It is not what the provider sends.
    pub fn event(&self, body: &[u8]) -> Result<Event, ParseError> {
        let unwrapped;
        let body = if self.form {
            unwrapped = payload_of_form(body)?;
            unwrapped.as_bytes()
        } else {
            body
        };
        match self.provider {
            Provider::Github => github::event(&self.event, body),
            Provider::Gitlab => gitlab::event(&self.event, body),
            Provider::Gitea => gitea::event(&self.event, body),
            Provider::Bitbucket => bitbucket::event(&self.event, body),
        }
    }
}

/// Whether the header of this name, which is there once, has a signature of the body as `<algorithm>=<hex digits>`, made with
/// `secret` by SHA-256, SHA-512 or SHA-1.
pub fn is_signed(headers: &HeaderMap, name: &str, body: &[u8], secret: &SecretString) -> bool {
    let proof = only(headers, name).and_then(|text| {
        Proof::prefixed_hmac(text)
            .or_else(|| Proof::prefixed_sha512(text))
            .or_else(|| Proof::prefixed_sha1(text))
    });
    proof.is_some_and(|proof| proof.holds(body, secret))
}

/// The header, if it is there once and is text.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// The field `payload` of a form, which is there once.
fn payload_of_form(body: &[u8]) -> Result<String, ParseError> {
    let mut fields = url::form_urlencoded::parse(body).filter(|(name, _)| name == "payload");
    match (fields.next(), fields.next()) {
        (Some((_, payload)), None) => Ok(payload.into_owned()),
        _ => Err(ParseError("the form has no single field payload".to_owned())),
    }
}

#[cfg(test)]
mod tests;
