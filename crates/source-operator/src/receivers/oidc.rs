//! Senders that show a token of an issuer (OIDC) in place of a signature: whose it is, whom it is for, and what
//! the receiver wants of it. Flux: `receiver_oidc.go`, `receiver_claims.go`.
//!
//! Keys are found by discovery, once for all receivers, and again when a token names one that is not known.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use jiff::Timestamp;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::Value;
use tokio::time::Instant;
use windlass_api::flux::{OidcProvider, ReceiverSpec};
use windlass_apimachinery::cel::{Condition, Session};
use windlass_git::Git;
use windlass_http_client::{Deadlines, Tls, builder, judging_resolver, send};
use windlass_telemetry::ErrorChain;

/// The type of receiver whose senders show tokens.
pub(super) const TYPE: &str = "generic-oidc";
/// Who issues tokens to Google's accounts.
const GOOGLE: &str = "https://accounts.google.com";
/// Whom tokens are for where the receiver does not say.
const AUDIENCE: &str = "notification-controller";
/// How long keys are good, and how soon they, or a failure, may be asked for again.
const KEYS_LAST: Duration = Duration::from_hours(1);
const AGAIN: Duration = Duration::from_secs(10);
/// Issuers that are remembered.
const MAX_ISSUERS: usize = 64;
/// The most bytes of an issuer's answer.
const MAX_ANSWER: u64 = 1 << 20;
const DEADLINES: Deadlines = Deadlines {
    connect: Duration::from_secs(5),
    read: Duration::from_secs(5),
    total: Duration::from_secs(10),
};
/// How far ahead of ours an issuer's clock may be. go-oidc: `verify.go`.
const LEEWAY: f64 = 300.0;
/// How long the variables and validations of a provider may take.
const WITHIN: Duration = Duration::from_secs(1);
/// Signatures with an issuer's public key: all but those with a secret, which a public key would be taken for.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// Whether what a receiver says of providers goes with its type; else what is wrong.
pub(super) fn judge(spec: &ReceiverSpec) -> Result<(), String> {
    match (spec.kind == TYPE, spec.oidc_providers.is_empty(), spec.secret_ref.is_some()) {
        (true, true, _) => {
            return Err("generic-oidc receivers must define at least one oidcProvider".to_owned());
        }
        (false, false, _) => {
            return Err("oidcProviders can only be set when type is generic-oidc".to_owned());
        }
        (true, _, true) => return Err("secretRef cannot be set when type is generic-oidc".to_owned()),
        (false, _, false) => return Err("secretRef is required when type is not generic-oidc".to_owned()),
        _ => {}
    }
    for (index, provider) in spec.oidc_providers.iter().enumerate() {
        let issuer = &provider.issuer_url;
        let wrong = |why: &str| Err(format!("oidcProviders[{index}] ({issuer:?}): {why}"));
        if !issuer.starts_with("https://") && !issuer.starts_with("http://") {
            return wrong("issuerURL must start with https:// or http://");
        }
        if spec.oidc_providers[..index].iter().any(|other| other.issuer_url == *issuer) {
            return wrong("issuerURL is there twice");
        }
        if provider.validations.is_empty() {
            return wrong(
                "it has no validations, so that everybody with a token of this issuer would be let in",
            );
        }
    }
    Ok(())
}

/// An account of Google's, which registries there send as.
pub(super) struct GoogleAccount {
    pub(super) email: String,
    pub(super) audience: String,
}

impl GoogleAccount {
    /// Who issues its tokens, and for whom.
    pub(super) fn provider(&self) -> OidcProvider {
        OidcProvider {
            issuer_url: GOOGLE.to_owned(),
            audience: Some(self.audience.clone()),
            ..OidcProvider::default()
        }
    }

    /// Whether a token is this account's; else why not.
    pub(super) fn judge(&self, claims: &Value) -> Result<(), String> {
        if claims["email"].as_str() != Some(&self.email) {
            return Err("its token is another account's".to_owned());
        }
        if claims["email_verified"] != Value::Bool(true) {
            return Err("the account of its token is not verified".to_owned());
        }
        Ok(())
    }
}

/// What a provider's tokens have to say, compiled.
pub(super) struct Checks {
    variables: Vec<(String, Condition)>,
    validations: Vec<(Condition, String)>,
}

impl Checks {
    /// # Errors
    /// Which expression is none, and why.
    pub(super) fn compile(provider: &OidcProvider) -> Result<Self, String> {
        const NAMES: [&str; 2] = ["claims", "vars"];
        let variables = provider.variables.iter().map(|it| {
            let compiled = Condition::compile_value(&it.expression, &NAMES);
            let compiled = compiled.map_err(|why| format!("variable {:?}: {why}", it.name))?;
            Ok((it.name.clone(), compiled))
        });
        let validations = provider.validations.iter().map(|it| {
            let compiled = Condition::compile(&it.expression, &NAMES);
            let compiled = compiled.map_err(|why| format!("validation {:?}: {why}", it.message))?;
            Ok((compiled, it.message.clone()))
        });
        Ok(Self {
            variables: variables.collect::<Result<_, String>>()?,
            validations: validations.collect::<Result<_, String>>()?,
        })
    }

