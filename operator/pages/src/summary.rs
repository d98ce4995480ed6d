//! Summary of a history, updated line by line.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use codebutler_markdown::plain_line;
use codebutler_wire::history::{
    CheckShown, GATEWAY, HistoryEvent, HistoryLine, ItemShown, ModelCall,
};
use codebutler_wire::{MessageAuthor, NanoUsd, SlackTs};

use crate::calls::describe_calls;
use crate::now::ThreadNow;
use crate::remarks::read_remarks;

pub(crate) use crate::remarks::LineRemark;

/// Messages whose text is at hand when one of them turns out to be the plan.
const RECENT: usize = 16;
/// Maximum length of a title, in bytes.
const TITLE: usize = 160;
/// Maximum number of spans that are kept for the timeline.
const SPANS: usize = 400;
/// Calls whose run is not known yet.
const LOOSE: usize = 64;
/// Conditions that are waited for.
const QUEUED: &str = "Queued";
const ASKS: &str = "AwaitingUser";
const BUDGET: &str = "BudgetExceeded";
/// Maximum number of kept remarks on lines.
const REMARKS: usize = 200;
/// Length of a quarter of an hour, in milliseconds.
pub(crate) const QUARTER: u64 = 900_000;

/// Totals of model calls: number, tokens and cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallTotals {
    pub calls: u64,
    pub fresh: u64,
    pub cached: u64,
    pub written: u64,
    pub answered: u64,
    pub reasoning: u64,
    pub cost: NanoUsd,
}

impl CallTotals {
    fn add(&mut self, call: &ModelCall) {
        self.calls += 1;
        self.fresh += call.fresh;
        self.cached += call.cached;
        self.written += call.written;
        self.answered += call.answered;
        self.reasoning += call.reasoning;
        self.cost += call.cost;
    }

    /// Adds the totals of `other` to these.
    pub fn join(&mut self, other: &Self) {
        self.calls += other.calls;
        self.fresh += other.fresh;
        self.cached += other.cached;
        self.written += other.written;
        self.answered += other.answered;
        self.reasoning += other.reasoning;
        self.cost += other.cost;
    }
}

/// Key by which costs are grouped: time, role and model.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MoneyPurpose {
    /// Quarters of an hour since 1970: a day begins with one wherever it is.
    pub quarter: u64,
    pub role: String,
    pub model: String,
}

/// A run, or a wait, in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeSpan {
    /// The role that ran; empty for a wait.
    pub role: String,
    /// Outcome of the run, or reason of the wait.
    pub what: String,
    /// Start of the span, in milliseconds since 1970.
    pub began: u64,
    /// End of the span; `None` while it lasts.
    pub ended: Option<u64>,
    /// Number of the line that says that it began.
    pub first: u64,
    /// Usage of its model calls, and its number of tool calls.
    pub calls: CallTotals,
    pub tools: u64,
    /// Current activity while it lasts.
    pub doing: String,
    /// Reason of a run's failure.
    pub reason: Option<String>,
}

impl TimeSpan {
    /// True for a time of this role within the span.
    pub fn covers(&self, role: &str, at: u64) -> bool {
        self.role == role && self.began <= at && self.ended.is_none_or(|ended| at <= ended)
    }
}

/// The conversation's newest message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatestMessage {
    /// Number of the message's line in the history.
    pub n: u64,
    pub ts: SlackTs,
    pub author: MessageAuthor,
    /// Beginning of its text, in one line.
    pub text: String,
    pub at: u64,
}

/// The plan that was posted last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanShown {
    pub message: Option<SlackTs>,
    pub text: String,
    pub approved_by: Option<String>,
}

/// The newest proven test run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvenRun {
    pub commit: String,
    pub command: String,
    pub exit_code: i32,
}

impl ProvenRun {
    /// The commit, as people name it.
    pub fn short(&self) -> &str {
        self.commit.get(..10).unwrap_or(&self.commit)
    }
}

/// The pull request, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullShown {
    pub number: u64,
    pub url: String,
    pub state: String,
}

/// The newest push of the branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushedShown {
    pub branch: String,
    pub commit: String,
}

/// A roadmap that is carried out from the conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoadmapShown {
    /// Number of people who approved.
    pub approved: u64,
    pub budget: Option<NanoUsd>,
    /// `done` or `stopped`, once it has ended.
    pub ended: Option<String>,
    /// Items of the roadmap by their id.
    pub items: BTreeMap<String, ItemShown>,
}

