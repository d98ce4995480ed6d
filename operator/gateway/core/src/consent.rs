//! Effects that a Repo wants people's yes to, each time: the gateway asks, whatever a role says of
//! it, and asks for exactly what it would do.

use async_trait::async_trait;
use codebutler_crds::policy::GuardedEffects;
use codebutler_crds::wire::{ApprovalRequest, ErrorCode};
use sha2::{Digest as _, Sha256};

use crate::api_error::ApiError;
use crate::caller::ProvenCaller;

/// Begins the keys of the gateway's own questions: a role can ask nothing under them, or it could
/// have people say yes to other words.
const OWN: &str = "gateway:";
/// An effect that is about to happen.
pub struct GuardedEffect<'a> {
    pub kind: GuardedEffects,
    /// The repository has people asked, whatever the Repo says.
    pub is_required: bool,
    /// One-line summary.
    pub summary: String,
    /// Full text, as it is shown to people.
    pub detail: String,
    /// Arguments that identify exactly this effect.
    pub exactly: &'a [&'a str],
}

/// State of people's consent to an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsentStanding {
    /// The Repo does not have them asked.
    Unasked,
    /// They said yes: to be [spent](EffectConsent::spend) once it has happened.
    Approved(ApprovedEffect),
    /// People are asked, and have not answered yet.
    Waits {
        /// True if an earlier question went unanswered.
        again: bool,
    },
    /// People said no.
    Denied,
    /// People were asked several times, and nobody answered.
    Unanswered,
    /// People said yes as often as they are asked, and each yes was used.
    UsedUp,
}

/// A yes, by its identity in the Thread's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovedEffect(pub String);

impl ConsentStanding {
    /// Returns the reason for refusing the effect now, in a few words, and what to do about it.
    pub const fn refusal(&self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Unasked | Self::Approved(_) => None,
            Self::Waits { again: false } => Some((
                "waits for a person's approval",
                "this Repo has people asked each time, and they are: end your run. Their answer \
                 wakes you; then do exactly the same again",
            )),
            Self::Waits { again: true } => Some((
                "waits for a person's approval",
                "nobody answered in time, so people are asked once more: end your run. Their answer \
                 wakes you; then do exactly the same again",
            )),
            Self::Denied => Some((
                "a person denied it",
                "a person said no to exactly this: ask in the thread what they want",
            )),
            Self::Unanswered => Some((
                "nobody answered",
                "people were asked several times and nobody answered: ask in the thread",
            )),
            Self::UsedUp => Some((
                "it was approved as often as people are asked",
                "people have said yes to exactly this several times in this thread, and each yes is used: they are asked \
                 no more about the same arguments. Ask in the thread how to go on",
            )),
        }
    }
}

/// Outcome of spending a yes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpentYes {
    /// It counted until now, and is for this effect.
    Now,
    /// Another effect has used it since it was found.
    Before,
    /// None is needed, or its use could not be recorded: it may count again.
    Unknown,
}

impl SpentYes {
    /// Passes unless the yes is gone, for an effect that has not happened yet.
    ///
    /// # Errors
    /// `NeedsApproval`, with what the role is to do.
    pub fn require(self) -> Result<Self, ApiError> {
        if self != Self::Before {
            return Ok(self);
        }
        let message = "people's yes to exactly this was for one time, and another request has used it meanwhile. If it \
                       is wanted twice, do it again: people are asked once more";
        Err(ApiError::new(ErrorCode::NeedsApproval, message))
    }
}

/// Returns true if the key is reserved: a role may not ask under it.
pub fn is_own_key(key: &str) -> bool {
    key.starts_with(OWN)
}

/// Asks people before an effect.
#[async_trait]
pub trait EffectConsent: Send + Sync {
    /// Returns the consent to exactly this effect; asks people, unless they were already asked.
    ///
    /// # Errors
    /// When the question can't be asked or its answer not be read: then it is no yes.
    async fn ask_about(
        &self,
        caller: &ProvenCaller,
        request: ApprovalRequest,
    ) -> Result<ConsentStanding, ApiError>;

    /// Returns true if what somebody allowed for the whole Thread still counts; permissions of
    /// people who may not decide any more are taken back.
    ///
    /// # Errors
    /// When it can't be known now.
    async fn still_allows(&self, caller: &ProvenCaller, giver: &str) -> Result<bool, ApiError>;

    /// Marks a yes as used once its effect has happened: the next time people are asked again.
    async fn spend(&self, caller: &ProvenCaller, standing: &ConsentStanding) -> SpentYes;

    /// Makes a yes that was spent count again: its effect has not happened.
    async fn restore(&self, caller: &ProvenCaller, standing: &ConsentStanding);
}

impl dyn EffectConsent {
    /// Passes once people have said yes to exactly this, or where the Repo does not ask for that.
    ///
    /// # Errors
    /// `NeedsApproval`, with what the role is to do.
    pub async fn require(
        &self,
        caller: &ProvenCaller,
        effect: &GuardedEffect<'_>,
    ) -> Result<ConsentStanding, ApiError> {
        passed(self.ask(caller, effect).await?)
    }

