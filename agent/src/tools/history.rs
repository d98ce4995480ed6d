//! Tools that show Git history, which the toolbox reads with libgit2.

use async_trait::async_trait;

use super::toolbox_reply::ask_done;
use super::{CallRisk, Handler, RoleTool, StartedCall, ToolContext, ToolFailure, ToolOutcome};
use crate::tool_args as args;
use crate::toolbox::protocol::ToolboxRequest;

/// History tools, in the order in which the model sees them.
pub(super) fn all() -> Vec<Box<dyn RoleTool>> {
    vec![Box::new(GitLogTool), Box::new(GitDiffTool), Box::new(GitShowTool), Box::new(GitBlameTool)]
}

struct GitLogTool;

#[async_trait]
impl Handler for GitLogTool {
    type Args = args::GitLog;
    const NAME: &'static str = "GitLog";
    const DESCRIPTION: &'static str = "Shows the newest commits of this conversation's branch; `search` finds those that brought a line in.";
    const RISK: CallRisk = CallRisk::Reads;

    async fn call(
        &self,
        cx: &ToolContext,
        args: args::GitLog,
        _: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        ask_done(cx, ToolboxRequest::GitLog(args)).await
    }
}

struct GitDiffTool;

#[async_trait]
impl Handler for GitDiffTool {
    type Args = args::GitDiff;
    const NAME: &'static str = "GitDiff";
    const DESCRIPTION: &'static str = "Shows what this conversation changed so far, uncommitted and new \
        files included.";
    const RISK: CallRisk = CallRisk::Reads;

    async fn call(
        &self,
        cx: &ToolContext,
        args: args::GitDiff,
        _: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        ask_done(cx, ToolboxRequest::GitDiff(args)).await
    }
}

struct GitShowTool;

#[async_trait]
impl Handler for GitShowTool {
    type Args = args::GitShow;
    const NAME: &'static str = "GitShow";
    const DESCRIPTION: &'static str = "Shows a commit: its message and what it changed, or a file as it was \
        then.";
    const RISK: CallRisk = CallRisk::Reads;

    async fn call(
        &self,
        cx: &ToolContext,
        args: args::GitShow,
        _: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        ask_done(cx, ToolboxRequest::GitShow(args)).await
    }
}

struct GitBlameTool;

#[async_trait]
impl Handler for GitBlameTool {
    type Args = args::GitBlame;
    const NAME: &'static str = "GitBlame";
    const DESCRIPTION: &'static str =
        "Shows for lines of a file which commit wrote them last, and when.";
    const RISK: CallRisk = CallRisk::Reads;

    async fn call(
        &self,
        cx: &ToolContext,
        args: args::GitBlame,
        _: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        ask_done(cx, ToolboxRequest::GitBlame(args)).await
    }
}
