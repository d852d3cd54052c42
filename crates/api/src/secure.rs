//! Secret values inside an object.

use std::fmt;

use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::wire::is_zero;

/// One secret of an object: a raw value on the way in, a reference on the way out.
///
/// Serialising it writes the raw value, since that is how a client hands a secret over; printing it with
/// `Debug` never does.
#[derive(Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InlineSecureValue {
    /// The raw secret. Windlass's own API server seals it and keeps a reference; on Kubernetes it is refused: create a
    /// Secret, and give its name.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "expose",
        deserialize_with = "conceal"
    )]
    #[schemars(with = "String", length(min = 1, max = 24576))]
    pub create: Option<SecretString>,
    /// Name of the Secret in the same namespace that holds the value.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(length(max = 253))]
    pub name: String,
    /// Asks for the removal of the stored secret.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub remove: bool,
}

impl InlineSecureValue {
    /// The longest raw value that is accepted, in bytes.
    pub const MAX_LENGTH: usize = 24_576;

    /// A reference to a stored secret.
    pub fn reference(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// A raw value to be stored.
    pub fn raw(value: impl Into<String>) -> Self {
        Self { create: Some(SecretString::from(value.into())), ..Self::default() }
    }

    /// Whether there is a value: raw or stored, and not about to be removed.
    pub fn is_set(&self) -> bool {
        !self.remove && (self.create.is_some() || !self.name.is_empty())
    }
}

impl fmt::Debug for InlineSecureValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InlineSecureValue")
            .field("create", &self.create.as_ref().map(|_| "[redacted]"))
            .field("name", &self.name)
            .field("remove", &self.remove)
            .finish()
    }
}

/// Compares raw values in variable time: for tests and change detection, never for authentication.
impl PartialEq for InlineSecureValue {
    fn eq(&self, other: &Self) -> bool {
        let raw = |value: &Self| value.create.as_ref().map(|secret| secret.expose_secret().to_owned());
        raw(self) == raw(other) && self.name == other.name && self.remove == other.remove
    }
}

#[expect(clippy::ref_option, reason = "the signature that serde calls")]
fn expose<S: Serializer>(value: &Option<SecretString>, serializer: S) -> Result<S::Ok, S::Error> {
    value.as_ref().map(ExposeSecret::expose_secret).serialize(serializer)
}

fn conceal<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SecretString>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.map(SecretString::from))
}

/// Refuses a secret that is given in more than one way.
pub const ONE_OF: &str = "only one of create, name and remove may be set";

/// The rules of secret values: the field under `secure`, the names of its three rules, and the member.
macro_rules! secure_rules {
    ($($field:literal $raw:literal $twice:literal $name:literal $member:ident),* $(,)?) => {
        [$(
            // On the secret's own object, and as a refusal that prints no value: no server repeats the secret.
            $crate::rules::Rule::forbidden(
                ($raw, concat!("secure.", $field), "create"),
                concat!(
                    "a raw value would be stored in the clear: create a Secret with the value under the key ", $field,
                    ", and name it in secure.", $field, ".name"
                ),
                "!has(self.create)",
                $crate::rules::Check::Elsewhere,
            ),
            $crate::rules::Rule::forbidden(
                ($twice, concat!("secure.", $field), ""),
                $crate::secure::ONE_OF,
                "!(has(self.name) && self.name != '' && has(self.remove) && self.remove)",
                $crate::rules::Check::Object(|new| {
                    let value = &new.secure.$member;
                    let given = [value.create.is_some(), !value.name.is_empty(), value.remove];
                    given.into_iter().filter(|given| *given).count() > 1
                }),
            ),
            $crate::rules::Rule::invalid(
                ($name, concat!("secure.", $field), "name"),
                "expected the name of a Secret: lower-case letters, digits, dashes and dots",
                "!has(self.name) || self.name == '' || \
                 self.name.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')",
                $crate::rules::Check::Object(|new| {
                    let name = &new.secure.$member.name;
                    !name.is_empty() && !$crate::secure::is_secret_name(name)
                }),
            ),
        )*]
    };
}
pub(crate) use secure_rules;

/// The secrets of a repository.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecureValues {
    /// Token with which the repository is read and written.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    pub token: InlineSecureValue,
    /// Secret that signs the provider's webhook calls.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    pub webhook_secret: InlineSecureValue,
    /// Private key that signs commits.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    pub commit_signing_key: InlineSecureValue,
}

impl SecureValues {
    /// Each field with the name of the Secret that it refers to, empty when it refers to none.
    pub fn named(&self) -> [(&'static str, &str); 3] {
        [
            ("token", &self.token.name),
            ("webhookSecret", &self.webhook_secret.name),
            ("commitSigningKey", &self.commit_signing_key.name),
        ]
    }
}

/// Whether an object of this name can be: anything else could lead a request elsewhere. (RFC 1123, subdomain.)
pub fn is_secret_name(name: &str) -> bool {
    let part = |part: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let ends = part.bytes().next().is_some_and(plain) && part.bytes().last().is_some_and(plain);
        ends && part.bytes().all(|byte| plain(byte) || byte == b'-')
    };
    name.len() <= 253 && name.split('.').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_would_lead_a_request_elsewhere_is_none() {
        for name in ["a", "git-token", "a.b-c.d", "0"] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "",
            ".",
            "..",
            "../other",
            "a/b",
            "a..b",
            "-a",
            "a-",
            "A",
            "a_b",
            "a?b",
            "a%2fb",
            "ä",
            &"a".repeat(254),
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }
}
