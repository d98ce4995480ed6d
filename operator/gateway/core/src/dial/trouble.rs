//! Trouble that keeps a connection from being made and that a person can fix, said with the
//! remedy.

/// Something on the way that stays until a person does something about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DialTrouble {
    /// Status 407 from the proxy.
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

impl DialTrouble {
    /// Reads trouble from the status of an answer that is not the host's: for http, a proxy answers
    /// in its place.
    pub fn by_status(status: u16) -> Option<Self> {
        (status == 407).then_some(Self::ProxyPassword)
    }
}
