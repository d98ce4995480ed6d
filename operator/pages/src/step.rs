//! Renders a line of a history as a step of a page.

use codebutler_markdown::TextDialect;
use codebutler_wire::history::{
    CheckShown, HistoryEvent, HistoryLine, ItemShown, ModelCall, TodoEntry, ToolUse, ViewShown,
};
use codebutler_wire::{MessageAuthor, NanoUsd, show_tool_name};
use jiff::Timestamp;

use crate::UserNames;
use crate::calls::{describe_call, join_tools, show_arguments, show_changes};
use crate::checks::{has_failed, has_passed, is_unknown, sort_checks};
use crate::compared::PicturePair;
use crate::now::LOST;
use crate::text::{
    TextBlock, format_count, format_duration, group_digits, name_people, render_prose, show_money,
    without_page_link,
};

/// The place of a line on a thread's page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StepPlace {
    /// Shown in the conversation itself.
    #[default]
    Talk,
    /// Shown inside the run that it is a step of.
    Run,
    /// Start or end of a run; the run itself shows it.
    Edge,
    /// Not on the page, only in the exports: internals of the machinery.
    Aside,
}

/// A line of a history, as its page shows it.
#[derive(Clone, Debug, Default)]
pub struct StepView {
    /// Number of the line in the history.
    pub n: u64,
    /// Time in milliseconds since 1970; below it, the role that the line is about.
    pub millis: u64,
    pub role: String,
    pub place: StepPlace,
    /// Time of the line: machine-readable, and as people read it.
    pub at: String,
    pub clock: String,
    /// CSS class: `message`, `model`, `tool` and so on.
    pub class: &'static str,
    pub who: String,
    pub title: String,
    /// Small print: tokens, dollars, durations.
    pub meta: Vec<String>,
    /// Cost of the call, as HTML.
    pub cost: Option<String>,
    pub text: Option<String>,
    /// Words with their markup, as HTML.
    pub prose: Option<String>,
    /// Address of a related page elsewhere.
    pub link: Option<String>,
    /// Caption of a picture that the step shows.
    pub picture: Option<String>,
    /// Pictures of before and after a change.
    pub pairs: Vec<PicturePair>,
    pub blocks: Vec<TextBlock>,
}

impl StepView {
    /// Renders a line; `None` if nothing of it is shown. `whole`: with all of its text.
    pub fn of(n: u64, line: &HistoryLine, names: &UserNames, whole: bool) -> Option<Self> {
        let time = i64::try_from(line.at).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
        let time = time.unwrap_or(Timestamp::UNIX_EPOCH);
        let step = Self {
            n,
            millis: line.at,
            role: line.role.clone().unwrap_or_default(),
            place: place_step(&line.event),
            at: time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
            clock: time.strftime("%H:%M:%S").to_string(),
            who: line.role.clone().unwrap_or_else(|| "CodeButler".to_owned()),
            ..Self::default()
        };
        let mut step = step.with(&line.event, names, whole)?;
        if let Some(name) = names.get(&step.who) {
            name.clone_into(&mut step.who);
        }
        step.text = step.text.map(|text| name_people(&text, names));
        Some(step)
    }

    /// Placeholder for a line that can't be read, with the time of the line before it.
    pub fn gap(n: u64, before: Option<&Self>) -> Self {
        let title = "a line of the history is too long or damaged: it is left out here".to_owned();
        let before = before.cloned().unwrap_or_default();
        let Self { at, clock, millis, .. } = before;
        let who = "CodeButler".to_owned();
        Self { n, at, clock, millis, who, class: "bad", title, ..Self::default() }
    }