    /// Whether all of it is true of a token; else the messages of what is not. It blocks.
    fn hold(&self, claims: &Value) -> Result<(), String> {
        let held = Session::run(WITHIN, |session| {
            session.set("claims", claims);
            session.set("vars", &Value::Object(serde_json::Map::new()));
            for (name, expression) in &self.variables {
                session
                    .set_entry("vars", name, expression)
                    .map_err(|why| format!("the variable {name:?} has no value: {why}"))?;
            }
            let mut broken = Vec::new();
            for (validation, message) in &self.validations {
                let holds = session.holds(validation);
                if !holds.map_err(|why| format!("a validation cannot be evaluated: {why}"))? {
                    broken.push(message.as_str());
                }
            }
            if broken.is_empty() { Ok(()) } else { Err(broken.join("; ")) }
        });
        held.unwrap_or_else(|| Err("its validations cannot be evaluated".to_owned()))
    }
}

/// The keys of issuers.
pub(super) struct Issuers {
    git: Git,
    known: Mutex<HashMap<String, Arc<tokio::sync::Mutex<Option<Asked>>>>>,
}

/// What an issuer said, and when.
struct Asked {
    at: Instant,
    keys: Result<Arc<Keys>, String>,
}

struct Keys {
    algorithms: Vec<Algorithm>,
    keys: Vec<Jwk>,
}

impl Keys {
    /// Those that a token may be signed with.
    fn named<'a>(&'a self, id: Option<&'a str>) -> impl Iterator<Item = &'a Jwk> {
        self.keys.iter().filter(move |key| id.is_none_or(|id| key.common.key_id.as_deref() == Some(id)))
    }
}

impl Issuers {
    /// None is known yet; those are asked that `git` would connect to.
    pub(super) fn new(git: Git) -> Self {
        Self { git, known: Mutex::default() }
    }

    /// What the token of one of these says that a request shows, if it is good; else why it is not, without any of it.
    pub(super) async fn claims(
        &self,
        providers: &[OidcProvider],
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Result<Value, String> {
        let shown = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = shown.and_then(|value| value.strip_prefix("Bearer ")).map(str::trim);
        let token = token.ok_or("it shows no bearer token in Authorization")?;
        let header = jsonwebtoken::decode_header(token).map_err(|_| "its token is no JSON web token")?;
        let issuer = issuer(token).ok_or("its token names no issuer")?;
        let provider = providers.iter().find(|provider| provider.issuer_url == issuer);
        let provider = provider.ok_or("its token is of an issuer that is not wanted")?;
        let keys = self.keys(&provider.issuer_url, header.kid.as_deref()).await?;
        if !keys.algorithms.contains(&header.alg) {
            return Err(format!("its token is signed with {:?}, which the issuer does not use", header.alg));
        }
        let mut validation = Validation::new(header.alg);
        // They are judged below, by the clock that everything here goes by.
        validation.validate_exp = false;
        validation.validate_aud = false;
        validation.required_spec_claims.clear();
        let verified = keys.named(header.kid.as_deref()).find_map(|key| {
            let key = DecodingKey::from_jwk(key).ok()?;
            jsonwebtoken::decode::<Value>(token, &key, &validation).ok()
        });
        let claims = verified.ok_or("its token is signed with none of the issuer's keys")?.claims;
        judge_claims(&claims, provider, now)?;
        let checks = Checks::compile(provider)?;
        let held = tokio::task::spawn_blocking(move || checks.hold(&claims).map(|()| claims));
        held.await.map_err(|_| "its token cannot be judged")?
    }

    async fn keys(&self, issuer: &str, id: Option<&str>) -> Result<Arc<Keys>, String> {
        let entry = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() >= MAX_ISSUERS && !known.contains_key(issuer) {
                known.clear();
            }
            Arc::clone(known.entry(issuer.to_owned()).or_default())
        };
        let mut entry = entry.lock().await;
        let is_good = |asked: &&Asked| {
            let age = asked.at.elapsed();
            let is_known = asked.keys.as_ref().is_ok_and(|keys| keys.named(id).next().is_some());
            age < if is_known { KEYS_LAST } else { AGAIN }
        };
        if let Some(asked) = entry.as_ref().filter(is_good) {
            return asked.keys.clone();
        }
        let keys = self.discover(issuer).await.map(Arc::new);
        *entry = Some(Asked { at: Instant::now(), keys: keys.clone() });
        keys
    }

