//! Signing in to a remote server, as pure steps: each makes a request or reads an answer, and sends nothing itself.
//! The order: the challenge of a 401, metadata of the resource (RFC 9728), metadata of its authorization server (RFC
//! 8414), registration (RFC 7591) unless a client is known, the link for the person with PKCE (RFC 7636) and the
//! resource (RFC 8707), the code for tokens, and later a refresh. Tokens are secrets: `Debug` does not show them.

mod document;
mod grant;
mod metadata;
mod tokens;

pub use document::{client_document, client_of_document};
pub use grant::{
    AuthorizationLink, ClientAuthMethod, ClientRegistration, PkcePair, TokenError, TokenRequest,
    is_own_parameter, read_registration, registration_request,
};
pub use metadata::{
    AuthorizationServer, MetadataError, ProtectedResource, ResourceChallenge, StatedAuthority,
    authorization_server_urls, choose_scope, read_authorization_server, read_challenge,
    read_protected_resource, resource_metadata_urls,
};
pub use tokens::{ServerTokens, read_tokens};
