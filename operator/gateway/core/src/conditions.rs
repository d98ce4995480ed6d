//! The gateway's word on a Repo: whether its Git remote, its channel and the world behind the
//! NetworkPolicy are as they should be.

use codebutler_crds::condition::{
    self, EGRESS_ENFORCED, GIT_REACHABLE, GUIDES_VALID, MODEL_REACHABLE, MODELS_KNOWN,
    SEATS_SET_UP, SPARSE_CHECKOUT_VALID,
};
use codebutler_crds::wire::SeatSetUpEnd;
use codebutler_crds::{Repo, names};
use codebutler_runtime::apply::{event_action, shorten_text};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::Patch;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde_json::json;

use crate::redact::RepoRedactors;
use crate::writes;

/// Most attempts at a write against other writers of the same status.
const ATTEMPTS: u32 = 8;
/// Redaction rule that is left out: conditions are there to say where things run.
const SHOWN: &str = "internal-address";
/// Message of a condition about a model API that works.
const ANSWERS: &str = "the model API answers";
/// Most bytes of an event's note; the API takes 1,024.
const NOTE: usize = 1000;

/// Writes conditions of Repos, only when they change. Cheap to clone.
#[derive(Clone)]
pub struct ConditionWriter {
    client: Client,
    recorder: Recorder,
    redactors: RepoRedactors,
}

/// Finding about one condition.
#[derive(Clone, Copy, Debug)]
pub struct ConditionFinding<'a> {
    pub type_: &'static str,
    /// True if the condition holds; None if it can't be known.
    pub holds: Option<bool>,
    /// Reason as one word, in `CamelCase`.
    pub reason: &'a str,
    /// A sentence, which says what to do if it does not hold.
    pub message: &'a str,
    /// The reason of the event that tells that it does not hold.
    pub event: &'a str,
}

/// Finding about the models of a Repo's roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConditionStanding {
    /// The provider has them all; and what somebody should know of their money all the same.
    Known(Option<String>),
    /// A sentence about those that it has not, or that can't do the work.
    Wrong(String),
    /// The provider's list can't be had, or says nothing; with the reason.
    Unknown(String),
}

/// Result of a check without a model call: whether the model API serves a Repo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServedModel {
    Yes,
    /// A reason, a sentence, and whether that passes by itself.
    No(&'static str, String, bool),
    /// Only a call can tell; with the reason.
    Unasked(String),
}

/// Reasons that only a call finds, and that only another call finds resolved.
const BY_CALLS: [&str; 2] = ["Refused", "ModelRefused"];

impl ConditionWriter {
    /// A writer with the gateway's own identity, which says nothing that a Repo wants masked.
    pub fn new(client: Client, redactors: RepoRedactors) -> Self {
        let recorder = Recorder::new(client.clone(), Reporter::from(names::GATEWAY));
        Self { client, recorder, redactors }
    }

    /// Git answered. `remark`: what somebody should know of it all the same. Answers whether the Repo
    /// says it now.
    pub async fn git_works(&self, repo: &Repo, remark: Option<String>) -> bool {
        let mut message = "the Git remote accepts the credentials".to_owned();
        message.extend(remark.map(|remark| format!("; {remark}")));
        self.tell(repo, GIT_REACHABLE, true, "Reachable", &message).await
    }

    /// Git can't be worked with until somebody corrects the Repo. Answers whether the Repo says it now.
    pub async fn git_fails(&self, repo: &Repo, why: &str) -> bool {
        self.tell(repo, GIT_REACHABLE, false, "NotReachable", why).await
    }

    /// Reports whether agents found a way past the gateway: `open` names what they reached, if
    /// anything, and a remedy of its own where there is one.
    pub async fn egress(&self, repo: &Repo, open: Option<(&str, &str)>) {
        let (reason, message) = match open {
            None if repo.spec.egress.allow_own_node => (
                "Enforced",
                "agent pods reach the gateway and nothing else but their own node, which \
                 spec.egress.allowOwnNode allows"
                    .to_owned(),
            ),
            None => ("Enforced", "agent pods reach the gateway and nothing else".to_owned()),
            Some((ways, remedy)) => (
                "NotEnforced",
                format!(
                    "agent pods could connect past the gateway ({ways}): the cluster does not \
                     enforce this Repo's NetworkPolicy, or another one lets these pods out{remedy}"
                ),
            ),
        };
        self.tell(repo, EGRESS_ENFORCED, open.is_none(), reason, &message).await;
    }

