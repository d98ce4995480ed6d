//! Refusals of connections by workspaces, and by the gateway itself.

use codebutler_crds::wire::ErrorCode;

use super::trouble::DialTrouble;
use crate::api_error::ApiError;

/// Connections of one Thread at a time: package managers open dozens.
pub(crate) const MOST: usize = 64;

/// Refusal of a connection, in words for whoever runs the command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EgressRefusal {
    /// The target is not `host:port`.
    #[error("`{0}` is no host and port that can be connected to")]
    Form(String),
    /// The host and port are not on the Repo's list.
    #[error(
        "{host}:{port} is not among the hosts that this repository allows ({place}): a person has to add it"
    )]
    NotListed {
        host: String,
        port: u16,
        /// Field that holds the list, and what to add there.
        place: String,
    },
    /// Private, local, or a cloud's metadata.
    #[error("{0} leads to an internal address, which workspaces must not reach")]
    Internal(String),
    #[error("{0} can't be resolved")]
    Unknown(String),
    #[error("{0} does not accept the connection")]
    Unreachable(String),
    /// Something on the way that a person has to fix.
    #[error("{0} can't be reached: {1}")]
    Barred(String, DialTrouble),
    #[error("this thread has {MOST} connections open already: close some first")]
    TooMany,
}

impl EgressRefusal {
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Form(_) => "form",
            Self::NotListed { .. } => "not_listed",
            Self::Internal(_) => "internal_address",
            Self::Unknown(_) => "unknown_name",
            Self::Unreachable(_) | Self::Barred(..) => "unreachable",
            Self::TooMany => "too_many",
        }
    }
}

impl From<EgressRefusal> for ApiError {
    fn from(refusal: EgressRefusal) -> Self {
        let code = match &refusal {
            EgressRefusal::Form(_) => ErrorCode::InvalidRequest,
            EgressRefusal::Unknown(_)
            | EgressRefusal::Unreachable(_)
            | EgressRefusal::Barred(..) => ErrorCode::Upstream,
            EgressRefusal::NotListed { .. }
            | EgressRefusal::Internal(_)
            | EgressRefusal::TooMany => ErrorCode::Forbidden,
        };
        Self::new(code, refusal.to_string())
    }
}
