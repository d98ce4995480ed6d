//! Tools that work in the toolbox.

use async_trait::async_trait;

use super::toolbox_reply::{ask_done, ask_text, read_noted, read_reply};
use super::{
    CallRisk, Handler, PushResult, RelayedRequest, RoleTool, StartedCall, ToolContext, ToolFailure,
    ToolOutcome, attachment, history,
};
use crate::animation::model_url;
use crate::builds::BuildSlot;
use crate::gateway::GatewayError;
use crate::tool_args as args;
use crate::toolbox::protocol::{EditPlan, ToolboxReply, ToolboxRequest, WorktreePicture};
use crate::transcript::{self, TranscriptRecord};
use codebutler_guides::policy::builds::is_build;
use codebutler_guides::policy::{CommandPolicy, RiskVerdict};
use codebutler_guides::text::clip_text;

/// In the order in which the model sees them.
pub(super) fn all() -> Vec<Box<dyn RoleTool>> {
    let files: [Box<dyn RoleTool>; 6] = [
        Box::new(Read),
        Box::new(Write),
        Box::new(Edit),
        Box::new(Bash),
        Box::new(Grep),
        Box::new(Glob),
    ];
    let rest: [Box<dyn RoleTool>; 5] = [
        Box::new(GitCommit),
        Box::new(GitUpdate),
        Box::new(GitPush),
        Box::new(ReadMemory),
        Box::new(Todo),
    ];
    files.into_iter().chain(history::all()).chain(rest).collect()
}

struct ReadMemory;

#[async_trait]
impl Handler for ReadMemory {
    type Args = args::ReadMemory;
    const NAME: &'static str = "ReadMemory";
    const DESCRIPTION: &'static str = "Shows what the team keeps in `.codebutler/` on the base branch: guides, skills, learnings, research, the roadmap.";
    const RISK: CallRisk = CallRisk::Reads;

    async fn call(
        &self,
        cx: &ToolContext,
        args: args::ReadMemory,
        _: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        ask_done(cx, ToolboxRequest::Memory { file: args.file }).await
    }
}

struct Todo;

const MAX_ITEMS: usize = 50;

#[async_trait]
impl Handler for Todo {
    type Args = args::TodoArgs;
    const NAME: &'static str = "Todo";
    const DESCRIPTION: &'static str =
        "Replaces your task list, which you are shown before each answer.";
    const RISK: CallRisk = CallRisk::Changes;

    async fn call(
        &self,
        _: &ToolContext,
        args: args::TodoArgs,
        _: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        let mut items = args.items;
        if items.len() > MAX_ITEMS {
            return Err(ToolFailure::Respond(format!(
                "a list has at most {MAX_ITEMS} items: join some"
            )));
        }
        for item in &mut items {
            item.text = clip_text(&item.text.split_whitespace().collect::<Vec<_>>().join(" "), 200);
        }
        let text = format!("Kept {} items.", items.len());
        Ok(ToolOutcome::plain(text).recording([TranscriptRecord::Todo { items }]))
    }
}

struct Read;

#[async_trait]
impl Handler for Read {
    type Args = args::ReadArgs;
    const NAME: &'static str = "Read";
    const DESCRIPTION: &'static str = "Shows a file: numbered lines, notebooks by cells, pictures, documents and archives as text. A first line in parentheses describes what is not plain UTF-8 with LF.";
    const RISK: CallRisk = CallRisk::Reads;

    async fn call(
        &self,
        cx: &ToolContext,
        args: args::ReadArgs,
        _: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        let args = locate_attachment(cx, args).await?;
        match cx.toolbox.ask(ToolboxRequest::Read(args)).await? {
            ToolboxReply::Text(text) => Ok(ToolOutcome::plain(text)),
            ToolboxReply::Picture(WorktreePicture { media_type, data, shown, note, .. }) => {
                let (url, still) = model_url(&media_type, &data);
                let text = format!(
                    "`{shown}` follows as a picture, if you can be shown any.{still}{note}"
                );
                let record = TranscriptRecord::Picture(transcript::ModelPicture { shown, url });
                Ok(ToolOutcome::plain(text).recording([record]))
            }
            ToolboxReply::Refused(why) => Err(ToolFailure::Respond(why)),
            ToolboxReply::Failed(why) => Err(ToolFailure::Stop(why)),
            other => {
                Err(ToolFailure::Stop(format!("the toolbox gave a strange answer: {other:?}")))
            }
        }
    }
}

/// A path of a file of the conversation becomes that of the kept file.
async fn locate_attachment(
    cx: &ToolContext,
    args: args::ReadArgs,
) -> Result<args::ReadArgs, ToolFailure> {
    let Some((id, inside)) = attachment::split_path(&args.path) else { return Ok(args) };
    let kept = attachment::keep_attachment(cx, id).await?;
    let path = match inside {
        Some(inside) => format!("{kept}/{inside}"),
        None => kept,
    };
    Ok(args::ReadArgs { path, ..args })
}

struct Write;