    /// Reports how the provider's list of models compares with the roles' models. Returns true if
    /// the Repo says it now.
    pub async fn models(&self, repo: &Repo, standing: &ConditionStanding) -> bool {
        let message;
        let (holds, reason, message) = match standing {
            ConditionStanding::Known(remark) => {
                let rest = remark.as_ref().map(|remark| format!("; {remark}")).unwrap_or_default();
                message = format!("the provider has the models of all roles{rest}");
                (Some(true), "Known", message.as_str())
            }
            ConditionStanding::Wrong(faults) => (Some(false), "NotKnown", faults.as_str()),
            ConditionStanding::Unknown(why) => {
                message = format!(
                    "the provider's list of models can't be used: {why}. Models are taken as they \
                     are written down; spec.model.models can say what they are"
                );
                (None, "NoList", message.as_str())
            }
        };
        let event = "ModelsNotKnown";
        self.put(repo, &ConditionFinding { type_: MODELS_KNOWN, holds, reason, message, event })
            .await
    }

    /// The model API does not serve the Repo's key, or one of its models, and why.
    pub async fn model_fails(&self, repo: &Repo, reason: &str, why: &str) {
        let (type_, event) = (MODEL_REACHABLE, "ModelNotReachable");
        let finding = ConditionFinding { type_, holds: Some(false), reason, message: why, event };
        self.put(repo, &finding).await;
    }

    /// Reports the finding of a check without a model call. `anew`: the Secret has changed since,
    /// so findings of calls do not count any more. Returns true if the Repo says it now.
    pub async fn model_asked(&self, repo: &Repo, served: &ServedModel, anew: bool) -> bool {
        let conditions = repo.status.iter().flat_map(|status| &status.conditions);
        let mut said = conditions.into_iter().filter(|c| {
            c.type_ == MODEL_REACHABLE && c.observed_generation == repo.metadata.generation
        });
        let (works, by_call) = match said.next() {
            Some(c) if c.status == "False" => (false, BY_CALLS.contains(&&*c.reason)),
            Some(c) => (c.status == "True", false),
            None => (false, false),
        };
        let message;
        let (holds, reason, message) = match served {
            ServedModel::Yes if by_call && !anew => return true,
            ServedModel::Yes => (Some(true), "Served", ANSWERS),
            ServedModel::No(_, _, passes) if *passes && works => return true,
            ServedModel::No(reason, why, _) => (Some(false), *reason, why.as_str()),
            ServedModel::Unasked(_) if (works || by_call) && !anew => return true,
            ServedModel::Unasked(why) => {
                message = format!("only a call can tell whether the key is served: {why}");
                (None, "NotAsked", message.as_str())
            }
        };
        let event = "ModelNotReachable";
        self.put(repo, &ConditionFinding { type_: MODEL_REACHABLE, holds, reason, message, event })
            .await
    }

    /// A model answered. Said only where it was said that none does, or that this one does not.
    pub async fn model_works(&self, repo: &Repo, model: &str) {
        let mut conditions = repo.status.iter().flat_map(|status| &status.conditions);
        let named = format!("`{model}`");
        let mended = conditions.any(|c| {
            let about = c.reason != "ModelRefused" || c.message.contains(&named);
            c.type_ == MODEL_REACHABLE && c.status != "True" && about
        });
        if !mended {
            return;
        }
        let (type_, event) = (MODEL_REACHABLE, "ModelReachable");
        let message = ANSWERS;
        let finding =
            ConditionFinding { type_, holds: Some(true), reason: "Served", message, event };
        self.put(repo, &finding).await;
    }

    /// Reports errors in the guides of the base branch, if there are any. Returns true if the Repo
    /// says it now.
    pub async fn guides(&self, repo: &Repo, wrong: Option<&str>) -> bool {
        let (reason, message) = match wrong {
            None => ("GuidesUsable", "each file of .codebutler/ can be used as it stands"),
            Some(wrong) => ("GuidesInvalid", wrong),
        };
        let (type_, holds) = (GUIDES_VALID, Some(wrong.is_none()));
        self.put(repo, &ConditionFinding { type_, holds, reason, message, event: "GuidesInvalid" })
            .await
    }

    /// Reports folders of `spec.worktree.sparse` that the base branch does not have, if there are any. Returns true if the
    /// Repo says it now.
    pub async fn sparse(&self, repo: &Repo, wrong: Option<&str>) -> bool {
        let (reason, message) = match wrong {
            None => {
                ("SparseFoldersFound", "the base branch has each folder of spec.worktree.sparse")
            }
            Some(wrong) => ("SparseFolderNotFound", wrong),
        };
        let (type_, holds) = (SPARSE_CHECKOUT_VALID, Some(wrong.is_none()));
        let event = "SparseFolderNotFound";
        self.put(repo, &ConditionFinding { type_, holds, reason, message, event }).await
    }