    fn with(self, event: &HistoryEvent, names: &UserNames, whole: bool) -> Option<Self> {
        Some(match event {
            HistoryEvent::Opened { repo, .. } => {
                Self { class: "note", title: format!("opens a thread of {repo}"), ..self }
            }
            HistoryEvent::Message { author, text, .. } => Self {
                who: name_author(author),
                class: "message",
                prose: Some(render_prose(&without_page_link(text), TextDialect::Slack, names)),
                ..self
            },
            HistoryEvent::Picture { name, author, .. } => self.picture(name, author),
            HistoryEvent::Compared { page, views, author } => self.compared(page, views, author),
            HistoryEvent::Checks { commit, checks } => self.checks(commit, checks),
            HistoryEvent::Pushed { branch, commit, subjects } => {
                let commit = commit.get(..10).unwrap_or(commit);
                let title = format!("pushed {branch}, now {commit}");
                self.note("good", &title, &subjects.join("\n"))
            }
            HistoryEvent::ModelCall(call) => self.model(call),
            HistoryEvent::Answer { model, text, thoughts, calls } => {
                let thoughts = thoughts.as_deref();
                let prose =
                    text.as_ref().map(|text| render_prose(text, TextDialect::Markdown, names));
                Self { prose, ..self.answer(model.as_ref(), thoughts, calls, whole) }
            }
            HistoryEvent::Tool { call, output, ok, exit_code, millis } => {
                self.tool((call, output), (*ok, *exit_code, *millis), whole)
            }
            HistoryEvent::RunStarted => Self { class: "run", title: "starts".to_owned(), ..self },
            HistoryEvent::RunEnded { outcome, reason } => {
                let title = describe_outcome(outcome);
                let class = if outcome == "failed" { "run bad" } else { "run" };
                Self { class, title: title.to_owned(), text: reason.clone(), ..self }
            }
            HistoryEvent::Flawed { why } => {
                self.note("bad", "gave no answer that can be used", why)
            }
            HistoryEvent::Note { text } => self.note("note", "note", text),
            HistoryEvent::Model { model, why } => {
                self.note("note", &format!("goes on with {model}"), why)
            }
            HistoryEvent::Asked { call } => {
                let blocks = vec![show_arguments(call, whole)];
                let title =
                    format!("asks people whether it may use {}", show_tool_name(&call.tool));
                Self { class: "decision", title, blocks, ..self }
            }
            HistoryEvent::Decision { kind, choice, user, .. } => {
                let title = describe_decision(kind, choice);
                Self { class: "decision", who: user.clone(), title, ..self }
            }
            HistoryEvent::Plan { approved_by: Some(by), .. } => Self {
                class: "decision",
                who: by.clone(),
                title: "approved the plan".into(),
                ..self
            },
            HistoryEvent::Plan { .. } => {
                Self { class: "note", title: "posted a plan".into(), ..self }
            }
            HistoryEvent::McpCall { .. } => self.mcp_call(event, names),
            HistoryEvent::Tested { command, exit_code } => {
                let (title, class) = describe_test(*exit_code);
                Self { class, title, text: Some(command.clone()), ..self }
            }
            HistoryEvent::Receipt { commit, command, exit_code } => {
                let (title, class) = describe_test(Some(*exit_code));
                let commit = commit.get(..10).unwrap_or(commit);
                self.note(class, &format!("{title} at {commit}"), command)
            }
            HistoryEvent::Todo { items } => self.note("note", "to do", &show_todo(items)),
            HistoryEvent::PullRequest { number, url, state } => {
                let title = format!("pull request #{number}: {state}");
                let link = Some(url.clone()).filter(|url| url.starts_with("https://"));
                Self { class: "decision", title, link, ..self }
            }
            HistoryEvent::Waiting { what, now, why } => {
                let what = waited_for(what);
                let title = if *now {
                    format!("waits for {what}")
                } else {
                    format!("does not wait for {what}")
                };
                self.note("note", &title, why)
            }
            HistoryEvent::Closed { by } => {
                let who = by.clone().unwrap_or_else(|| "CodeButler".to_owned());
                Self { class: "decision", who, title: "closed the thread".into(), ..self }
            }
            HistoryEvent::Roadmap { items, ended, .. } => self.roadmap(*items, ended.as_deref()),
            HistoryEvent::RoadmapItem(item) => self.item(item),
            HistoryEvent::Lost { events } => {
                let title = format!("{events} events were lost: the history could not be written");
                Self { class: "bad", title, ..self }
            }
            HistoryEvent::Begun { .. } | HistoryEvent::Taken { .. } | HistoryEvent::Unknown => {
                return None;
            }
        })
    }

    fn answer(
        self,
        model: Option<&String>,
        thoughts: Option<&str>,
        calls: &[ToolUse],
        whole: bool,
    ) -> Self {
        let title = match calls {
            [] => "answers".to_owned(),
            calls => format!("calls {}", join_tools(calls)),
        };
        let blocks = thoughts.map(|text| TextBlock::new("Thoughts", text, whole));
        let (meta, blocks) = (model.into_iter().cloned().collect(), blocks.into_iter().collect());
        Self { class: "answer", title, blocks, meta, ..self }
    }

    fn picture(self, name: &str, author: &MessageAuthor) -> Self {
        let (who, title) = (name_author(author), "shows a picture".to_owned());
        Self { who, class: "message", title, picture: Some(name.to_owned()), ..self }
    }

    fn compared(self, page: &str, views: &[ViewShown], author: &MessageAuthor) -> Self {
        let (title, pairs) = (PicturePair::title(page, views), PicturePair::of(page, views));
        Self { who: name_author(author), class: "message", title, pairs, ..self }
    }

