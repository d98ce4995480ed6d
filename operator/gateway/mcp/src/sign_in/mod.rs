//! Sign-ins of people to remote servers (OAuth 2.1). A server that answers 401 says where its people sign in; one
//! person gets a link that only they see; what they bring back becomes tokens in a Secret of the namespace.
//!
//! [`discover`] finds the authorization server, [`client`] registers there, [`begin`] makes the link, [`finish`]
//! takes the answer, [`stored`] keeps it, [`renew`] brings newer tokens, and [`signed`] sends them.

mod begin;
mod client;
mod discover;
mod finish;
mod renew;
mod signed;
mod stored;

use codebutler_gateway_core::secrets::SecretError;
use codebutler_mcp::oauth::{MetadataError, TokenError};

pub use self::begin::{OPEN, PersonalLink, SignInAsker, begin_sign_in, check_sign_in};
pub use self::client::{DOCUMENT, DONE, describe_client};
pub use self::finish::{SignInVisit, VisitError, finish_sign_in, note_opened, open_visit};
pub use self::renew::ServerGrant;
pub use self::signed::SignedDialer;
pub use self::stored::{StoreError, has_right, has_signed_in};

/// A sign-in that can't begin or end. None of its words is a secret.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// The installation has no address for people.
    #[error(
        "there is no public address for people to come back to: set `pages.enabled`, `pages.url` and `pages.signIn` of the \
         chart"
    )]
    NoAddress,
    /// The tokens can't be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The entry's `url` is no URL.
    #[error("its `url` is no URL: {0}")]
    Url(#[from] url::ParseError),
    /// The entry's `oauth.issuer` is no URL.
    #[error("its `oauth.issuer` is no URL: {0}")]
    Issuer(url::ParseError),
    /// Metadata of another form, or of another server.
    #[error("{0}")]
    Metadata(#[from] MetadataError),
    /// No metadata says where to sign in.
    #[error(
        "no metadata of an authorization server is found at `{0}`, so that the place to sign in is unknown"
    )]
    NoMetadata(String),
    /// A host that can't be reached, or may not be.
    #[error("{0}")]
    Unreachable(String),
    /// A client has to be made by hand.
    #[error(
        "its authorization server registers no clients by itself: register one there with the redirect address \
         `{redirect}`, and name a Secret with its `clientId` in `oauth.client`"
    )]
    NoRegistration {
        /// The address to which people come back.
        redirect: String,
    },
    /// A client that is not registered.
    #[error(
        "the client can't be registered: {0}. Where only clients are taken that a person has registered, do that, and name \
         a Secret with the `clientId` in `oauth.client`"
    )]
    Registration(TokenError),
    /// The Secret of `oauth.client`.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The authorization server's answer.
    #[error("{0}")]
    Token(#[from] TokenError),
}