    /// Reports how the set-up of a seat's clone ended. What it printed stays in the pod's log. The sentence names no
    /// seat: each Thread takes one, and the same failure of the next one is no news.
    pub async fn seat_set_up(&self, repo: &Repo, end: SeatSetUpEnd) {
        let (namespace, name) = (repo.namespace().unwrap_or_default(), repo.name_any());
        let (reason, message) = match end {
            SeatSetUpEnd::Done => {
                ("SetUpDone", "seats are set up before a Thread takes them".to_owned())
            }
            SeatSetUpEnd::Failed => (
                "SetUpFailed",
                format!(
                    "the clone of a seat could not be set up: see `kubectl -n {namespace} logs -c agent --tail=-1 \
                     -l {}={name},{}`; seats wait with their clones, and the Thread that takes one tries again and \
                     tells people",
                    names::LABEL_REPO,
                    names::LABEL_SEAT
                ),
            ),
        };
        let (type_, holds) = (SEATS_SET_UP, Some(end == SeatSetUpEnd::Done));
        let message = message.as_str();
        let finding = ConditionFinding { type_, holds, reason, message, event: "SetUpFailed" };
        self.put(repo, &finding).await;
    }

    /// The state of the servers of `spec.mcpServers`. Answers whether the Repo says it now.
    pub async fn servers(&self, repo: &Repo, finding: &ConditionFinding<'_>) -> bool {
        self.put(repo, finding).await
    }

    /// The state of the search service of `spec.web.search`. Answers whether the Repo says it now.
    pub async fn search(&self, repo: &Repo, finding: &ConditionFinding<'_>) -> bool {
        self.put(repo, finding).await
    }

    /// Records good news as an event.
    pub async fn note(&self, repo: &Repo, reason: &str, message: &str) {
        let message = self.redactors.of(repo).mask_but(message, SHOWN).into_owned();
        let event = Event { type_: EventType::Normal, ..warning_event(reason, &message) };
        self.publish(repo, &event).await;
    }

    /// Has a condition stand for the Repo as it is now, if nothing that it depends on has changed. Answers whether it
    /// does.
    pub async fn affirm(&self, repo: &Repo, type_: &str) -> bool {
        let generation = repo.metadata.generation;
        let api =
            Api::<Repo>::namespaced(self.client.clone(), &repo.namespace().unwrap_or_default());
        for _ in 0..ATTEMPTS {
            let now = match api.get_opt(&repo.name_any()).await {
                Ok(found) => found.filter(|now| now.uid() == repo.uid()),
                Err(error) => {
                    tracing::warn!(repo = repo.name_any(), %error, "condition_write_failed");
                    return false;
                }
            };
            // Of a newer one the caller knows nothing yet.
            let Some(now) = now.filter(|now| now.metadata.generation == generation) else {
                return false;
            };
            let mut conditions = now.status.clone().unwrap_or_default().conditions;
            let Some(known) = conditions.iter_mut().find(|c| c.type_ == type_) else {
                return false;
            };
            if known.observed_generation == generation {
                return true;
            }
            known.observed_generation = generation;
            let patch = json!({
                "metadata": {"resourceVersion": now.resource_version()},
                "status": {"conditions": conditions},
            });
            let params = writes::patch_params();
            match api.patch_status(&repo.name_any(), &params, &Patch::Merge(patch)).await {
                Err(kube::Error::Api(refused)) if refused.code == 409 => {}
                Ok(_) => return true,
                Err(error) => {
                    tracing::warn!(repo = repo.name_any(), %error, "condition_write_failed");
                    return false;
                }
            }
        }
        false
    }

    /// Removes a condition of what the Repo has no more. Answers whether it is gone.
    pub async fn forget(&self, repo: &Repo, type_: &str) -> bool {
        let has = |repo: &Repo| {
            repo.status.iter().flat_map(|status| &status.conditions).any(|c| c.type_ == type_)
        };
        if !has(repo) {
            return true;
        }
        let api =
            Api::<Repo>::namespaced(self.client.clone(), &repo.namespace().unwrap_or_default());
        for _ in 0..ATTEMPTS {
            let now = match api.get_opt(&repo.name_any()).await {
                Ok(found) => found.filter(|now| now.uid() == repo.uid() && has(now)),
                Err(error) => {
                    tracing::warn!(type_, %error, repo = repo.name_any(), "condition_removal_failed");
                    return false;
                }
            };
            let Some(now) = now else { return true };
            let mut conditions = now.status.clone().unwrap_or_default().conditions;
            condition::clear_condition(&mut conditions, type_);
            let patch = json!({
                "metadata": {"resourceVersion": now.resource_version()},
                "status": {"conditions": conditions},
            });
            let params = writes::patch_params();
            match api.patch_status(&repo.name_any(), &params, &Patch::Merge(patch)).await {
                Err(kube::Error::Api(refused)) if refused.code == 409 => {}
                Ok(_) => return true,
                Err(error) => {
                    tracing::warn!(type_, %error, repo = repo.name_any(), "condition_removal_failed");
                    return false;
                }
            }
        }
        false
    }

