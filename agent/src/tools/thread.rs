//! Tools of the conversation itself: messages and its end. The gateway carries them out, and decides
//! whether the role may.

use async_trait::async_trait;
use codebutler_crds::thread::Complexity;
use codebutler_crds::wire;

use super::proof::hands_over;
use super::{Call, Context, Done, Failure, Handler, Risk, Tool, args};
use crate::transcript::ResultKind;

/// In the order in which the model sees them.
pub fn all() -> Vec<Box<dyn Tool>> {
    vec![Box::new(SendMessage), Box::new(CloseThread)]
}

struct SendMessage;

#[async_trait]
impl Handler for SendMessage {
    type Args = args::SendMessage;
    const NAME: &'static str = "SendMessage";
    const DESCRIPTION: &'static str = "Posts a message in this conversation under your name.";
    const RISK: Risk = Risk::Speaks;

    async fn call(
        &self,
        cx: &Context,
        args: args::SendMessage,
        call: Call<'_>,
    ) -> Result<Done, Failure> {
        let decision = args.decision.map(|decision| match decision {
            args::DecisionKind::Plan => wire::Decision::Plan,
            args::DecisionKind::Merge => wire::Decision::Merge,
        });
        let asks = decision.is_some() || !args.choices.is_empty();
        let waits = args.wait_for_reply.unwrap_or(asks);
        let done = decision == Some(wire::Decision::Merge) || hands_over(&args.message);
        let proof = if done { cx.proof().await? } else { None };
        let (key, text) = (call.key.to_owned(), args.message);
        let complexity = args.complexity.map(|complexity| match complexity {
            args::Complexity::Simple => Complexity::Simple,
            args::Complexity::Medium => Complexity::Medium,
            args::Complexity::Complex => Complexity::Complex,
        });
        let message = wire::PostMessage {
            key,
            text,
            decision,
            test: args.test,
            complexity,
            choices: args.choices,
            learnings: args.learnings,
            asks: waits,
            proof,
        };
        let wire::Posted { ts } = cx.gateway.post(&message).await?;
        let (kind, then) = if waits {
            (ResultKind::Waits, " Your run ends here and goes on with the answer.")
        } else {
            (ResultKind::Plain, "")
        };
        Ok(Done::of(format!("Posted as message {ts}.{then}"), kind))
    }
}

struct CloseThread;

#[async_trait]
impl Handler for CloseThread {
    type Args = args::CloseThread;
    const NAME: &'static str = "CloseThread";
    const DESCRIPTION: &'static str = "Ends this conversation the way the user decided: merges the pull \
        request or closes it. Works only after the user's decision.";
    const RISK: Risk = Risk::Speaks;

    /// The gateway finds each step that is already done.
    async fn call(
        &self,
        cx: &Context,
        args: args::CloseThread,
        _: Call<'_>,
    ) -> Result<Done, Failure> {
        let closed = cx.gateway.close(&wire::CloseThread { summary: args.summary }).await?;
        let text = match closed.merge_commit {
            Some(commit) => format!("Closed; merged as {commit}."),
            None => "Closed without a merge.".to_owned(),
        };
        Ok(Done::of(text, ResultKind::Closes))
    }
}