impl RoadmapShown {
    pub fn merged(&self) -> usize {
        self.items.values().filter(|item| item.state == "merged").count()
    }
}

/// Summary of one Thread's history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadSummary {
    pub lines: u64,
    /// The first words of the first message.
    pub title: String,
    /// Name of the Repo, where it is told.
    pub repo: String,
    /// Channel of the conversation, where it is told.
    pub channel: String,
    /// Every Repo and channel that it was opened in: who reads of it has to be in all of them.
    pub opened: BTreeSet<(String, String)>,
    /// Slack user id of who asked for it first, where a person did.
    pub requester: Option<String>,
    /// UID of the Thread that it is of, where that is told, and how many lines are in front of its own: those
    /// are of another one of the same name.
    pub uid: Option<String>,
    pub foreign: u64,
    /// Everybody who spoke or decided, as Slack knows them.
    pub people: BTreeSet<String>,
    pub by_role: BTreeMap<String, CallTotals>,
    pub by_purpose: BTreeMap<MoneyPurpose, CallTotals>,
    pub total: CallTotals,
    pub plan: Option<PlanShown>,
    pub latest: Option<LatestMessage>,
    pub receipt: Option<ProvenRun>,
    pub pull: Option<PullShown>,
    /// Checks of the newest commit for which they are known, and that commit.
    pub checks: Vec<CheckShown>,
    pub checked: String,
    pub pushed: Option<PushedShown>,
    /// Reviewers' remarks on lines, oldest first.
    pub remarks: Vec<LineRemark>,
    pub roadmap: Option<RoadmapShown>,
    /// Runs and waits, oldest first.
    pub spans: Vec<TimeSpan>,
    /// Time of the first line, in milliseconds since 1970.
    pub began: u64,
    pub last: u64,
    pub closed: bool,
    /// Current state of the Thread, if known.
    pub now: Option<ThreadNow>,
    /// The message that the title is of.
    pub(crate) first: Option<SlackTs>,
    /// Conditions that it waits for.
    pub(crate) waits: BTreeSet<&'static str>,
    /// Calls whose run has not been reported yet: role, time and usage.
    pub(crate) loose: VecDeque<(String, u64, CallTotals)>,
    pub(crate) running: BTreeSet<String>,
    pub(crate) rest: &'static str,
    pub(crate) recent: VecDeque<(SlackTs, String)>,
}

/// States by which the list of threads can be filtered.
pub const STATES: [&str; 4] = ["running", "waiting for people", "queued", "done"];

