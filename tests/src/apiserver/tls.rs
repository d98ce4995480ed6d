//! The server's own CA and certificate.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

/// An error of making the server's certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The key or the certificate could not be made.
    #[error("certificate")]
    Certificate(#[from] rcgen::Error),
    /// The TLS library refused them.
    #[error("TLS")]
    Tls(#[from] rustls::Error),
}

/// The server's certificate and the CA that its clients trust.
pub(super) struct ServerIdentity {
    /// The CA's certificate as PEM.
    pub ca: String,
    /// Accepts TLS connections with the certificate.
    pub acceptor: TlsAcceptor,
}

impl ServerIdentity {
    /// A new CA and a certificate for the names by which clients reach the server.
    pub(super) fn new() -> Result<Self, TlsError> {
        let mut params = CertificateParams::new(Vec::<String>::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "codebutler-testbed-ca");
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;

        let names = [
            "127.0.0.1",
            "10.96.0.1",
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
        ];
        let mut params = CertificateParams::new(names.map(str::to_owned))?;
        params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &ca)?;

        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { ca: ca.pem(), acceptor: TlsAcceptor::from(Arc::new(config)) })
    }
}