    /// Asks people, unless they were asked or the Repo does not want that.
    ///
    /// # Errors
    /// When the question can't be asked or its answer not be read: then it is no yes.
    pub async fn ask(
        &self,
        caller: &ProvenCaller,
        effect: &GuardedEffect<'_>,
    ) -> Result<ConsentStanding, ApiError> {
        let wanted = &caller.repo.spec.policy.require_approval;
        if !effect.is_required && !wanted.contains(&effect.kind) {
            return Ok(ConsentStanding::Unasked);
        }
        self.ask_about(caller, build_request(effect)).await
    }

    /// Passes once people have said yes to exactly this, whatever the Repo says: `tool` changes what others
    /// see outside of the thread.
    ///
    /// # Errors
    /// `NeedsApproval`, with what the role is to do.
    pub async fn require_for(
        &self,
        caller: &ProvenCaller,
        tool: &str,
        summary: String,
        detail: String,
    ) -> Result<ConsentStanding, ApiError> {
        passed(self.ask_for(caller, tool, summary, detail).await?)
    }

    /// Passes like [`Self::require_for`]; the yes is to `exactly`, in whatever form people are shown that.
    ///
    /// # Errors
    /// `NeedsApproval`, with what the role is to do.
    pub async fn require_exactly(
        &self,
        caller: &ProvenCaller,
        tool: &str,
        (summary, detail): (String, String),
        exactly: &str,
    ) -> Result<ConsentStanding, ApiError> {
        let request = request_for(tool, summary, detail, &[exactly]);
        passed(self.ask_about(caller, request).await?)
    }

    /// Returns the consent to exactly this effect, whatever the Repo says; asks people, unless they
    /// were already asked.
    ///
    /// # Errors
    /// When the question can't be asked or its answer not be read: then it is no yes.
    pub async fn ask_for(
        &self,
        caller: &ProvenCaller,
        tool: &str,
        summary: String,
        detail: String,
    ) -> Result<ConsentStanding, ApiError> {
        let exactly = [detail.as_str()];
        let request = request_for(tool, summary, detail.clone(), &exactly);
        self.ask_about(caller, request).await
    }
}

fn passed(standing: ConsentStanding) -> Result<ConsentStanding, ApiError> {
    match standing.refusal() {
        None => Ok(standing),
        Some((_, message)) => Err(ApiError::new(ErrorCode::NeedsApproval, message)),
    }
}

fn build_request(effect: &GuardedEffect<'_>) -> ApprovalRequest {
    let tool = match effect.kind {
        GuardedEffects::Push => "Push",
        GuardedEffects::PullRequest => "PullRequest",
    };
    request_for(tool, effect.summary.clone(), effect.detail.clone(), effect.exactly)
}

fn request_for(tool: &str, summary: String, detail: String, exactly: &[&str]) -> ApprovalRequest {
    let mut hash = Sha256::new();
    for part in [tool].iter().chain(exactly) {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let hash = hex::encode(hash.finalize());
    ApprovalRequest {
        key: format!("{OWN}{}", &hash[..40]),
        tool: tool.to_owned(),
        summary,
        hash,
        detail: Some(detail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_lets_anything_happen() {
        assert_eq!(ConsentStanding::Unasked.refusal(), None);
        assert_eq!(ConsentStanding::Approved(ApprovedEffect(String::new())).refusal(), None);
        let others = [
            ConsentStanding::Waits { again: false },
            ConsentStanding::Waits { again: true },
            ConsentStanding::Denied,
            ConsentStanding::Unanswered,
            ConsentStanding::UsedUp,
        ];
        for standing in others {
            assert!(standing.refusal().is_some(), "{standing:?}");
        }
        let gone = SpentYes::Before.require().map_err(|error| error.code);
        assert_eq!(gone, Err(ErrorCode::NeedsApproval));
        for spent in [SpentYes::Now, SpentYes::Unknown] {
            assert!(spent.require().is_ok(), "{spent:?}");
        }
    }

    #[test]
    fn every_part_of_an_effect_counts() {
        let of = |exactly: &[&str]| {
            let (summary, detail) = (String::new(), String::new());
            build_request(&GuardedEffect {
                kind: GuardedEffects::PullRequest,
                is_required: false,
                summary,
                detail,
                exactly,
            })
        };
        assert_eq!(of(&["a", "b"]), of(&["a", "b"]));
        assert_ne!(of(&["a", "b"]).hash, of(&["ab", ""]).hash);
        assert_ne!(of(&["a", "b"]).key, of(&["a", "c"]).key);
        assert!(is_own_key(&of(&["a"]).key) && !is_own_key("call-1"));
        // With the round, as long as a key may be.
        assert!(of(&["a"]).key.len() <= 62);
    }
}
