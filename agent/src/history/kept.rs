//! The gateway's record of a conversation: more than any volume holds, as people, the Git host and the gateway itself
//! are in it, and it outlives the volume.

use std::collections::{BTreeMap, HashMap, VecDeque};

use codebutler_wire::history::{HistoryEvent, HistoryLine, ToolUse};
use codebutler_wire::{MessageAuthor, SlackTs};

use super::roles::{RoleHistory, RoleWork, count_noun, find_spoken_ids, first_line};
use crate::memory::{ForeignSource, ForeignTexts, split_quoted};
use codebutler_guides::text::clip_text;

/// Bytes of what was read and said that are held: the newest.
const MAX_FOREIGN: usize = 16 * 1024 * 1024;

/// A history, as far as it was read. Of one that is not kept nothing is known.
#[derive(Debug, Default)]
pub struct KeptHistory {
    roles: BTreeMap<String, KeptRole>,
    authors: HashMap<SlackTs, MessageAuthor>,
    decisions: Vec<String>,
    receipts: Vec<String>,
    /// State of each check of the newest commit.
    checks: Vec<String>,
    waits: BTreeMap<String, WaitTally>,
    /// Texts that roles read and people said.
    foreign: ForeignLines,
    /// Time of the newest line, in milliseconds.
    latest: u64,
    /// Reason why not all of it was read.
    missing: Option<String>,
}

#[derive(Debug, Default)]
struct ForeignLines {
    texts: VecDeque<(Option<ForeignSource>, String)>,
    bytes: usize,
}

impl ForeignLines {
    fn push(&mut self, source: Option<ForeignSource>, text: String) {
        self.bytes += text.len();
        self.texts.push_back((source, text));
        while self.bytes > MAX_FOREIGN
            && let Some((_, oldest)) = self.texts.pop_front()
        {
            self.bytes -= oldest.len();
        }
    }
}

#[derive(Debug, Default)]
struct KeptRole {
    history: RoleHistory,
    work: RoleWork,
    /// Start of the run that has not ended, and time of the newest event.
    began: Option<u64>,
    latest: u64,
    /// Messages that the role read.
    taken: Vec<SlackTs>,
}

/// Number and total time of the waits for one thing.
#[derive(Debug, Default)]
struct WaitTally {
    times: u32,
    millis: u64,
    since: Option<u64>,
}

impl KeptHistory {
    /// Adds the next line of the gateway's record.
    pub fn add(&mut self, line: HistoryLine) {
        let HistoryLine { at, role, event, .. } = line;
        self.latest = self.latest.max(at);
        match event {
            HistoryEvent::Message { ts, author, text } => {
                match &author {
                    MessageAuthor::User { .. } => self.foreign.push(None, text),
                    // Quoted lines of an issue are not the prompt's own.
                    MessageAuthor::Prompt { .. } => {
                        let (own, quoted) = split_quoted(&text);
                        self.foreign.push(None, own);
                        self.foreign.push(Some(ForeignSource::GitHub), quoted);
                    }
                    _ => {}
                }
                self.authors.insert(ts, author);
            }
            HistoryEvent::Decision { kind, choice, user, message } if kind == "feedback" => {
                let (choice, role) = (clip_text(&choice, 120), role.unwrap_or_default());
                let said = format!("did message {message} of {role} help: {choice} ({user})");
                self.decisions.push(said);
            }
            HistoryEvent::Decision { kind, choice, user, .. } => {
                let by = if user.is_empty() { "nobody" } else { &*user };
                self.decisions.push(format!("{kind}: {} ({by})", clip_text(&choice, 120)));
            }
            HistoryEvent::Receipt { commit, command, exit_code } => {
                let (commit, command) = (clip_text(&commit, 8), clip_text(&command, 120));
                self.receipts.push(format!("`{command}`: exit code {exit_code} at {commit}"));
            }
            HistoryEvent::Checks { checks, .. } => {
                let shown = |check: codebutler_wire::history::CheckShown| {
                    format!("{}: {}", clip_text(&check.name, 80), clip_text(&check.state, 20))
                };
                self.checks = checks.into_iter().map(shown).collect();
            }
            HistoryEvent::Waiting { what, now, .. } => {
                let wait = self.waits.entry(clip_text(&what, 40)).or_default();
                match (now, wait.since) {
                    (true, None) => (wait.times, wait.since) = (wait.times + 1, Some(at)),
                    (false, Some(since)) => {
                        wait.millis += at.saturating_sub(since);
                        wait.since = None;
                    }
                    _ => {}
                }
            }
            event => {
                if let Some(role) = role {
                    self.add_step(role, at, event);
                }
            }
        }
    }

