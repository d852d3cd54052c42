//! Servers that show a certificate which is in the CA file itself.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use x509_parser::prelude::{ASN1Time, FromDer as _, X509Certificate};

/// Trusts what another verifier trusts, and a server that shows one of the pinned certificates for a name and at a time
/// that it is good for.
///
/// `openssl req -x509` makes certificates that say of themselves that they are an authority's. `webpki` takes such a one for
/// an authority, and refuses a server that shows it (`CaUsedAsEndEntity`), although whoever put it into the CA file means
/// that very server. Who holds its key could sign a certificate for the server with it, so that nobody else is trusted by
/// this.
#[derive(Debug)]
pub struct PinnedVerifier {
    others: Arc<dyn ServerCertVerifier>,
    pinned: Vec<CertificateDer<'static>>,
}

impl PinnedVerifier {
    /// Trusts what `others` trusts, and servers that show one of these certificates.
    pub fn new(others: Arc<dyn ServerCertVerifier>, pinned: Vec<CertificateDer<'static>>) -> Self {
        Self { others, pinned }
    }
}

impl ServerCertVerifier for PinnedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.pinned.iter().any(|pinned| pinned.as_ref() == end_entity.as_ref()) {
            return self.others.verify_server_cert(
                end_entity,
                intermediates,
                server_name,
                ocsp_response,
                now,
            );
        }
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        verify_time(end_entity, now)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.others.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.others.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.others.supported_verify_schemes()
    }
}

fn verify_time(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let refused = |why| Err(Error::InvalidCertificate(why));
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
        return refused(CertificateError::BadEncoding);
    };
    let validity = parsed.validity();
    let now = i64::try_from(now.as_secs()).ok().and_then(|seconds| ASN1Time::from_timestamp(seconds).ok());
    match now {
        Some(now) if now < validity.not_before => refused(CertificateError::NotValidYet),
        Some(now) if now <= validity.not_after => Ok(()),
        _ => refused(CertificateError::Expired),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;

    use super::*;

    /// What `openssl req -x509 -addext subjectAltName=DNS:localhost` makes.
    fn self_signed() -> CertificateDer<'static> {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = rcgen::date_time_ymd(2025, 1, 1);
        params.not_after = rcgen::date_time_ymd(2035, 1, 1);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    fn usual(trusted: &CertificateDer<'static>) -> Arc<WebPkiServerVerifier> {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap()
    }

    fn check(
        verifier: &dyn ServerCertVerifier,
        shown: &CertificateDer<'_>,
        name: &str,
        seconds: u64,
    ) -> Result<(), Error> {
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let name = ServerName::try_from(name.to_owned()).unwrap();
        verifier.verify_server_cert(shown, &[], &name, &[], now).map(drop)
    }

    const IN_2026: u64 = 1_780_000_000;
    const IN_2024: u64 = 1_710_000_000;
    const IN_2036: u64 = 2_100_000_000;

    #[test]
    fn a_server_that_shows_a_certificate_of_the_ca_file_is_trusted() {
        let own = self_signed();
        let usual = usual(&own);
        let refused = check(&*usual, &own, "localhost", IN_2026).unwrap_err();
        assert!(refused.to_string().contains("CaUsedAsEndEntity"), "{refused}");
        let pinned = PinnedVerifier::new(usual, vec![own.clone()]);
        check(&pinned, &own, "localhost", IN_2026).unwrap();
    }

    #[test]
    fn a_pinned_certificate_is_good_for_its_names_and_its_time_and_another_is_not() {
        let own = self_signed();
        let pinned = PinnedVerifier::new(usual(&own), vec![own.clone()]);
        let refused =
            |shown: &CertificateDer<'_>, name: &str, seconds: u64| match check(&pinned, shown, name, seconds)
                .unwrap_err()
            {
                Error::InvalidCertificate(why) => why,
                other => panic!("{other}"),
            };
        assert!(refused(&own, "example.org", IN_2026).to_string().contains("not valid for name"));
        assert_eq!(refused(&own, "localhost", IN_2024), CertificateError::NotValidYet);
        assert_eq!(refused(&own, "localhost", IN_2036), CertificateError::Expired);
        let strange = refused(&self_signed(), "localhost", IN_2026).to_string();
        assert!(strange.contains("CaUsedAsEndEntity"), "{strange}");
    }
}
