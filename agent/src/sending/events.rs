//! What an entry of a transcript means for people: at most one event each. Pure.

use std::collections::{BTreeMap, HashMap};

use codebutler_wire::history::{Event, MAX_TEXT, TodoEntry, Told, ToolUse};
use codebutler_wire::{Message, Pending};

use crate::model::judge::Flaw;
use crate::model::{Assistant, ToolCall};
use crate::tools::args::{TodoItem, TodoState};
use crate::transcript::{Outcome, Record, ResultKind};
use codebutler_guides::text::head_and_tail;

/// Longest text, in characters: of four bytes at most.
const MAX: usize = MAX_TEXT / 4;
/// How a command's output ends.
const EXIT: &str = "[exit code ";

/// What came before, as far as an entry's meaning depends on it.
#[derive(Debug, Default)]
pub struct Teller {
    run: Option<String>,
    at: u64,
    /// Those of the newest answer.
    calls: Vec<ToolUse>,
    answered: u64,
    /// When calls with an effect began.
    began: BTreeMap<usize, u64>,
    /// Actions that people were asked about, by the question's key.
    asked: HashMap<String, ToolUse>,
}

impl Teller {
    /// Takes in the next entry, of the time `at` if that is known.
    pub fn tell(&mut self, seq: u64, at: Option<u64>, record: Record) -> Option<Told> {
        self.at = at.unwrap_or(self.at);
        if let Record::RunStarted { run, at: seconds, .. } = &record {
            self.run = Some(run.clone());
            self.at = at.unwrap_or(seconds.saturating_mul(1000));
        }
        let run = self.run.clone();
        let event = self.event(record);
        Some(Told { seq, at: self.at, run, event: event? })
    }

    fn event(&mut self, record: Record) -> Option<Event> {
        Some(match record {
            Record::RunStarted { .. } => Event::RunStarted,
            Record::Taken { messages, pending, .. } | Record::Request { messages, pending, .. } => {
                taken_event(&messages, &pending)?
            }
            Record::Answer { message, source, .. } => {
                self.answer(message, source.map(|source| source.model))
            }
            Record::Flawed { flaw, .. } => Event::Flawed { why: flaw_sentence(&flaw) },
            Record::Unreadable { why } => Event::Flawed { why },
            Record::Intent { call, .. } => {
                self.began.insert(call, self.at);
                return None;
            }
            Record::Result { call, text, kind } => self.result(call, &text, kind)?,
            Record::Asked { key, call, .. } => {
                let call = tool_use(call?);
                self.asked.insert(key, call.clone());
                Event::Asked { call }
            }
            Record::Allowed { key } => {
                self.calls = self.asked.get(&key).cloned().into_iter().collect();
                self.begin_answer();
                return None;
            }
            Record::Tested { test } => {
                Event::Tested { command: test.command, exit_code: test.exit_code }
            }
            Record::Todo { items } => {
                Event::Todo { items: items.into_iter().map(todo_entry).collect() }
            }
            Record::Escalated { model } => {
                Event::Model { model, why: "the work is harder than it looked".to_owned() }
            }
            Record::Model { model } => Event::Model { model, why: "a user chose it".to_owned() },
            Record::Stuck { why, model: Some(model) } => {
                Event::Model { model, why: format!("the run went in circles: {why}") }
            }
            Record::RunEnded { outcome, reason } => {
                self.calls.clear();
                Event::RunEnded { outcome: outcome_name(outcome).to_owned(), reason }
            }
            other => Event::Note { text: note_line(other)? },
        })
    }

    fn begin_answer(&mut self) {
        self.answered = self.at;
        self.began.clear();
    }

    fn answer(&mut self, message: Assistant, model: Option<String>) -> Event {
        let Assistant { content, tool_calls, reasoning } = message;
        self.calls = tool_calls.into_iter().map(tool_use).collect();
        self.begin_answer();
        let said = |text: String| head_and_tail(text.trim(), MAX);
        let text = content.map(said).filter(|text| !text.is_empty());
        let thought = ["reasoning", "reasoning_content"];
        let thought = thought.iter().find_map(|name| reasoning.get(*name)?.as_str());
        let thoughts = thought.map(|text| said(text.to_owned())).filter(|text| !text.is_empty());
        Event::Answer { model, text, thoughts, calls: self.calls.clone() }
    }

    fn result(&self, place: usize, text: &str, kind: ResultKind) -> Option<Event> {
        let call = self.calls.get(place)?.clone();
        let began = self.began.get(&place).copied().unwrap_or(self.answered);
        Some(Event::Tool {
            ok: kind != ResultKind::Fault && !text.starts_with("Error: "),
            exit_code: exit_code(&call.tool, text),
            output: head_and_tail(text, MAX),
            millis: (began > 0).then(|| self.at.saturating_sub(began)),
            call,
        })
    }
}