    async fn discover(&self, issuer: &str) -> Result<Keys, String> {
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let told = self.get(&url).await?;
        if told["issuer"].as_str() != Some(issuer) {
            return Err(format!("{url} is of another issuer"));
        }
        let algorithm = |name: &Value| serde_json::from_value::<Algorithm>(name.clone()).ok();
        let named = told["id_token_signing_alg_values_supported"].as_array().into_iter().flatten();
        let mut algorithms: Vec<_> =
            named.filter_map(algorithm).filter(|it| ALGORITHMS.contains(it)).collect();
        if algorithms.is_empty() {
            algorithms.push(Algorithm::RS256);
        }
        let url = told["jwks_uri"].as_str().ok_or_else(|| format!("{url} names no keys"))?;
        let set = self.get(url).await?;
        let keys = set["keys"].as_array().ok_or_else(|| format!("{url} has no keys"))?;
        // Keys of kinds that nobody here knows are passed over.
        let keys = keys.iter().filter_map(|key| serde_json::from_value(key.clone()).ok()).collect();
        Ok(Keys { algorithms, keys })
    }

    /// A document of an issuer's, from a server that Git would be asked of.
    async fn get(&self, url: &str) -> Result<Value, String> {
        let failed = |why: &dyn std::fmt::Display| format!("failed to ask the issuer at {url}: {why}");
        let addresses = self.git.addresses_of(url).map_err(|error| failed(&ErrorChain(&error)))?;
        let tls = self.git.ca_bundle().map_or_else(|| Ok(Tls::default()), Tls::of_bundle);
        let tls = tls.map_err(|error| failed(&error))?;
        let mut client = builder(&tls, DEADLINES.connect);
        if let Some(refused) = addresses {
            client = client.dns_resolver(judging_resolver(refused));
        }
        let client = client.build().map_err(|error| failed(&ErrorChain(&error)))?;
        let deadline = DEADLINES.begin();
        let answer = send(client.get(url), &deadline).await.map_err(|why| failed(&format!("{why:?}")))?;
        if !answer.status().is_success() {
            return Err(failed(&answer.status()));
        }
        let bytes = answer.body(MAX_ANSWER).await.map_err(|why| failed(&format!("{why:?}")))?;
        serde_json::from_slice(&bytes).map_err(|_| failed(&"its answer is no JSON"))
    }
}

/// Who says to have issued a token; nobody has verified that yet.
fn issuer(token: &str) -> Option<String> {
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    Some(serde_json::from_slice::<Value>(&payload).ok()?["iss"].as_str()?.to_owned())
}

/// Whether claims are for whom they have to be, now.
fn judge_claims(claims: &Value, provider: &OidcProvider, now: Timestamp) -> Result<(), String> {
    let now = now.as_duration().as_secs_f64();
    if claims["iss"].as_str() != Some(&provider.issuer_url) {
        return Err("its token is of another issuer".to_owned());
    }
    let wanted = provider.audience.as_deref().filter(|it| !it.is_empty()).unwrap_or(AUDIENCE);
    let is_for = match &claims["aud"] {
        Value::Array(all) => all.iter().any(|one| one.as_str() == Some(wanted)),
        one => one.as_str() == Some(wanted),
    };
    if !is_for {
        return Err(format!("its token is not for {wanted:?}"));
    }
    if claims["exp"].as_f64().is_none_or(|until| until <= now) {
        return Err("its token has expired".to_owned());
    }
    if claims["nbf"].as_f64().is_some_and(|since| since > now + LEEWAY) {
        return Err("its token is not good yet".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_registry_of_googles_sends_as_the_account_that_is_named() {
        let email = "push@project.iam.gserviceaccount.com";
        let account = GoogleAccount { email: email.to_owned(), audience: "https://here/hook/1".to_owned() };
        let provider = account.provider();
        assert_eq!(
            (provider.issuer_url.as_str(), provider.audience.as_deref()),
            (GOOGLE, Some("https://here/hook/1"))
        );
        let now = Timestamp::from_second(1_000).unwrap();
        let claims = |but: Value| {
            let mut claims = json!({
                "iss": GOOGLE, "aud": "https://here/hook/1", "exp": 2_000, "email": email, "email_verified": true,
            });
            claims.as_object_mut().unwrap().extend(but.as_object().unwrap().clone());
            claims
        };
        let judged = |but: Value| {
            let claims = claims(but);
            judge_claims(&claims, &provider, now).and_then(|()| account.judge(&claims))
        };
        assert_eq!(judged(json!({})), Ok(()));
        for but in [
            json!({"aud": "https://elsewhere"}),
            json!({"iss": "https://example.org"}),
            json!({"exp": 900}),
            json!({"email": "other@project.iam.gserviceaccount.com"}),
            json!({"email": null}),
            json!({"email_verified": false}),
            json!({"email_verified": "true"}),
        ] {
            assert!(judged(but.clone()).is_err(), "{but}");
        }
    }
}
