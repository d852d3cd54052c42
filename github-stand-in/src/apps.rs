//! Apps: their keys, the check of their claims, the tokens of their installations.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::Duration;

use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::KeyPair as _;
use base64::Engine as _;
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use secrecy::SecretString;
use serde::Deserialize;

/// An App that is installed, as its owner has it.
#[derive(Clone, Debug)]
pub struct InstalledApp {
    /// Its ID.
    pub id: String,
    /// The installation's ID.
    pub installation: u64,
    /// Its private key, PEM (PKCS#8).
    pub private_key: SecretString,
}

/// The key of every App here: making one takes long.
fn key() -> &'static KeyPair {
    static KEY: OnceLock<KeyPair> = OnceLock::new();
    #[expect(clippy::expect_used, reason = "without randomness no test can go on")]
    KEY.get_or_init(|| KeyPair::generate(KeySize::Rsa2048).expect("an RSA key"))
}

/// The public key (PKCS#1, DER) that claims of Apps are checked with.
pub fn public_key() -> &'static [u8] {
    key().public_key().as_ref()
}

fn private_key() -> SecretString {
    #[expect(clippy::expect_used, reason = "a key that was just made can be written")]
    let der = key().as_der().expect("the key as DER");
    let text = base64::engine::general_purpose::STANDARD.encode(der.as_ref());
    let lines: Vec<_> =
        text.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    let begin = "-----BEGIN PRIVATE KEY-----";
    SecretString::from(format!("{begin}\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n")))
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    iat: i64,
    exp: i64,
}

/// All Apps, and the tokens that they were given.
#[derive(Default)]
pub(crate) struct Apps {
    installed: HashMap<u64, String>,
    tokens: HashMap<String, Timestamp>,
    /// How many tokens were given.
    pub(crate) minted: usize,
    /// How long the next ones live; an hour unless told otherwise.
    pub(crate) lifetime: Option<Duration>,
}

/// Why an App gets no token.
pub(crate) enum NoToken {
    /// The claim is refused, with GitHub's words.
    Claim(&'static str),
    /// There is no such installation of the App.
    Installation,
}

impl Apps {
    pub(crate) fn install(&mut self, id: &str, installation: u64) -> InstalledApp {
        self.installed.insert(installation, id.to_owned());
        InstalledApp { id: id.to_owned(), installation, private_key: private_key() }
    }

    pub(crate) fn any(&self) -> bool {
        !self.installed.is_empty()
    }

    /// Whether a token was given and lives.
    pub(crate) fn knows(&self, token: &str) -> bool {
        self.tokens.get(token).is_some_and(|until| Timestamp::now() < *until)
    }

    /// All tokens end now.
    pub(crate) fn revoke(&mut self) {
        self.tokens.clear();
    }

    /// A token for an installation, and when it ends, if `claim` is the App's.
    pub(crate) fn mint(
        &mut self,
        claim: Option<&str>,
        installation: u64,
    ) -> Result<(String, Timestamp), NoToken> {
        let claim = claim.ok_or(NoToken::Claim("A JSON web token could not be decoded"))?;
        let mut validation = Validation::new(Algorithm::RS256);
        validation.validate_aud = false;
        validation.leeway = 0;
        validation.set_required_spec_claims(&["exp", "iss"]);
        let claims =
            jsonwebtoken::decode::<Claims>(claim, &DecodingKey::from_rsa_der(public_key()), &validation)
                .map_err(|_| NoToken::Claim("A JSON web token could not be decoded"))?
                .claims;
        let now = Timestamp::now().as_second();
        if claims.iat > now {
            return Err(NoToken::Claim("'Issued at' claim ('iat') must be an Integer in the past"));
        }
        if claims.exp > now + 600 {
            return Err(NoToken::Claim("'Expiration time' claim ('exp') is too far in the future"));
        }
        if !self.installed.values().any(|id| *id == claims.iss) {
            return Err(NoToken::Claim("Integration not found"));
        }
        if self.installed.get(&installation) != Some(&claims.iss) {
            return Err(NoToken::Installation);
        }
        self.minted += 1;
        let until = Timestamp::now() + self.lifetime.unwrap_or(Duration::from_hours(1));
        // GitHub's tokens look like this, so that scanners find them.
        let token = format!("ghs_{:036}", self.minted);
        self.tokens.insert(token.clone(), until);
        Ok((token, until))
    }
}
