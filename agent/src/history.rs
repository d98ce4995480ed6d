//! What happened in a conversation beside its messages, from every role's transcript and decision log on the
//! volume: what the lead looks back on. No model writes any of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use codebutler_wire::{Author, Usage};
use serde_json::Value;

use crate::memory::{ForeignSource, ForeignTexts, find_ids};
use codebutler_guides::text::clip_text;

/// Most bytes of a transcript that are looked at: the newest.
const MAX_BYTES: u64 = 8 * 1024 * 1024;
/// Lines of each kind that are told of a role.
const MAX_LINES: usize = 12;

#[derive(Default)]
struct RoleHistory {
    runs: u32,
    turns: u32,
    tools: BTreeMap<String, u32>,
    /// What went wrong, in order.
    troubles: Vec<String>,
    tests: Vec<String>,
    decisions: Vec<String>,
    /// Ids of learnings that it named to people.
    used: BTreeSet<String>,
}

/// In Markdown, for a model.
pub fn describe_thread(state_dir: &Path, usage: &[(String, Usage)]) -> String {
    let mut out = String::new();
    for role in list_roles(state_dir) {
        let history = read_role(&state_dir.join(&role));
        if history.runs == 0 {
            continue;
        }
        let cost = usage.iter().find(|(known, _)| *known == role).map(|(_, usage)| usage.cost);
        let cost = cost.map(|cost| format!(", ${cost}")).unwrap_or_default();
        let (runs, calls) =
            (count_noun(history.runs, "run"), count_noun(history.turns, "model call"));
        let _ = writeln!(out, "## {role}\n{runs}, {calls}{cost}");
        let tools: Vec<_> = history.tools.iter().map(|(name, n)| format!("{name} {n}")).collect();
        let _ = writeln!(out, "Tools: {}", tools.join(", "));
        if !history.used.is_empty() {
            let used: Vec<_> = history.used.iter().map(String::as_str).collect();
            let _ = writeln!(out, "Learnings it went by: {}", used.join(", "));
        }
        for (title, lines) in [
            ("Test runs", &history.tests),
            ("Went wrong", &history.troubles),
            ("Decided by the harness", &history.decisions),
        ] {
            if lines.is_empty() {
                continue;
            }
            let left = lines.len().saturating_sub(MAX_LINES);
            let _ = writeln!(out, "{title}:");
            if left > 0 {
                let _ = writeln!(out, "- ({left} earlier ones are left out)");
            }
            for line in &lines[left..] {
                let _ = writeln!(out, "- {line}");
            }
        }
        out.push('\n');
    }
    if out.is_empty() { "no role has run yet".to_owned() } else { out }
}

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
                if text.contains("[exit code 0, ") {
                    green.extend(call.and_then(find_command));
                }
            }
            _ => {}
        }
    }
    green
}

fn find_command(call: &Value) -> Option<String> {
    let arguments =
        call["arguments"].as_str().or_else(|| call["function"]["arguments"].as_str())?;
    let arguments: Value = serde_json::from_str(arguments).ok()?;
    arguments["command"].as_str().map(|command| command.trim().to_owned())
}

/// What roles read and people said, to trace words by.
pub fn read_foreign(state_dir: &Path) -> ForeignTexts {
    let mut texts = ForeignTexts::default();
    for role in list_roles(state_dir) {
        let mut calls: Vec<String> = Vec::new();
        for record in read_lines(&state_dir.join(role).join("transcript.jsonl")) {
            match record["record"].as_str().unwrap_or_default() {
                "answer" => {
                    let made = record["message"]["tool_calls"].as_array().into_iter().flatten();
                    calls = made.map(call_name).collect();
                }
                "result" => {
                    let at = record["call"].as_u64().and_then(|at| usize::try_from(at).ok());
                    let name = at.and_then(|at| calls.get(at));
                    let source = name.and_then(|name| ForeignSource::of_tool(name));
                    let text = record["text"].as_str().unwrap_or_default();
                    if let Some(source) = source {
                        texts.read(source, text);
                    }
                }
                "taken" | "request" => {
                    let messages = record["messages"].as_array().into_iter().flatten();
                    for message in messages.filter(|message| is_by_person(message)) {
                        texts.said(message["text"].as_str().unwrap_or_default());
                    }
                }
                _ => {}
            }
        }
    }
    texts
}

fn is_by_person(message: &Value) -> bool {
    let author: Option<Author> = serde_json::from_value(message["author"].clone()).ok();
    matches!(author, Some(Author::User { .. } | Author::Prompt { .. }))
}

/// Ids of the learnings that roles went by.
pub fn find_used_learnings(state_dir: &Path) -> BTreeSet<String> {
    let roles = list_roles(state_dir).into_iter();
    roles.flat_map(|role| read_role(&state_dir.join(role)).used).collect()
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

fn count_noun(number: u32, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn read_role(folder: &Path) -> RoleHistory {
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
                history.used.extend(find_spoken_ids(&record["message"]));
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
                history.troubles.push(format!("was told to go on: {}", first_line(text("why"))));
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

/// Ids in what an answer says to people: its words where it calls nothing, and its messages.
fn find_spoken_ids(answer: &Value) -> Vec<String> {
    let calls = answer["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    let said = answer["content"].as_str().filter(|_| calls.is_empty());
    let messages =
        calls.iter().filter(|call| call_name(call) == "SendMessage").filter_map(|call| {
            call["arguments"].as_str().or_else(|| call["function"]["arguments"].as_str())
        });
    said.into_iter().chain(messages).flat_map(find_ids).map(str::to_owned).collect()
}

pub fn call_name(call: &Value) -> String {
    let name = call["name"].as_str().or_else(|| call["function"]["name"].as_str());
    clip_text(name.unwrap_or_default(), 40)
}

fn first_line(text: &str) -> String {
    clip_text(text.lines().next().unwrap_or_default(), 200)
}

/// Whole lines of JSON; what can't be read is passed over.
pub fn read_lines(path: &Path) -> Vec<Value> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let mut text = Vec::new();
    let mut read = || {
        let mut file = std::fs::File::open(path)?;
        let from = file.metadata()?.len().saturating_sub(MAX_BYTES);
        file.seek(SeekFrom::Start(from))?;
        file.take(MAX_BYTES).read_to_end(&mut text)
    };
    if let Err(error) = read() {
        tracing::debug!(%error, path = %path.display(), "no such history");
    }
    String::from_utf8_lossy(&text)
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}
