//! Reads the activity of roles from the transcript and the decision log of each on the volume.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::roles::{RoleHistory, RoleWork, find_spoken_ids, first_line};
use crate::memory::{ForeignSource, ForeignTexts};
use codebutler_guides::text::clip_text;

/// Most bytes of a transcript that are looked at: the newest.
const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// Commands of a role that ended well, from its transcript.
pub fn find_green_commands(folder: &Path) -> BTreeSet<String> {
    let mut calls: Vec<Value> = Vec::new();
    let mut green = BTreeSet::new();
    for record in read_lines(&folder.join("transcript.jsonl")) {
        match record["record"].as_str().unwrap_or_default() {
            "answer" => {
                calls = record["message"]["tool_calls"].as_array().cloned().unwrap_or_default();
            }
            "result" => {
                let at = record["call"].as_u64().and_then(|at| usize::try_from(at).ok());
                let call = at.and_then(|at| calls.get(at)).filter(|call| call_name(call) == "Bash");
                let text = record["text"].as_str().unwrap_or_default();
                if ended_well(text) {
                    green.extend(call.and_then(find_command));
                }
            }
            _ => {}
        }
    }
    green
}

/// The last line is the toolbox' own; what stands before it is what the command printed.
fn ended_well(text: &str) -> bool {
    text.trim_end().lines().next_back().is_some_and(|line| line.starts_with("[exit code 0, "))
}

fn find_command(call: &Value) -> Option<String> {
    let arguments: Value = serde_json::from_str(find_arguments(call)?).ok()?;
    arguments["command"].as_str().map(|command| command.trim().to_owned())
}

