//! Tools of the conversation itself: messages and its end. The gateway carries them out, and decides
//! whether the role may.

use async_trait::async_trait;
use codebutler_wire as wire;
use codebutler_wire::{PlanComplexity, RoleDecision};
use serde_json::{Value, json};

use super::{CallRisk, Handler, RoleTool, StartedCall, ToolContext, ToolFailure, ToolOutcome};
use crate::memory::name_used;
use crate::mentions::hands_over;
use crate::review::{PLAN_FIRST, ReviewDuty, ReviewFault, ReviewStep};
use crate::tool_args as args;
use crate::toolbox::protocol::{ToolboxReply, ToolboxRequest, WorktreePicture};
use crate::transcript::{ResultKind, TranscriptRecord};
use crate::work_report::report_work;
use codebutler_guides::text::clip_text;

/// In the order in which the model sees them.
pub(super) fn all() -> Vec<Box<dyn RoleTool>> {
    vec![Box::new(ListThreads), Box::new(SendMessage), Box::new(CloseThread)]
}

/// `ListThreads`
struct ListThreads;

#[async_trait]
impl Handler for ListThreads {
    type Args = args::NoArgs;
    const NAME: &'static str = "ListThreads";
    const DESCRIPTION: &'static str = "Lists the other open conversations: branch, phase, files, those shared with this one, and whether the branches conflict.";
    const RISK: CallRisk = CallRisk::Reads;

    async fn call(
        &self,
        cx: &ToolContext,
        _: args::NoArgs,
        _: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        let others = cx.gateway.threads().await?;
        if others.is_empty() {
            return Ok(ToolOutcome::plain("no other conversation of this repository is open"));
        }
        let shown: Vec<String> = others.iter().map(show_thread).collect();
        Ok(ToolOutcome::plain(shown.join("\n")))
    }
}

fn show_thread(thread: &wire::OtherThread) -> String {
    let wire::OtherThread { name, branch, phase, approved, pull_request, .. } = thread;
    let phase = phase.as_deref().unwrap_or("not begun");
    let branch = branch.as_deref().map_or("no branch yet".to_owned(), |name| format!("`{name}`"));
    let plan = match approved {
        None => "no plan",
        Some(true) => "plan approved",
        Some(false) => "plan not approved",
    };
    let pull = pull_request.map(|number| format!(", pull request #{number}")).unwrap_or_default();
    let size = thread.size.map(|size| format!(", {}", show_size(size))).unwrap_or_default();
    let mut lines = vec![format!("{name}: {phase}, {branch}, {plan}{pull}{size}")];
    let mut list = |what: &str, files: &[String], more: u64| {
        if !files.is_empty() {
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            lines.push(format!("  {what}: {}{more}", files.join(", ")));
        }
    };
    list("its plan names", &thread.planned, 0);
    list("its branch changes", &thread.changed, thread.more);
    if let Some(wire::ThreadOverlap { files, folders, symbols, text, .. }) = &thread.overlap {
        list("OVERLAPS with this conversation at", files, 0);
        list("is at other files in", folders, 0);
        list("at these definitions", symbols, 0);
        lines.extend(text.map(|text| format!("  {}", show_merge(text))));
    }
    lines.join("\n")
}

fn show_size(wire::ChangeSize { lines, files }: wire::ChangeSize) -> String {
    format!("changed lines: {lines} in {files} files")
}

/// Describes if two branches merge, as far as Git can tell.
const fn show_merge(text: wire::TextMerge) -> &'static str {
    match text {
        wire::TextMerge::Clean => "what both have pushed merges without a conflict, as text",
        wire::TextMerge::Conflict => {
            "what both have pushed CONFLICTS: the second one to be merged has to adapt"
        }
        wire::TextMerge::Unknown => "whether what both have pushed merges is not known",
    }
}

/// Describes for the model where a plan and other threads overlap.
fn show_overlaps(overlaps: &[wire::ThreadOverlap]) -> String {
    let line = |overlap: &wire::ThreadOverlap| {
        let wire::ThreadOverlap { thread, files, folders, symbols, text, .. } = overlap;
        let (what, places) = match (&files[..], &folders[..]) {
            ([], []) => ("", symbols),
            ([], _) => ("other files in ", folders),
            (_, _) => ("", files),
        };
        let text = text.map(|text| format!(" {}.", show_merge(text))).unwrap_or_default();
        format!("\n{thread} is at {what}{} too.{text}", places.join(", "))
    };
    overlaps.iter().map(line).collect()
}

