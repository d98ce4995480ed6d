//! Learning a project: each role writes what it found from its own point of view, the lead brings the pages
//! together, and people say which of them the team keeps.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use codebutler_wire as wire;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::learning::{ask_about, branch_page, check_growth};
use super::section::{NamedSection, draft_policy, draft_skill, draft_workflow, show_section};
use super::{CallRisk, Handler, RoleTool, StartedCall, ToolContext, ToolFailure, ToolOutcome};
use crate::memory::{ChangeKind, LearningChange, LearningEntry, check_map, find_map};
use crate::transcript::{ResultKind, TranscriptRecord};
use codebutler_guides::text::clip_text;

/// Where a role keeps its map until it is on the branch, in its folder.
const DRAFT: &str = "map.md";
/// Most commands that a map names.
const MAX_COMMANDS: usize = 12;
const SHARED: &str = "global.md";
/// Most parts that people are asked about at once.
const MAX_SECTIONS: usize = 10;

pub(super) fn all() -> Vec<Box<dyn RoleTool>> {
    vec![Box::new(WriteMap), Box::new(ProposeMaps)]
}

/// `WriteMap`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteMapArgs {
    /// At most 200 lines of Markdown, headings from `###` on: what you need to find your way, with paths in
    /// backticks; nothing that the code says by itself. It replaces your earlier overview.
    pub map: String,
    /// How to build, test, check and run, one each. Only what you ran in this conversation and what ended with
    /// exit code 0 is taken.
    #[serde(default)]
    pub commands: Vec<MapCommand>,
}

/// A command that works in this repository.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MapCommand {
    /// Such as `Run all tests`.
    pub what: String,
    /// Exactly as it was run.
    pub command: String,
}

struct WriteMap;

#[async_trait]
impl Handler for WriteMap {
    type Args = WriteMapArgs;
    const NAME: &'static str = "WriteMap";
    const DESCRIPTION: &'static str = "Posts your overview of this project and keeps it for the lead, who asks the people whether to add it to your role's page in `.codebutler/`.";
    const RISK: CallRisk = CallRisk::Speaks;

    async fn call(
        &self,
        cx: &ToolContext,
        args: WriteMapArgs,
        call: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        let folder = cx.thread.state_dir.join(&cx.thread.role);
        let map = with_commands(&args, &folder)?;
        check_map(&map).map_err(|error| ToolFailure::Respond(error.to_string()))?;
        let message = wire::PostMessage {
            key: call.key.to_owned(),
            text: format!("**Project map of {}**\n\n{map}", cx.thread.role),
            ..wire::PostMessage::default()
        };
        let wire::PostedMessage { ts, .. } = cx.gateway.post(&message).await?;
        keep_draft(&folder, &map)
            .map_err(|error| ToolFailure::Stop(format!("the overview cannot be kept: {error}")))?;
        Ok(ToolOutcome::plain(format!(
            "Posted as message {ts}. The lead proposes it to the people."
        )))
    }
}

fn keep_draft(folder: &Path, map: &str) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let fresh = folder.join(format!("{DRAFT}.new"));
    std::fs::write(&fresh, map)?;
    std::fs::rename(fresh, folder.join(DRAFT))
}

fn with_commands(args: &WriteMapArgs, folder: &Path) -> Result<String, ToolFailure> {
    if args.commands.len() > MAX_COMMANDS {
        return Err(ToolFailure::Respond(format!("`commands` has at most {MAX_COMMANDS} entries")));
    }
    let mut map = args.map.trim().to_owned();
    let green = crate::history::find_green_commands(folder);
    let mut lines = Vec::new();
    for MapCommand { what, command } in &args.commands {
        let command = command.trim();
        if !green.contains(command) || command.contains(['`', '\n']) {
            return Err(ToolFailure::Respond(format!(
                "`{command}` did not end with exit code 0 in this conversation: run exactly this in Bash, in the \
                 foreground, or leave it out"
            )));
        }
        lines.push(format!("- {}: `{command}`", clip_text(what.trim(), 80)));
    }
    if !lines.is_empty() {
        map = format!("{map}\n\n### Commands that were run here\n\n{}", lines.join("\n"));
    }
    Ok(map)
}

/// `ProposeMaps`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProposeMapsArgs {
    /// What all roles have to know, at most 200 lines of Markdown, headings from `###` on: architecture, stack,
    /// conventions, decisions. Nothing that a role's own overview says.
    #[serde(default)]
    pub global: Option<String>,
    /// Kinds of work that the team's workflows lack, or that go differently here. Each at most 40 lines
    /// of Markdown: a sentence that says when it applies, then numbered steps that begin with who does them.
    #[serde(default)]
    pub workflows: Vec<NamedSection>,
    /// What people of this project will ask for again and again in a few words: each a whole file `skills/<name>.md`, with
    /// `# <name>`, a line that describes it, `## Trigger`, `## Agent` and `## Prompt`.
    #[serde(default)]
    pub skills: Vec<NamedSection>,
    /// All of `policy.json`, with what it has now: commands that destroy something here, commands that are safe because
    /// they ran here and ended well, patterns to mask.
    #[serde(default)]
    pub policy: Option<String>,
    /// What is different from before, or why these pages: one or two sentences for the people.
    pub reason: String,
}

struct ProposeMaps;

