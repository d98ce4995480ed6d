//! Tools that other people see: messages, the pull request, and the end of the thread. The gateway
//! carries them out, and decides whether the role may.

use async_trait::async_trait;
use codebutler_crds::wire;

use super::{Call, Context, Done, Failure, Handler, Risk, Tool, args};
use crate::transcript::ResultKind;

/// In the order in which the model sees them.
pub fn all() -> Vec<Box<dyn Tool>> {
    vec![Box::new(GhCreatePr), Box::new(GhStatus), Box::new(SendMessage), Box::new(CloseThread)]
}

fn shown(state: &wire::PullRequestState) -> String {
    let wire::PullRequestState { number, url, state, title, head, mergeable, .. } = state;
    let merge = match mergeable {
        Some(true) => "can be merged",
        Some(false) => "can't be merged: it conflicts with its base",
        None => "not known yet whether it can be merged",
    };
    format!("Pull request #{number} ({state}): {title}\n{url}\nhead {head}; {merge}")
}

struct GhCreatePr;

#[async_trait]
impl Handler for GhCreatePr {
    type Args = args::GhCreatePr;
    const NAME: &'static str = "GHCreatePR";
    const DESCRIPTION: &'static str = "Opens this conversation's pull request from its pushed branch, or \
        updates title and description of the one there is.";
    const RISK: Risk = Risk::Speaks;

    /// The head branch is the key: there is one pull request, made or updated.
    async fn call(
        &self,
        cx: &Context,
        args: args::GhCreatePr,
        _: Call<'_>,
    ) -> Result<Done, Failure> {
        let request = wire::OpenPullRequest { title: args.title, body: args.body };
        let state = cx.gateway.open_pull_request(&request).await?;
        Ok(Done::plain(shown(&state)))
    }
}

struct GhStatus;

#[async_trait]
impl Handler for GhStatus {
    type Args = args::Nothing;
    const NAME: &'static str = "GHStatus";
    const DESCRIPTION: &'static str = "Shows the state of this conversation's pull request.";
    const RISK: Risk = Risk::Reads;

    async fn call(&self, cx: &Context, _: args::Nothing, _: Call<'_>) -> Result<Done, Failure> {
        Ok(Done::plain(shown(&cx.gateway.pull_request().await?)))
    }
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
        let waits = args.wait_for_reply.unwrap_or(decision.is_some());
        let message = wire::PostMessage { key: call.key.to_owned(), text: args.message, decision };
        let wire::Posted { ts } = cx.gateway.post(&message).await?;
        let (kind, then) = if waits {
            (ResultKind::Waits, " Your run ends here and goes on with the answer.")
        } else {
            (ResultKind::Plain, "")
        };
        Ok(Done { text: format!("Posted as message {ts}.{then}"), kind })
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
        Ok(Done { text, kind: ResultKind::Closes })
    }
}