/// Refuses a question about the merge before the retrospective.
const LOOK_BACK_FIRST: &str = "this team has a retrospective before a merge, and it is still open: read ReviewThread, call \
    ProposeLearnings (with no `learnings` if nothing new was learned), then ask whether to merge";

/// Refuses a hand-over in the middle of a review.
const VERDICT_LAST: &str =
    "a verdict ends a review: give it as your final answer, without SendMessage";

/// The tool that posts messages.
pub(super) const SEND: &str = "SendMessage";

/// The spec of [`SEND`] without the arguments that its role may not use: the gateway would refuse them.
pub(super) fn limit_spec(mut spec: Value, decisions: &[RoleDecision]) -> Value {
    let may = |decision| decisions.contains(&decision);
    let Some(properties) = spec["function"]["parameters"]["properties"].as_object_mut() else {
        return spec;
    };
    properties.retain(|name, _| match name.as_str() {
        "test" | "complexity" | "files" | "workflow" => may(RoleDecision::Plan),
        "choices" => may(RoleDecision::Choice),
        "decision" => may(RoleDecision::Plan) || may(RoleDecision::Merge),
        _ => true,
    });
    if let Some(decision) = properties.get_mut("decision")
        && !(may(RoleDecision::Plan) && may(RoleDecision::Merge))
    {
        let (word, when) = if may(RoleDecision::Plan) {
            ("plan", "when the message is a plan to approve")
        } else {
            ("merge", "when the work is done and may be merged")
        };
        decision["enum"] = json!([word]);
        decision["description"] =
            json!(format!("Ask the user to decide with buttons: `{word}` {when}."));
    }
    spec
}

struct SendMessage;

#[async_trait]
impl Handler for SendMessage {
    type Args = args::SendMessage;
    const NAME: &'static str = SEND;
    const DESCRIPTION: &'static str = "Posts a message in this conversation under your name.";
    const RISK: CallRisk = CallRisk::Speaks;

    async fn call(
        &self,
        cx: &ToolContext,
        args: args::SendMessage,
        call: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        let decision = args.decision.map(|decision| match decision {
            args::DecisionKind::Plan => wire::AskedDecision::Plan,
            args::DecisionKind::Merge => wire::AskedDecision::Merge,
        });
        if decision == Some(wire::AskedDecision::Merge)
            && cx.thread.looks_back
            && !cx.thread.look_back.is_over
        {
            return Err(ToolFailure::Respond(LOOK_BACK_FIRST.to_owned()));
        }
        let review = &cx.thread.review;
        let hands = [ReviewStep::SendsBack, ReviewStep::PassesOn];
        if review.is_bound() && hands.contains(&review.step_of(&args.message)) {
            let why = if review.is_planned { VERDICT_LAST } else { PLAN_FIRST };
            return Err(ToolFailure::Respond(why.to_owned()));
        }
        if review.duty == ReviewDuty::Makes
            && let Some(ReviewFault::Reminder(why)) = review.find_fault(&args.message)
        {
            return Err(ToolFailure::Respond(why));
        }
        let asks = decision.is_some() || !args.choices.is_empty();
        let waits = args.wait_for_reply.unwrap_or(asks);
        let done = decision == Some(wire::AskedDecision::Merge) || hands_over(&args.message);
        let proof = if done { cx.proof().await? } else { None };
        let (key, text) = (call.key.to_owned(), name_used(&args.message, &cx.known));
        let complexity = args.complexity.map(|complexity| match complexity {
            args::WorkComplexity::Simple => PlanComplexity::Simple,
            args::WorkComplexity::Medium => PlanComplexity::Medium,
            args::WorkComplexity::Complex => PlanComplexity::Complex,
        });
        let plan = decision == Some(wire::AskedDecision::Plan);
        let files = args.files.filter(|_| plan).unwrap_or_default();
        let (pictures, smaller) = read_pictures(cx, &args.pictures).await?;
        let message = wire::PostMessage {
            key,
            text,
            decision,
            test: args.test,
            complexity,
            choices: args.choices,
            asks: waits,
            files,
            pictures,
            proof,
            ..wire::PostMessage::default()
        };
        let wire::PostedMessage { ts, overlaps } = cx.gateway.post(&message).await?;
        let workflow = args.workflow.filter(|_| plan).map(|name| clip_text(name.trim(), 60));
        let record =
            workflow.map(|workflow| TranscriptRecord::Planned { workflow, files: message.files });
        let (kind, then) = if waits {
            (ResultKind::Waits, " Your run ends here and goes on with the answer.")
        } else {
            (ResultKind::Plain, "")
        };
        let text = format!("Posted as message {ts}.{then}{smaller}{}", show_overlaps(&overlaps));
        Ok(ToolOutcome::of(text, kind).recording(record))
    }
}