/// What is worth a line, and has no form of its own.
fn note_line(record: Record) -> Option<String> {
    let text = match record {
        Record::Stuck { why, .. } => format!("The run goes in circles: {why}."),
        Record::Held { why } | Record::LookBackOver { why } => why,
        Record::Note { text } | Record::Landed { text, .. } => text,
        Record::Picture(picture) => format!("Looked at {}.", picture.shown),
        Record::Planned { workflow, .. } => format!("The plan follows the workflow {workflow}."),
        Record::Proposed { changes, .. } => {
            format!("Proposed {} things to remember.", changes.len())
        }
        Record::RolesAsked { roles } => format!("Asked what went on: {}.", roles.join(", ")),
        Record::Deviated { files } if !files.is_empty() => {
            format!("The push changes what the plan does not name: {}.", files.join(", "))
        }
        Record::Overflowed { .. } => "The conversation was too long for the model.".to_owned(),
        Record::Compacted { summary, .. } => {
            format!("The older part of the conversation was summed up:\n{summary}")
        }
        _ => return None,
    };
    Some(head_and_tail(&text, MAX))
}

fn taken_event(messages: &[Message], pending: &[Pending]) -> Option<Event> {
    if messages.is_empty() && pending.is_empty() {
        return None;
    }
    let decisions = pending.iter().map(|item| format!("{}: {}", item.kind, item.choice)).collect();
    Some(Event::Taken { messages: messages.iter().map(|one| one.ts.clone()).collect(), decisions })
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

/// Of a command: it stands in the last line that says one.
fn exit_code(tool: &str, text: &str) -> Option<i32> {
    let told = text.rsplit_once(EXIT).filter(|_| tool == "Bash")?.1;
    told.split([',', ']']).next()?.trim().parse().ok()
}

fn flaw_sentence(flaw: &Flaw) -> String {
    match flaw {
        Flaw::CutOff { .. } => "The answer was cut off.".to_owned(),
        Flaw::CutCall { tool, .. } => format!("The answer was cut off within a call of {tool}."),
        Flaw::Empty => "The answer was empty.".to_owned(),
        Flaw::Thought => "The answer held thoughts alone.".to_owned(),
        Flaw::Refused { said } => format!("The model or its provider refused: {said}"),
        Flaw::Leaked { form } => format!("The answer wrote calls as words ({form})."),
        Flaw::Announced => "The answer said what comes next, and did not do it.".to_owned(),
        Flaw::Broken { said } => format!("The answer broke off: {said}"),
    }
}

const fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Idle => "idle",
        Outcome::Waiting => "waiting",
        Outcome::Failed => "failed",
        Outcome::Closed => "closed",
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
        let mut teller = Teller::default();
        let message = Assistant { tool_calls: vec![bash("ls")], ..Assistant::default() };
        let answer = Record::Answer { message, usage: None, source: None };
        let intent = Record::Intent { call: 0, key: "k".into(), consent: None };
        let text = "x\n[exit code 1, 0.1 s]\n[exit code 3, 0.5 s]".to_owned();
        let result = Record::Result { call: 0, text, kind: ResultKind::Plain };
        let start = Record::RunStarted { run: "r".into(), at: 1, brief: false };
        assert_eq!(teller.tell(1, None, start).unwrap().at, 1000);
        teller.tell(2, Some(2000), answer).unwrap();
        assert_eq!(teller.tell(3, Some(2500), intent), None);
        let told = teller.tell(4, Some(3000), result).unwrap();
        assert_eq!((told.seq, told.at, told.run.as_deref()), (4, 3000, Some("r")));
        let Event::Tool { call, ok, exit_code, millis, .. } = told.event else { panic!() };
        assert_eq!((call.tool.as_str(), ok, exit_code, millis), ("Bash", true, Some(3), Some(500)));
    }

    #[test]
    fn a_call_that_people_allowed_is_told_with_its_result() {
        let mut teller = Teller::default();
        let call = Some(bash("rm x"));
        teller.tell(1, Some(1), Record::Asked { hash: "h".into(), key: "ok.1".into(), call });
        teller.tell(2, Some(2), Record::RunEnded { outcome: Outcome::Waiting, reason: None });
        teller.tell(3, Some(3), Record::Allowed { key: "ok.1".into() });
        let result = Record::Result { call: 0, text: "Error: no".into(), kind: ResultKind::Plain };
        let told = teller.tell(4, Some(4), result).unwrap();
        let Event::Tool { call, ok, .. } = told.event else { panic!() };
        assert_eq!((call.arguments.as_str(), ok), ("{\"command\":\"rm x\"}", false));
    }
}
