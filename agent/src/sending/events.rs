//! Translates entries of a transcript into events for people: at most one event each. Pure.

use std::collections::{BTreeMap, HashMap};

use codebutler_wire::history::{HistoryEvent, MAX_TEXT, TodoEntry, ToldEntry, ToolUse};
use codebutler_wire::{PendingItem, ThreadMessage, show_tool_name};

use crate::model::judge::ReplyFlaw;
use crate::model::{AssistantMessage, ToolCall};
use crate::tool_args::{TodoItem, TodoState};
use crate::transcript::{ResultKind, RunOutcome, TranscriptRecord};
use codebutler_guides::text::head_and_tail;
use codebutler_guides::voice::append_notes;

/// Longest text, in characters: of four bytes at most.
const MAX: usize = MAX_TEXT / 4;
/// Beginning of the line that ends a command's output.
const EXIT: &str = "[exit code ";

/// State of the entries before, as far as an entry's meaning depends on it.
#[derive(Debug, Default)]
pub(super) struct EventTeller {
    run: Option<String>,
    at: u64,
    /// Calls of the newest answer.
    calls: Vec<ToolUse>,
    answered: u64,
    /// Start of calls with an effect, by their place in the answer.
    began: BTreeMap<usize, u64>,
    /// Actions that people were asked about, by the question's key.
    asked: HashMap<String, ToolUse>,
}

impl EventTeller {
    /// Takes in the next entry, of the time `at` if that is known.
    pub(super) fn tell(
        &mut self,
        seq: u64,
        at: Option<u64>,
        record: TranscriptRecord,
    ) -> Option<ToldEntry> {
        self.at = at.unwrap_or(self.at);
        if let TranscriptRecord::RunStarted { run, at: seconds, .. } = &record {
            self.run = Some(run.clone());
            self.at = at.unwrap_or(seconds.saturating_mul(1000));
        }
        let run = self.run.clone();
        let event = self.event(record);
        Some(ToldEntry { seq, at: self.at, run, event: event? })
    }

    fn event(&mut self, record: TranscriptRecord) -> Option<HistoryEvent> {
        Some(match record {
            TranscriptRecord::RunStarted { .. } => HistoryEvent::RunStarted,
            TranscriptRecord::Taken { messages, pending, .. }
            | TranscriptRecord::Request { messages, pending, .. } => {
                taken_event(&messages, &pending)?
            }
            TranscriptRecord::Answer { message, source, .. } => {
                self.answer(message, source.map(|source| source.model))
            }
            TranscriptRecord::Flawed { flaw, .. } => {
                HistoryEvent::Flawed { why: flaw_sentence(&flaw) }
            }
            TranscriptRecord::Unreadable { why } => HistoryEvent::Flawed { why },
            TranscriptRecord::Intent { call, .. } => {
                self.began.insert(call, self.at);
                return None;
            }
            TranscriptRecord::Result { call, text, notes, kind } => {
                self.result(call, (&text, &notes), kind)?
            }
            TranscriptRecord::Asked { key, call, .. } => {
                let call = tool_use(call?);
                self.asked.insert(key, call.clone());
                HistoryEvent::Asked { call }
            }
            TranscriptRecord::Allowed { key } => {
                self.calls = self.asked.get(&key).cloned().into_iter().collect();
                self.begin_answer();
                return None;
            }
            TranscriptRecord::Tested { test } => {
                HistoryEvent::Tested { command: test.command, exit_code: test.exit_code }
            }
            TranscriptRecord::Todo { items } => {
                HistoryEvent::Todo { items: items.into_iter().map(todo_entry).collect() }
            }
            TranscriptRecord::Escalated { model } => {
                HistoryEvent::Model { model, why: "the work is harder than it looked".to_owned() }
            }
            TranscriptRecord::FirstLook { model } => {
                HistoryEvent::Model { model, why: "it takes the first look".to_owned() }
            }
            TranscriptRecord::HandedUp { model, why, .. } => HistoryEvent::Model { model, why },
            TranscriptRecord::Model { model } => {
                HistoryEvent::Model { model, why: "a user chose it".to_owned() }
            }
            TranscriptRecord::Stuck { why, model: Some(model) } => {
                HistoryEvent::Model { model, why: format!("the run went in circles: {why}") }
            }
            TranscriptRecord::RunEnded { outcome, reason } => {
                self.calls.clear();
                HistoryEvent::RunEnded { outcome: outcome_name(outcome).to_owned(), reason }
            }
            other => HistoryEvent::Note { text: note_line(other)? },
        })
    }