#[async_trait]
impl Handler for Write {
    type Args = args::WriteArgs;
    const NAME: &'static str = "Write";
    const DESCRIPTION: &'static str = "Creates a file or replaces its whole content; an existing file keeps its encoding, byte order mark, line ends and mode.";
    const RISK: CallRisk = CallRisk::Changes;

    /// The content is the key: writing it again changes nothing.
    async fn call(
        &self,
        cx: &ToolContext,
        args: args::WriteArgs,
        _: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        ask_done(cx, ToolboxRequest::Write(args)).await
    }
}

struct Edit;

#[async_trait]
impl Handler for Edit {
    type Args = args::EditArgs;
    const NAME: &'static str = "Edit";
    const DESCRIPTION: &'static str = "Replaces exact, unique pieces of text in a file that you have read, and shows the lines around them. \
        Copy `old` from what Read shows, without the line numbers. Encoding and line ends stay those of the file. Of a \
        notebook, the text of its cells is edited; a line `# [code]` or `# [markdown]` begins a new cell.";
    const RISK: CallRisk = CallRisk::Changes;

    /// Each file's hash before and after: tells later whether the edit was done.
    async fn key(
        &self,
        cx: &ToolContext,
        args: &args::EditArgs,
        _: &str,
    ) -> Result<String, ToolFailure> {
        match cx.toolbox.ask(ToolboxRequest::PlanEdit(args.clone())).await? {
            ToolboxReply::Plan(plans) => {
                let plans =
                    plans.iter().map(|EditPlan { before, after }| format!("{before}:{after}"));
                Ok(plans.collect::<Vec<_>>().join(","))
            }
            ToolboxReply::Refused(why) => Err(ToolFailure::Respond(why)),
            ToolboxReply::Failed(why) => Err(ToolFailure::Stop(why)),
            other => {
                Err(ToolFailure::Stop(format!("the toolbox gave a strange answer: {other:?}")))
            }
        }
    }

    async fn call(
        &self,
        cx: &ToolContext,
        args: args::EditArgs,
        call: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        let plans = call.key.split(',').map(|plan| {
            let (before, after) = plan.split_once(':').unwrap_or_default();
            EditPlan { before: before.to_owned(), after: after.to_owned() }
        });
        let plan = plans.collect();
        ask_done(cx, ToolboxRequest::Edit { edit: args, plan }).await
    }
}

struct Bash;

#[async_trait]
impl Handler for Bash {
    type Args = args::BashArgs;
    const NAME: &'static str = "Bash";
    const DESCRIPTION: &'static str = "Runs a command and shows its output and exit code; of a long output both ends, and the file with all of it. Each call is a new shell without terminal or input: `cd`, variables and processes do not last, except `background` jobs. What is hard to undo waits for a user's yes.";
    const RISK: CallRisk = CallRisk::Changes;

    fn verdict(&self, policy: &CommandPolicy, args: &args::BashArgs) -> RiskVerdict {
        policy.bash(args.command.as_deref().unwrap_or_default())
    }

    /// Nothing tells whether a command was carried out, so it is never repeated on its own.
    async fn call(
        &self,
        cx: &ToolContext,
        args: args::BashArgs,
        call: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        if call.again {
            let said = "The pod was restarted while this command ran: it was interrupted, and \
                 whether it had finished is not known. Look at what it did before you decide to run it \
                 again. Files have to be read again before they are edited.";
            return Ok(ToolOutcome::plain("").noting([said.to_owned()]));
        }
        let foreground = !args.background.unwrap_or(false);
        let command = args.command.clone().unwrap_or_default();
        // Somewhere else the same words run other tests.
        let at_root = args.workdir.as_deref().is_none_or(|folder| folder == "." || folder == "./");
        let tests = at_root && cx.tests.is(&command);
        if !tests && !is_build(&command) {
            return read_noted(cx.toolbox.ask(ToolboxRequest::Bash(args)).await?);
        }
        let slot = cx.builds.slot().await?;
        let waited = slot.waited.clone().unwrap_or_default();
        let mut done = if foreground && tests {
            run_test(cx, args).await?
        } else {
            run_build(cx, args, slot).await?
        };
        done.text.insert_str(0, &waited);
        Ok(done)
    }
}

/// A command that builds. In the background it keeps its slot for as long as it runs.
async fn run_build(
    cx: &ToolContext,
    args: args::BashArgs,
    slot: BuildSlot,
) -> Result<ToolOutcome, ToolFailure> {
    let (reply, notes) = cx.toolbox.ask(ToolboxRequest::Bash(args)).await?.with_notes();
    if let ToolboxReply::Started { job, .. } = &reply {
        let (job, toolbox) = (*job, cx.toolbox.clone());
        tokio::spawn(async move {
            let _ = toolbox.ask(ToolboxRequest::JobEnded { job }).await;
            drop(slot);
        });
    }
    Ok(ToolOutcome::plain(read_reply(reply)?).noting(notes))
}

