//! Asks people in the thread before an effect: the Slack side of [`codebutler_gateway_core::consent`].

use std::time::Duration;

use async_trait::async_trait;
use codebutler_crds::ThreadStatus;
use codebutler_crds::wire::{ApprovalRequest, ApprovalState};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::consent::{ApprovedEffect, ConsentStanding, EffectConsent, SpentYes};
use codebutler_gateway_core::threads::{ThreadWriter, explain_unwritten, revoke_allowances_of};
use codebutler_slack::{SlackGateway, restore_approval, spend_approval};

/// Time for which an answer is awaited before the role is told to end its run.
const WAIT: Duration = Duration::from_secs(3);
/// Maximum number of questions about the same effect, each after nobody answered the one before.
const ROUNDS: u32 = 5;

/// Asks in the thread, through Slack.
pub struct SlackConsent {
    slack: SlackGateway,
    threads: ThreadWriter,
}

impl SlackConsent {
    /// Makes one that asks in Slack.
    pub fn new(slack: SlackGateway, threads: ThreadWriter) -> Self {
        Self { slack, threads }
    }
}

#[async_trait]
impl EffectConsent for SlackConsent {
    async fn ask_about(
        &self,
        caller: &ProvenCaller,
        mut request: ApprovalRequest,
    ) -> Result<ConsentStanding, ApiError> {
        let (key, mut again, mut was_used) = (request.key.clone(), false, false);
        for round in 1..=ROUNDS {
            request.key = format!("{key}.{round}");
            let reply = self.slack.approval(caller, &request, WAIT).await?;
            match reply.state {
                ApprovalState::Approved => {
                    return Ok(ConsentStanding::Approved(ApprovedEffect(reply.id)));
                }
                ApprovalState::Denied => return Ok(ConsentStanding::Denied),
                ApprovalState::Pending => return Ok(ConsentStanding::Waits { again }),
                // Neither a yes nor a no, or a yes that was used: the effect has to be asked for again.
                ApprovalState::Expired => {
                    again = reply.by.is_none();
                    was_used |= reply.by.is_some();
                }
            }
        }
        Ok(if was_used { ConsentStanding::UsedUp } else { ConsentStanding::Unanswered })
    }

    async fn still_allows(&self, caller: &ProvenCaller, giver: &str) -> Result<bool, ApiError> {
        if self.slack.may_decide(&caller.repo, giver).await? {
            return Ok(true);
        }
        let revoke = |status: &mut ThreadStatus| revoke_allowances_of(status, giver);
        let revoked = self.threads.update(&caller.key(), revoke).await;
        revoked.map_err(|error| explain_unwritten(&error))?;
        Ok(false)
    }

    async fn spend(&self, caller: &ProvenCaller, standing: &ConsentStanding) -> SpentYes {
        let ConsentStanding::Approved(ApprovedEffect(id)) = standing else {
            return SpentYes::Unknown;
        };
        let thread = caller.key();
        let used = |status: &mut ThreadStatus| Ok(spend_approval(status, id));
        match self.threads.try_update(&thread, used).await {
            Ok((_, true)) => SpentYes::Now,
            Ok((_, false)) => SpentYes::Before,
            Err(error) => {
                // The approved action has happened: a repetition can only come from where it began.
                tracing::warn!(%error, thread = thread.name, "approval_spend_failed");
                SpentYes::Unknown
            }
        }
    }

    async fn restore(&self, caller: &ProvenCaller, standing: &ConsentStanding) {
        let ConsentStanding::Approved(ApprovedEffect(id)) = standing else { return };
        let thread = caller.key();
        let unused = |status: &mut ThreadStatus| restore_approval(status, id);
        if let Err(error) = self.threads.update(&thread, unused).await {
            // People are asked once more.
            tracing::warn!(%error, thread = thread.name, "approval_restore_failed");
        }
    }
}
