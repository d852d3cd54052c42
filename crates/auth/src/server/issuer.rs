//! Issues access tokens to holders of system tokens.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use aws_lc_rs::digest::{SHA256, digest};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use subtle::{Choice, ConstantTimeEq as _};

use crate::{
    Now,
    server::{
        caller::Audiences,
        keys::Keys,
        rights::Rights,
        signing::{SigningKey, SigningKeys},
        verify::{Ring, Verifier},
    },
};

/// The system token that Grafana's development set-up uses; ours on loopback listeners only, and only when asked for.
const DEFAULT_SYSTEM_TOKEN: &str = "ProvisioningAdminToken";

/// A long-lived secret that may be exchanged for access tokens.
#[derive(Clone, Debug)]
pub struct SystemToken {
    /// Who holds it; becomes the subject of the access tokens.
    pub name: String,
    /// The secret itself.
    pub token: SecretString,
    /// Audiences that may be asked for.
    pub allowed_audiences: Audiences,
    /// Namespaces that may be asked for; `*` stands for all, and for tokens of all namespaces.
    pub namespaces: Vec<String>,
    /// What may be done with the access tokens.
    pub rights: Rights,
}

impl SystemToken {
    /// A system token for every audience and namespace.
    pub fn admin(name: impl Into<String>, token: SecretString) -> Self {
        Self {
            name: name.into(),
            token,
            allowed_audiences: Audiences::All,
            namespaces: vec!["*".to_owned()],
            rights: Rights::default(),
        }
    }

    /// The well-known development token `ProvisioningAdminToken`, if `listener` can only be reached from this
    /// machine.
    pub fn default_for(listener: SocketAddr) -> Option<Self> {
        listener.ip().is_loopback().then(|| Self::admin("provisioning-admin", DEFAULT_SYSTEM_TOKEN.into()))
    }
}

/// What an [`Issuer`] issues and to whom.
#[derive(Clone)]
pub struct IssuerOptions {
    /// The `iss` claim.
    pub issuer: String,
    /// Who may ask.
    pub system_tokens: Vec<SystemToken>,
    /// Lifetime of a token when none is asked for: 10 minutes by default.
    pub lifetime: Duration,
    /// Longest lifetime that is given; a longer wish is cut to it. One hour by default.
    pub max_lifetime: Duration,
    /// The clock.
    pub now: Now,
}

impl Default for IssuerOptions {
    fn default() -> Self {
        Self {
            issuer: "windlass".to_owned(),
            system_tokens: Vec::new(),
            lifetime: Duration::from_mins(10),
            max_lifetime: Duration::from_hours(1),
            now: Arc::new(jiff::Timestamp::now),
        }
    }
}

impl std::fmt::Debug for IssuerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuerOptions")
            .field("issuer", &self.issuer)
            .field("system_tokens", &self.system_tokens)
            .field("lifetime", &self.lifetime)
            .field("max_lifetime", &self.max_lifetime)
            .finish_non_exhaustive()
    }
}

/// A request for an access token, as the exchange's body has it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenRequest {
    /// The namespace to open; `*` for all.
    #[serde(default)]
    pub namespace: String,
    /// The API groups to open.
    #[serde(default)]
    pub audiences: Vec<String>,
    /// An access token of ours, on whose subject's behalf the new one is to act.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject_token: Option<String>,
    /// Wished lifetime in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<i64>,
}

/// The claims of an access token.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Claims {
    pub(crate) iss: String,
    pub(crate) sub: String,
    pub(crate) aud: Vec<String>,
    pub(crate) exp: i64,
    pub(crate) iat: i64,
    pub(crate) jti: String,
    pub(crate) namespace: String,
    #[serde(default, rename = "windlass.dev/rights", skip_serializing_if = "Rights::is_everything")]
    pub(crate) rights: Rights,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) act: Option<Actor>,
}

/// Who acts for the subject (RFC 8693, 4.1).
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Actor {
    pub(crate) sub: String,
}

/// Why an exchange was refused; `Display` is the answer's `error`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GrantError {
    /// No `Authorization: Bearer` header: 401.
    #[error("no system token: send \"Authorization: Bearer <system token>\"")]
    NoSystemToken,
    /// The system token is not one of ours: 401.
    #[error("the system token is not known to this server")]
    UnknownSystemToken,
    /// The well-known development token, where it is not accepted: 401.
    #[error(
        "the default system token is accepted only where --well-known-token says so, on loopback listeners: name one of \
         your own with --system-token-file"
    )]
    DefaultTokenRefused,
    /// The body is not a request for a token: 400.
    #[error("bad request: {0}")]
    BadRequest(String),
    /// The holder may not have that audience: 403.
    #[error("system token {holder:?} may not have the audience {audience:?}")]
    AudienceRefused {
        /// Whose system token.
        holder: String,
        /// What was asked for.
        audience: String,
    },
    /// The holder may not have that namespace: 403.
    #[error("system token {holder:?} may not have the namespace {namespace:?}")]
    NamespaceRefused {
        /// Whose system token.
        holder: String,
        /// What was asked for.
        namespace: String,
    },
    /// What the holder may do and what the subject may do have nothing in common: 403.
    #[error("system token {holder:?} may do nothing of what the subject token allows")]
    NothingInCommon {
        /// Whose system token.
        holder: String,
    },
    /// Signing failed: 500.
    #[error("failed to sign the access token")]
    Sign,
}

