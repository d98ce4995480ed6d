//! Finds the cause of a client's error among its sources: trouble that a person can fix, or an
//! address that was refused.

use std::error::Error;
use std::io;

use rustls::CertificateError;

use super::authorities::AuthorityExpired;
use super::refusal::EgressRefusal;
use super::trouble::DialTrouble;

/// Returns the trouble that a client's error comes from, if a person can fix it.
pub fn find_trouble(error: &(dyn Error + 'static)) -> Option<DialTrouble> {
    walk_causes(error).find_map(of_one)
}

/// The refusal of an address in a client's error.
pub fn find_refusal(error: &(dyn Error + 'static)) -> Option<EgressRefusal> {
    walk_causes(error).find_map(|cause| cause.downcast_ref::<EgressRefusal>().cloned())
}

fn of_one(error: &(dyn Error + 'static)) -> Option<DialTrouble> {
    if let Some(EgressRefusal::Internal(_)) = error.downcast_ref() {
        return Some(DialTrouble::Internal);
    }
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        return of_tls(error);
    }
    // The type is nobody's to name.
    match error.to_string().as_str() {
        "tunnel error: proxy authorization required" => Some(DialTrouble::ProxyPassword),
        "tunnel error: unsuccessful" => Some(DialTrouble::ProxyRefuses),
        _ => None,
    }
}

fn of_tls(error: &rustls::Error) -> Option<DialTrouble> {
    let rustls::Error::InvalidCertificate(why) = error else { return None };
    match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            Some(DialTrouble::Expired)
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            Some(DialTrouble::Name)
        }
        CertificateError::UnknownIssuer => Some(DialTrouble::Authority),
        CertificateError::Other(other) if other.0.is::<AuthorityExpired>() => {
            Some(DialTrouble::AuthorityExpired)
        }
        _ => None,
    }
}

/// An error and what it was made of, down to what an I/O error carries.
fn walk_causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| cause_beneath(*error))
}

fn cause_beneath<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(carried) => Some(carried),
        None => error.source(),
    }
}
