//! The Slack app of a Repo: its tokens, from the Repo's Secret, and who it is.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::Repo;
use codebutler_crds::names::secret_key;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::dial::DialReach;
use codebutler_gateway_core::remote::url_authority;
use codebutler_gateway_core::secrets::SecretError;
use kube::ResourceExt as _;
use parking_lot::Mutex;
use serde::Deserialize;
use url::Url;

use crate::api::scopes::{self, TokenScopes};
use crate::api::stored_message::StoredMessage;
use crate::api::web::{CallError, SlackToken, SlackWeb};

/// Time before a Secret is read again.
const FRESH: Duration = Duration::from_mins(1);
/// Longest time that one app may keep the others waiting.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time before a failed read is tried again.
const FAILED: Duration = Duration::from_secs(5);

/// An app in a workspace. No Debug: it holds tokens.
pub(crate) struct SlackAccount {
    /// Bot token, `xoxb-…`: calls the Web API.
    pub bot: SlackToken,
    /// App-level token, `xapp-…`: opens sockets.
    pub app: SlackToken,
    pub user: Option<String>,
    pub bot_id: Option<String>,
    /// Scopes of the bot's token; `None` if Slack did not say.
    pub scopes: Option<TokenScopes>,
    /// Host of the workspace's pages.
    pub workspace: Option<String>,
    pub team: Option<String>,
    /// Id of the organisation that the workspace belongs to, if it is one of several.
    pub enterprise: Option<String>,
}

impl SlackAccount {
    #[cfg(test)]
    pub(crate) fn test(user: &str, bot_id: &str) -> Self {
        Self {
            bot: SlackToken::new("xoxb-test"),
            app: SlackToken::new("xapp-test"),
            user: Some(user.to_owned()),
            bot_id: Some(bot_id.to_owned()),
            scopes: None,
            workspace: None,
            team: None,
            enterprise: None,
        }
    }

    /// True if a scope is known to be missing without which there is no conversation.
    pub(crate) fn lacks_scopes(&self) -> bool {
        self.scopes.as_ref().is_some_and(|scopes| !scopes.lacks().is_empty())
    }

    /// True if a message may carry a role's own name and icon; assumed while the scopes are unknown.
    pub(crate) fn customizes(&self) -> bool {
        self.scopes.as_ref().is_none_or(|scopes| scopes.has(scopes::CUSTOMIZE))
    }

    /// True if the app may post files; assumed while the scopes are unknown.
    pub(crate) fn posts_files(&self) -> bool {
        self.scopes.as_ref().is_none_or(|scopes| scopes.has(scopes::FILES))
    }

    /// True if Slack shows the app's work, with a button to stop it.
    pub(crate) fn is_agent(&self) -> bool {
        self.scopes.as_ref().is_some_and(|scopes| scopes.has(scopes::AGENT))
    }

    /// True if a message is this app's own.
    pub(crate) fn wrote(&self, message: &StoredMessage) -> bool {
        let is = |own: &Option<String>, sender: &Option<String>| own.is_some() && own == sender;
        is(&self.bot_id, &message.bot_id) || is(&self.user, &message.user)
    }
}

