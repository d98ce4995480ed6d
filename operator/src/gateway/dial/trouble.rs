//! What keeps a connection from being made, where a person can mend it: found in a client's error, and
//! said with the remedy.

use std::error::Error;
use std::io;

use rustls::CertificateError;

use super::authorities::AuthorityExpired;
use crate::gateway::egress::EgressRefusal;

/// Something on the way that stays until a person does something about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// 407.
    #[error(
        "the proxy asks for a user and a password: put valid ones into the URL of HTTPS_PROXY, and of \
         HTTP_PROXY for what is reached in clear (gateway.extraEnv)"
    )]
    ProxyPassword,
    /// Any other answer to CONNECT.
    #[error("the proxy does not let the gateway through to it: allow the host there")]
    ProxyRefuses,
    /// An authority of somebody's own.
    #[error(
        "its certificate is signed by an authority that the gateway does not know: name that \
         authority in gateway.trustedCA"
    )]
    Authority,
    #[error("its certificate has expired: it has to be renewed there")]
    Expired,
    #[error(
        "the authority in gateway.trustedCA that signed its certificate has expired: put its successor \
         there, and have the certificate renewed"
    )]
    AuthorityExpired,
    #[error("its certificate is made out to another name: check the URL")]
    Name,
    /// Private, local, or a cloud's metadata.
    #[error(
        "it has an internal address: whoever runs CodeButler can open its network \
         (gateway.egressAllow), and name it in NO_PROXY where there is a proxy"
    )]
    Internal,
}

impl Trouble {
    /// What an answer comes from that is not the host's: in clear, a proxy answers in its place.
    pub fn by_status(status: u16) -> Option<Self> {
        (status == 407).then_some(Self::ProxyPassword)
    }
}

/// What a client's error comes from.
pub fn trouble(error: &(dyn Error + 'static)) -> Option<Trouble> {
    causes(error).find_map(of_one)
}

/// The refusal of an address in a client's error.
pub fn refusal(error: &(dyn Error + 'static)) -> Option<EgressRefusal> {
    causes(error).find_map(|cause| cause.downcast_ref::<EgressRefusal>().cloned())
}

fn of_one(error: &(dyn Error + 'static)) -> Option<Trouble> {
    if let Some(EgressRefusal::Internal(_)) = error.downcast_ref() {
        return Some(Trouble::Internal);
    }
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        return of_tls(error);
    }
    // The type is nobody's to name.
    match error.to_string().as_str() {
        "tunnel error: proxy authorization required" => Some(Trouble::ProxyPassword),
        "tunnel error: unsuccessful" => Some(Trouble::ProxyRefuses),
        _ => None,
    }
}

fn of_tls(error: &rustls::Error) -> Option<Trouble> {
    let rustls::Error::InvalidCertificate(why) = error else { return None };
    match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            Some(Trouble::Expired)
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            Some(Trouble::Name)
        }
        CertificateError::UnknownIssuer => Some(Trouble::Authority),
        CertificateError::Other(other) if other.0.is::<AuthorityExpired>() => {
            Some(Trouble::AuthorityExpired)
        }
        _ => None,
    }
}

/// An error and what it was made of, down to what an I/O error carries.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| beneath(*error))
}

fn beneath<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(carried) => Some(carried),
        None => error.source(),
    }
}