    /// Tells that deliveries can't be checked, and why.
    pub async fn signing_fails(&self, repo: &Repo, why: &str) {
        let message = self.redactors.of(repo).mask_but(why, SHOWN).into_owned();
        self.warn(repo, "SigningSecretInvalid", &message).await;
    }

    /// Records what is not known to be on the Repo. The caller's work does not depend on it: failing
    /// to is logged, and the next call tries again.
    async fn tell(
        &self,
        repo: &Repo,
        type_: &'static str,
        holds: bool,
        reason: &str,
        why: &str,
    ) -> bool {
        let what = if type_ == GIT_REACHABLE { "Git" } else { "Egress" };
        let event = &format!("{what}{reason}");
        self.put(repo, &ConditionFinding { type_, holds: Some(holds), reason, message: why, event })
            .await
    }

    /// Writes the finding. Returns true if it is on the Repo.
    async fn put(&self, repo: &Repo, finding: &ConditionFinding<'_>) -> bool {
        let message = &*self.redactors.of(repo).mask_but(finding.message, SHOWN).into_owned();
        if says_so(repo, &ConditionFinding { message, ..*finding }) {
            return true;
        }
        let recorded = self.record(repo, finding).await;
        if let Err(error) = &recorded {
            tracing::warn!(repo = repo.name_any(), %error, "condition_write_failed");
        }
        recorded.is_ok()
    }

    /// Records a finding if the Repo, as it is now, does not say so, and tells as an event what does
    /// not hold.
    ///
    /// # Errors
    /// When the API server does not take it, or others write the same status again and again.
    pub async fn record(
        &self,
        repo: &Repo,
        finding: &ConditionFinding<'_>,
    ) -> Result<(), kube::Error> {
        let message = &*self.redactors.of(repo).mask_but(finding.message, SHOWN).into_owned();
        let ConditionFinding { type_, holds, reason, .. } = *finding;
        let api =
            Api::<Repo>::namespaced(self.client.clone(), &repo.namespace().unwrap_or_default());
        let mut attempt = 1;
        loop {
            // Nothing that was found out about one Repo is said of another one of its name.
            let found = api.get_opt(&repo.name_any()).await?;
            let Some(now) = found.filter(|now| now.uid() == repo.uid()) else { return Ok(()) };
            let mut conditions = now.status.clone().unwrap_or_default().conditions;
            let (time, generation) = (Time(Timestamp::now()), now.metadata.generation);
            let (set, status) = (condition::set_to, status_of(holds));
            if !set(&mut conditions, type_, status, reason, message, generation, &time) {
                return Ok(());
            }
            // The list is one value to a merge patch, and the controller writes into it too.
            let patch = json!({
                "metadata": {"resourceVersion": now.resource_version()},
                "status": {"conditions": conditions},
            });
            let params = writes::patch_params();
            match api.patch_status(&repo.name_any(), &params, &Patch::Merge(patch)).await {
                Ok(_) => break,
                Err(kube::Error::Api(refused)) if refused.code == 409 && attempt < ATTEMPTS => {
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
        let status = status_of(holds);
        tracing::info!(
            repo = repo.name_any(),
            condition = type_,
            status,
            reason,
            detail = message,
            "repo_condition_changed"
        );
        if holds == Some(false) {
            self.warn(repo, finding.event, message).await;
        }
        Ok(())
    }

    async fn warn(&self, repo: &Repo, reason: &str, message: &str) {
        self.publish(repo, &warning_event(reason, message)).await;
    }

    async fn publish(&self, repo: &Repo, event: &Event) {
        if let Err(error) = self.recorder.publish(event, &repo.object_ref(&())).await {
            tracing::warn!(repo = repo.name_any(), %error, "event_write_failed");
        }
    }
}

fn warning_event(reason: &str, message: &str) -> Event {
    Event {
        type_: EventType::Warning,
        reason: reason.to_owned(),
        note: Some(shorten_text(message, NOTE)),
        action: event_action(reason, message),
        secondary: None,
    }
}

const fn status_of(holds: Option<bool>) -> &'static str {
    match holds {
        Some(true) => "True",
        Some(false) => "False",
        None => "Unknown",
    }
}

fn says_so(repo: &Repo, finding: &ConditionFinding<'_>) -> bool {
    let wanted = status_of(finding.holds);
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
        let note = warning_event("GitNotReachable", &long).note.unwrap();
        assert!((900..=1024).contains(&note.len()), "{}: {note}", note.len());
    }

    /// The recorder shows one that comes again within minutes with the words of the first.
    #[test]
    fn an_event_with_other_words_is_another_one() {
        let action = |words: &str| warning_event("GitNotReachable", words).action;
        assert_eq!(action("the host does not answer"), action("the host does not answer"));
        assert_ne!(action("the host does not answer"), action("the token is refused"));
        assert!(action("x").len() <= 128, "{}", action("x"));
    }
}
