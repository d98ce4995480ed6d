//! Credentials of a Repo's remote: a token of the Repo's Secret, or a short-lived one of the GitHub
//! App that the Secret holds. An App's token can be revoked at any time: then a new one is made.

use codebutler_crds::Repo;
use codebutler_crds::names::secret_key;
use codebutler_crds::repo::SecretRef;
use http::HeaderValue;
use kube::ResourceExt as _;
use parking_lot::Mutex;

use crate::context::GatewayContext;
use crate::dial::DialReach;
use crate::github_access::{GitHubError, app};
use crate::remote::Remote;

/// A credential in use. No Debug: it holds a token.
pub struct RemoteCredential {
    source: Option<CredentialSource>,
    remote: Remote,
    token: Mutex<CredentialToken>,
    secret: String,
}

struct CredentialSource {
    context: GatewayContext,
    namespace: String,
    reference: SecretRef,
}

#[derive(Clone)]
struct CredentialToken {
    value: String,
    of_app: bool,
}

impl RemoteCredential {
    /// Opens the credential of a Repo for its remote.
    ///
    /// # Errors
    /// A sentence that names the Secret and what is wrong with it, and never its value.
    pub async fn of(
        context: &GatewayContext,
        repo: &Repo,
        remote: &Remote,
    ) -> Result<Self, GitHubError> {
        let reference = repo.spec.git.credentials.clone();
        let namespace = repo.namespace().unwrap_or_default();
        let secret = reference.name.clone();
        let source = CredentialSource { context: context.clone(), namespace, reference };
        let token = Mutex::new(source.token(remote).await?);
        Ok(Self { source: Some(source), remote: remote.clone(), token, secret })
    }

    /// Makes a credential whose token is never renewed.
    #[cfg(test)]
    pub fn fixed(remote: &Remote, secret: &str, value: &str) -> Self {
        let token = Mutex::new(CredentialToken { value: value.to_owned(), of_app: false });
        Self { source: None, remote: remote.clone(), token, secret: secret.to_owned() }
    }

    /// The Secret that it is from.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// The token for Git (as the password of `x-access-token`) and for REST.
    pub fn token(&self) -> String {
        self.token.lock().value.clone()
    }

    /// A header that shows it and is never shown itself. `form` writes the token into its value.
    ///
    /// # Errors
    /// When the token has characters that no header can carry.
    pub fn header(&self, form: impl Fn(&str) -> String) -> Result<HeaderValue, GitHubError> {
        let unsendable = |_| GitHubError::Unsendable { secret: self.secret.clone() };
        let mut header = HeaderValue::try_from(form(&self.token())).map_err(unsendable)?;
        header.set_sensitive(true);
        Ok(header)
    }

    /// Has the next caller get a new token of an App: its permissions may be others by then.
    pub fn forget(&self) {
        let now = self.token.lock().clone();
        if let Some(source) = self.source.as_ref().filter(|_| now.of_app) {
            source.context.github.tokens.forget(&now.value);
        }
    }

    /// The remote did not take the token. Answers whether there is another one now.
    ///
    /// # Errors
    /// Why an App gets none.
    pub async fn renew(&self, refused: &str) -> Result<bool, GitHubError> {
        let now = self.token.lock().clone();
        let Some(source) = self.source.as_ref().filter(|_| now.of_app) else { return Ok(false) };
        source.context.github.tokens.forget(refused);
        let next = source.token(&self.remote).await?;
        let other = next.value != refused;
        *self.token.lock() = next;
        Ok(other)
    }
}

impl CredentialSource {
    async fn token(&self, remote: &Remote) -> Result<CredentialToken, GitHubError> {
        let Self { context, namespace, reference } = self;
        // A Secret that may be sent to github.com may be sent to its API.
        let secret =
            context.open_secret(namespace, reference, (&remote.url, DialReach::Outside)).await?;
        let of_app = app::is_app(&secret);
        let value = if of_app {
            context.github.tokens.of(context.http(), &secret, remote).await?
        } else {
            secret.value(secret_key::GIT_TOKEN)?
        };
        Ok(CredentialToken { value, of_app })
    }
}
