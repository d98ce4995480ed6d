//! Effects that a Repo wants people's yes to, each time: the gateway asks, whatever a role says of
//! it, and asks for exactly what it would do.

use std::time::Duration;

use codebutler_crds::policy::Guarded;
use codebutler_crds::wire::{ApprovalRequest, ApprovalState, ErrorCode};
use sha2::{Digest as _, Sha256};

use super::api::Shared;
use super::context::{ApiError, Caller};

/// Begins the keys of the gateway's own questions: a role can ask nothing under them, or it could
/// have people say yes to other words.
const OWN: &str = "gateway:";
/// How long an answer is waited for before the role is told to end its run.
const WAIT: Duration = Duration::from_secs(3);
/// Questions about the same effect, each after nobody answered the one before.
const ROUNDS: u32 = 5;

/// Something that is about to be done.
pub struct Effect<'a> {
    /// What kind.
    pub kind: Guarded,
    /// In one line.
    pub summary: String,
    /// All of it, as it is shown to people.
    pub detail: String,
    /// What makes it exactly this one.
    pub exactly: &'a [&'a str],
}

/// Whether a role may not ask under this key.
pub fn is_own_key(key: &str) -> bool {
    key.starts_with(OWN)
}

/// Passes once people have said yes to exactly this, or where the Repo does not ask for that.
///
/// # Errors
/// `NeedsApproval`, with what the role is to do.
pub async fn consent(
    gateway: &Shared,
    caller: &Caller,
    effect: &Effect<'_>,
) -> Result<(), ApiError> {
    if !caller.repo.spec.policy.require_approval.contains(&effect.kind) {
        return Ok(());
    }
    let needs = |message: &str| Err(ApiError::new(ErrorCode::NeedsApproval, message));
    let mut request = request(effect);
    let key = request.key.clone();
    for round in 1..=ROUNDS {
        request.key = format!("{key}.{round}");
        let reply = gateway.slack.approval(caller, &request, WAIT).await?;
        match reply.state {
            ApprovalState::Approved => return Ok(()),
            ApprovalState::Denied => {
                return needs("a person said no to exactly this: ask in the thread what they want");
            }
            ApprovalState::Pending => {
                return needs(
                    "this Repo has people asked each time, and they are: end your run. Their answer \
                     wakes you; then do exactly the same again",
                );
            }
            // Neither a yes nor a no: who wants it still has to ask again.
            ApprovalState::Expired => {}
        }
    }
    needs("people were asked several times and nobody answered: ask in the thread")
}

fn request(effect: &Effect<'_>) -> ApprovalRequest {
    let tool = match effect.kind {
        Guarded::Push => "Push",
        Guarded::PullRequest => "PullRequest",
    };
    let mut hash = Sha256::new();
    for part in [tool].iter().chain(effect.exactly) {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let hash = hex::encode(hash.finalize());
    ApprovalRequest {
        key: format!("{OWN}{}", &hash[..40]),
        tool: tool.to_owned(),
        summary: effect.summary.clone(),
        hash,
        detail: Some(effect.detail.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_an_effect_counts() {
        let of = |exactly: &[&str]| {
            let (summary, detail) = (String::new(), String::new());
            request(&Effect { kind: Guarded::PullRequest, summary, detail, exactly })
        };
        assert_eq!(of(&["a", "b"]), of(&["a", "b"]));
        assert_ne!(of(&["a", "b"]).hash, of(&["ab", ""]).hash);
        assert_ne!(of(&["a", "b"]).key, of(&["a", "c"]).key);
        assert!(is_own_key(&of(&["a"]).key) && !is_own_key("call-1"));
        // With the round, as long as a key may be.
        assert!(of(&["a"]).key.len() <= 62);
    }
}
