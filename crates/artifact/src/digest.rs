//! Digests as an artifact's status has them: `sha256:` and hexadecimal digits.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest;

/// How a digest is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// SHA-256.
    #[default]
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
    /// BLAKE3, of 256 bits.
    Blake3,
}

impl Algorithm {
    /// All of them, by name.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("sha256", Self::Sha256),
        ("sha384", Self::Sha384),
        ("sha512", Self::Sha512),
        ("blake3", Self::Blake3),
    ];

    /// Its name, as it stands before the colon.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }

    fn digits(self) -> usize {
        match self {
            Self::Sha256 | Self::Blake3 => 64,
            Self::Sha384 => 96,
            Self::Sha512 => 128,
        }
    }
}

/// The digest of a file: printed as `<algorithm>:<lower-case hexadecimal digits>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Digest {
    algorithm: Algorithm,
    hex: String,
}

impl Digest {
    /// How it was made.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Its hexadecimal digits.
    pub fn hex(&self) -> &str {
        &self.hex
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.name(), self.hex)
    }
}

/// A text that is no digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a digest: expected sha256:, sha384:, sha512: or blake3: and hexadecimal digits")]
pub struct ParseDigestError;

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, hex) = text.split_once(':').ok_or(ParseDigestError)?;
        let known = Algorithm::NAMES.iter().find(|(known, _)| *known == name);
        let (_, algorithm) = known.ok_or(ParseDigestError)?;
        let is_hex = hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if !is_hex || hex.len() != algorithm.digits() {
            return Err(ParseDigestError);
        }
        Ok(Self { algorithm: *algorithm, hex: hex.to_owned() })
    }
}

/// Makes a digest of bytes as they come.
#[derive(Clone)]
pub struct Hasher {
    algorithm: Algorithm,
    context: Context,
}

#[derive(Clone)]
enum Context {
    Sha2(digest::Context),
    Blake3(Box<blake3::Hasher>),
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hasher").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

impl Hasher {
    /// Of nothing so far.
    pub fn new(algorithm: Algorithm) -> Self {
        let sha2 = |algorithm| Context::Sha2(digest::Context::new(algorithm));
        let context = match algorithm {
            Algorithm::Sha256 => sha2(&digest::SHA256),
            Algorithm::Sha384 => sha2(&digest::SHA384),
            Algorithm::Sha512 => sha2(&digest::SHA512),
            Algorithm::Blake3 => Context::Blake3(Box::default()),
        };
        Self { algorithm, context }
    }

    /// Takes more bytes in.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.context {
            Context::Sha2(context) => context.update(bytes),
            Context::Blake3(context) => {
                context.update(bytes);
            }
        }
    }

    /// The digest of all that came.
    pub fn finish(self) -> Digest {
        let hex = match self.context {
            Context::Sha2(context) => hex::encode(context.finish()),
            Context::Blake3(context) => context.finalize().to_hex().to_string(),
        };
        Digest { algorithm: self.algorithm, hex }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_as_it_is_printed() {
        let mut hasher = Hasher::new(Algorithm::Sha256);
        hasher.update(b"false");
        let digest = hasher.finish();
        let text = "sha256:fcbcf165908dd18a9e49f7ff27810176db8e9f63b4352213741664245224f8aa";
        assert_eq!(digest.to_string(), text);
        assert_eq!(text.parse::<Digest>().unwrap(), digest);
        for bad in ["", "sha256:", "md5:00", &text[..70], &text.to_uppercase(), "sha256:../../x"] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }

    #[test]
    fn every_algorithm_makes_what_others_make_of_the_same() {
        let of = |algorithm| {
            let mut hasher = Hasher::new(algorithm);
            hasher.update(b"a");
            hasher.update(b"bc");
            hasher.finish().to_string()
        };
        // FIPS 180-4's examples, and what `b3sum` prints.
        for (algorithm, begin) in [
            (Algorithm::Sha256, "sha256:ba7816bf8f01cfea414140de5dae2223"),
            (Algorithm::Sha384, "sha384:cb00753f45a35e8bb5a03d699ac65007"),
            (Algorithm::Sha512, "sha512:ddaf35a193617abacc417349ae204131"),
            (Algorithm::Blake3, "blake3:6437b3ac38465133ffb63b75273a8db5"),
        ] {
            let digest = of(algorithm);
            assert!(digest.starts_with(begin), "{digest}");
            assert_eq!(digest.parse::<Digest>().unwrap().algorithm(), algorithm);
        }
    }
}