    fn begin_answer(&mut self) {
        self.answered = self.at;
        self.began.clear();
    }

    fn answer(&mut self, message: AssistantMessage, model: Option<String>) -> HistoryEvent {
        let AssistantMessage { content, tool_calls, reasoning, .. } = message;
        self.calls = tool_calls.into_iter().map(tool_use).collect();
        self.begin_answer();
        let said = |text: String| head_and_tail(text.trim(), MAX);
        let text = content.map(said).filter(|text| !text.is_empty());
        let thought = ["reasoning", "reasoning_content"];
        let thought = thought.iter().find_map(|name| reasoning.get(*name)?.as_str());
        let thoughts = thought.map(|text| said(text.to_owned())).filter(|text| !text.is_empty());
        HistoryEvent::Answer { model, text, thoughts, calls: self.calls.clone() }
    }

    fn result(
        &self,
        place: usize,
        (text, notes): (&str, &[String]),
        kind: ResultKind,
    ) -> Option<HistoryEvent> {
        let call = self.calls.get(place)?.clone();
        let began = self.began.get(&place).copied().unwrap_or(self.answered);
        Some(HistoryEvent::Tool {
            ok: kind != ResultKind::Fault && !text.starts_with("Error: "),
            exit_code: exit_code(&call.tool, text),
            output: append_notes(head_and_tail(text, MAX), notes),
            millis: (began > 0).then(|| self.at.saturating_sub(began)),
            call,
        })
    }
}

/// Text of a record that is worth a line and has no form of its own.
fn note_line(record: TranscriptRecord) -> Option<String> {
    let text = match record {
        TranscriptRecord::Stuck { why, .. } => format!("The run goes in circles: {why}."),
        TranscriptRecord::Held { why } | TranscriptRecord::LookBackOver { why } => why,
        TranscriptRecord::Note { text } | TranscriptRecord::Landed { text, .. } => text,
        TranscriptRecord::ServerTools { text, .. } => text?,
        TranscriptRecord::ToolsFound { tools } => {
            let names: Vec<_> = tools.iter().map(|tool| show_tool_name(&tool.name)).collect();
            format!("Found tools of servers: {}.", names.join(", "))
        }
        TranscriptRecord::Picture(picture) => format!("Looked at {}.", picture.shown),
        TranscriptRecord::Blind { newest, why } if !newest.is_empty() => {
            format!("The model's provider refused {} of the pictures: {why}", newest.len())
        }
        TranscriptRecord::Planned { workflow, .. } => {
            format!("The plan follows the workflow {workflow}.")
        }
        TranscriptRecord::Proposed { changes, .. } => {
            format!("Proposed {} things to remember.", changes.len())
        }
        TranscriptRecord::RolesAsked { roles } => {
            format!("Asked what went on: {}.", roles.join(", "))
        }
        TranscriptRecord::Deviated { files } if !files.is_empty() => {
            format!("The push changes what the plan does not name: {}.", files.join(", "))
        }
        TranscriptRecord::Overflowed { .. } => {
            "The conversation was too long for the model.".to_owned()
        }
        TranscriptRecord::Compacted { summary, .. } => {
            format!("The older part of the conversation was summed up:\n{summary}")
        }
        _ => return None,
    };
    Some(head_and_tail(&text, MAX))
}

fn taken_event(messages: &[ThreadMessage], pending: &[PendingItem]) -> Option<HistoryEvent> {
    if messages.is_empty() && pending.is_empty() {
        return None;
    }
    let decisions = pending.iter().map(|item| format!("{}: {}", item.kind, item.choice)).collect();
    Some(HistoryEvent::Taken {
        messages: messages.iter().map(|one| one.ts.clone()).collect(),
        decisions,
    })
}

fn tool_use(call: ToolCall) -> ToolUse {
    ToolUse { tool: call.name, arguments: head_and_tail(&call.arguments, MAX) }
}