/// The test command itself: what is seen of it goes on record.
async fn run_test(cx: &ToolContext, args: args::BashArgs) -> Result<ToolOutcome, ToolFailure> {
    let (reply, notes) = cx.toolbox.ask(ToolboxRequest::Test(args)).await?.with_notes();
    match reply {
        ToolboxReply::Tested { text, run } => {
            let tested = TranscriptRecord::Tested { test: run };
            Ok(ToolOutcome::plain(text).noting(notes).recording([tested]))
        }
        ToolboxReply::Refused(why) => Err(ToolFailure::Respond(why)),
        ToolboxReply::Failed(why) => Err(ToolFailure::Stop(why)),
        other => Err(ToolFailure::Stop(format!("the toolbox gave a strange answer: {other:?}"))),
    }
}

struct Grep;

#[async_trait]
impl Handler for Grep {
    type Args = args::GrepArgs;
    const NAME: &'static str = "Grep";
    const DESCRIPTION: &'static str = "Searches file contents with a regular expression; escape a literal `(`, `[`, `{` or `.`. Skips files that .gitignore names.";
    const RISK: CallRisk = CallRisk::Reads;

    async fn call(
        &self,
        cx: &ToolContext,
        args: args::GrepArgs,
        _: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        ask_done(cx, ToolboxRequest::Grep(args)).await
    }
}

struct Glob;

#[async_trait]
impl Handler for Glob {
    type Args = args::GlobArgs;
    const NAME: &'static str = "Glob";
    const DESCRIPTION: &'static str = "Lists files by name; skips files that .gitignore names.";
    const RISK: CallRisk = CallRisk::Reads;

    async fn call(
        &self,
        cx: &ToolContext,
        args: args::GlobArgs,
        _: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        ask_done(cx, ToolboxRequest::Glob(args)).await
    }
}

struct GitCommit;

#[async_trait]
impl Handler for GitCommit {
    type Args = args::GitCommit;
    const NAME: &'static str = "GitCommit";
    const DESCRIPTION: &'static str =
        "Commits changes in the worktree on this conversation's branch.";
    const RISK: CallRisk = CallRisk::Changes;

    /// The commit to build on: a commit on top of it with the same message is this one.
    async fn key(
        &self,
        cx: &ToolContext,
        _: &args::GitCommit,
        _: &str,
    ) -> Result<String, ToolFailure> {
        ask_text(cx, ToolboxRequest::Head).await
    }

    async fn call(
        &self,
        cx: &ToolContext,
        args: args::GitCommit,
        call: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        ask_done(cx, ToolboxRequest::GitCommit { commit: args, parent: call.key.to_owned() }).await
    }
}

struct GitUpdate;

#[async_trait]
impl Handler for GitUpdate {
    type Args = args::NoArgs;
    const NAME: &'static str = "GitUpdate";
    const DESCRIPTION: &'static str = "Merges the base branch into this conversation's and commits that, or leaves conflict markers for you to resolve.";
    const RISK: CallRisk = CallRisk::Changes;

    /// How the branch is before: what was begun and cut off begins anew.
    async fn key(
        &self,
        cx: &ToolContext,
        _: &args::NoArgs,
        _: &str,
    ) -> Result<String, ToolFailure> {
        ask_text(cx, ToolboxRequest::UpdateKey).await
    }

    async fn call(
        &self,
        cx: &ToolContext,
        _: args::NoArgs,
        call: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        let merged = if cx.thread.stacked_on.is_some() {
            cx.gateway.merged_below().await?.commits
        } else {
            Vec::new()
        };
        let (key, again) = (call.key.to_owned(), call.again);
        let request = ToolboxRequest::GitUpdate { key, again, merged };
        let RelayedRequest { reply, said, away } = cx.through_relay(&request).await?;
        match reply {
            ToolboxReply::Conflict { why, .. } => Ok(ToolOutcome::plain(why)),
            // The successor of this process finds out how it stands.
            ToolboxReply::Refused(why) | ToolboxReply::Failed(why) if away => {
                Err(ToolFailure::Gateway(GatewayError::Away(why)))
            }
            ToolboxReply::Refused(why) => Err(ToolFailure::Respond(said.unwrap_or(why))),
            other => read_reply(other).map(ToolOutcome::plain),
        }
    }
}

struct GitPush;

#[async_trait]
impl Handler for GitPush {
    type Args = args::NoArgs;
    const NAME: &'static str = "GitPush";
    const DESCRIPTION: &'static str = "Pushes this conversation's branch to the remote.";
    const RISK: CallRisk = CallRisk::Speaks;

    /// The commit that is pushed: a remote that has it needs no second push.
    async fn key(
        &self,
        cx: &ToolContext,
        _: &args::NoArgs,
        _: &str,
    ) -> Result<String, ToolFailure> {
        ask_text(cx, ToolboxRequest::Head).await
    }

    async fn call(
        &self,
        cx: &ToolContext,
        _: args::NoArgs,
        call: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        match cx.push(call.key).await? {
            PushResult::Done(done) => Ok(*done),
            PushResult::Conflict(why) => Err(ToolFailure::Respond(why)),
        }
    }
}