impl ThreadSummary {
    /// One of [`STATES`], as far as the history tells.
    pub(crate) fn told_state(&self) -> &'static str {
        if self.closed {
            "done"
        } else if !self.running.is_empty() {
            "running"
        } else if self.waits.contains(QUEUED) {
            "queued"
        } else if !self.waits.is_empty() || self.rest == "waiting" || self.rest == "failed" {
            "waiting for people"
        } else {
            "done"
        }
    }

    /// The last run could not go on.
    pub(crate) fn has_failed(&self) -> bool {
        self.rest == "failed"
    }

    /// The reason for a wait, and its start, as far as the history tells.
    pub(crate) fn told_pause(&self) -> Option<(&'static str, u64)> {
        let (words, what) = match self.told_state() {
            "running" | "done" => return None,
            "queued" => ("waits for a free slot", QUEUED),
            _ if self.waits.contains(ASKS) => ("waits for an answer", ASKS),
            _ if self.waits.contains(BUDGET) => ("waits for a higher budget", BUDGET),
            _ if self.rest == "failed" => ("could not go on", ASKS),
            _ => ("waits for an answer", ASKS),
        };
        let spans = self.spans.iter().rev();
        let open = |span: &&TimeSpan| span.role.is_empty() && span.ended.is_none();
        let wait = spans.clone().filter(open).find(|span| span.what == what);
        let since = wait.map(|span| span.began);
        let ended = spans.filter(|span| !span.role.is_empty()).find_map(|span| span.ended);
        Some((words, since.or(ended).unwrap_or(self.last)))
    }

    /// Runs that have not ended.
    pub fn open_runs(&self) -> impl Iterator<Item = &TimeSpan> {
        self.spans.iter().filter(|span| !span.role.is_empty() && span.ended.is_none())
    }

    /// Adds to what a role does now how far its call is.
    pub fn show_progress(&mut self, role: &str, note: &str) {
        let open = self.spans.iter_mut().rev();
        let mut open = open.filter(|span| span.role == role && span.ended.is_none());
        if let Some(span) = open.next() {
            let doing = &mut span.doing;
            *doing = if doing.is_empty() { note.to_owned() } else { format!("{doing}: {note}") };
        }
    }

    /// Adds the next line; one that can't be read is only counted.
    pub fn add(&mut self, line: Option<&HistoryLine>) {
        self.lines += 1;
        let Some(line) = line else { return };
        if let HistoryEvent::Begun { uid, whole } = &line.event
            && line.source == GATEWAY
        {
            if !whole {
                *self = Self { lines: self.lines, foreign: self.lines - 1, ..Self::default() };
            }
            self.uid = Some(uid.clone());
        }
        if self.began == 0 || line.at < self.began {
            self.began = line.at;
        }
        self.last = self.last.max(line.at);
        let role = || line.role.clone().unwrap_or_default();
        match &line.event {
            HistoryEvent::Opened { repo, channel, by } => {
                repo.clone_into(&mut self.repo);
                channel.clone_into(&mut self.channel);
                self.opened.insert((repo.clone(), channel.clone()));
                self.people.extend(by.clone());
                self.requester = self.requester.take().or_else(|| by.clone());
            }
            HistoryEvent::Message { ts, author, text } => self.message(line.at, ts, author, text),
            HistoryEvent::ModelCall(call) => {
                let (quarter, model) = (line.at / QUARTER, call.model.clone());
                let purpose = MoneyPurpose { quarter, role: role(), model };
                self.total.add(call);
                self.by_role.entry(role()).or_default().add(call);
                self.by_purpose.entry(purpose).or_default().add(call);
                self.spend(&role(), line.at, call);
            }
            HistoryEvent::Answer { calls, .. } => {
                if let Some(span) = self.span_of(&role(), line.at) {
                    span.doing = describe_calls(calls);
                }
            }
            HistoryEvent::Tool { call, ok, .. } => {
                let commit = self.pushed.as_ref().map(|pushed| pushed.commit.as_str());
                self.remarks.extend(read_remarks(&role(), call, *ok, commit));
                let over = self.remarks.len().saturating_sub(REMARKS);
                self.remarks.drain(..over);
                if let Some(span) = self.span_of(&role(), line.at) {
                    span.tools += 1;
                }
            }
            HistoryEvent::RunStarted => {
                self.running.insert(role());
                self.waits.remove(QUEUED);
                self.end(&role(), "went on elsewhere", line.at);
                self.begin(role(), String::new(), line.at);
            }
            HistoryEvent::RunEnded { outcome, reason } => {
                self.running.remove(&role());
                self.rest = known_outcome(outcome);
                self.end(&role(), outcome, line.at);
                let ended = self.spans.iter_mut().rev().find(|span| span.role == role());
                if let Some(span) = ended {
                    span.reason.clone_from(reason);
                }
            }
            HistoryEvent::Waiting { what, now, .. } => self.wait(what, *now, line.at),
            HistoryEvent::Plan { message, approved_by } => self.plan(message, approved_by.as_ref()),
            HistoryEvent::Decision { user, .. } => {
                self.people.extend(Some(user.clone()).filter(|user| !user.is_empty()));
            }
            HistoryEvent::Receipt { commit, command, exit_code } => {
                let (commit, command) = (commit.clone(), command.clone());
                self.receipt = Some(ProvenRun { commit, command, exit_code: *exit_code });
            }
            HistoryEvent::Checks { commit, checks } => {
                self.checks.clone_from(checks);
                commit.clone_into(&mut self.checked);
            }
            // An agent's own claim about its branch is ignored.
            HistoryEvent::Pushed { branch, commit, .. } if line.source == GATEWAY => {
                let (branch, commit) = (branch.clone(), commit.clone());
                self.pushed = Some(PushedShown { branch, commit });
            }
            HistoryEvent::PullRequest { number, url, state } => {
                let (url, state) = (url.clone(), state.clone());
                self.pull = Some(PullShown { number: *number, url, state });
            }
            HistoryEvent::Roadmap { items, budget, ended } => {
                let roadmap = self.roadmap.get_or_insert_default();
                (roadmap.approved, roadmap.budget) = (*items, *budget);
                roadmap.ended.clone_from(ended);
            }
            HistoryEvent::RoadmapItem(item) => {
                let roadmap = self.roadmap.get_or_insert_default();
                roadmap.items.insert(item.id.clone(), item.clone());
            }
            HistoryEvent::Closed { .. } => {
                self.closed = true;
                self.running.clear();
                for span in self.spans.iter_mut().filter(|span| span.ended.is_none()) {
                    span.ended = Some(line.at);
                }
            }
            _ => {}
        }
    }

    fn message(&mut self, at: u64, ts: &SlackTs, author: &MessageAuthor, text: &str) {
        if self.latest.as_ref().is_none_or(|latest| *ts >= latest.ts) {
            let (ts, author) = (ts.clone(), author.clone());
            self.latest =
                Some(LatestMessage { n: self.lines, ts, author, text: cut_title(text), at });
        }
        if self.first.as_ref().is_none_or(|first| ts < first) {
            self.first = Some(ts.clone());
            self.title = cut_title(text);
        }
        if let MessageAuthor::User { id } = author {
            self.people.insert(id.clone());
        }
        if let Some(plan) = self.plan.as_mut().filter(|plan| plan.message.as_ref() == Some(ts)) {
            text.clone_into(&mut plan.text);
        }
        self.recent.push_back((ts.clone(), text.to_owned()));
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }

    fn plan(&mut self, message: &SlackTs, approved_by: Option<&String>) {
        self.people.extend(approved_by.cloned());
        let known = self.plan.take().filter(|plan| plan.message.as_ref() == Some(message));
        let mut plan = known.unwrap_or_else(|| {
            let found = self.recent.iter().find(|(ts, _)| ts == message);
            let text = found.map(|(_, text)| text.clone()).unwrap_or_default();
            PlanShown { message: Some(message.clone()), text, approved_by: None }
        });
        if approved_by.is_some() {
            plan.approved_by = approved_by.cloned();
        }
        self.plan = Some(plan);
    }

    fn wait(&mut self, what: &str, now: bool, at: u64) {
        let known = [QUEUED, ASKS, BUDGET].into_iter().find(|known| *known == what);
        if let Some(known) = known {
            if now {
                self.waits.insert(known);
            } else {
                self.waits.remove(known);
            }
        }
        let open = |span: &&mut TimeSpan| {
            span.role.is_empty() && span.ended.is_none() && span.what == what
        };
        match (now, self.spans.iter_mut().rev().find(open)) {
            (true, None) => self.begin(String::new(), what.to_owned(), at),
            (false, Some(span)) => span.ended = Some(at.max(span.began)),
            _ => {}
        }
    }

    fn begin(&mut self, role: String, what: String, began: u64) {
        if self.spans.len() >= SPANS {
            self.spans.remove(0);
        }
        let mut span = TimeSpan { role, what, began, first: self.lines, ..TimeSpan::default() };
        self.loose.retain(|(role, at, calls)| {
            let own = span.covers(role, *at) && !role.is_empty();
            if own {
                span.calls.join(calls);
            }
            !own
        });
        self.spans.push(span);
    }

    fn span_of(&mut self, role: &str, at: u64) -> Option<&mut TimeSpan> {
        let spans = self.spans.iter_mut().rev().filter(|span| !span.role.is_empty());
        spans.into_iter().find(|span| span.covers(role, at))
    }

    /// The gateway records a call before the role reports the start of its run.
    fn spend(&mut self, role: &str, at: u64, call: &ModelCall) {
        let mut calls = CallTotals::default();
        calls.add(call);
        if let Some(span) = self.span_of(role, at) {
            span.calls.join(&calls);
            return;
        }
        if self.loose.len() >= LOOSE {
            self.loose.pop_front();
        }
        self.loose.push_back((role.to_owned(), at, calls));
    }

    fn end(&mut self, role: &str, outcome: &str, at: u64) {
        let open = |span: &&mut TimeSpan| span.role == role && span.ended.is_none();
        if let Some(span) = self.spans.iter_mut().rev().find(open) {
            span.ended = Some(at.max(span.began));
            outcome.clone_into(&mut span.what);
            span.doing.clear();
        }
    }
}

/// The first words of a text, in one line without marks.
fn cut_title(text: &str) -> String {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let first = plain_line(first);
    let end = first.floor_char_boundary(TITLE);
    let more = if end < first.len() { "…" } else { "" };
    first[..end].trim_end().to_owned() + more
}

fn known_outcome(outcome: &str) -> &'static str {
    match outcome {
        "waiting" => "waiting",
        "failed" => "failed",
        _ => "idle",
    }
}

#[cfg(test)]
mod tests;
