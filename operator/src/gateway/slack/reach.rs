//! Whether a Repo's channel can be reached: its condition `SlackReachable`, written and told as an
//! event only when it changes.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use codebutler_crds::Repo;
use codebutler_crds::condition::SLACK_REACHABLE;
use kube::ResourceExt as _;

use crate::gateway::conditions::{Conditions, Finding};

/// What is told: that it works, with what it can't do if there is something, or a reason and a
/// sentence.
pub type State = Result<Option<String>, (&'static str, String)>;

/// That nothing hinders.
const WORKS: &str = "the app can read the channel";

/// Tells whether Slack can be reached.
pub struct Reach {
    conditions: Conditions,
    /// By UID and generation of the Repo.
    told: Mutex<HashMap<String, (Option<i64>, State)>>,
}

/// Whether a code keeps everybody from speaking in the channel until somebody mends it in Slack.
pub fn is_lasting(code: &str) -> bool {
    concerns_repo(code) && !matches!(code, "missing_scope" | "not_allowed_token_type")
}

/// Whether a code speaks of the Repo's settings rather than of one call.
pub fn concerns_repo(code: &str) -> bool {
    let codes = [
        "not_in_channel",
        "channel_not_found",
        "is_archived",
        "invalid_auth",
        "not_authed",
        "account_inactive",
        "token_revoked",
        "token_expired",
        "app_uninstalled",
        "team_access_not_granted",
        "missing_scope",
        "not_allowed_token_type",
    ];
    codes.contains(&code)
}

impl Reach {
    /// Writes as the gateway's other conditions are written.
    pub fn new(conditions: Conditions) -> Self {
        Self { conditions, told: Mutex::default() }
    }

    /// Records the state if it is news. Failing to is logged, and tried again next time.
    pub async fn tell(&self, repo: &Repo, state: State) {
        let uid = repo.uid().unwrap_or_default();
        let news = (repo.metadata.generation, state);
        if self.lock().get(&uid) == Some(&news) {
            return;
        }
        let (reason, message) = match &news.1 {
            Ok(None) => ("Reachable", WORKS.to_owned()),
            Ok(Some(limits)) => ("Reachable", format!("{WORKS}; {limits}")),
            Err((reason, message)) => (*reason, message.clone()),
        };
        let finding = Finding {
            type_: SLACK_REACHABLE,
            holds: Some(news.1.is_ok()),
            reason,
            message: &message,
            event: reason,
        };
        match self.conditions.record(repo, &finding).await {
            Ok(()) => {
                self.lock().insert(uid, news);
            }
            Err(error) => {
                tracing::warn!(%error, repo = repo.name_any(), "condition not written");
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, (Option<i64>, State)>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