fn todo_entry(item: TodoItem) -> TodoEntry {
    let state = match item.state {
        TodoState::Open => "open",
        TodoState::Doing => "doing",
        TodoState::Done => "done",
    };
    TodoEntry { text: item.text, state: state.to_owned() }
}

/// Exit code of a command: it stands in the last line that says one.
fn exit_code(tool: &str, text: &str) -> Option<i32> {
    let told = text.rsplit_once(EXIT).filter(|_| tool == "Bash")?.1;
    told.split([',', ']']).next()?.trim().parse().ok()
}

fn flaw_sentence(flaw: &ReplyFlaw) -> String {
    match flaw {
        ReplyFlaw::CutOff { .. } => "The answer was cut off.".to_owned(),
        ReplyFlaw::CutCall { tool, .. } => {
            format!("The answer was cut off within a call of {tool}.")
        }
        ReplyFlaw::Empty => "The answer was empty.".to_owned(),
        ReplyFlaw::Thought => "The answer held thoughts alone.".to_owned(),
        ReplyFlaw::Refused { said } => format!("The model or its provider refused: {said}"),
        ReplyFlaw::Leaked { form } => format!("The answer wrote calls as words ({form})."),
        ReplyFlaw::Garbled => "The answer was no readable text.".to_owned(),
        ReplyFlaw::Announced => "The answer said what comes next, and did not do it.".to_owned(),
        ReplyFlaw::Broken { said } => format!("The answer broke off: {said}"),
    }
}

const fn outcome_name(outcome: RunOutcome) -> &'static str {
    match outcome {
        RunOutcome::Idle => "idle",
        RunOutcome::Waiting => "waiting",
        RunOutcome::Failed => "failed",
        RunOutcome::Closed => "closed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bash(command: &str) -> ToolCall {
        let arguments = format!("{{\"command\":\"{command}\"}}");
        ToolCall { id: "1".into(), name: "Bash".into(), arguments }
    }

    #[test]
    fn a_result_is_told_with_its_call_its_exit_code_and_its_time() {
        let mut teller = EventTeller::default();
        let message =
            AssistantMessage { tool_calls: vec![bash("ls")], ..AssistantMessage::default() };
        let answer = TranscriptRecord::Answer { message, usage: None, source: None };
        let intent = TranscriptRecord::Intent { call: 0, key: "k".into(), consent: None };
        let text = "x\n[exit code 1, 0.1 s]\n[exit code 3, 0.5 s]".to_owned();
        let result =
            TranscriptRecord::Result { call: 0, text, notes: vec![], kind: ResultKind::Plain };
        let start = TranscriptRecord::RunStarted { run: "r".into(), at: 1, brief: false };
        assert_eq!(teller.tell(1, None, start).unwrap().at, 1000);
        teller.tell(2, Some(2000), answer).unwrap();
        assert_eq!(teller.tell(3, Some(2500), intent), None);
        let told = teller.tell(4, Some(3000), result).unwrap();
        assert_eq!((told.seq, told.at, told.run.as_deref()), (4, 3000, Some("r")));
        let HistoryEvent::Tool { call, ok, exit_code, millis, .. } = told.event else { panic!() };
        assert_eq!((call.tool.as_str(), ok, exit_code, millis), ("Bash", true, Some(3), Some(500)));
    }

    #[test]
    fn a_call_that_people_allowed_is_told_with_its_result() {
        let mut teller = EventTeller::default();
        let call = Some(bash("rm x"));
        teller.tell(
            1,
            Some(1),
            TranscriptRecord::Asked { hash: "h".into(), key: "ok.1".into(), call },
        );
        teller.tell(
            2,
            Some(2),
            TranscriptRecord::RunEnded { outcome: RunOutcome::Waiting, reason: None },
        );
        teller.tell(3, Some(3), TranscriptRecord::Allowed { key: "ok.1".into() });
        let result = TranscriptRecord::Result {
            call: 0,
            text: "Error: no".into(),
            notes: vec![],
            kind: ResultKind::Plain,
        };
        let told = teller.tell(4, Some(4), result).unwrap();
        let HistoryEvent::Tool { call, ok, .. } = told.event else { panic!() };
        assert_eq!((call.arguments.as_str(), ok), ("{\"command\":\"rm x\"}", false));
    }
}
