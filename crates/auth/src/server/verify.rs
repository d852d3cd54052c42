//! Verification of access tokens.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
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
    /// The token was revoked.
    #[error("the access token was revoked: ask the token exchange for another")]
    Revoked,
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

/// How many verified tokens are remembered.
const REMEMBERED: usize = 1024;

/// Verifies access tokens against the exchange's public keys. Cheap to clone.
///
/// A token's signature is verified once, since that costs more than many a request: clients send the same token for as
/// long as it lasts. What is remembered is a digest of the token; its expiry is looked at each time.
#[derive(Clone)]
pub struct Verifier {
    inner: Arc<Inner>,
}

struct Inner {
    issuer: String,
    keys: RwLock<Ring>,
    now: Now,
    verified: Mutex<HashMap<Digest, Verified>>,
}

/// The keys by their ids, each with the time from which it is none any more, and the ids of revoked tokens.
#[derive(Default)]
pub(crate) struct Ring {
    pub(crate) keys: HashMap<String, (DecodingKey, Option<Timestamp>)>,
    pub(crate) revoked: BTreeSet<String>,
}

type Digest = [u8; SHA256_OUTPUT_LEN];

/// A token whose signature is right.
#[derive(Clone)]
struct Verified {
    caller: Caller,
    expires: Timestamp,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier").field("issuer", &self.inner.issuer).finish_non_exhaustive()
    }
}

impl Verifier {
    pub(crate) fn new(issuer: String, ring: Ring, now: Now) -> Self {
        Self { inner: Arc::new(Inner { issuer, keys: RwLock::new(ring), now, verified: Mutex::default() }) }
    }

    /// Goes by these keys from now on.
    pub(crate) fn use_ring(&self, ring: Ring) {
        *self.inner.keys.write().unwrap_or_else(PoisonError::into_inner) = ring;
        // What the old ones have let through is looked at again.
        self.inner.verified().clear();
    }

    /// The caller that `token` stands for.
    ///
    /// # Errors
    /// [`TokenError`] for a token that is malformed, forged, expired or from elsewhere.
    pub fn verify(&self, token: &str) -> Result<Caller, TokenError> {
        let mut key = Digest::default();
        key.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        let known = self.inner.verified().get(&key).cloned();
        if let Some(Verified { caller, expires }) = known {
            return if expires > (self.inner.now)() {
                Ok(caller)
            } else {
                Err(TokenError::Expired { at: expires })
            };
        }
        let claims = self.claims(token)?;
        let expires = expiry(&claims)?;
        let caller = Caller {
            name: claims.sub.rsplit(':').next().unwrap_or(&claims.sub).to_owned(),
            uid: claims.sub,
            groups: vec!["system:authenticated".to_owned()],
            audiences: Audiences::Some(claims.aud.into_iter().collect()),
            namespaces: if claims.namespace == "*" {
                Namespaces::All
            } else {
                Namespaces::One(claims.namespace)
            },
            rights: claims.rights,
        };
        let mut verified = self.inner.verified();
        if verified.len() >= REMEMBERED {
            let now = (self.inner.now)();
            verified.retain(|_, token| token.expires > now);
        }
        // More that are valid at a time than fit: those that come back are verified again.
        if verified.len() >= REMEMBERED {
            verified.clear();
        }
        verified.insert(key, Verified { caller: caller.clone(), expires });
        Ok(caller)
    }

    pub(crate) fn claims(&self, token: &str) -> Result<Claims, TokenError> {
        let header = jsonwebtoken::decode_header(token)
            .map_err(|_| TokenError::Malformed("it is no JSON web token"))?;
        if header.alg != Algorithm::ES256 {
            return Err(TokenError::Malformed("it is not signed with ES256"));
        }
        let key_id = header.kid.ok_or(TokenError::Malformed("it names no key (kid)"))?;
        let ring = self.inner.keys.read().unwrap_or_else(PoisonError::into_inner);
        let key =
            ring.keys.get(&key_id).filter(|(_, until)| until.is_none_or(|until| until > (self.inner.now)()));
        let Some((key, _)) = key else {
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
        if ring.revoked.contains(&claims.jti) {
            return Err(TokenError::Revoked);
        }
        if claims.namespace.is_empty() {
            return Err(TokenError::Malformed("it names no namespace"));
        }
        let at = expiry(&claims)?;
        if at <= (self.inner.now)() {
            return Err(TokenError::Expired { at });
        }
        Ok(claims)
    }
}

impl Inner {
    fn verified(&self) -> MutexGuard<'_, HashMap<Digest, Verified>> {
        // Nothing in here panics between two related changes.
        self.verified.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn expiry(claims: &Claims) -> Result<Timestamp, TokenError> {
    Timestamp::from_second(claims.exp).map_err(|_| TokenError::Malformed("its expiry is no time that exists"))
}
