//! Pushes, for the tool and for the harness: requests through the relay are retried while the gateway is away, and
//! the outcome is reported to those whom it concerns.

use std::time::Duration;

use codebutler_wire::PostMessage;
use tokio::time::{Instant, sleep};

use super::{ToolContext, ToolFailure, ToolOutcome, plan};
use crate::gateway::{GatewayError, PATIENCE};
use crate::toolbox::client::ToolboxError;
use crate::toolbox::protocol::{HOOKS_NOT_RUN, ToolboxReply, ToolboxRequest};
use crate::transcript::{ResultKind, TranscriptRecord};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Outcome of a push that nobody refused.
pub enum PushResult {
    Done(Box<ToolOutcome>),
    /// Others changed the same lines differently; text for the model.
    Conflict(String),
}

/// Outcome of a request through the relay.
pub struct RelayedRequest {
    pub reply: ToolboxReply,
    /// The gateway's words, if it refused: Git itself throws them away.
    pub said: Option<String>,
    /// True if the gateway itself was unreachable throughout.
    pub away: bool,
}

impl ToolOutcome {
    /// Names the hooks in a push's output, on a line of their own: for an answer that says nothing else of it.
    pub(super) fn hooks_named(&self) -> String {
        let named = self.text.lines().find(|line| line.starts_with(HOOKS_NOT_RUN));
        named.map_or(String::new(), |named| format!("\n{}.", named.trim_end_matches('.')))
    }
}

impl ToolContext {
    /// Asks the toolbox for something that goes through the relay and may be repeated.
    pub async fn through_relay(
        &self,
        request: &ToolboxRequest,
    ) -> Result<RelayedRequest, ToolboxError> {
        let deadline = Instant::now() + PATIENCE;
        let mut pause = FIRST_PAUSE;
        loop {
            self.relay.take_refusal();
            let reply = self.toolbox.ask(request.clone()).await?;
            let refusal = self.relay.take_refusal();
            if !matches!(reply, ToolboxReply::Refused(_) | ToolboxReply::Failed(_)) {
                return Ok(RelayedRequest { reply, said: None, away: false });
            }
            let away = refusal.as_ref().is_some_and(|refusal| refusal.passes);
            if !away || Instant::now() + pause > deadline {
                return Ok(RelayedRequest {
                    reply,
                    said: refusal.map(|refusal| refusal.said),
                    away,
                });
            }
            tracing::info!(?pause, "push_retried");
            sleep(pause.mul_f64(rand::random_range(0.5..1.5))).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Pushes the thread's branch, whose tip is `commit`. People are told of a conflict here.
    pub async fn push(&self, commit: &str) -> Result<PushResult, ToolFailure> {
        let RelayedRequest { reply, said, away } =
            self.through_relay(&ToolboxRequest::GitPush).await?;
        let text = match reply {
            ToolboxReply::Text(text) => text,
            ToolboxReply::Conflict { files, why } => {
                self.tell_of_conflict(&files, commit).await?;
                return Ok(PushResult::Conflict(why));
            }
            // The gateway is away: the successor of this process finds out if the push arrived.
            ToolboxReply::Refused(why) | ToolboxReply::Failed(why) if away => {
                return Err(ToolFailure::Gateway(GatewayError::Away(why)));
            }
            ToolboxReply::Refused(why) => return Err(ToolFailure::Respond(said.unwrap_or(why))),
            ToolboxReply::Failed(why) => return Err(ToolFailure::Stop(why)),
            other => {
                return Err(ToolFailure::Stop(format!(
                    "the toolbox gave a strange answer: {other:?}"
                )));
            }
        };
        let beside = self.beside_plan().await?;
        let told = plan::told_files(&beside);
        let record =
            (!self.planned.is_empty()).then_some(TranscriptRecord::Deviated { files: beside });
        let text = format!("{text}{told}");
        let done = ToolOutcome::of(text, ResultKind::Published).recording(record);
        Ok(PushResult::Done(Box::new(done)))
    }

    /// Tells people which files both sides have changed: once for each commit that can't be pushed.
    async fn tell_of_conflict(&self, files: &[String], commit: &str) -> Result<(), ToolFailure> {
        let named: Vec<_> =
            files.iter().map(|file| format!("`{}`", file.replace('`', "'"))).collect();
        let text = format!(
            "What I have and what others have pushed to this thread's branch conflict in {}. I look at both \
             sides; what is pushed stays as it is until that is settled.",
            named.join(", ")
        );
        let key = format!("conflict.{}", &commit[..commit.floor_char_boundary(16)]);
        let message = PostMessage { key, text, ..PostMessage::default() };
        match self.gateway.post(&message).await.map_err(ToolFailure::from) {
            // A role that may not post: the model knows of the conflict.
            Ok(_) | Err(ToolFailure::Respond(_)) => Ok(()),
            Err(failure) => Err(failure),
        }
    }
}
