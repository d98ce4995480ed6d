//! A plan is posted only once its role was shown what people wrote while it made the plan: each wish is in what they
//! approve, or named as left out.

use std::time::Duration;

use codebutler_wire::MessageAuthor;
use serde_json::Value;

use super::{Agent, RunError};
use crate::model::ToolCall;

/// For a plan that people wrote something after.
pub(super) const WROTE_MEANWHILE: &str = "Error: not posted, since people wrote in this conversation while you made the \
    plan. Read their messages below, then post the plan with each wish in it, or named as left out.";

impl Agent {
    /// Returns true if a call posts a plan, and people wrote something that the role was not shown yet.
    pub(super) async fn plans_unread(&self, call: &ToolCall) -> Result<bool, RunError> {
        if !posts_plan(&call.name, &call.arguments) {
            return Ok(false);
        }
        let news = self.mail(self.position.seen(), Duration::ZERO).await?;
        let by_people = |author: &MessageAuthor| {
            matches!(author, MessageAuthor::User { .. } | MessageAuthor::Prompt { .. })
        };
        Ok(news.messages.iter().any(|message| by_people(&message.author)))
    }
}

/// Returns true for a call that asks people to approve a plan, or parts of a request.
fn posts_plan(name: &str, arguments: &str) -> bool {
    let decision = || serde_json::from_str::<Value>(arguments).ok()?.get("decision").cloned();
    name == "SplitRequest" || (name == "SendMessage" && decision().is_some_and(|one| one == "plan"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_people_approve_as_a_plan_waits_for_their_words() {
        assert!(posts_plan("SendMessage", r#"{"message":"1. x","decision":"plan"}"#));
        assert!(posts_plan("SplitRequest", "{}"));
        for (name, arguments) in [
            ("SendMessage", r#"{"message":"x"}"#),
            ("SendMessage", r#"{"message":"x","decision":"merge"}"#),
            ("SendMessage", "plan"),
            ("Write", r#"{"path":"a","content":"x","decision":"plan"}"#),
        ] {
            assert!(!posts_plan(name, arguments), "{name} {arguments}");
        }
    }
}