    fn note(self, class: &'static str, title: &str, text: &str) -> Self {
        let text = Some(text.to_owned()).filter(|text| !text.is_empty());
        Self { class, title: title.to_owned(), text, ..self }
    }

    fn checks(self, commit: &str, checks: &[CheckShown]) -> Self {
        let commit = commit.get(..10).unwrap_or(commit);
        let count = |is: fn(&CheckShown) -> bool| checks.iter().filter(|one| is(one)).count();
        let (good, bad) = (count(has_passed), count(has_failed));
        let (class, title) = match (good, bad) {
            (_, 1..) => ("bad", format!("{bad} of {} checks failed at {commit}", checks.len())),
            (0, 0) if checks.iter().all(is_unknown) => {
                ("note", format!("checks at {commit} can't be read"))
            }
            (good, 0) if good == checks.len() => {
                ("good", format!("checks passed at {commit}: {good}"))
            }
            (good, 0) => ("note", format!("checks at {commit}: {good} of {} passed", checks.len())),
        };
        let sorted = sort_checks(checks).into_iter();
        let lines: Vec<String> =
            sorted.map(|check| format!("{}: {}", check.name, check.state)).collect();
        self.note(class, &title, &lines.join("\n"))
    }

    fn mcp_call(self, event: &HistoryEvent, names: &UserNames) -> Self {
        let HistoryEvent::McpCall {
            server,
            tool,
            arguments,
            bytes,
            approved_by,
            millis,
            outcome,
            model_answers,
            cost,
            price,
            ..
        } = event
        else {
            return self;
        };
        let title = format!("used {tool} of the server {server}: {outcome}");
        let class = if outcome == "ok" { "tool" } else { "bad" };
        let mut meta = vec![format_duration(*millis), format!("{} bytes", group_digits(*bytes))];
        let approver = approved_by.as_ref().map(|by| names.get(by).unwrap_or(by));
        meta.extend(approver.map(|by| format!("approved by {by}")));
        if *model_answers > 0 {
            let answers = format_count(u64::from(*model_answers), "answer");
            meta.push(format!("{answers} of a model for it: {}", cost.in_cents()));
        }
        meta.extend((*price > NanoUsd::ZERO).then(|| format!("price {}", price.in_cents())));
        Self { class, title, meta, text: Some(arguments.clone()), ..self }
    }

    fn roadmap(self, items: u64, ended: Option<&str>) -> Self {
        let title = match ended {
            None => format!("carries out the roadmap: {}", format_count(items, "approved item")),
            Some("done") => format!("the roadmap is done: {} merged", format_count(items, "item")),
            Some(_) => "starts nothing more of the roadmap".to_owned(),
        };
        Self { class: "note", title, ..self }
    }

    fn item(self, item: &ItemShown) -> Self {
        let title = format!("item {}: {}", item.id, item.state);
        let class = if item.state == "blocked" { "bad" } else { "note" };
        self.note(class, &title, item.why.as_deref().unwrap_or(&item.title))
    }

    fn model(self, call: &ModelCall) -> Self {
        let counted = |n: u64, what: &str| (n > 0).then(|| format!("{} {what}", group_digits(n)));
        let meta = [
            call.provider.clone().map(|provider| format!("by {provider}")),
            call.effort.clone().map(|effort| format!("effort {effort}")),
            counted(call.fresh, "input"),
            counted(call.cached, "cached input"),
            counted(call.answered, "output"),
            counted(call.reasoning, "of it reasoning"),
            call.estimated.then(|| "cost estimated".to_owned()),
            call.millis.map(format_duration),
        ];
        let meta = meta.into_iter().flatten().collect();
        let cost = Some(show_money(call.cost));
        Self { class: "model", title: call.model.clone(), meta, cost, ..self }
    }

    fn tool(
        self,
        (call, output): (&ToolUse, &str),
        (ok, exit_code, millis): (bool, Option<i32>, Option<u64>),
        whole: bool,
    ) -> Self {
        let good = ok && exit_code.is_none_or(|code| code == 0);
        let code = exit_code.map(|code| format!("exit code {code}"));
        let failed = (!ok).then(|| "failed".to_owned());
        let meta = [failed, code, millis.map(format_duration)].into_iter().flatten().collect();
        let mut blocks = show_changes(call, whole);
        if blocks.is_empty() {
            blocks.push(show_arguments(call, whole));
        }
        let mut out = TextBlock::new("Output", output, whole);
        out.open = !good;
        blocks.push(out);
        let class = if good { "tool" } else { "tool bad" };
        Self { class, title: describe_call(call), meta, blocks, ..self }
    }
}

