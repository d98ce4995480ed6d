//! Clients that people sign in to with Slack, and what these were given.

use std::collections::BTreeMap;
use std::time::Instant;

/// The app as a client, and what it was given.
#[derive(Debug, Default)]
pub(super) struct OpenId {
    pub client: String,
    pub secret: String,
    /// Addresses that the app's configuration names.
    pub redirects: Vec<String>,
    /// Signed-in user of the browser: user and workspace.
    pub browser: Option<(String, String)>,
    pub codes: BTreeMap<String, OpenIdGrant>,
    pub tokens: BTreeMap<String, OpenIdGrant>,
}

#[derive(Clone, Debug)]
pub(super) struct OpenIdGrant {
    pub user: String,
    pub team: String,
    pub redirect: String,
    pub nonce: Option<String>,
    /// PKCE challenge: whoever redeems the code has to know its verifier.
    pub challenge: Option<String>,
    pub scopes: Vec<String>,
    pub given: Instant,
    pub used: bool,
}

impl OpenId {
    pub(super) fn new(client: String, secret: String) -> Self {
        Self { client, secret, ..Self::default() }
    }
}
