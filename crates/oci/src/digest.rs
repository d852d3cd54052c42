//! What content is addressed by.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256, Sha512};
use windlass_http_client::printable;

use crate::OciError;

/// `sha256:…` or `sha512:…`, in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(String);

impl Digest {
    /// The digest of `content`, by SHA-256.
    pub fn of(content: &[u8]) -> Self {
        Self(format!("sha256:{}", hex::encode(Sha256::digest(content))))
    }

    /// Whether it is the digest of `content`; if not, what that would be.
    ///
    /// # Errors
    /// The digest that `content` has by the same algorithm.
    pub fn verify(&self, content: &[u8]) -> Result<(), Self> {
        let found = if self.0.starts_with("sha512:") {
            Self(format!("sha512:{}", hex::encode(Sha512::digest(content))))
        } else {
            Self::of(content)
        };
        if found == *self { Ok(()) } else { Err(found) }
    }

    /// `algorithm:hex`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Digest {
    type Err = OciError;

    /// Hex digits in either case.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let length = match text.split_once(':') {
            Some(("sha256", _)) => 64,
            Some(("sha512", _)) => 128,
            _ => 0,
        };
        let digits = text.split_once(':').map_or("", |(_, digits)| digits);
        if length > 0 && digits.len() == length && digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Ok(Self(text.to_ascii_lowercase()));
        }
        Err(OciError::Invalid {
            text: printable(text, 160),
            what: "digest",
            detail: "expected sha256: and 64 hexadecimal digits, or sha512: and 128".into(),
        })
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Digest;

    const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn digests_are_read_in_either_case_and_nothing_else_is() {
        let digest: Digest = EMPTY.to_uppercase().replace("SHA256", "sha256").parse().unwrap();
        assert_eq!(digest.as_str(), EMPTY);
        for wrong in
            ["", "sha256", "sha256:", "sha256:abc", "md5:d41d8cd98f00b204e9800998ecf8427e", &EMPTY[7..]]
        {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
        assert!(EMPTY.replace('3', "g").parse::<Digest>().is_err());
        assert!(format!("{EMPTY}0").parse::<Digest>().is_err());
    }

    #[test]
    fn content_is_what_its_digest_names() {
        let digest: Digest = EMPTY.parse().unwrap();
        assert_eq!(digest.verify(b""), Ok(()));
        assert_eq!(digest.verify(b"x"), Err(Digest::of(b"x")));
        let long: Digest = format!("sha512:{}", "0".repeat(128)).parse().unwrap();
        assert!(long.verify(b"").unwrap_err().as_str().starts_with("sha512:cf83e135"));
    }
}
