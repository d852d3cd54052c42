//! The keys and certificates of an embedded server: made once, re-used at every start.

use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use rcgen::KeyPair;
use secrecy::{ExposeSecret as _, SecretBox, SecretString};

use crate::server::certificates::{self, Leaf};
use crate::server::signing::SigningKeys;

/// Certificates are renewed when they are loaded with less than this left of them.
const RENEW_BEFORE: Duration = Duration::from_hours(24 * 30);
const CA: (&str, &str) = ("ca.crt", "ca.key");
const SERVER: (&str, &str) = ("server.crt", "server.key");
const ADMIN: (&str, &str) = ("admin.crt", "admin.key");
const SEALING: &str = "sealing.key";

/// A certificate and its private key, both PEM.
#[derive(Clone, Debug)]
pub struct CertificatePair {
    /// The certificate (chain).
    pub certificate: String,
    /// The private key, PKCS#8.
    pub key: SecretString,
}

/// Why keys could not be loaded or made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// The directory cannot be made or locked.
    #[error("failed to prepare key directory {}", path.display())]
    PrepareDirectory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A key file cannot be read.
    #[error("failed to read key file {}", path.display())]
    ReadFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A key file cannot be written.
    #[error("failed to write key file {}", path.display())]
    WriteFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A key file holds something else. It is not replaced, since what was sealed or signed with it would be lost.
    #[error(
        "failed to use key file {}: it is not {expected}; restore it from a copy, or move it away to have a new one made",
        path.display()
    )]
    UnusableFile {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
    },
    /// A certificate is there without its key, or the other way round.
    #[error("failed to use {}: {} is missing; restore it, or move both away to have new ones made", present.display(), missing.display())]
    HalfPair {
        /// The file that exists.
        present: PathBuf,
        /// The file that does not.
        missing: PathBuf,
    },
    /// A certificate or key cannot be made; names under which the server is reached are the usual cause.
    #[error("failed to make {what}")]
    Generate {
        /// What was being made.
        what: &'static str,
        /// What the library said.
        #[source]
        source: rcgen::Error,
    },
    /// The system gave no random bytes.
    #[error("failed to make a sealing key: the system gave no random bytes")]
    Random,
}

