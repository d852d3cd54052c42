//! Apps: their keys, the check of their claims, the tokens of their installations.

use std::collections::{BTreeMap, BTreeSet, HashMap};
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
    KEY.get_or_init(new_key)
}

/// The public key (PKCS#1, DER) that claims of Apps are checked with.
pub fn public_key() -> &'static [u8] {
    key().public_key().as_ref()
}

/// A private key that is no App's here, PEM (PKCS#8).
pub fn foreign_key() -> SecretString {
    pem(&new_key())
}

fn new_key() -> KeyPair {
    #[expect(clippy::expect_used, reason = "without randomness no test can go on")]
    KeyPair::generate(KeySize::Rsa2048).expect("an RSA key")
}

fn pem(key: &KeyPair) -> SecretString {
    #[expect(clippy::expect_used, reason = "a key that was just made can be written")]
    let der = key.as_der().expect("the key as DER");
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

/// What installations are granted, unless told otherwise: what a writing operator needs.
const GRANTED: [(&str, &str); 4] =
    [("contents", "write"), ("metadata", "read"), ("pull_requests", "write"), ("repository_hooks", "write")];

/// Permissions by name.
pub(crate) type Grants = BTreeMap<String, String>;

/// An installation.
pub(crate) struct Installed {
    pub(crate) app: String,
    /// The organisation or user that installed it.
    pub(crate) owner: String,
    /// Whether that is an organisation.
    pub(crate) by_organisation: bool,
    pub(crate) grants: Grants,
    pub(crate) suspended: bool,
}

/// What a token may do.
#[derive(Clone)]
pub(crate) struct Token {
    until: Timestamp,
    installation: u64,
    pub(crate) grants: Grants,
    /// Names of repositories, without owner; all if there are none.
    pub(crate) repositories: Vec<String>,
}

/// What an App wants a token for.
#[derive(Default, Deserialize)]
pub(crate) struct Wanted {
    #[serde(default)]
    permissions: Grants,
    #[serde(default)]
    pub(crate) repositories: Vec<String>,
}

/// All Apps, and the tokens that they were given.
#[derive(Default)]
pub(crate) struct Apps {
    installed: HashMap<u64, Installed>,
    /// IDs of Apps that there are, installed or not.
    known: BTreeSet<String>,
    tokens: HashMap<String, Token>,
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
    /// It was suspended.
    Suspended,
    /// More is wanted than was granted.
    Permissions,
}

impl Apps {
    pub(crate) fn install(&mut self, id: &str, installation: u64) -> InstalledApp {
        let grants = GRANTED.map(|(name, extent)| (name.to_owned(), extent.to_owned())).into();
        let installed = Installed {
            app: id.to_owned(),
            owner: "grafana".to_owned(),
            by_organisation: true,
            grants,
            suspended: false,
        };
        self.known.insert(id.to_owned());
        self.installed.insert(installation, installed);
        InstalledApp { id: id.to_owned(), installation, private_key: pem(key()) }
    }

    pub(crate) fn any(&self) -> bool {
        !self.known.is_empty()
    }

    /// An installation, to change what it may.
    pub(crate) fn installation(&mut self, id: u64) -> Option<&mut Installed> {
        self.installed.get_mut(&id)
    }

    /// The number of the installation of this organisation, or user; 0, which is nobody's, if there is none.
    pub(crate) fn installed_by(&self, by_organisation: bool, owner: &str) -> u64 {
        let is_owners = |it: &Installed| it.by_organisation == by_organisation && it.owner == owner;
        self.installed.iter().find(|(_, it)| is_owners(it)).map_or(0, |(number, _)| *number)
    }

    /// Its owner removes an installation.
    pub(crate) fn uninstall(&mut self, installation: u64) {
        self.installed.remove(&installation);
        self.tokens.retain(|_, token| token.installation != installation);
    }

    /// Nothing is left of an App.
    pub(crate) fn delete(&mut self, id: &str) {
        self.known.remove(id);
        let all: Vec<u64> =
            self.installed.iter().filter(|(_, it)| it.app == id).map(|(number, _)| *number).collect();
        for installation in all {
            self.uninstall(installation);
        }
    }

    /// What a token that was given may do, as long as it lives.
    pub(crate) fn token(&self, token: &str) -> Option<&Token> {
        self.tokens.get(token).filter(|token| Timestamp::now() < token.until)
    }

    /// All tokens end now.
    pub(crate) fn revoke(&mut self) {
        self.tokens.clear();
    }

    /// The App's ID, if `claim` is the App's.
    pub(crate) fn claimed(&self, claim: Option<&str>) -> Result<String, NoToken> {
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
        if !self.known.contains(&claims.iss) {
            return Err(NoToken::Claim("Integration not found"));
        }
        Ok(claims.iss)
    }

    /// The installation, if `claim` is its App's.
    pub(crate) fn installed(&self, claim: Option<&str>, id: u64) -> Result<&Installed, NoToken> {
        let app = self.claimed(claim)?;
        self.installed.get(&id).filter(|installed| installed.app == app).ok_or(NoToken::Installation)
    }

    /// A token for an installation, when it ends and what it may do, if `claim` is its App's.
    pub(crate) fn mint(
        &mut self,
        claim: Option<&str>,
        installation: u64,
        wanted: Wanted,
    ) -> Result<(String, Timestamp, Grants), NoToken> {
        let installed = self.installed(claim, installation)?;
        if installed.suspended {
            return Err(NoToken::Suspended);
        }
        let rank = |extent: Option<&String>| match extent.map(String::as_str) {
            Some("read") => 1,
            Some("write") => 2,
            Some("admin") => 3,
            _ => 0,
        };
        let more = |(name, extent): (&String, &String)| rank(Some(extent)) > rank(installed.grants.get(name));
        if wanted.permissions.iter().any(more) {
            return Err(NoToken::Permissions);
        }
        let mut grants =
            if wanted.permissions.is_empty() { installed.grants.clone() } else { wanted.permissions };
        grants.entry("metadata".to_owned()).or_insert_with(|| "read".to_owned());
        self.minted += 1;
        let until = Timestamp::now() + self.lifetime.unwrap_or(Duration::from_hours(1));
        // GitHub's tokens look like this, so that scanners find them.
        let text = format!("ghs_{:036}", self.minted);
        let token = Token { until, installation, grants: grants.clone(), repositories: wanted.repositories };
        self.tokens.insert(text.clone(), token);
        Ok((text, until, grants))
    }
}
