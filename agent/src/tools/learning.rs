//! Looking back on a conversation, and what is to be learned from it: the retrospective in its fixed form,
//! and changes of the memory that people judge one by one. The harness lands what they accept.

mod ask;
mod checks;
mod evidence;
mod form;
mod improve;
mod todos;

pub(super) use self::checks::check_growth;

use async_trait::async_trait;
use codebutler_wire as wire;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::checks::{check_form, find_marks};
use self::evidence::link_all;
use self::form::{
    JournalPlace, exceeds_card, show_change, show_marks, show_retrospective, show_stale,
    show_summary,
};
use self::improve::post_improvements;
use self::todos::{find_todos, show_todos};
use super::full_text::post_whole;
use super::{
    CallRisk, Handler, PushResult, RoleTool, StartedCall, ToolContext, ToolFailure, ToolOutcome,
};
use crate::history::{describe_thread, find_used_learnings, list_histories};
use crate::journal::write_journal;
use crate::memory::{
    ChangeKind, EntryConfidence, ForeignSource, ForeignTexts, LearningChange, LearningEntry,
    LearningMarks, MAX_CITATIONS, MAX_CLAIM, MAX_FIELD, MAX_SCOPE, MemoryCitation, POLICY,
    WORKFLOWS, find_hostile_rule,
};
use crate::tool_args as args;
use crate::toolbox::protocol::{ToolboxReply, ToolboxRequest};
use crate::transcript::{ResultKind, TranscriptRecord};
use codebutler_guides::text::clip_text;

/// Question to people about several proposals.
const ASK_WHICH: &str = "*What of this shall the team remember?* Approve or reject each with its buttons, answer `all`, \
                   `none` or `1 and 3`, or say one better: `2: <the rule in your words>`.";
/// Question about a single one: its buttons say the rest.
const ASK_ONE: &str = "*Remember this?* Or say it better: `1: <your words>`.";

/// Question to people below what is proposed.
pub(super) const fn ask_about(proposals: usize) -> &'static str {
    if proposals == 1 { ASK_ONE } else { ASK_WHICH }
}

/// Refusal for a role that would hold up an item of a roadmap.
const LEARN_LATER: &str = "what is to be learned from this item is proposed together with the others' when the roadmap is done, so that \
                           none of them waits for it: ask whether to merge";

/// Tools for learning, in the order in which the model sees them.
pub fn all() -> Vec<Box<dyn RoleTool>> {
    vec![Box::new(ReviewThread), Box::new(ask::AskRoles), Box::new(ProposeLearnings)]
}

struct ReviewThread;

#[async_trait]
impl Handler for ReviewThread {
    type Args = args::NoArgs;
    const NAME: &'static str = "ReviewThread";
    const DESCRIPTION: &'static str = "Shows what happened in this conversation besides its messages: each role's runs, tools, errors and test runs, decisions of CodeButler and of people with reasons, results of checks, waiting times, cost by role, and which memory entries to remove.";
    const RISK: CallRisk = CallRisk::Reads;

    async fn call(
        &self,
        cx: &ToolContext,
        _: args::NoArgs,
        _: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        let (folder, usage) = (cx.thread.state_dir.clone(), cx.thread.usage.clone());
        let mut kept = cx.kept_history().await;
        let told = tokio::task::spawn_blocking(move || {
            let histories = list_histories(&folder, &mut kept);
            describe_thread(&histories, &kept, &usage)
        });
        let told = told.await.map_err(|error| ToolFailure::Stop(error.to_string()))?;
        let stale = match cx.toolbox.ask(ToolboxRequest::StaleLearnings).await? {
            ToolboxReply::Stale(stale) => show_stale(&stale),
            ToolboxReply::Refused(why) | ToolboxReply::Failed(why) => {
                format!("## Memory\nIt can't be looked through: {why}")
            }
            other => {
                return Err(ToolFailure::Stop(format!(
                    "the toolbox gave a strange answer: {other:?}"
                )));
            }
        };
        Ok(ToolOutcome::plain(format!("{told}{stale}")))
    }
}