/// An app can't be used: its Secret could not be read, or a call to Slack failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AccessError {
    #[error(transparent)]
    Secret(#[from] Arc<SecretError>),
    #[error(transparent)]
    Call(#[from] CallError),
}

impl AccessError {
    /// True if the same may succeed later, and is not seen twice then.
    pub(crate) fn may_repeat(&self) -> bool {
        match self {
            Self::Secret(error) => matches!(**error, SecretError::Unreadable { .. }),
            Self::Call(error) => error.may_repeat(),
        }
    }
}

impl Clone for AccessError {
    fn clone(&self) -> Self {
        match self {
            Self::Secret(error) => Self::Secret(Arc::clone(error)),
            Self::Call(error) => Self::Call(error.clone()),
        }
    }
}

type KnownAccount = (Instant, Result<Arc<SlackAccount>, AccessError>);

/// Apps by Secret, read again once a minute so that a changed Secret is noticed.
#[derive(Clone, Default)]
pub(crate) struct SlackAccounts {
    known: Arc<Mutex<HashMap<(String, String), KnownAccount>>>,
}

#[derive(Deserialize)]
struct AuthTest {
    #[serde(default)]
    user_id: Option<String>,
    #[serde(default)]
    bot_id: Option<String>,
    #[serde(default)]
    url: Option<Url>,
    #[serde(default)]
    team_id: Option<String>,
    #[serde(default)]
    enterprise_id: Option<String>,
}

impl SlackAccounts {
    /// Returns the app of a Repo, from the cache while it is fresh.
    ///
    /// # Errors
    /// When its Secret or Slack says no.
    pub(crate) async fn of(
        &self,
        context: &GatewayContext,
        web: &SlackWeb,
        repo: &Repo,
    ) -> Result<Arc<SlackAccount>, AccessError> {
        let namespace = repo.namespace().unwrap_or_default();
        let key = (namespace, repo.spec.slack.credentials.name.clone());
        let last = self.lock().get(&key).cloned();
        if let Some((read, result)) = &last {
            let fresh = if result.is_ok() { FRESH } else { FAILED };
            if read.elapsed() < fresh {
                return result.clone();
            }
        }
        let before = last.and_then(|(_, result)| result.ok());
        let result = match self.read(context, web, repo, &key.0, before.as_deref()).await {
            // A hiccup does not replace a good answer: the previous one stays.
            Err(error) if is_hiccup(&error) => before.ok_or(error),
            Ok(None) => before.ok_or_else(|| CallError::Limited { method: "auth.test" }.into()),
            Ok(Some(account)) => Ok(Arc::new(account)),
            Err(error) => Err(error),
        };
        self.lock().insert(key, (Instant::now(), result.clone()));
        result
    }

    /// Forgets an app, because Slack does not accept its token any more.
    pub(crate) fn forget(&self, repo: &Repo) {
        let namespace = repo.namespace().unwrap_or_default();
        self.lock().remove(&(namespace, repo.spec.slack.credentials.name.clone()));
    }

    /// Reads the Secret and asks Slack about it. `None` if the tokens are those of `before`, and nothing was
    /// missing.
    async fn read(
        &self,
        context: &GatewayContext,
        web: &SlackWeb,
        repo: &Repo,
        namespace: &str,
        before: Option<&SlackAccount>,
    ) -> Result<Option<SlackAccount>, AccessError> {
        let reference = &repo.spec.slack.credentials;
        let to = (web.base(), DialReach::Anywhere);
        let secret = |key| async move {
            let value = context.secret(namespace, reference, key, to).await;
            value.map(|value| SlackToken::new(&value)).map_err(Arc::new)
        };
        let bot = secret(secret_key::SLACK_BOT_TOKEN).await?;
        let app = secret(secret_key::SLACK_APP_TOKEN).await?;
        let known = before.filter(|before| before.bot == bot && before.app == app);
        if known.is_some_and(|before| before.scopes.as_ref().is_some_and(TokenScopes::suffice)) {
            return Ok(None);
        }
        // A token stays the same when scopes are added to the app.
        let asking = async {
            let scopes = web.scopes(&bot).await;
            let who = match known {
                Some(before) => {
                    let (user_id, bot_id) = (before.user.clone(), before.bot_id.clone());
                    let url = before.workspace.as_ref();
                    let url = url.and_then(|host| format!("https://{host}").parse().ok());
                    let (team_id, enterprise_id) = (before.team.clone(), before.enterprise.clone());
                    AuthTest { user_id, bot_id, url, team_id, enterprise_id }
                }
                None => web.post(&bot, "auth.test", &serde_json::json!({})).await?,
            };
            Ok((who, scopes))
        };
        let (who, scopes) = match tokio::time::timeout(PATIENCE, asking).await {
            Ok(Ok(known)) => known,
            Ok(Err(error)) => return Err(AccessError::Call(error)),
            // Too slow: other Repos wait for this one.
            Err(_) => return Err(CallError::Limited { method: "auth.test" }.into()),
        };
        let workspace = who.url.as_ref().and_then(url_authority);
        Ok(Some(SlackAccount {
            bot,
            app,
            user: who.user_id,
            bot_id: who.bot_id,
            scopes,
            workspace,
            team: who.team_id,
            enterprise: who.enterprise_id,
        }))
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, HashMap<(String, String), KnownAccount>> {
        self.known.lock()
    }
}

fn is_hiccup(error: &AccessError) -> bool {
    match error {
        AccessError::Secret(secret) => matches!(**secret, SecretError::Unreadable { .. }),
        AccessError::Call(call) => call.code().is_none(),
    }
}