/// Why an [`Issuer`] could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IssuerError {
    /// The signing key cannot be used.
    #[error("failed to read the signing key")]
    SigningKey(#[source] jsonwebtoken::errors::Error),
    /// A system token is empty, which any request would match.
    #[error("failed to accept system token {0:?}: it is empty")]
    EmptySystemToken(String),
}

/// Issues ES256 access tokens. Cheap to clone.
#[derive(Clone)]
pub struct Issuer {
    inner: Arc<Inner>,
}

struct Inner {
    options: IssuerOptions,
    signing: RwLock<Arc<Signing>>,
    verifier: Verifier,
}

/// The key that signs, and all that verify, for strangers.
struct Signing {
    key_id: String,
    key: EncodingKey,
    jwks: serde_json::Value,
}

impl std::fmt::Debug for Issuer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issuer")
            .field("options", &self.inner.options)
            .field("key_id", &self.inner.signing().key_id)
            .finish_non_exhaustive()
    }
}

impl Issuer {
    /// An issuer that signs with the signing key of `keys`.
    ///
    /// # Errors
    /// [`IssuerError`] for an unusable key or an empty system token.
    pub fn new(keys: &Keys, options: IssuerOptions) -> Result<Self, IssuerError> {
        if let Some(empty) = options.system_tokens.iter().find(|token| token.token.expose_secret().is_empty())
        {
            return Err(IssuerError::EmptySystemToken(empty.name.clone()));
        }
        let (signing, ring) = signing(keys.signing_keys(), options.max_lifetime)?;
        let verifier = Verifier::new(options.issuer.clone(), ring, options.now.clone());
        Ok(Self { inner: Arc::new(Inner { options, signing: RwLock::new(Arc::new(signing)), verifier }) })
    }

    /// Signs and verifies with these keys from now on.
    ///
    /// # Errors
    /// [`IssuerError`] for an unusable key; nothing is changed then.
    pub fn use_keys(&self, keys: &SigningKeys) -> Result<(), IssuerError> {
        let (signing, ring) = signing(keys, self.inner.options.max_lifetime)?;
        // What is signed can be verified at once.
        self.inner.verifier.use_ring(ring);
        *self.inner.signing.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(signing);
        Ok(())
    }

    /// What verifies this issuer's tokens.
    pub fn verifier(&self) -> Verifier {
        self.inner.verifier.clone()
    }

    /// The public keys, as a JSON web key set.
    pub fn jwks(&self) -> serde_json::Value {
        self.inner.signing().jwks.clone()
    }

    /// Whether this is a system token that is accepted.
    ///
    /// # Errors
    /// [`GrantError`], if it is not.
    pub fn knows(&self, system_token: &str) -> Result<(), GrantError> {
        self.holder(system_token).map(drop)
    }

    /// Exchanges a system token.
    ///
    /// # Errors
    /// [`GrantError`], which says whether the token, the request or the right is at fault.
    pub fn exchange(&self, system_token: &str, request: &TokenRequest) -> Result<SecretString, GrantError> {
        let holder = self.holder(system_token)?;
        let audiences = validated(request)?;
        if let Audiences::Some(allowed) = &holder.allowed_audiences
            && let Some(refused) = audiences.iter().find(|audience| !allowed.contains(*audience))
        {
            return Err(GrantError::AudienceRefused {
                holder: holder.name.clone(),
                audience: refused.clone(),
            });
        }
        if !holder.namespaces.iter().any(|allowed| allowed == "*" || *allowed == request.namespace) {
            return Err(GrantError::NamespaceRefused {
                holder: holder.name.clone(),
                namespace: request.namespace.clone(),
            });
        }
        let holder_subject = format!("access-policy:{}", holder.name);
        let (subject, actor, rights) = match &request.subject_token {
            None => (holder_subject, None, holder.rights.clone()),
            Some(subject_token) => {
                let subject = self
                    .inner
                    .verifier
                    .claims(subject_token)
                    .map_err(|error| GrantError::BadRequest(format!("subjectToken: {error}")))?;
                if subject.namespace != "*" && subject.namespace != request.namespace {
                    return Err(GrantError::NamespaceRefused {
                        holder: subject.sub,
                        namespace: request.namespace.clone(),
                    });
                }
                let rights = holder.rights.and(&subject.rights);
                let rights =
                    rights.ok_or_else(|| GrantError::NothingInCommon { holder: holder.name.clone() })?;
                (subject.sub, Some(Actor { sub: holder_subject }), rights)
            }
        };
        self.sign(subject, actor, rights, audiences, request)
    }

