//! Whether a Repo's channel can be reached: its condition `SlackReachable`, written and told as an
//! event only when it changes.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use codebutler_crds::{Repo, condition, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde_json::json;

use crate::gateway::redact::Redactors;

/// What is told: that it works, with what it can't do if there is something, or a reason and a
/// sentence.
pub type State = Result<Option<String>, (&'static str, String)>;

/// That nothing hinders.
const WORKS: &str = "the app can read the channel";
/// Attempts against other writers of the same status.
const ATTEMPTS: usize = 8;

/// Tells whether Slack can be reached.
pub struct Reach {
    client: Client,
    recorder: Recorder,
    redactors: Redactors,
    /// By UID and generation of the Repo.
    told: Mutex<HashMap<String, (Option<i64>, State)>>,
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
        "missing_scope",
        "not_allowed_token_type",
    ];
    codes.contains(&code)
}

impl Reach {
    /// Writes with the gateway's identity, and nothing that a Repo wants masked.
    pub fn new(client: Client, redactors: Redactors) -> Self {
        let recorder = Recorder::new(client.clone(), Reporter::from(names::GATEWAY));
        Self { client, recorder, redactors, told: Mutex::default() }
    }

    /// Records the state if it is news. Failing to is logged, and tried again next time.
    pub async fn tell(&self, repo: &Repo, state: State) {
        let uid = repo.uid().unwrap_or_default();
        let news = (repo.metadata.generation, state);
        if self.lock().get(&uid) == Some(&news) {
            return;
        }
        match self.write(repo, &news.1).await {
            Ok(()) => {
                self.lock().insert(uid, news);
            }
            Err(error) => {
                tracing::warn!(%error, repo = repo.name_any(), "condition not written");
            }
        }
    }

    async fn write(&self, repo: &Repo, state: &State) -> Result<(), kube::Error> {
        let api: Api<Repo> =
            Api::namespaced(self.client.clone(), &repo.namespace().unwrap_or_default());
        let (reason, message) = match state {
            Ok(None) => ("Reachable", WORKS.to_owned()),
            Ok(Some(limits)) => ("Reachable", format!("{WORKS}; {limits}")),
            Err((reason, message)) => (*reason, message.clone()),
        };
        let redactor = self.redactors.of(repo);
        let message = &*redactor.mask(&message);
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let Some(current) = api.get_opt(&repo.name_any()).await? else { return Ok(()) };
            let mut conditions = current.status.clone().unwrap_or_default().conditions;
            let (now, generation) = (Time(jiff::Timestamp::now()), current.metadata.generation);
            let type_ = condition::SLACK_REACHABLE;
            if !condition::set(
                &mut conditions,
                type_,
                state.is_ok(),
                reason,
                message,
                generation,
                &now,
            ) {
                return Ok(());
            }
            // The list is replaced as a whole, so only on the revision it was read from.
            let patch = json!({
                "metadata": {"resourceVersion": current.resource_version()},
                "status": {"conditions": conditions},
            });
            let params = PatchParams::default();
            match api.patch_status(&repo.name_any(), &params, &Patch::Merge(&patch)).await {
                Ok(_) => {
                    self.publish(&current, state, reason, message).await;
                    return Ok(());
                }
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    last = Some(kube::Error::Api(status));
                }
                Err(error) => return Err(error),
            }
        }
        last.map_or(Ok(()), Err)
    }

    async fn publish(&self, repo: &Repo, state: &State, reason: &str, message: &str) {
        tracing::info!(repo = repo.name_any(), reason, message, "Slack");
        if state.is_ok() {
            return;
        }
        let event = Event {
            type_: EventType::Warning,
            reason: reason.to_owned(),
            note: Some(message.to_owned()),
            action: "Connect".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &repo.object_ref(&())).await {
            tracing::warn!(%error, repo = repo.name_any(), "event not written");
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, (Option<i64>, State)>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
