//! The certificates and keys of a cluster, made fresh for each.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};

use crate::state::Folder;

/// 24 hours.
pub(crate) const DAY: SignedDuration = SignedDuration::from_hours(24);

/// Which certificate the API server shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServingCertificate {
    /// A new one of the cluster's authority.
    Renewed,
    /// One of the cluster's authority whose time is over.
    Expired,
    /// One of a new authority, which takes the old one's place in the cluster's CA file.
    OfNewAuthority,
}

/// Makes the authority, the API server's certificate and the key that signs tokens of service accounts.
pub(crate) fn make_all(folder: &Folder) -> Result<()> {
    make_authority(folder)?;
    make_serving(folder, DAY * 365)?;
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    write_secret(&folder.account_key(), &key.serialize_pem())?;
    std::fs::write(folder.account_public_key(), key.public_key_pem())?;
    Ok(())
}

/// Replaces the API server's certificate; it notices by itself.
pub(crate) fn replace(folder: &Folder, certificate: ServingCertificate) -> Result<()> {
    match certificate {
        ServingCertificate::Renewed => make_serving(folder, DAY * 365),
        // A certificate is good to the end of its last second, and a server may be up within it.
        ServingCertificate::Expired => make_serving(folder, -DAY),
        ServingCertificate::OfNewAuthority => {
            make_authority(folder)?;
            make_serving(folder, DAY * 365)
        }
    }
}

fn make_authority(folder: &Folder) -> Result<()> {
    let (certificate, key) = authority("windlass test cluster")?;
    write_secret(&folder.ca_key(), &key.serialize_pem())?;
    std::fs::write(folder.ca(), certificate.pem())?;
    Ok(())
}

/// A client certificate of the authority and its key, in PEM.
pub(crate) fn client(folder: &Folder, name: &str, remaining: SignedDuration) -> Result<(String, String)> {
    let issuer = cluster_authority(folder)?;
    let (certificate, key) = issue(&issuer, name, &[], ExtendedKeyUsagePurpose::ClientAuth, remaining)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn cluster_authority(folder: &Folder) -> Result<Issuer<'static, KeyPair>> {
    let read = |file: &Path| {
        std::fs::read_to_string(file).with_context(|| format!("failed to read {}", file.display()))
    };
    let key = KeyPair::from_pem(&read(&folder.ca_key())?)?;
    Ok(Issuer::from_ca_cert_pem(&read(&folder.ca())?, key)?)
}

/// Ends so long from now, or ended so long ago; it began two days ago.
fn make_serving(folder: &Folder, remaining: SignedDuration) -> Result<()> {
    let issuer = cluster_authority(folder)?;
    let names = ["127.0.0.1", "localhost", "kubernetes.default.svc"];
    let purpose = ExtendedKeyUsagePurpose::ServerAuth;
    let (certificate, key) = issue(&issuer, "kube-apiserver", &names, purpose, remaining)?;
    write_secret(&folder.certificate_key(), &key.serialize_pem())?;
    std::fs::write(folder.certificate(), certificate.pem())?;
    Ok(())
}

/// A new authority of this name.
pub(crate) fn authority(name: &str) -> Result<(Certificate, KeyPair)> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    validity(&mut params, DAY * 3650);
    Ok((params.self_signed(&key)?, key))
}

/// A new certificate of `issuer`.
pub(crate) fn issue(
    issuer: &Issuer<'_, KeyPair>,
    name: &str,
    hosts: &[&str],
    purpose: ExtendedKeyUsagePurpose,
    remaining: SignedDuration,
) -> Result<(Certificate, KeyPair)> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut params = CertificateParams::new(hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>())?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![purpose];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    validity(&mut params, remaining);
    Ok((params.signed_by(&key, issuer)?, key))
}

fn validity(params: &mut CertificateParams, remaining: SignedDuration) {
    let now = Timestamp::now();
    let date = |from_now: SignedDuration| {
        let seconds = u64::try_from((now + from_now).as_second()).unwrap_or_default();
        rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds)
    };
    params.not_before = date(-DAY * 2);
    params.not_after = date(remaining);
}

/// Writes a file that only its owner may read.
pub(crate) fn write_secret(file: &Path, text: &str) -> Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut open = std::fs::OpenOptions::new();
    open.write(true).create(true).truncate(true).mode(0o600);
    open.open(file)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("failed to write {}", file.display()))
}