/// Reads the texts that roles read and people said, to trace words by.
pub(super) fn read_foreign(state_dir: &Path, texts: &mut ForeignTexts) {
    for role in list_roles(state_dir) {
        let mut calls: Vec<(String, String)> = Vec::new();
        for record in read_lines(&state_dir.join(role).join("transcript.jsonl")) {
            match record["record"].as_str().unwrap_or_default() {
                "answer" => {
                    let made = record["message"]["tool_calls"].as_array().into_iter().flatten();
                    calls = made
                        .map(|call| {
                            (call_name(call), find_arguments(call).unwrap_or_default().to_owned())
                        })
                        .collect();
                }
                "result" => {
                    let at = record["call"].as_u64().and_then(|at| usize::try_from(at).ok());
                    let call = at.and_then(|at| calls.get(at));
                    let source = call.and_then(|(name, given)| ForeignSource::of_call(name, given));
                    let text = record["text"].as_str().unwrap_or_default();
                    if let Some(source) = source {
                        texts.read(source, text);
                    }
                }
                "taken" | "request" => {
                    let messages = record["messages"].as_array().into_iter().flatten();
                    for message in messages {
                        let author = serde_json::from_value(message["author"].clone()).ok();
                        let text = message["text"].as_str().unwrap_or_default();
                        if let Some(author) = author {
                            texts.take_message(&author, text);
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

/// Roles that have worked here.
pub fn list_roles(state_dir: &Path) -> Vec<String> {
    let folders = std::fs::read_dir(state_dir).into_iter().flatten().flatten();
    let mut roles: Vec<String> = folders
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.'))
        .collect();
    roles.sort();
    roles
}

/// Reads the history of one role from its folder.
pub(super) fn read_role(folder: &Path) -> RoleHistory {
    let mut history = RoleHistory::default();
    let mut calls: Vec<String> = Vec::new();
    for record in read_lines(&folder.join("transcript.jsonl")) {
        let text = |field: &str| record[field].as_str().unwrap_or_default();
        match record["record"].as_str().unwrap_or_default() {
            "run_started" => history.runs += 1,
            "answer" => {
                history.turns += 1;
                let made = record["message"]["tool_calls"].as_array().into_iter().flatten();
                calls = made.map(call_name).collect();
                let content = record["message"]["content"].as_str();
                history.used.extend(find_spoken_ids(content, spoken_calls(&record["message"])));
                for name in &calls {
                    *history.tools.entry(name.clone()).or_default() += 1;
                }
            }
            "result" if text("text").starts_with("Error:") => {
                let at = record["call"].as_u64().and_then(|at| usize::try_from(at).ok());
                let name = at.and_then(|at| calls.get(at)).map_or("a tool", String::as_str);
                history.troubles.push(format!("{name}: {}", first_line(text("text"))));
            }
            "stuck" => {
                history.troubles.push(format!("went in circles: {}", first_line(text("why"))));
            }
            "flawed" => history.troubles.push("an answer of the model was unusable".to_owned()),
            "held" => {
                history
                    .troubles
                    .push(format!("was asked to continue: {}", first_line(text("why"))));
            }
            "tested" => {
                let code = record["test"]["exitCode"].as_i64();
                let ended = code.map_or("not ended".to_owned(), |code| format!("exit code {code}"));
                let command = record["test"]["command"].as_str().unwrap_or_default();
                history.tests.push(format!("`{}`: {ended}", clip_text(command, 120)));
            }
            "run_ended" if record["outcome"] == "failed" => {
                history.troubles.push(format!("a run failed: {}", first_line(text("reason"))));
            }
            _ => {}
        }
    }
    for decision in read_lines(&folder.join("decisions.jsonl")) {
        let text = |field: &str| decision[field].as_str().unwrap_or_default();
        if !matches!(text("kind"), "visible" | "receipt") {
            let (kind, chosen) = (text("kind"), clip_text(text("chosen"), 120));
            history.decisions.push(format!("{kind}: {chosen} ({})", first_line(text("evidence"))));
        }
    }
    history
}

/// Reads a role's part in the work of all.
pub(super) fn read_work(folder: &Path) -> RoleWork {
    let records = read_lines(&folder.join("transcript.jsonl"));
    let mut work = RoleWork::default();
    let mut began = None;
    for record in &records {
        let at = record["ms"].as_u64();
        match record["record"].as_str().unwrap_or_default() {
            "run_started" => began = at,
            "run_ended" => {
                if let (Some(from), Some(to)) = (began.take(), at) {
                    work.millis = work.millis.saturating_add(to.saturating_sub(from));
                }
            }
            "answer" => count_answer(&mut work, record),
            "planned" => work.plans += 1,
            "deviated" => {
                let files = record["files"].as_array().into_iter().flatten();
                work.beside = files.filter_map(Value::as_str).map(str::to_owned).collect();
            }
            "taken" | "request" => count_taken(&mut work, record),
            _ => {}
        }
    }
    // A run that has not ended lasts until now.
    if let (Some(from), Some(to)) = (began, records.last().and_then(|last| last["ms"].as_u64())) {
        work.millis = work.millis.saturating_add(to.saturating_sub(from));
    }
    work
}

fn count_answer(work: &mut RoleWork, record: &Value) {
    let source = &record["source"];
    let model = source["by"].as_str().or_else(|| source["model"].as_str()).unwrap_or("unknown");
    *work.models.entry(clip_text(model, 80)).or_default() += 1;
    for call in record["message"]["tool_calls"].as_array().into_iter().flatten() {
        *work.tools.entry(call_name(call)).or_default() += 1;
    }
}

fn count_taken(work: &mut RoleWork, record: &Value) {
    for message in record["messages"].as_array().into_iter().flatten() {
        let by = message["author"]["role"].as_str().filter(|_| message["addressed"] == true);
        if let (Some(by), Some(ts)) = (by, message["ts"].as_str()) {
            work.asked_by.entry(by.to_owned()).or_default().insert(ts.to_owned());
        }
    }
    for item in record["pending"].as_array().into_iter().flatten() {
        if item["kind"] == "plan" && item["choice"] != "approve" {
            work.answers.extend(item["choice"].as_str().map(|choice| clip_text(choice, 20)));
        }
    }
}

/// Name and arguments of an answer's calls.
fn spoken_calls(answer: &Value) -> Vec<(String, &str)> {
    let calls = answer["tool_calls"].as_array().into_iter().flatten();
    calls.map(|call| (call_name(call), find_arguments(call).unwrap_or_default())).collect()
}

fn find_arguments(call: &Value) -> Option<&str> {
    call["arguments"].as_str().or_else(|| call["function"]["arguments"].as_str())
}

fn call_name(call: &Value) -> String {
    let name = call["name"].as_str().or_else(|| call["function"]["name"].as_str());
    clip_text(name.unwrap_or_default(), 40)
}

/// Whole lines of JSON; what can't be read is passed over.
fn read_lines(path: &Path) -> Vec<Value> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let mut text = Vec::new();
    let mut read = || {
        let mut file = std::fs::File::open(path)?;
        let from = file.metadata()?.len().saturating_sub(MAX_BYTES);
        file.seek(SeekFrom::Start(from))?;
        file.take(MAX_BYTES).read_to_end(&mut text)
    };
    if let Err(error) = read() {
        tracing::debug!(%error, path = %path.display(), "transcript_missing");
    }
    String::from_utf8_lossy(&text)
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}
