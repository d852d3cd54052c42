//! Verification of access tokens.

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, errors::ErrorKind};

use crate::{
    Now,
    server::{
        caller::{Audiences, Caller, Namespaces},
        issuer::Claims,
    },
};

/// Why a request's credentials were refused; `Display` is the 401's message. No variant holds the token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// Nothing was presented.
    #[error(
        "no access token: send \"X-Access-Token: Bearer <token>\", \"Authorization: Bearer <token>\" \
         or a client certificate"
    )]
    Missing,
    /// The header or the token is not of the right form.
    #[error("the access token is malformed: {0}")]
    Malformed(&'static str),
    /// The token was valid once.
    #[error("the access token expired at {at}; ask the token exchange for a new one")]
    Expired {
        /// When it expired.
        at: Timestamp,
    },
    /// A key of ours is named, but did not make this signature.
    #[error("the access token has a wrong signature")]
    WrongSignature,
    /// Signed with a key that is not ours, for example by another server's exchange or before keys were replaced.
    #[error(
        "the access token is signed by an unknown key ({key}); ask this server's token exchange for a new one"
    )]
    UnknownKey {
        /// The key that the token names.
        key: String,
    },
    /// Issued by somebody else with the same key.
    #[error("the access token was issued by {issuer:?}, which this server does not accept")]
    WrongIssuer {
        /// Who issued it.
        issuer: String,
    },
}

/// Verifies access tokens against the exchange's public keys. Cheap to clone.
#[derive(Clone)]
pub struct Verifier {
    inner: Arc<Inner>,
}

struct Inner {
    issuer: String,
    keys: HashMap<String, DecodingKey>,
    now: Now,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier").field("issuer", &self.inner.issuer).finish_non_exhaustive()
    }
}

impl Verifier {
    pub(crate) fn new(issuer: String, keys: HashMap<String, DecodingKey>, now: Now) -> Self {
        Self { inner: Arc::new(Inner { issuer, keys, now }) }
    }

    /// The caller that `token` stands for.
    ///
    /// # Errors
    /// [`TokenError`] for a token that is malformed, forged, expired or from elsewhere.
    pub fn verify(&self, token: &str) -> Result<Caller, TokenError> {
        let claims = self.claims(token)?;
        Ok(Caller {
            name: claims.sub.rsplit(':').next().unwrap_or(&claims.sub).to_owned(),
            uid: claims.sub,
            groups: vec!["system:authenticated".to_owned()],
            audiences: Audiences::Some(claims.aud.into_iter().collect()),
            namespaces: if claims.namespace == "*" {
                Namespaces::All
            } else {
                Namespaces::One(claims.namespace)
            },
        })
    }

    pub(crate) fn claims(&self, token: &str) -> Result<Claims, TokenError> {
        let header = jsonwebtoken::decode_header(token)
            .map_err(|_| TokenError::Malformed("it is no JSON web token"))?;
        if header.alg != Algorithm::ES256 {
            return Err(TokenError::Malformed("it is not signed with ES256"));
        }
        let key_id = header.kid.ok_or(TokenError::Malformed("it names no key (kid)"))?;
        let Some(key) = self.inner.keys.get(&key_id) else {
            // Whatever the token says is shown to its sender only, and bounded.
            return Err(TokenError::UnknownKey { key: key_id.chars().take(64).collect() });
        };
        // Times, issuer and audience are judged below and by `Caller::may_use`, for answers that say which.
        let mut validation = Validation::new(Algorithm::ES256);
        validation.validate_exp = false;
        validation.validate_aud = false;
        validation.required_spec_claims.clear();
        let claims = jsonwebtoken::decode::<Claims>(token, key, &validation)
            .map_err(|error| match error.kind() {
                ErrorKind::InvalidSignature => TokenError::WrongSignature,
                _ => TokenError::Malformed("its claims cannot be read"),
            })?
            .claims;
        if claims.iss != self.inner.issuer {
            return Err(TokenError::WrongIssuer { issuer: claims.iss });
        }
        if claims.namespace.is_empty() {
            return Err(TokenError::Malformed("it names no namespace"));
        }
        let at = Timestamp::from_second(claims.exp)
            .map_err(|_| TokenError::Malformed("its expiry is no time that exists"))?;
        if at <= (self.inner.now)() {
            return Err(TokenError::Expired { at });
        }
        Ok(claims)
    }
}