/// All keys of an embedded server.
pub struct Keys {
    directory: Option<PathBuf>,
    ca: CertificatePair,
    server: CertificatePair,
    admin: CertificatePair,
    signing: SigningKeys,
    sealing: SecretBox<[u8; 32]>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl Keys {
    /// Loads the keys in `directory`, making those that do not exist yet. The directory is made 0700, files 0600,
    /// each written whole or not at all; two processes that start at once agree.
    ///
    /// The server certificate names localhost, `127.0.0.1`, `::1` and `extra_names` (host names or addresses). It
    /// and the admin certificate are made anew when they near their end or the names changed.
    ///
    /// Reads and writes files: a few milliseconds, at start-up.
    ///
    /// # Errors
    /// [`KeysError`], which names the file. A file that exists is never replaced by a key that is not its successor.
    pub fn load_or_create(directory: impl AsRef<Path>, extra_names: &[String]) -> Result<Self, KeysError> {
        let directory = directory.as_ref();
        let _lock = locked(directory)?;
        remove_half_written(directory);
        Self::assemble(Some(directory), extra_names, Timestamp::now())
    }

    /// Whether `directory` has the key that seals secrets at rest.
    pub fn has_sealing_key(directory: impl AsRef<Path>) -> bool {
        directory.as_ref().join(SEALING).exists()
    }

    /// Keys that live in memory only: for tests and throw-away servers.
    ///
    /// # Errors
    /// [`KeysError::Generate`] for a name that no certificate can carry.
    pub fn ephemeral(extra_names: &[String]) -> Result<Self, KeysError> {
        Self::assemble(None, extra_names, Timestamp::now())
    }

    fn assemble(directory: Option<&Path>, extra_names: &[String], now: Timestamp) -> Result<Self, KeysError> {
        let fresh = |pair: &CertificatePair| {
            certificates::facts(&pair.certificate).filter(|facts| facts.not_after > now + RENEW_BEFORE)
        };
        let ca = match load_pair(directory, CA)?.filter(|pair| fresh(pair).is_some()) {
            Some(ca) => ca,
            None => store_pair(directory, CA, generate("a CA", certificates::new_ca(now))?)?,
        };
        let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
        for name in extra_names {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let server_is_good = |pair: &CertificatePair| {
            fresh(pair).is_some_and(|facts| facts.names == names) && signed_by(&ca, pair)
        };
        let server = if let Some(server) = load_pair(directory, SERVER)?.filter(server_is_good) {
            server
        } else {
            let leaf = certificates::new_leaf(&ca, &Leaf::Server(&names), now);
            store_leaf(directory, SERVER, generate("a server certificate", leaf)?)?
        };
        let admin_is_good = |pair: &CertificatePair| fresh(pair).is_some() && signed_by(&ca, pair);
        let admin = if let Some(admin) = load_pair(directory, ADMIN)?.filter(admin_is_good) {
            admin
        } else {
            let leaf = certificates::new_leaf(&ca, &Leaf::Client("windlass-admin", &["system:masters"]), now);
            store_leaf(directory, ADMIN, generate("an admin certificate", leaf)?)?
        };
        let signing = SigningKeys::load_or_create(directory)?;
        let sealing = sealing_key(directory)?;
        Ok(Self { directory: directory.map(Path::to_owned), ca, server, admin, signing, sealing })
    }

    /// The CA's certificate, PEM: what clients are to trust.
    pub fn ca_certificate(&self) -> &str {
        &self.ca.certificate
    }

    /// Where the CA's certificate lies, for `curl --cacert` and `tls_ca_file`; `None` for ephemeral keys.
    pub fn ca_file(&self) -> Option<PathBuf> {
        self.directory.as_ref().map(|directory| directory.join(CA.0))
    }

    /// The server's certificate and key.
    pub fn server(&self) -> &CertificatePair {
        &self.server
    }

    /// The administrator's client certificate and key (group `system:masters`).
    pub fn admin(&self) -> &CertificatePair {
        &self.admin
    }

    /// Where the server's certificate and key lie; `None` for ephemeral keys.
    pub fn server_files(&self) -> Option<(PathBuf, PathBuf)> {
        self.directory.as_ref().map(|directory| (directory.join(SERVER.0), directory.join(SERVER.1)))
    }

    /// Where the administrator's certificate and key lie; `None` for ephemeral keys.
    pub fn admin_files(&self) -> Option<(PathBuf, PathBuf)> {
        self.directory.as_ref().map(|directory| (directory.join(ADMIN.0), directory.join(ADMIN.1)))
    }

    /// Signs a further client certificate with this name and these groups.
    ///
    /// # Errors
    /// [`KeysError::Generate`] for names that a certificate cannot carry.
    pub fn client_certificate(&self, name: &str, groups: &[&str]) -> Result<CertificatePair, KeysError> {
        let leaf = certificates::new_leaf(&self.ca, &Leaf::Client(name, groups), Timestamp::now());
        generate("a client certificate", leaf)
    }

    /// The key that seals secrets at rest (AES-256).
    pub fn sealing_key(&self) -> &SecretBox<[u8; 32]> {
        &self.sealing
    }

    /// The ES256 keys that sign access tokens.
    pub fn signing_keys(&self) -> &SigningKeys {
        &self.signing
    }

    /// The folder that they lie in; `None` for ephemeral keys.
    pub fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }
}

pub(super) fn generate<T>(what: &'static str, made: Result<T, rcgen::Error>) -> Result<T, KeysError> {
    made.map_err(|source| KeysError::Generate { what, source })
}

/// Makes the folder, if need be, and holds its lock.
pub(super) fn locked(directory: &Path) -> Result<fs::File, KeysError> {
    let prepare = |source| KeysError::PrepareDirectory { path: directory.to_owned(), source };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(prepare)?;
    let lock = fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(directory.join(".lock"))
        .map_err(prepare)?;
    lock.lock().map_err(prepare)?;
    Ok(lock)
}

/// Whether `leaf` names the key of `ca` as its signer: not so after the CA was replaced.
fn signed_by(ca: &CertificatePair, leaf: &CertificatePair) -> bool {
    let key = certificates::facts(&ca.certificate).and_then(|facts| facts.key_id);
    let signer = certificates::facts(&leaf.certificate).and_then(|facts| facts.signer_key_id);
    key.is_some() && key == signer
}

fn sealing_key(directory: Option<&Path>) -> Result<SecretBox<[u8; 32]>, KeysError> {
    let mut key = Box::new([0_u8; 32]);
    if let Some(encoded) = load(directory, SEALING)? {
        let decoded = STANDARD.decode(encoded.expose_secret().trim()).unwrap_or_default();
        if decoded.len() != key.len() {
            return Err(unusable(directory, SEALING, "32 bytes in base64"));
        }
        key.copy_from_slice(&decoded);
        return Ok(SecretBox::new(key));
    }
    aws_lc_rs::rand::fill(key.as_mut_slice()).map_err(|_| KeysError::Random)?;
    store(directory, SEALING, &format!("{}\n", STANDARD.encode(key.as_slice())))?;
    Ok(SecretBox::new(key))
}

pub(super) fn unusable(directory: Option<&Path>, name: &str, expected: &'static str) -> KeysError {
    KeysError::UnusableFile { path: directory.unwrap_or(Path::new("")).join(name), expected }
}

fn load_pair(directory: Option<&Path>, names: (&str, &str)) -> Result<Option<CertificatePair>, KeysError> {
    let half = |present: &str, missing: &str| {
        let directory = directory.unwrap_or(Path::new(""));
        KeysError::HalfPair { present: directory.join(present), missing: directory.join(missing) }
    };
    match (load(directory, names.0)?, load(directory, names.1)?) {
        (Some(certificate), Some(key)) => {
            let certificate = certificate.expose_secret().to_owned();
            if certificates::facts(&certificate).is_none() {
                return Err(unusable(directory, names.0, "a certificate in PEM"));
            }
            if KeyPair::from_pem(key.expose_secret()).is_err() {
                return Err(unusable(directory, names.1, "a private key in PKCS#8 PEM"));
            }
            Ok(Some(CertificatePair { certificate, key }))
        }
        (None, None) => Ok(None),
        // The key is written first: a crash between the two leaves a key that nobody has seen a certificate of.
        (None, Some(_)) => Ok(None),
        (Some(_), None) => Err(half(names.0, names.1)),
    }
}

/// Writes a new pair: the old certificate goes first, so that a crash leaves no certificate beside another's key.
fn store_pair(
    directory: Option<&Path>,
    names: (&str, &str),
    pair: CertificatePair,
) -> Result<CertificatePair, KeysError> {
    if let Some(directory) = directory {
        let path = directory.join(names.0);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(KeysError::WriteFile { path, source });
            }
            _ => {}
        }
    }
    store(directory, names.1, pair.key.expose_secret())?;
    store(directory, names.0, &pair.certificate)?;
    Ok(pair)
}

