//! The gateway's word on a Repo: whether its Git remote can be worked with.

use codebutler_crds::condition::{self, EGRESS_ENFORCED, GIT_REACHABLE};
use codebutler_crds::{Repo, names};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde_json::json;

use super::redact::Redactors;

const ATTEMPTS: u32 = 5;
/// Where things run is what conditions are for.
const SHOWN: &str = "internal-address";

/// Writes conditions of Repos, only when they change. Cheap to clone.
#[derive(Clone)]
pub struct Conditions {
    client: Client,
    recorder: Recorder,
    redactors: Redactors,
}

impl Conditions {
    /// A writer with the gateway's own identity, which says nothing that a Repo wants masked.
    pub fn new(client: Client, redactors: Redactors) -> Self {
        let recorder = Recorder::new(client.clone(), Reporter::from(names::GATEWAY));
        Self { client, recorder, redactors }
    }

    /// Git answered.
    pub async fn git_works(&self, repo: &Repo) {
        self.write(
            repo,
            GIT_REACHABLE,
            true,
            "Reachable",
            "the Git remote accepts the credentials",
        )
        .await;
    }

    /// Git can't be worked with until somebody corrects the Repo.
    pub async fn git_fails(&self, repo: &Repo, why: &str) {
        self.write(repo, GIT_REACHABLE, false, "NotReachable", why).await;
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
        self.write(repo, EGRESS_ENFORCED, enforced, reason, message).await;
    }

    async fn write(&self, repo: &Repo, type_: &str, status: bool, reason: &str, message: &str) {
        let redactor = self.redactors.of(repo);
        let message = &*redactor.mask_but(message, SHOWN);
        if says_so(repo, type_, status, message) {
            return;
        }
        match self.try_write(repo, type_, status, reason, message).await {
            Ok(true) if !status => self.warn(repo, type_, reason, message).await,
            Ok(_) => {}
            // The caller's work does not depend on it, and the next call tries again.
            Err(error) => tracing::warn!(repo = repo.name_any(), %error, "condition not written"),
        }
    }

    /// Whether anything had to be written.
    async fn try_write(
        &self,
        repo: &Repo,
        type_: &str,
        status: bool,
        reason: &str,
        message: &str,
    ) -> Result<bool, kube::Error> {
        let namespace = repo.namespace().unwrap_or_default();
        let api = Api::<Repo>::namespaced(self.client.clone(), &namespace);
        let mut attempt = 1;
        loop {
            let Some(now) = api.get_opt(&repo.name_any()).await? else { return Ok(false) };
            let mut conditions = now.status.clone().unwrap_or_default().conditions;
            let time = Time(Timestamp::now());
            let generation = now.metadata.generation;
            let set = condition::set;
            if !set(&mut conditions, type_, status, reason, message, generation, &time) {
                return Ok(false);
            }
            // The list is one value to a merge patch, and the controller writes into it too.
            let patch = json!({
                "metadata": {"resourceVersion": now.resource_version()},
                "status": {"conditions": conditions},
            });
            let written = api
                .patch_status(&repo.name_any(), &PatchParams::default(), &Patch::Merge(patch))
                .await;
            match written {
                Ok(_) => return Ok(true),
                Err(kube::Error::Api(refused)) if refused.code == 409 && attempt < ATTEMPTS => {
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn warn(&self, repo: &Repo, type_: &str, reason: &str, message: &str) {
        let event = Event {
            type_: EventType::Warning,
            reason: format!("{}{reason}", if type_ == GIT_REACHABLE { "Git" } else { "Egress" }),
            note: Some(message.chars().take(1000).collect()),
            action: "Connect".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &repo.object_ref(&())).await {
            tracing::warn!(repo = repo.name_any(), %error, "event not written");
        }
    }
}

fn says_so(repo: &Repo, type_: &str, status: bool, message: &str) -> bool {
    let wanted = if status { "True" } else { "False" };
    let conditions = repo.status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|c| {
        c.type_ == type_
            && c.status == wanted
            && c.message == message
            && c.observed_generation == repo.metadata.generation
    })
}