/// `ProposeLearnings`
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ProposeArgs {
    /// One to three things that went well.
    pub went_well: Vec<GoodObservation>,
    /// At most three things that cost time, money or trust.
    #[serde(default)]
    pub frictions: Vec<ThreadFriction>,
    /// A better order or way of working for the team.
    #[serde(default)]
    pub process_change: Option<ProposedImprovement>,
    /// A better instruction for a role.
    #[serde(default)]
    pub prompt_change: Option<ProposedImprovement>,
    /// A task that people ask for again and again, and could ask for in a few words.
    #[serde(default)]
    pub skill: Option<ProposedImprovement>,
    /// A check that would have caught a mistake.
    #[serde(default)]
    pub guardrail: Option<ProposedImprovement>,
    /// How people could word such a request better: at most three sentences, from what happened here.
    #[serde(default)]
    pub tips: Vec<String>,
    /// Memory entries that helped somebody who followed them.
    #[serde(default)]
    pub helped: Vec<EntryVerdict>,
    /// Memory entries that misled somebody.
    #[serde(default)]
    pub misled: Vec<EntryVerdict>,
    /// At most three changes of the team's memory, each of one entry; none if nothing new was learned.
    #[serde(default)]
    pub learnings: Vec<EntryProposal>,
}

/// Something that went well.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GoodObservation {
    /// One sentence.
    pub what: String,
    /// Where it can be seen: a message, a commit, `path:line`, a figure.
    pub evidence: String,
}

/// Something that went badly.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThreadFriction {
    /// One sentence.
    pub what: String,
    /// Why it happened, not what followed from it.
    pub cause: String,
    /// Where it can be seen.
    pub evidence: String,
    pub severity: FrictionSeverity,
}

/// How much something cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FrictionSeverity {
    Low,
    Medium,
    High,
}

/// Something to do differently.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProposedImprovement {
    /// One sentence.
    pub what: String,
    /// What gets better, and how to see it.
    pub effect: String,
    /// File below `.codebutler/` and section, such as `workflows.md, bugfix`.
    #[serde(rename = "where")]
    pub place: String,
    pub severity: FrictionSeverity,
}

/// A verdict on an entry of the memory.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EntryVerdict {
    /// Its page below `.codebutler/`.
    pub file: String,
    /// Such as `l-1a2b3c4d`.
    pub id: String,
    /// One sentence.
    pub why: String,
}

/// A change of one entry of the memory.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EntryProposal {
    /// The page below `.codebutler/`: `<role>.md` for what one role has to know, `global.md` for all.
    pub file: String,
    /// `add` an entry, `replace` one, or `archive` one that is wrong or out of date.
    #[serde(default)]
    pub change: ProposedChange,
    /// Of an entry that is replaced or archived: its id, such as `l-1a2b3c4d`.
    #[serde(default)]
    pub id: Option<String>,
    /// One line that says what was learned.
    pub claim: String,
    /// When it applies.
    #[serde(default)]
    pub when: String,
    /// What to do then.
    #[serde(default)]
    pub rule: String,
    /// One line from this conversation or its code.
    #[serde(default)]
    pub example: String,
    #[serde(default)]
    pub confidence: EntryConfidence,
    /// Files and folders that it is about, such as `src/price.rs`, `web/**`; empty for all.
    #[serde(default)]
    pub scope: Vec<String>,
    /// What it rests on: `path:line` of this branch, a commit, a link. Checked now, and before each use.
    #[serde(default)]
    pub citations: Vec<String>,
    /// Why the team needs it, in one sentence.
    pub reason: String,
    /// It comes from a web page, an issue or a file of the repository, not from a person of the team.
    #[serde(default)]
    pub untrusted: bool,
}

/// What becomes of the entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProposedChange {
    #[default]
    Add,
    Replace,
    Archive,
}

struct ProposeLearnings;

#[async_trait]
impl Handler for ProposeLearnings {
    type Args = ProposeArgs;
    const NAME: &'static str = "ProposeLearnings";
    const DESCRIPTION: &'static str = "Posts your retrospective and asks the people which of your proposals the team should remember. Call it once, after the review and before you ask whether to merge. What they accept is committed for you. Propose only what is new, has evidence, and helps next time; proposing nothing is a good answer.";
    const RISK: CallRisk = CallRisk::Speaks;