    /// Issues a token without a system token, for callers inside this process.
    ///
    /// # Errors
    /// [`GrantError::BadRequest`] for an empty namespace or audience list.
    pub fn issue(&self, subject: &str, request: &TokenRequest) -> Result<SecretString, GrantError> {
        let audiences = validated(request)?;
        self.sign(subject.to_owned(), None, Rights::default(), audiences, request)
    }

    fn sign(
        &self,
        sub: String,
        act: Option<Actor>,
        rights: Rights,
        aud: Vec<String>,
        request: &TokenRequest,
    ) -> Result<SecretString, GrantError> {
        let options = &self.inner.options;
        let lifetime = match request.expires_in {
            None => options.lifetime,
            Some(seconds) => match u64::try_from(seconds) {
                Ok(seconds) if seconds > 0 => Duration::from_secs(seconds),
                _ => {
                    return Err(GrantError::BadRequest(
                        "expiresIn must be a positive number of seconds".into(),
                    ));
                }
            },
        }
        .min(options.max_lifetime);
        let iat = (options.now)().as_second();
        let mut id = [0_u8; 16];
        aws_lc_rs::rand::fill(&mut id).map_err(|_| GrantError::Sign)?;
        let claims = Claims {
            iss: options.issuer.clone(),
            sub,
            aud,
            exp: iat.saturating_add_unsigned(lifetime.as_secs()),
            iat,
            jti: URL_SAFE_NO_PAD.encode(id),
            namespace: request.namespace.clone(),
            rights,
            act,
        };
        let signing = self.inner.signing();
        let mut header = Header::new(Algorithm::ES256);
        header.kid = Some(signing.key_id.clone());
        // RFC 9068, and what Grafana's own verifiers ask for.
        header.typ = Some("at+jwt".to_owned());
        jsonwebtoken::encode(&header, &claims, &signing.key).map(SecretString::from).map_err(|error| {
            tracing::error!(error = %error, "failed to sign an access token");
            GrantError::Sign
        })
    }

    /// Finds the holder in time that depends on nothing secret: digests of equal length are compared, all of them.
    fn holder(&self, presented: &str) -> Result<&SystemToken, GrantError> {
        let presented_digest = digest(&SHA256, presented.as_bytes());
        let mut found = None;
        for candidate in &self.inner.options.system_tokens {
            let candidate_digest = digest(&SHA256, candidate.token.expose_secret().as_bytes());
            let equal: Choice = candidate_digest.as_ref().ct_eq(presented_digest.as_ref());
            if bool::from(equal) {
                found = Some(candidate);
            }
        }
        found.ok_or(if presented == DEFAULT_SYSTEM_TOKEN {
            GrantError::DefaultTokenRefused
        } else {
            GrantError::UnknownSystemToken
        })
    }
}

impl Inner {
    fn signing(&self) -> Arc<Signing> {
        self.signing.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What signs and what verifies. The previous key does as long as a token of it may live.
fn signing(keys: &SigningKeys, max_lifetime: Duration) -> Result<(Signing, Ring), IssuerError> {
    let mut ring = Ring { keys: HashMap::new(), revoked: keys.revoked.clone() };
    let mut published = Vec::new();
    let mut add = |key: &SigningKey, until: Option<Timestamp>| {
        let (x, y) = key.point();
        let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
        // RFC 7638: the thumbprint names the key, so that restarts agree on it.
        let thumbprint = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
        let key_id = URL_SAFE_NO_PAD.encode(digest(&SHA256, thumbprint.as_bytes()));
        let decoding = DecodingKey::from_ec_components(&x, &y).map_err(IssuerError::SigningKey)?;
        ring.keys.insert(key_id.clone(), (decoding, until));
        published.push(serde_json::json!({
            "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": key_id, "x": x, "y": y,
        }));
        Ok(key_id)
    };
    if let Some(previous) = &keys.previous {
        let until = Timestamp::try_from(keys.since + max_lifetime).unwrap_or(Timestamp::MIN);
        add(previous, Some(until))?;
    }
    let key_id = add(&keys.newest, None)?;
    published.reverse();
    let key = EncodingKey::from_ec_pem(keys.newest.pem.expose_secret().as_bytes())
        .map_err(IssuerError::SigningKey)?;
    Ok((Signing { key_id, key, jwks: serde_json::json!({ "keys": published }) }, ring))
}

/// The audiences, sorted and unique, of a request that names a namespace and at least one audience.
fn validated(request: &TokenRequest) -> Result<Vec<String>, GrantError> {
    let bad = |message: &str| Err(GrantError::BadRequest(message.to_owned()));
    if request.namespace.is_empty() {
        return bad("namespace is required (\"*\" for all)");
    }
    if request.namespace.len() > 253 {
        return bad("namespace is longer than 253 characters");
    }
    if request.audiences.is_empty() {
        return bad("audiences needs at least one entry");
    }
    if request.audiences.len() > 32 {
        return bad("audiences has more than 32 entries");
    }
    if request.audiences.iter().any(|audience| audience.is_empty() || audience.len() > 253) {
        return bad("audiences must have 1 to 253 characters each");
    }
    let mut audiences = request.audiences.clone();
    audiences.sort_unstable();
    audiences.dedup();
    Ok(audiences)
}