/// True if a thread's page shows the line; others are in its export alone.
pub fn is_on_page(line: &HistoryLine) -> bool {
    place_step(&line.event) != StepPlace::Aside
}

/// The place of an event on a thread's page.
fn place_step(event: &HistoryEvent) -> StepPlace {
    match event {
        HistoryEvent::RunStarted | HistoryEvent::RunEnded { .. } => StepPlace::Edge,
        // An answer that only calls tools shows in these.
        HistoryEvent::Answer { text: None, thoughts: None, .. }
        | HistoryEvent::Opened { .. }
        | HistoryEvent::Waiting { now: false, .. }
        | HistoryEvent::Plan { approved_by: None, .. } => StepPlace::Aside,
        // The overview at the top of the page shows this wait.
        HistoryEvent::Waiting { what, .. } if what == "AwaitingUser" || what == "Collecting" => {
            StepPlace::Aside
        }
        // The plan's approval is a line of its own.
        HistoryEvent::Decision { kind, choice, .. } if kind == "plan" && choice == "approve" => {
            StepPlace::Aside
        }
        HistoryEvent::ModelCall(_)
        | HistoryEvent::Answer { .. }
        | HistoryEvent::Flawed { .. }
        | HistoryEvent::Tool { .. }
        | HistoryEvent::McpCall { .. }
        | HistoryEvent::Tested { .. }
        | HistoryEvent::Todo { .. }
        | HistoryEvent::Asked { .. }
        | HistoryEvent::Model { .. }
        | HistoryEvent::Note { .. } => StepPlace::Run,
        _ => StepPlace::Talk,
    }
}

/// Outcome of a run in words; an open one has none yet.
pub(crate) fn describe_outcome(outcome: &str) -> &'static str {
    match outcome {
        "" => "is working",
        "waiting" => "waits for an answer",
        "failed" => "could not go on",
        "closed" => "ended with the thread",
        "went on elsewhere" => "was continued",
        LOST => "was cut off",
        _ => "is done",
    }
}

/// A person's decision in words.
fn describe_decision(kind: &str, choice: &str) -> String {
    let words = match (kind, choice) {
        ("stop", _) => "stopped what runs",
        ("plan", "approve") => "approved the plan",
        ("plan", "modify") => "wants the plan changed",
        ("plan", "reject") => "rejected the plan",
        ("merge", "merge") => "approved the merge",
        ("merge", "hold") => "holds the merge back",
        ("merge", "discard") => "discarded the change",
        ("budget", "raise") => "raised the budget",
        ("budget", _) => "continues within the budget",
        ("approval", "approved") => "allowed the action",
        ("approval", "denied") => "did not allow the action",
        ("approval", "expired") => "was asked about an action and did not answer in time",
        ("choice", _) => "chose an answer",
        ("update", _) => "wants the branch updated",
        ("feedback", "yes") => "said that an answer helped",
        ("feedback", _) => "said that an answer did not help",
        ("split", _) => "keeps the work in one part",
        _ => return format!("{kind}: {choice}"),
    };
    words.to_owned()
}

fn show_todo(items: &[TodoEntry]) -> String {
    let mark = |state: &str| match state {
        "done" => "☑",
        "doing" => "▶",
        _ => "☐",
    };
    let lines = items.iter().map(|item| format!("{} {}", mark(&item.state), item.text));
    lines.collect::<Vec<_>>().join("\n")
}

/// Words for what a condition waits for.
pub(crate) fn waited_for(condition: &str) -> &str {
    match condition {
        "AwaitingUser" => "an answer",
        "Queued" => "a slot",
        "BudgetExceeded" => "money",
        "Collecting" => "the end of a message",
        other => other,
    }
}

fn describe_test(exit_code: Option<i32>) -> (String, &'static str) {
    match exit_code {
        Some(0) => ("tests pass".to_owned(), "good"),
        Some(code) => (format!("tests fail (exit code {code})"), "bad"),
        None => ("tests did not end".to_owned(), "bad"),
    }
}

/// Name of an author before people's names are looked up.
pub(crate) fn name_author(author: &MessageAuthor) -> String {
    match author {
        MessageAuthor::User { id } => id.clone(),
        MessageAuthor::Role { role } => role.clone(),
        MessageAuthor::Prompt { requested_by, .. } => {
            requested_by.clone().unwrap_or("kubectl".to_owned())
        }
        MessageAuthor::Bot { id } => format!("bot {id}"),
        MessageAuthor::System => "CodeButler".to_owned(),
    }
}
