//! Set-up of the worktree, before the first command of a role that may run any. How it went is told
//! in the thread, and to the model: a run goes on without it, since mending it may be the work.

use std::time::Duration;

use super::view::RunEnding;
use super::watch::RunDeadline;
use super::{Agent, RunError};
use crate::gateway::GatewayError;
use crate::step;
use crate::toolbox::protocol::{SetUp, SetUpEnd, ToolboxReply, ToolboxRequest};
use codebutler_guides::text::clip_text;

/// The tool that needs a worktree in which commands work.
pub(super) const TOOL: &str = "Bash";
/// The toolbox ends the command in time; to hear of it may take so much longer.
const SLACK: Duration = Duration::from_mins(1);
/// Time to look up whether there is anything to do.
const STEP: Duration = Duration::from_mins(2);

impl Agent {
    /// Prepares the worktree if it has to be. Answers with what the model has to know, or with how the
    /// run ends.
    pub(super) async fn set_up(&mut self) -> Result<Result<Option<String>, RunEnding>, RunError> {
        if !self.session.tools.iter().any(|tool| tool == TOOL) {
            return Ok(Ok(None));
        }
        let request = ToolboxRequest::PlanSetUp { command: self.session.setup.clone() };
        let deadline = RunDeadline::after(STEP, &self.tools.builds.waits);
        let planned = match self.bounded(&deadline, self.tools.toolbox.ask(request)).await {
            Ok(planned) => planned?,
            Err(cut) => return self.cut(cut).await.map(Err),
        };
        let mut plan = match planned {
            ToolboxReply::SetUp(None) => return Ok(Ok(None)),
            ToolboxReply::SetUp(Some(plan)) => plan,
            other => return Ok(Ok(Some(unknown_reply(&other)))),
        };
        let ready = plan.ended.as_ref().is_some_and(SetUpEnd::is_success);
        if !ready && plan.missing.is_none() {
            step::point("before set-up");
            let limit = Duration::from_secs(self.timeouts.setup_limit.into()) + SLACK;
            let deadline = RunDeadline::after(limit, &self.tools.builds.waits);
            self.tools.relay.take_turned_away();
            let done = match self.bounded(&deadline, self.run_set_up(&plan)).await {
                Ok(done) => done?,
                Err(cut) => return self.cut(cut).await.map(Err),
            };
            step::point("after set-up");
            plan = match done {
                ToolboxReply::SetUp(Some(done)) => done,
                other => return Ok(Ok(Some(unknown_reply(&other)))),
            };
        }
        let mut ended = plan.ended.clone().unwrap_or_default();
        let refused = self.tools.relay.take_turned_away();
        if !refused.is_empty() {
            ended.refused = refused;
        }
        if !ended.told {
            self.tell_once("setup", &told_end(&plan, &ended)).await?;
            if plan.missing.is_none() {
                let request =
                    ToolboxRequest::SetUpTold { plan: plan.clone(), ended: ended.clone() };
                let deadline = RunDeadline::after(STEP, &self.tools.builds.waits);
                match self.bounded(&deadline, self.tools.toolbox.ask(request)).await {
                    Ok(noted) => drop(noted?),
                    Err(cut) => return self.cut(cut).await.map(Err),
                }
            }
        }
        Ok(Ok(Some(setup_fact(&plan, &ended))))
    }

    /// In a build slot; people are told when it takes long.
    async fn run_set_up(&self, plan: &SetUp) -> Result<ToolboxReply, RunError> {
        let slot =
            self.tools.builds.slot().await.map_err(|error: GatewayError| RunError::from(error))?;
        let request =
            ToolboxRequest::SetUp { plan: plan.clone(), seconds: self.timeouts.setup_limit };
        let work = self.tools.toolbox.ask(request);
        tokio::pin!(work);
        let reply = tokio::select! {
            reply = &mut work => reply?,
            () = tokio::time::sleep(self.timeouts.tell_after) => {
                let text = format!("Setting up the worktree with {}: I begin once it is done.", name_setup(plan));
                self.tell_once("setting-up", &text).await?;
                work.await?
            }
        };
        drop(slot);
        Ok(reply)
    }
}

fn name_setup(plan: &SetUp) -> String {
    let command = clip_text(&plan.command.replace('`', "'").replace('\n', " "), 200);
    match &plan.from[..] {
        [] => format!("`{command}` (`spec.worktree.setup`)"),
        from => format!("`{command}` (because of `{}`)", from.join("`, `")),
    }
}

/// For people. What a command printed is theirs to judge: it stands in a block of its own.
fn told_end(plan: &SetUp, ended: &SetUpEnd) -> String {
    let named = name_setup(plan);
    if let Some(program) = &plan.missing {
        return format!(
            "The worktree should be set up with {named}, but this role's image has no `{program}`. I go on \
             without it. Give the AgentRole an image that has it (`spec.workspace.image`), or the Repo another \
             command (`spec.worktree.setup`)."
        );
    }
    let seconds = ended.seconds;
    let refused = ended.refused.iter().map(|why| clip_text(why, 300));
    let refused: Vec<_> = refused.map(|why| format!("\nRefused on the way: {why}")).collect();
    let refused = refused.concat();
    if ended.is_success() {
        return format!("The worktree is set up with {named}, in {seconds} s.{refused}");
    }
    let tail = match ended.tail.replace("```", "'''") {
        tail if tail.is_empty() => "It printed nothing.".to_owned(),
        tail => format!("```\n{tail}\n```"),
    };
    // Without the time, so that the same failure is told once.
    let how = ended.code.map_or_else(|| ended.verdict.clone(), |code| format!("exit code {code}"));
    format!(
        "Setting up the worktree with {named} failed: {}. I go on without it.\n{tail}{refused}\n\
         All of its output is in `{}`: ask me for it. What can be changed: the command (`spec.worktree.setup` of \
         the Repo), the image (`spec.workspace.image` of the AgentRole), hosts (`spec.egress.presets` \
         and `spec.egress.hosts` of the Repo). It is tried again when I am woken next.",
        clip_text(&how, 200),
        plan.log
    )
}

/// For the model.
fn setup_fact(plan: &SetUp, ended: &SetUpEnd) -> String {
    let command = clip_text(&plan.command.replace('`', "'").replace('\n', " "), 200);
    match &plan.missing {
        Some(program) => {
            format!("The worktree is not set up: `{command}` needs `{program}`, which is not here.")
        }
        None if ended.is_success() => {
            format!(
                "The worktree was set up with `{command}`; Read shows its output: `{}`.",
                plan.log
            )
        }
        None => format!(
            "Setting up the worktree with `{command}` failed ({}): look at `{}` with Read before you rely on \
             what it should have installed.",
            clip_text(&ended.verdict, 100),
            plan.log
        ),
    }
}

fn unknown_reply(reply: &ToolboxReply) -> String {
    tracing::warn!(?reply, "worktree_setup_failed");
    let why = match reply {
        ToolboxReply::Refused(why) | ToolboxReply::Failed(why) => clip_text(why, 200),
        _ => "the toolbox gave a strange answer".to_owned(),
    };
    format!("The worktree could not be set up: {why}.")
}