    async fn call(
        &self,
        cx: &ToolContext,
        args: ProposeArgs,
        call: StartedCall<'_>,
    ) -> Result<ToolOutcome, ToolFailure> {
        if cx.thread.learns_later {
            return Err(ToolFailure::Respond(LEARN_LATER.to_owned()));
        }
        check_form(&args)?;
        let args = link_all(args, &cx.thread)?;
        let (marks, told) = find_marks(cx, &args).await?;
        let mut changes = Vec::new();
        let (mut shown, mut whole) = (Vec::new(), Vec::new());
        let texts = read_foreign(cx).await?;
        for (number, proposal) in args.learnings.iter().enumerate().map(|(n, one)| (n + 1, one)) {
            let wrong = |why: String| ToolFailure::Respond(format!("proposal {number}: {why}"));
            let mut change = make_change(cx, proposal).await.map_err(|failure| match failure {
                ToolFailure::Respond(why) => wrong(why),
                other => other,
            })?;
            let page = branch_page(cx, &change.file).await?;
            // A learning that is archived needs no source: it says nothing any more.
            let source = texts.find_source(&change.learning);
            let source = source.filter(|_| change.kind != ChangeKind::Archive);
            change.learning.untrusted |= source.is_some_and(ForeignSource::is_untrusted);
            change.apply(page.as_deref()).map_err(|error| wrong(error.to_string()))?;
            let diff = change.show_diff(page.as_deref());
            if exceeds_card(&diff) {
                whole.push((number, change.learning.claim.clone(), diff));
            }
            shown.push(show_change(&change, page.as_deref(), source));
            changes.push(change);
        }
        check_growth(cx, &changes).await?;
        let rest = show_marks(&told) + &show_todos(&find_todos(cx).await?);
        let whole_text = show_retrospective(&args, &cx.thread) + &rest;
        let journal = keep_journal(cx, &whole_text, marks).await?;
        let improvements = post_improvements(cx, &call, &args).await?;
        let mut text = show_summary(&args, &cx.thread, &journal) + &rest;
        // People can approve only what they see in full, so long changes are posted whole first.
        for (number, claim, diff) in &whole {
            post_whole(cx, &call, *number, (claim, diff)).await?;
        }
        let waits = !changes.is_empty();
        if waits {
            text = format!("{text}\n{}", ask_about(changes.len()));
        }
        let key = call.key.to_owned();
        let message = wire::PostMessage {
            key,
            text,
            learnings: shown,
            asks: waits,
            ..wire::PostMessage::default()
        };
        let wire::PostedMessage { ts, .. } = cx.gateway.post(&message).await?;
        let record = TranscriptRecord::Proposed { message: ts.clone(), changes, improvements };
        let (kind, then) = if waits {
            (ResultKind::Waits, " Your run ends here and goes on with the answers.")
        } else {
            (ResultKind::Plain, " Nothing was proposed: go on.")
        };
        let posted = format!("Posted as message {ts}.{then}");
        Ok(ToolOutcome::of(posted, kind).recording(Some(record)))
    }
}

/// Collects the texts of others that were read or said in the conversation.
async fn read_foreign(cx: &ToolContext) -> Result<ForeignTexts, ToolFailure> {
    let folder = cx.thread.state_dir.clone();
    let kept = cx.kept_history().await;
    let texts = tokio::task::spawn_blocking(move || crate::history::read_foreign(&folder, &kept));
    texts.await.map_err(|error| ToolFailure::Stop(error.to_string()))
}

/// Commits and pushes the journal, where one is kept.
async fn keep_journal(
    cx: &ToolContext,
    retrospective: &str,
    mut marks: LearningMarks,
) -> Result<JournalPlace, ToolFailure> {
    let Some(mut facts) = cx.thread.journal.clone() else { return Ok(JournalPlace::Nowhere) };
    let (folder, usage) = (cx.thread.state_dir.clone(), cx.thread.usage.clone());
    let (page, retrospective) = (facts.page(&cx.thread.name), retrospective.to_owned());
    let mut kept = cx.kept_history().await;
    let text = tokio::task::spawn_blocking(move || {
        let work = crate::work_report::report_work(&folder, &mut kept);
        let histories = list_histories(&folder, &mut kept);
        marks.used = find_used_learnings(&histories);
        let history = describe_thread(&histories, &kept, &usage);
        let history = format!("{work}\n{history}");
        facts.marks = marks;
        write_journal(&facts, &usage, &history, &retrospective)
    });
    let text = text.await.map_err(|error| ToolFailure::Stop(error.to_string()))?;
    let request = ToolboxRequest::CommitLearnings {
        changes: Vec::new(),
        message: "Keep the journal of this conversation\n".to_owned(),
        pages: vec![(page.clone(), text)],
    };
    // A failure is only reported: no work waits for the journal.
    let why = match cx.toolbox.ask(request).await? {
        ToolboxReply::Text(commit) => match cx.push(&commit).await {
            Ok(PushResult::Done(_)) => return Ok(JournalPlace::Page(page)),
            Ok(PushResult::Conflict(why))
            | Err(ToolFailure::Respond(why) | ToolFailure::Fault(why) | ToolFailure::Stop(why)) => {
                why
            }
            Err(other) => return Err(other),
        },
        ToolboxReply::Refused(why) | ToolboxReply::Failed(why) => why,
        other => {
            return Err(ToolFailure::Stop(format!("the toolbox gave a strange answer: {other:?}")));
        }
    };
    Ok(JournalPlace::Missing(why))
}

