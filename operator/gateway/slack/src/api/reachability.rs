//! Condition `SlackReachable` of a Repo: can its channel be reached? Written and told as an event only when it
//! changes.

use std::collections::HashMap;

use codebutler_crds::Repo;
use codebutler_crds::condition::SLACK_REACHABLE;
use codebutler_gateway_core::conditions::{ConditionFinding, ConditionWriter};
use kube::ResourceExt as _;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::api::scopes::is_ungranted;

/// State that is told: it works, with what it can't do if there is something, or a reason and a sentence.
pub(crate) type ReachState = Result<Option<String>, (&'static str, String)>;

/// Message of the condition where nothing hinders.
const WORKS: &str = "the app can read the channel";

/// Reports on Repos whether Slack can be reached.
pub(crate) struct SlackReach {
    conditions: ConditionWriter,
    told: Mutex<HashMap<String, ToldFinding>>,
    /// Count of refusals by Slack because of a Repo's settings.
    refusals: watch::Sender<u64>,
}

#[derive(Clone, PartialEq, Eq)]
struct ToldFinding {
    generation: Option<i64>,
    /// Channel and Secret that the state was found with.
    about: (String, String),
    state: ReachState,
}

impl ToldFinding {
    fn of(repo: &Repo, state: ReachState) -> Self {
        let slack = &repo.spec.slack;
        let about = (slack.channel.clone(), slack.credentials.name.clone());
        Self { generation: repo.metadata.generation, about, state }
    }
}

/// True if a code keeps everybody from speaking in the channel until somebody fixes it in Slack.
pub(crate) fn is_lasting(code: &str) -> bool {
    concerns_repo(code) && !is_ungranted(code)
}

/// True if a code speaks of the Repo's settings rather than of one call.
pub(crate) fn concerns_repo(code: &str) -> bool {
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

impl SlackReach {
    /// Writes as the gateway's other conditions are written.
    pub(crate) fn new(conditions: ConditionWriter) -> Self {
        Self { conditions, told: Mutex::default(), refusals: watch::Sender::new(0) }
    }

    /// Takes note that Slack refused a call because of a Repo's settings.
    pub(crate) fn note_refusal(&self) {
        self.refusals.send_modify(|count| *count += 1);
    }

    /// Follows refusals: after each, channels are checked soon, which shows when somebody has fixed the cause.
    pub(crate) fn watch_refusals(&self) -> watch::Receiver<u64> {
        self.refusals.subscribe()
    }

    /// Records the state if it is news, and answers whether the Repo says it now. Failing to is logged,
    /// and tried again next time.
    pub(crate) async fn tell(&self, repo: &Repo, state: ReachState) -> bool {
        let uid = repo.uid().unwrap_or_default();
        let news = ToldFinding::of(repo, state);
        // Another replica may have said otherwise since.
        if self.lock().get(&uid) == Some(&news) && says_reached(repo, news.state.is_ok()) {
            return true;
        }
        let (reason, message) = match &news.state {
            Ok(None) => ("Reachable", WORKS.to_owned()),
            Ok(Some(limits)) => ("Reachable", format!("{WORKS}; {limits}")),
            Err((reason, message)) => (*reason, message.clone()),
        };
        let finding = ConditionFinding {
            type_: SLACK_REACHABLE,
            holds: Some(news.state.is_ok()),
            reason,
            message: &message,
            event: reason,
        };
        match self.conditions.record(repo, &finding).await {
            Ok(()) => {
                self.lock().insert(uid, news);
                true
            }
            Err(error) => {
                tracing::warn!(%error, repo = repo.name_any(), "condition_write_failed");
                false
            }
        }
    }

    /// Repeats what was found, where a Repo has changed in what has nothing to do with it.
    pub(crate) async fn follow(&self, repo: &Repo) {
        let told = self.lock().get(&repo.uid().unwrap_or_default()).cloned();
        let Some(told) = told.filter(|told| told.generation != repo.metadata.generation) else {
            return;
        };
        if told.about == ToldFinding::of(repo, Ok(None)).about {
            self.tell(repo, told.state).await;
        }
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, HashMap<String, ToldFinding>> {
        self.told.lock()
    }
}

/// True if the Repo says that of its present generation.
fn says_reached(repo: &Repo, works: bool) -> bool {
    let mut conditions = repo.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|c| {
        c.type_ == SLACK_REACHABLE
            && (c.status == "True") == works
            && c.observed_generation == repo.metadata.generation
    })
}
