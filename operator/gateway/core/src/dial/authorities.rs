//! Whom the gateway trusts: the system's authorities, and those of somebody's own until they expire. Nobody
//! else would notice the latter, for a trust anchor is only a name and a key to who verifies.

use std::sync::Arc;

use anyhow::Context as _;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};
use x509_parser::parse_x509_certificate;

/// The authority that signed a certificate has expired.
#[derive(Debug, thiserror::Error)]
#[error("the authority that signed the certificate has expired")]
pub(super) struct AuthorityExpired;

#[derive(Debug)]
pub(super) struct TrustedAuthorities {
    provider: Arc<CryptoProvider>,
    system: RootCertStore,
    own: Vec<OwnAuthorities>,
    /// Verifier that trusts all authorities, whatever the date.
    any: Arc<WebPkiServerVerifier>,
}

#[derive(Debug)]
struct OwnAuthorities {
    certificate: CertificateDer<'static>,
    /// Expiry, in seconds since 1970.
    until: i64,
}

impl TrustedAuthorities {
    /// # Errors
    /// When one of somebody's own is no certificate, or there is none at all.
    pub(super) fn new(
        provider: Arc<CryptoProvider>,
        system: RootCertStore,
        own: Vec<CertificateDer<'static>>,
    ) -> anyhow::Result<Self> {
        let mut roots = system.clone();
        let own = own.into_iter().map(|certificate| {
            roots.add(certificate.clone())?;
            let (_, parsed) = parse_x509_certificate(&certificate)?;
            let until = parsed.validity().not_after.timestamp();
            Ok(OwnAuthorities { certificate, until })
        });
        let own = own.collect::<anyhow::Result<Vec<_>>>()?;
        let any = build_verifier(&provider, roots).context("no certificate authority is known")?;
        Ok(Self { provider, system, own, any })
    }

    /// Verifies with what is good now; the same as with all of them if nothing has expired.
    fn now(&self, now: UnixTime) -> Option<Arc<WebPkiServerVerifier>> {
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if self.own.iter().all(|own| own.until >= now) {
            return Some(Arc::clone(&self.any));
        }
        let mut roots = self.system.clone();
        let good = self.own.iter().filter(|own| own.until >= now);
        roots.add_parsable_certificates(good.map(|own| own.certificate.clone()));
        build_verifier(&self.provider, roots)
    }
}

fn build_verifier(
    provider: &Arc<CryptoProvider>,
    roots: RootCertStore,
) -> Option<Arc<WebPkiServerVerifier>> {
    let provider = Arc::clone(provider);
    WebPkiServerVerifier::builder_with_provider(roots.into(), provider).build().ok()
}

impl ServerCertVerifier for TrustedAuthorities {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let by = |verifier: &WebPkiServerVerifier| {
            verifier.verify_server_cert(end_entity, intermediates, name, stapled, now)
        };
        let unknown = || Err(Error::InvalidCertificate(CertificateError::UnknownIssuer));
        match self.now(now).map_or_else(unknown, |verifier| by(&verifier)) {
            Err(Error::InvalidCertificate(CertificateError::UnknownIssuer))
                if by(&self.any).is_ok() =>
            {
                let expired = CertificateError::Other(OtherError(Arc::new(AuthorityExpired)));
                Err(Error::InvalidCertificate(expired))
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.any.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.any.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.any.supported_verify_schemes()
    }
}
