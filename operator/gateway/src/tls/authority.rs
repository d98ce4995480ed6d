//! A certificate authority and what it signs.

use std::sync::Arc;

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _, date_time_ymd,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;

use super::rotation::LIFE_DAYS;
use super::{TlsError, crypto_provider};

/// An authority with its private key.
pub(super) struct CertificateAuthority {
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl CertificateAuthority {
    /// A new authority: certificate and private key as PEM.
    pub(super) fn generate(now: Timestamp) -> Result<(String, String), TlsError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "CodeButler gateway CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        set_validity(&mut params, now, LIFE_DAYS);
        Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
    }

    /// Reads one back; nothing if it is not whole.
    pub(super) fn parse(certificate: &str, key: &str) -> Option<Self> {
        let der = CertificateDer::from_pem_slice(certificate.as_bytes()).ok()?;
        let key = KeyPair::from_pem(key).ok()?;
        let public = key.subject_public_key_info();
        let issuer = Issuer::from_ca_cert_der(&der, key).ok()?;
        // A key of another certificate would sign what nobody can verify.
        let holds = der.windows(public.len()).any(|window| window == public);
        holds.then_some(Self { der, issuer })
    }

    /// A server certificate for `names`, with a key that never leaves this process.
    pub(super) fn server(
        &self,
        names: &[String],
        now: Timestamp,
        days: i64,
    ) -> Result<Arc<CertifiedKey>, TlsError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(names.to_vec())?;
        params.distinguished_name.push(DnType::CommonName, "CodeButler gateway");
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        set_validity(&mut params, now, days);
        let certificate = params.signed_by(&key, &self.issuer)?;
        let chain = vec![certificate.der().clone(), self.der.clone()];
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Ok(Arc::new(CertifiedKey::from_der(chain, key, &crypto_provider())?))
    }
}

/// Sets the validity: from yesterday, as clocks differ, for a number of days.
fn set_validity(params: &mut CertificateParams, now: Timestamp, days: i64) {
    let today = now.to_zoned(TimeZone::UTC).date();
    let end = today.saturating_add(days.days());
    let day = |date: jiff::civil::Date| {
        let part = |n: i8| u8::try_from(n).unwrap_or(1);
        date_time_ymd(i32::from(date.year()), part(date.month()), part(date.day()))
    };
    params.not_before = day(today.saturating_sub(1.days()));
    params.not_after = day(end);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;
    use rustls::pki_types::{ServerName, UnixTime};

    #[test]
    fn what_the_authority_signs_verifies_for_its_names_only() {
        let now = Timestamp::now();
        let (certificate, key) = CertificateAuthority::generate(now).unwrap();
        let authority = CertificateAuthority::parse(&certificate, &key).unwrap();
        let names = ["codebutler-gateway.ns.svc".to_owned(), "127.0.0.1".to_owned()];
        let server = authority.server(&names, now, 90).unwrap();

        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()).unwrap();
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), crypto_provider())
                .build()
                .unwrap();
        let verify = |name: &str| {
            let name = ServerName::try_from(name.to_owned()).unwrap();
            let (own, rest) = server.cert.split_first().unwrap();
            rustls::client::danger::ServerCertVerifier::verify_server_cert(
                &*verifier,
                own,
                rest,
                &name,
                &[],
                UnixTime::now(),
            )
        };
        verify("codebutler-gateway.ns.svc").unwrap();
        verify("127.0.0.1").unwrap();
        verify("other.ns.svc").unwrap_err();
    }

    #[test]
    fn a_damaged_authority_is_noticed() {
        let now = Timestamp::now();
        let (certificate, key) = CertificateAuthority::generate(now).unwrap();
        let (_, other) = CertificateAuthority::generate(now).unwrap();
        assert!(CertificateAuthority::parse(&certificate, &other).is_none());
        assert!(CertificateAuthority::parse("", &key).is_none());
        assert!(CertificateAuthority::parse(&certificate, "x").is_none());
    }
}
