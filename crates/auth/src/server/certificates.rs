//! Making and reading certificates.

use std::{net::IpAddr, time::Duration};

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use secrecy::{ExposeSecret as _, SecretString};
use x509_parser::{
    extensions::{GeneralName, ParsedExtension},
    prelude::FromDer as _,
};

use crate::{listen::PeerIdentity, server::keys::CertificatePair};

const DAY: Duration = Duration::from_hours(24);
/// The CA outlives the machines it is made on.
const CA_LIFETIME: Duration = Duration::from_hours(24 * 3650);
/// Longest lifetime that every TLS library accepts of a leaf.
const LEAF_LIFETIME: Duration = Duration::from_hours(24 * 397);

/// What a leaf certificate is for.
pub(crate) enum Leaf<'a> {
    /// A server under these names.
    Server(&'a [String]),
    /// A client with this name and these groups.
    Client(&'a str, &'a [&'a str]),
}

/// What of a certificate decides whether it is still good.
pub(crate) struct Facts {
    pub(crate) not_after: Timestamp,
    pub(crate) names: Vec<String>,
    /// Identifies the certificate's own key.
    pub(crate) key_id: Option<Vec<u8>>,
    /// Identifies the key that signed the certificate.
    pub(crate) signer_key_id: Option<Vec<u8>>,
}

pub(crate) fn new_ca(now: Timestamp) -> Result<CertificatePair, rcgen::Error> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "Windlass CA");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    validity(&mut params, now, CA_LIFETIME);
    let certificate = params.self_signed(&key)?;
    Ok(CertificatePair { certificate: certificate.pem(), key: SecretString::from(key.serialize_pem()) })
}

pub(crate) fn new_leaf(
    ca: &CertificatePair,
    leaf: &Leaf<'_>,
    now: Timestamp,
) -> Result<CertificatePair, rcgen::Error> {
    let ca_key = KeyPair::from_pem(ca.key.expose_secret())?;
    let issuer = Issuer::from_ca_cert_pem(&ca.certificate, ca_key)?;
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut params = match leaf {
        Leaf::Server(names) => {
            let mut params = CertificateParams::new(names.to_vec())?;
            params.distinguished_name.push(DnType::CommonName, "windlass");
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            params
        }
        Leaf::Client(name, groups) => {
            let mut params = CertificateParams::default();
            params.distinguished_name.push(DnType::CommonName, *name);
            for group in *groups {
                params.distinguished_name.push(DnType::OrganizationName, *group);
            }
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            params
        }
    };
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    validity(&mut params, now, LEAF_LIFETIME);
    let certificate = params.signed_by(&key, &issuer)?;
    Ok(CertificatePair { certificate: certificate.pem(), key: SecretString::from(key.serialize_pem()) })
}

/// Valid from yesterday, for machines whose clock is behind.
fn validity(params: &mut CertificateParams, now: Timestamp, lifetime: Duration) {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let now = Duration::from_secs(u64::try_from(now.as_second()).unwrap_or_default());
    params.not_before = epoch + now.saturating_sub(DAY);
    params.not_after = epoch + now + lifetime;
}

/// Reads a certificate in PEM; `None` if it is not one.
pub(crate) fn facts(pem: &str) -> Option<Facts> {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
    let (_, certificate) = x509_parser::certificate::X509Certificate::from_der(&der).ok()?;
    let not_after = Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()?;
    let names = certificate.subject_alternative_name().ok().flatten().map_or_else(Vec::new, |extension| {
        extension.value.general_names.iter().filter_map(general_name).collect()
    });
    let mut key_id = None;
    let mut signer_key_id = None;
    for extension in certificate.extensions() {
        match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(id) => key_id = Some(id.0.to_vec()),
            ParsedExtension::AuthorityKeyIdentifier(id) => {
                signer_key_id = id.key_identifier.as_ref().map(|id| id.0.to_vec());
            }
            _ => {}
        }
    }
    Some(Facts { not_after, names, key_id, signer_key_id })
}

fn general_name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => <[u8; 4]>::try_from(*bytes)
            .map(IpAddr::from)
            .or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from))
            .ok()
            .map(|address| address.to_string()),
        _ => None,
    }
}

/// The identity in a client certificate that TLS has verified: common name and organisations, as Kubernetes reads
/// them. `None` if it has no common name.
pub(crate) fn identity(der: &[u8]) -> Option<PeerIdentity> {
    let (_, certificate) = x509_parser::certificate::X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    let groups = subject
        .iter_organization()
        .filter_map(|organization| organization.as_str().ok().map(str::to_owned))
        .collect();
    Some(PeerIdentity { name, groups })
}
