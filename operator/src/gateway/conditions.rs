//! The gateway's word on a Repo: whether its Git remote, its channel and the world behind the
//! NetworkPolicy are as they should be.

use codebutler_crds::condition::{self, EGRESS_ENFORCED, GIT_REACHABLE};
use codebutler_crds::{Repo, names};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde_json::json;

use super::redact::Redactors;
use crate::apply::shortened;

/// Attempts against other writers of the same status.
const ATTEMPTS: u32 = 8;
/// Where things run is what conditions are for.
const SHOWN: &str = "internal-address";
/// Bytes of an event's note; the API takes 1,024.
const NOTE: usize = 1000;

/// Writes conditions of Repos, only when they change. Cheap to clone.
#[derive(Clone)]
pub struct Conditions {
    client: Client,
    recorder: Recorder,
    redactors: Redactors,
}

/// What was found about one condition.
#[derive(Debug)]
pub struct Finding<'a> {
    /// The condition's type.
    pub type_: &'static str,
    /// Whether it holds.
    pub holds: bool,
    /// One word, in `CamelCase`.
    pub reason: &'a str,
    /// A sentence, which says what to do if it does not hold.
    pub message: &'a str,
    /// The reason of the event that tells that it does not hold.
    pub event: &'a str,
}

impl Conditions {
    /// A writer with the gateway's own identity, which says nothing that a Repo wants masked.
    pub fn new(client: Client, redactors: Redactors) -> Self {
        let recorder = Recorder::new(client.clone(), Reporter::from(names::GATEWAY));
        Self { client, recorder, redactors }
    }

    /// Git answered.
    pub async fn git_works(&self, repo: &Repo) {
        let message = "the Git remote accepts the credentials";
        self.tell(repo, GIT_REACHABLE, true, "Reachable", message).await;
    }

    /// Git can't be worked with until somebody corrects the Repo.
    pub async fn git_fails(&self, repo: &Repo, why: &str) {
        self.tell(repo, GIT_REACHABLE, false, "NotReachable", why).await;
    }

    /// What an agent found when it tried to get past the gateway.
    pub async fn egress(&self, repo: &Repo, enforced: bool) {
        let (reason, message) = if enforced {
            ("Enforced", "agent pods reach the gateway and nothing else")
        } else {
            (
                "NotEnforced",
                "an agent pod could connect to the API server: the cluster does not \
              enforce this Repo's NetworkPolicy",
            )
        };
        self.tell(repo, EGRESS_ENFORCED, enforced, reason, message).await;
    }

    /// Records what is not known to be on the Repo. The caller's work does not depend on it: failing
    /// to is logged, and the next call tries again.
    async fn tell(&self, repo: &Repo, type_: &'static str, holds: bool, reason: &str, why: &str) {
        let what = if type_ == GIT_REACHABLE { "Git" } else { "Egress" };
        let event = &format!("{what}{reason}");
        let finding = Finding { type_, holds, reason, message: why, event };
        let message = &*self.redactors.of(repo).mask_but(why, SHOWN).into_owned();
        if says_so(repo, &Finding { message, ..finding }) {
            return;
        }
        if let Err(error) = self.record(repo, &finding).await {
            tracing::warn!(repo = repo.name_any(), %error, "condition not written");
        }
    }

    /// Records a finding if the Repo, as it is now, does not say so, and tells as an event what does
    /// not hold.
    ///
    /// # Errors
    /// When the API server does not take it, or others write the same status again and again.
    pub async fn record(&self, repo: &Repo, finding: &Finding<'_>) -> Result<(), kube::Error> {
        let message = &*self.redactors.of(repo).mask_but(finding.message, SHOWN).into_owned();
        let Finding { type_, holds, reason, .. } = *finding;
        let api =
            Api::<Repo>::namespaced(self.client.clone(), &repo.namespace().unwrap_or_default());
        let mut attempt = 1;
        loop {
            let Some(now) = api.get_opt(&repo.name_any()).await? else { return Ok(()) };
            let mut conditions = now.status.clone().unwrap_or_default().conditions;
            let (time, generation) = (Time(Timestamp::now()), now.metadata.generation);
            let set = condition::set;
            if !set(&mut conditions, type_, holds, reason, message, generation, &time) {
                return Ok(());
            }
            // The list is one value to a merge patch, and the controller writes into it too.
            let patch = json!({
                "metadata": {"resourceVersion": now.resource_version()},
                "status": {"conditions": conditions},
            });
            let params = PatchParams::default();
            match api.patch_status(&repo.name_any(), &params, &Patch::Merge(patch)).await {
                Ok(_) => break,
                Err(kube::Error::Api(refused)) if refused.code == 409 && attempt < ATTEMPTS => {
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
        tracing::info!(repo = repo.name_any(), condition = type_, holds, reason, message, "found");
        if !holds {
            self.warn(repo, finding.event, message).await;
        }
        Ok(())
    }

    async fn warn(&self, repo: &Repo, reason: &str, message: &str) {
        let event = warning(reason, message);
        if let Err(error) = self.recorder.publish(&event, &repo.object_ref(&())).await {
            tracing::warn!(repo = repo.name_any(), %error, "event not written");
        }
    }
}

fn warning(reason: &str, message: &str) -> Event {
    Event {
        type_: EventType::Warning,
        reason: reason.to_owned(),
        note: Some(shortened(message, NOTE)),
        action: "Connect".to_owned(),
        secondary: None,
    }
}

fn says_so(repo: &Repo, finding: &Finding<'_>) -> bool {
    let wanted = if finding.holds { "True" } else { "False" };
    let conditions = repo.status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|c| {
        c.type_ == finding.type_
            && c.status == wanted
            && c.message == finding.message
            && c.observed_generation == repo.metadata.generation
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_no_longer_than_the_api_takes() {
        let long = "Überprüfen Sie das Geheimnis. ".repeat(100);
        let note = warning("GitNotReachable", &long).note.unwrap();
        assert!((900..=1024).contains(&note.len()), "{}: {note}", note.len());
    }
}