/// Reads the page as the branch has it.
pub(super) async fn branch_page(
    cx: &ToolContext,
    file: &str,
) -> Result<Option<String>, ToolFailure> {
    match cx.toolbox.ask(ToolboxRequest::BranchPage { file: file.to_owned() }).await? {
        ToolboxReply::Guide(text) => Ok(text),
        ToolboxReply::Refused(why) => Err(ToolFailure::Respond(why)),
        other => Err(ToolFailure::Stop(format!("the toolbox gave a strange answer: {other:?}"))),
    }
}

async fn make_change(
    cx: &ToolContext,
    proposal: &EntryProposal,
) -> Result<LearningChange, ToolFailure> {
    let respond = |why: String| Err(ToolFailure::Respond(why));
    let kind = match proposal.change {
        ProposedChange::Add => ChangeKind::Add,
        ProposedChange::Replace => ChangeKind::Replace,
        ProposedChange::Archive => ChangeKind::Archive,
    };
    let id = match (kind, &proposal.id) {
        (ChangeKind::Add, _) => LearningEntry::make_id(&proposal.claim, &cx.thread.name),
        (_, Some(id)) => id.trim().to_owned(),
        (_, None) => return respond("`id` has to name the entry that is changed".to_owned()),
    };
    if proposal.claim.trim().is_empty() || proposal.reason.trim().is_empty() {
        return respond("`claim` and `reason` each say something".to_owned());
    }
    if kind != ChangeKind::Archive
        && (proposal.rule.trim().is_empty() || proposal.when.trim().is_empty())
    {
        return respond("`when` and `rule` each say something".to_owned());
    }
    if proposal.scope.len() > MAX_SCOPE || proposal.citations.len() > MAX_CITATIONS {
        return respond(format!("at most {MAX_SCOPE} paths and {MAX_CITATIONS} citations"));
    }
    let citations = quote_all(cx, &proposal.citations).await?;
    if kind == ChangeKind::Add && citations.is_empty() {
        return respond(
            "`citations` is empty: name what it rests on, such as `src/price.rs:14`, a commit or a link".to_owned(),
        );
    }
    let field = |text: &str| clip_text(text.trim(), MAX_FIELD);
    let learning = LearningEntry {
        id,
        claim: clip_text(proposal.claim.trim(), MAX_CLAIM),
        when: field(&proposal.when),
        rule: field(&proposal.rule),
        example: field(&proposal.example),
        confidence: proposal.confidence,
        scope: proposal.scope.iter().map(|path| clip_text(path.trim(), 120)).collect(),
        citations,
        source: cx.thread.link.clone().unwrap_or_else(|| format!("Thread {}", cx.thread.name)),
        untrusted: proposal.untrusted,
    };
    if let Some(why) = find_hostile_rule(&learning) {
        return respond(format!("this cannot be proposed for the memory: {why}"));
    }
    let file = proposal.file.trim().trim_start_matches("./").trim_start_matches(".codebutler/");
    if file.contains('/') || [WORKFLOWS, codebutler_roadmap::FILE, POLICY].contains(&file) {
        return respond(format!(
            "`{file}` has no entries: name `<role>.md` or `global.md`; workflows are for ProposeWorkflow, skills and the policy \
             for ProposeMaps"
        ));
    }
    let (file, reason) = (file.to_owned(), field(&proposal.reason));
    Ok(LearningChange { file, kind, learning, reason, map: String::new() })
}

async fn quote_all(cx: &ToolContext, cited: &[String]) -> Result<Vec<MemoryCitation>, ToolFailure> {
    let mut quoted = Vec::new();
    for citation in cited.iter().filter_map(|text| MemoryCitation::parse(&clip_text(text, 300))) {
        match cx.toolbox.ask(ToolboxRequest::QuoteCitation { citation }).await? {
            ToolboxReply::Text(text) => quoted.extend(MemoryCitation::parse(&text)),
            ToolboxReply::Refused(why) => {
                return Err(ToolFailure::Respond(format!("a citation is wrong: {why}")));
            }
            other => {
                return Err(ToolFailure::Stop(format!(
                    "the toolbox gave a strange answer: {other:?}"
                )));
            }
        }
    }
    Ok(quoted)
}