/// Pictures as Read would show them: within the worktree, and nothing but pictures. And which of them are smaller than their
/// files.
async fn read_pictures(
    cx: &ToolContext,
    paths: &[String],
) -> Result<(Vec<wire::OwnPicture>, String), ToolFailure> {
    if paths.len() > wire::MAX_PICTURES {
        let most = wire::MAX_PICTURES;
        return Err(ToolFailure::Respond(format!("a message shows at most {most} pictures")));
    }
    let (mut pictures, mut smaller) = (Vec::new(), String::new());
    for path in paths {
        let read = args::ReadArgs { path: path.clone(), ..args::ReadArgs::default() };
        match cx.toolbox.ask(ToolboxRequest::Read(read)).await? {
            ToolboxReply::Picture(WorktreePicture { data, note, .. }) => {
                pictures.push(wire::OwnPicture { data });
                if !note.is_empty() {
                    smaller = format!("{smaller} `{path}`:{note}");
                }
            }
            ToolboxReply::Refused(why) => return Err(ToolFailure::Respond(why)),
            ToolboxReply::Failed(why) => return Err(ToolFailure::Stop(why)),
            _ => {
                let why =
                    "is no picture (PNG, JPEG, GIF or WebP): put text into the message itself";
                return Err(ToolFailure::Respond(format!("`{path}` {why}")));
            }
        }
    }
    Ok((pictures, smaller))
}

struct CloseThread;

#[async_trait]
impl Handler for CloseThread {
    type Args = args::CloseThread;
    const NAME: &'static str = "CloseThread";
    const DESCRIPTION: &'static str =
        "Ends this conversation as the user decided: merges the pull request or closes it.";
    const RISK: CallRisk = CallRisk::Speaks;

    /// The gateway finds each step that is already done.
    async fn call(
        &self,
        cx: &ToolContext,
        args: args::CloseThread,
        _: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        let folder = cx.thread.state_dir.clone();
        let mut kept = cx.kept_history().await;
        let work = tokio::task::spawn_blocking(move || report_work(&folder, &mut kept)).await;
        let work = work.ok().filter(|work| !work.is_empty());
        let closed = cx.gateway.close(&wire::CloseThread { summary: args.summary, work }).await?;
        if let Some(why) = closed.waiting {
            return Ok(ToolOutcome::of(format!("{why} Your run ends here."), ResultKind::Waits));
        }
        let text = match closed.merge_commit {
            Some(commit) => format!("Closed; merged as {commit}."),
            None => "Closed without a merge.".to_owned(),
        };
        Ok(ToolOutcome::of(text, ResultKind::Closes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(decisions: &[RoleDecision]) -> (String, Value) {
        let spec = limit_spec(RoleTool::spec(&SendMessage), decisions);
        let properties = spec["function"]["parameters"]["properties"].clone();
        let keys: Vec<_> = properties.as_object().unwrap().keys().cloned().collect();
        (keys.join(" "), properties["decision"].clone())
    }

    #[test]
    fn a_role_is_offered_the_arguments_that_it_may_use() {
        let (keys, decision) = offered(&[]);
        assert_eq!(keys, "message waitForReply pictures");
        assert!(decision.is_null());
        let (keys, decision) = offered(&[RoleDecision::Plan, RoleDecision::Choice]);
        assert_eq!(
            keys,
            "message waitForReply decision choices test complexity files workflow pictures"
        );
        assert_eq!(decision["enum"], json!(["plan"]));
        assert!(!decision["description"].as_str().unwrap().contains("merge"));
        let (keys, decision) = offered(&[RoleDecision::Merge]);
        assert_eq!(keys, "message waitForReply decision pictures");
        assert_eq!(decision["enum"], json!(["merge"]));
        let (_, decision) = offered(&[RoleDecision::Plan, RoleDecision::Merge]);
        assert_eq!(decision["enum"], json!(["plan", "merge"]));
    }
}
