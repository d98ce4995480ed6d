//! Errors of a session, each in words that a person or a model can act on.

use std::time::Duration;

use url::Url;

/// JSON-RPC's code for a request that a page has to be opened for.
pub(crate) const PAGE_NEEDED: i64 = -32_042;

/// JSON-RPC's codes with which servers refuse `initialize` that know no such request.
const NO_INITIALIZE: [i64; 5] = [-32_600, -32_601, -32_602, -32_020, -32_021];

/// Words of strict readers about a greeting, in lower case. Those of Java's SDK name the class or nothing.
const STRICT: [&str; 3] = ["capabilit", "elicitation", "invalid message format"];

/// Failure of a server or of one request.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// The server did not answer `initialize` in time.
    #[error("the server did not answer within {} s of its start{said}", .limit.as_secs_f32().ceil())]
    StartTimeout {
        /// Time limit that has passed.
        limit: Duration,
        /// The last line that it wrote outside of the protocol, after `: `, or nothing.
        said: String,
    },
    /// The server ended, or closed the connection, before it answered `initialize`.
    #[error("the server ended before it answered{said}")]
    EndedAtStart {
        /// The last line that it wrote outside of the protocol, after `: `, or nothing.
        said: String,
    },
    /// The server wants a version of the protocol that is not known here.
    #[error("the server speaks version {0} of the protocol, which this client does not know")]
    Version(String),
    /// The connection is gone. A call under way may have run, so it must not be repeated blindly.
    #[error("the server closed the connection{said}")]
    Closed {
        /// The last lines that it wrote outside of the protocol, after `: `, or nothing.
        said: String,
    },
    /// The request timed out without an answer or progress, and was cancelled.
    #[error("no answer to `{method}` within {} s; it was cancelled", .limit.as_secs_f32().ceil())]
    Timeout {
        /// JSON-RPC method of the request.
        method: String,
        /// Time limit that has passed.
        limit: Duration,
    },
    /// The caller cancelled the request.
    #[error("`{0}` was cancelled")]
    Cancelled(String),
    /// The server refused the request. Its words are for the model, too.
    #[error("the server refuses: {message} ({code})")]
    Refused {
        /// Error code of JSON-RPC.
        code: i64,
        /// Error message of the server; untrusted.
        message: String,
    },
    /// A person has to open a page before the request can be carried out.
    #[error("the server wants a page to be opened first: {message}")]
    PageNeeded {
        /// Reason in the server's words; untrusted.
        message: String,
        /// Pages, each with its reason.
        pages: Vec<(String, Url)>,
    },
    /// The HTTP status is not one of an answer.
    #[error("the server answers with status {status}{}", .text.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
    Status {
        status: u16,
        /// Header `Retry-After`, as it came.
        retry_after: Option<String>,
        /// The beginning of the body.
        text: Option<String>,
    },
    /// The server answered 401: a person has to sign in.
    #[error("the server wants a sign-in")]
    SignIn {
        /// Header `WWW-Authenticate`, as it came.
        challenge: String,
    },
    /// The credentials are valid, but lack a right (`insufficient_scope`). The request was not carried out.
    #[error(
        "the server wants the right `{scope}`, which what it is sent as credentials does not give"
    )]
    Scope {
        /// Header `WWW-Authenticate`, as it came.
        challenge: String,
        /// Scope that the challenge names.
        scope: String,
    },
    /// The server can't be reached, or its address may not be.
    #[error("the server can't be reached: {0}")]
    Unreachable(String),
    /// The answer has another form than the protocol says.
    #[error("the answer to `{method}` can't be read: {reason}")]
    Unreadable {
        /// JSON-RPC method of the request.
        method: String,
        /// The problem with the answer.
        reason: String,
    },
    /// A feature that the server does not declare.
    #[error("the server has no {0}")]
    Missing(&'static str),
}

impl McpError {
    /// True if a new session may help. A call that failed so may still have run.
    pub fn is_lost_connection(&self) -> bool {
        matches!(self, Self::Closed { .. } | Self::Unreachable(_) | Self::EndedAtStart { .. })
    }

    /// True where a server's words on the greeting are about what this client declares: the SDKs of some refuse all that
    /// they do not know.
    pub fn refuses_capabilities(&self) -> bool {
        let words = match self {
            Self::Refused { message, .. } => message,
            Self::Status { status: 400 | 422 | 500, text: Some(text), .. } => text,
            _ => return false,
        };
        let words = words.to_lowercase();
        STRICT.iter().any(|known| words.contains(known))
    }

    /// True where the server may be one of a version without `initialize`: it has refused that request, or named such a
    /// version.
    pub fn may_be_stateless(&self) -> bool {
        match self {
            Self::Version(_) => true,
            Self::Refused { code, .. } => NO_INITIALIZE.contains(code),
            Self::Status { status: 400 | 404 | 405, text: Some(text), .. } => {
                text.contains("\"jsonrpc\"")
            }
            _ => false,
        }
    }

    /// True where the server takes no more requests for a while: it has not carried this one out.
    pub const fn is_limit(&self) -> bool {
        matches!(self, Self::Status { status: 429, .. })
    }

    /// True where the server wants a page to be opened first: it has not carried this request out.
    pub const fn wants_page(&self) -> bool {
        matches!(self, Self::PageNeeded { .. } | Self::Refused { code: PAGE_NEEDED, .. })
    }

    /// True for the server's own words about one request, which are an answer for the model.
    pub fn is_answer(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::PageNeeded { .. })
    }
}