#[async_trait]
impl Handler for ProposeMaps {
    type Args = ProposeMapsArgs;
    const NAME: &'static str = "ProposeMaps";
    const DESCRIPTION: &'static str = "Asks the people, one by one, which of the roles' overviews go into their pages, and what you wrote for all roles: `global.md`, workflows, skills, the policy. What they accept is committed for you.";
    const RISK: CallRisk = CallRisk::Speaks;

    async fn call(
        &self,
        cx: &ToolContext,
        args: ProposeMapsArgs,
        call: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        let drafted = draft_sections(cx, &args).await?;
        if drafted.len() > MAX_SECTIONS {
            return Err(ToolFailure::Respond(format!(
                "people are asked about at most {MAX_SECTIONS} parts at once: these are {}",
                drafted.len()
            )));
        }
        let (mut changes, mut shown) = (Vec::new(), Vec::new());
        for (number, change) in (1..).zip(drafted) {
            let old = branch_page(cx, &change.file).await?;
            shown.push(show_section(cx, &call, number, &change, old.as_deref()).await?);
            changes.push(change);
        }
        if changes.is_empty() {
            return Err(ToolFailure::Respond(
                "no role has written an overview that differs from its page, and what you wrote for all roles is as it was: ask \
                 the roles for theirs with AskRoles, and wait for them"
                    .to_owned(),
            ));
        }
        let (reason, question) = (clip_text(args.reason.trim(), 600), ask_about(changes.len()));
        let message = wire::PostMessage {
            key: call.key.to_owned(),
            text: format!("**What the team knows of this project**\n\n{reason}\n\n{question}"),
            learnings: shown,
            asks: true,
            ..wire::PostMessage::default()
        };
        let wire::PostedMessage { ts, .. } = cx.gateway.post(&message).await?;
        let files: Vec<_> = changes.iter().map(|change| change.file.clone()).collect();
        let text = format!(
            "Posted as message {ts}: {}. Your run ends here and goes on with the answers.",
            files.join(", ")
        );
        let record = Some(TranscriptRecord::Proposed { message: ts, changes, improvements: None });
        Ok(ToolOutcome::of(text, ResultKind::Waits).recording(record))
    }
}

fn map_change(file: &str, map: &str, reason: &str) -> LearningChange {
    let name = file.trim_end_matches(".md");
    let learning = LearningEntry {
        id: format!("map-{name}"),
        claim: format!("Project map of {name}"),
        ..LearningEntry::default()
    };
    let (file, reason) = (file.to_owned(), clip_text(reason, 300));
    LearningChange { file, kind: ChangeKind::Map, learning, reason, map: map.to_owned() }
}

/// Everything that differs from what the branch has: pages first, then what is for all.
async fn draft_sections(
    cx: &ToolContext,
    args: &ProposeMapsArgs,
) -> Result<Vec<LearningChange>, ToolFailure> {
    let mut maps = read_drafts(cx.thread.state_dir.clone()).await?;
    if let Some(global) = args.global.as_deref().filter(|map| !map.trim().is_empty()) {
        check_map(global).map_err(|error| ToolFailure::Respond(error.to_string()))?;
        maps.push((SHARED.to_owned(), global.trim().to_owned()));
    }
    let (reason, mut changes) = (args.reason.trim(), Vec::new());
    for (file, map) in maps {
        let old = branch_page(cx, &file).await?;
        if old.as_deref().and_then(find_map) != Some(map.as_str()) {
            changes.push(map_change(&file, &map, reason));
        }
    }
    for workflow in &args.workflows {
        changes.extend(draft_workflow(cx, workflow, reason).await?);
    }
    for skill in &args.skills {
        let change = draft_skill(cx, skill, &changes, reason).await?;
        changes.extend(change);
    }
    if let Some(policy) = args.policy.as_deref().filter(|policy| !policy.trim().is_empty()) {
        changes.extend(draft_policy(cx, policy, reason).await?);
    }
    let same = |one: &LearningChange, other: &LearningChange| {
        (&one.file, &one.learning.id) == (&other.file, &other.learning.id)
    };
    let twice =
        changes.iter().enumerate().find(|(at, one)| changes[..*at].iter().any(|o| same(o, one)));
    if let Some((_, change)) = twice {
        let what = &change.learning.claim;
        return Err(ToolFailure::Respond(format!("`{what}` stands there twice: propose it once")));
    }
    check_growth(cx, &changes).await?;
    Ok(changes)
}

/// What roles wrote in this conversation: page and map.
async fn read_drafts(state_dir: PathBuf) -> Result<Vec<(String, String)>, ToolFailure> {
    let read = move || {
        let mut maps = Vec::new();
        for role in crate::history::list_roles(&state_dir) {
            if let Ok(map) = std::fs::read_to_string(state_dir.join(&role).join(DRAFT)) {
                maps.push((format!("{role}.md"), map.trim().to_owned()));
            }
        }
        maps
    };
    let maps = tokio::task::spawn_blocking(read).await;
    let maps = maps.map_err(|error| ToolFailure::Stop(error.to_string()))?;
    // A draft lies on a volume that other pods write too.
    for (file, map) in &maps {
        check_map(map)
            .map_err(|why| ToolFailure::Respond(format!("the overview for `{file}`: {why}")))?;
    }
    Ok(maps)
}