/// As [`store_pair`], of a certificate that the next start can make again: a full disk is no reason not to start.
fn store_leaf(
    directory: Option<&Path>,
    names: (&str, &str),
    pair: CertificatePair,
) -> Result<CertificatePair, KeysError> {
    match store_pair(directory, names, pair.clone()) {
        Err(KeysError::WriteFile { path, source }) if source.kind() == io::ErrorKind::StorageFull => {
            tracing::warn!(path = %path.display(), error = %source, "failed to keep a new certificate");
            Ok(pair)
        }
        stored => stored,
    }
}

/// Removes what processes left that were killed while they wrote a file. Nobody else writes while the lock is held.
fn remove_half_written(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_half = name.to_str().and_then(|name| name.strip_prefix('.')?.rsplit_once('.')).is_some_and(
            |(file, process)| {
                matches!(file.rsplit_once('.'), Some((_, "key" | "crt"))) && process.parse::<u32>().is_ok()
            },
        );
        if is_half {
            let _ = fs::remove_file(entry.path());
        }
    }
}

pub(super) fn load(directory: Option<&Path>, name: &str) -> Result<Option<SecretString>, KeysError> {
    let Some(path) = directory.map(|directory| directory.join(name)) else { return Ok(None) };
    match fs::read_to_string(&path) {
        Ok(content) => {
            restrict(&path)?;
            Ok(Some(SecretString::from(content)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(KeysError::ReadFile { path, source }),
    }
}

/// Takes other users' rights to a key file away, with a warning: somebody may have read it.
fn restrict(path: &Path) -> Result<(), KeysError> {
    let failed = |source| KeysError::ReadFile { path: path.to_owned(), source };
    let mode = fs::metadata(path).map_err(failed)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 && path.extension().is_some_and(|extension| extension == "key") {
        tracing::warn!(
            path = %path.display(),
            mode = format!("{mode:o}"),
            "key file was open to other users of this machine: made it 0600; replace it if they are not trusted"
        );
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
    }
    Ok(())
}

pub(super) fn store(directory: Option<&Path>, name: &str, content: &str) -> Result<(), KeysError> {
    let Some(path) = directory.map(|directory| directory.join(name)) else { return Ok(()) };
    write_private(&path, content).map_err(|source| KeysError::WriteFile { path, source })
}

/// Writes a file that only its owner can read, whole or not at all: a new file beside it, synced, then renamed.
pub(crate) fn write_private(path: &Path, content: &str) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidFilename))?;
    let temporary = directory.join(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
    // Left by a process of this number that was killed.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let written = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| file.write_all(content.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&temporary, path))
        .and_then(|()| fs::File::open(directory)?.sync_all());
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests;
