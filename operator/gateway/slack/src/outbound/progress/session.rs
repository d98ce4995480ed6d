//! What Slack itself shows of an agent at work, with its stop button: for apps that are declared
//! agents. What Slack refuses is not missed: the message says the same.

use codebutler_crds::thread::SlackThread;
use serde_json::{Value, json};

use crate::Inner;
use crate::api::account::SlackAccount;
use crate::api::web::CallError;

/// How it stands with a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConversationSession {
    Processing,
    /// Nobody does.
    Active,
    /// The conversation is over.
    Closed,
}

impl ConversationSession {
    const fn name(self) -> &'static str {
        match self {
            Self::Processing => "processing",
            Self::Active => "active",
            Self::Closed => "closed",
        }
    }
}

/// Tells Slack.
///
/// # Errors
/// When it may not have heard it: what it shows does not end by itself.
pub(super) async fn show_session(
    inner: &Inner,
    account: &SlackAccount,
    slack: &SlackThread,
    session: ConversationSession,
) -> Result<(), CallError> {
    if !account.is_agent() {
        return Ok(());
    }
    let body = json!({
        "channel_id": slack.channel, "thread_ts": slack.ts, "status": session.name(),
    });
    let web = inner.web.upkeep();
    let told = web.post::<Value>(&account.bot, "agents.sessions.setStatus", &body).await;
    match told {
        Err(error) if error.code().is_some() => {
            tracing::info!(%error, "session_status_failed");
            Ok(())
        }
        other => other.map(drop),
    }
}