    /// Adds an event that a role reported itself.
    fn add_step(&mut self, role: String, at: u64, event: HistoryEvent) {
        let kept = self.roles.entry(role).or_default();
        let KeptRole { history, work, began, latest, taken } = kept;
        *latest = at;
        match event {
            HistoryEvent::RunStarted => {
                history.runs += 1;
                // The one before died without an end.
                if let Some(from) = began.replace(at) {
                    work.millis += at.saturating_sub(from);
                }
            }
            HistoryEvent::RunEnded { outcome, reason } => {
                if let Some(from) = began.take() {
                    work.millis += at.saturating_sub(from);
                }
                if outcome == "failed" {
                    let why = first_line(&reason.unwrap_or_default());
                    history.troubles.push(format!("a run failed: {why}"));
                }
            }
            HistoryEvent::Answer { model, text, calls, .. } => {
                history.turns += 1;
                let model = model.as_deref().unwrap_or("unknown");
                *work.models.entry(clip_text(model, 80)).or_default() += 1;
                for ToolUse { tool, .. } in &calls {
                    let name = clip_text(tool, 40);
                    *history.tools.entry(name.clone()).or_default() += 1;
                    *work.tools.entry(name).or_default() += 1;
                }
                let calls = calls.iter().map(|call| (call.tool.clone(), call.arguments.as_str()));
                history.used.extend(find_spoken_ids(text.as_deref(), calls.collect()));
            }
            HistoryEvent::Tool { call, output, ok, .. } => {
                if !ok {
                    let name = clip_text(&call.tool, 40);
                    history.troubles.push(format!("{name}: {}", first_line(&output)));
                }
                if let Some(source) = ForeignSource::of_call(&call.tool, &call.arguments) {
                    self.foreign.push(Some(source), output);
                }
            }
            HistoryEvent::Flawed { why } => history.troubles.push(first_line(&why)),
            HistoryEvent::Tested { command, exit_code } => {
                let ended = exit_code.map_or("not ended".to_owned(), |n| format!("exit code {n}"));
                history.tests.push(format!("`{}`: {ended}", clip_text(&command, 120)));
            }
            HistoryEvent::Model { model, why } => {
                history.decisions.push(format!(
                    "model: {} ({})",
                    clip_text(&model, 80),
                    first_line(&why)
                ));
            }
            HistoryEvent::Taken { messages, .. } => taken.extend(messages),
            _ => {}
        }
    }

    /// Says that not all of it could be read.
    pub fn miss(&mut self, why: String) {
        self.missing = Some(why);
    }

    /// Lists the roles that have worked.
    pub fn list_roles(&self) -> impl Iterator<Item = &String> {
        self.roles.keys()
    }

    /// Takes a role's history if more is known here than in its transcript.
    pub fn find_role(&mut self, role: &str, transcript: &RoleHistory) -> Option<RoleHistory> {
        let kept = self.roles.get_mut(role).filter(|kept| kept.history.turns > transcript.turns)?;
        Some(std::mem::take(&mut kept.history))
    }

    /// Takes a role's part in the work of all, if more is known here than in its transcript.
    pub fn find_work(&mut self, role: &str, transcript: &RoleWork) -> Option<RoleWork> {
        let authors = &self.authors;
        let kept =
            self.roles.get_mut(role).filter(|kept| kept.work.turns() > transcript.turns())?;
        let mut work = std::mem::take(&mut kept.work);
        if let Some(from) = kept.began {
            work.millis += kept.latest.saturating_sub(from);
        }
        for ts in &kept.taken {
            if let Some(MessageAuthor::Role { role: by }) = authors.get(ts)
                && by != role
            {
                work.asked_by.entry(by.clone()).or_default().insert(ts.to_string());
            }
        }
        Some(work)
    }

    /// Adds the texts that roles read and people said, to trace words by.
    pub fn read_foreign(&self, texts: &mut ForeignTexts) {
        for (source, text) in &self.foreign.texts {
            match source {
                Some(source) => texts.read(*source, text),
                None => texts.said(text),
            }
        }
    }

    /// Lists what people, the Git host and the gateway did, each kind under its title.
    pub fn list_facts(&self) -> Vec<(&'static str, Vec<String>)> {
        let waits = self.waits.iter().map(|(what, wait)| {
            let open = wait.since.map_or(0, |since| self.latest.saturating_sub(since));
            let seconds = (wait.millis + open) / 1000;
            let times = count_noun(wait.times, "time");
            let still = if wait.since.is_some() { ", and still does" } else { "" };
            format!("{what}: {times}, {seconds} s together{still}")
        });
        vec![
            ("Decided by people", self.decisions.clone()),
            ("Proven on the remote", self.receipts.clone()),
            ("Checks at the Git host", self.checks.clone()),
            ("Waited for", waits.collect()),
            (
                "Not all of the history was read, so there may be more",
                self.missing.iter().cloned().collect(),
            ),
        ]
    }
}
