//! The agents' transcripts, from the volumes of a stack that has ended.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::scan::ScannedCall;
use crate::bench_args::wishes::SpokenText;

/// Tool calls, mistakes and habits of the roles.
#[derive(Clone, Debug, Default)]
pub(super) struct RoleTraces {
    /// Tool calls in the order of each role.
    pub calls: Vec<ScannedCall>,
    /// Calls that were wrong in themselves.
    pub errors: u64,
    /// Counts of mistakes on the way and of messages.
    pub habits: TeamHabits,
    /// Texts that people and other roles were shown, in the order of each role.
    pub spoken: Vec<SpokenText>,
}

/// The habits of a team, in counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct TeamHabits {
    /// Number of attempted edits.
    pub edits: u64,
    /// Number of edits that changed nothing.
    pub edits_failed: u64,
    /// Calls that fit and were refused, edits aside.
    pub refusals: u64,
    /// Corrections: the model was asked to go on, to answer otherwise, or not to repeat itself.
    pub corrections: u64,
    /// Messages of roles to people and each other.
    pub said: u64,
    /// Conversations that were summed up since they did not fit into the window.
    pub compactions: u64,
}

/// Records of a word to the model about how it answers.
const CORRECTIONS: [&str; 5] = ["held", "stuck", "flawed", "unreadable", "review_corrected"];

fn tool_names(message: &Value) -> Vec<String> {
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    calls.map(|call| call["name"].as_str().unwrap_or_default().to_owned()).collect()
}

/// The text of a call that speaks.
fn sent_text(call: &Value) -> Option<SpokenText> {
    let arguments = call["arguments"].as_str()?;
    match call["name"].as_str()? {
        "SendMessage" => {
            let given: Value = serde_json::from_str(arguments).ok()?;
            let text = given["message"].as_str()?.to_owned();
            Some(SpokenText { text, plan: given["decision"] == "plan" })
        }
        "SplitRequest" => Some(SpokenText { text: arguments.to_owned(), plan: true }),
        _ => None,
    }
}

impl RoleTraces {
    /// `sent`: the text of a call that speaks.
    fn take_result(&mut self, tool: &str, record: &Value, sent: Option<SpokenText>) {
        let is_fault = record["kind"] == "fault";
        let failed = record["text"].as_str().is_some_and(|text| text.starts_with("Error: "));
        // Nobody has read what was refused.
        self.spoken.extend(sent.filter(|_| !failed && !is_fault));
        self.errors += u64::from(is_fault);
        match tool {
            "Edit" => {
                self.habits.edits += 1;
                self.habits.edits_failed += u64::from(failed || is_fault);
            }
            "SendMessage" if !failed && !is_fault => self.habits.said += 1,
            _ => self.habits.refusals += u64::from(failed && !is_fault),
        }
    }
}

/// Reads them all. What is no record is passed over: a newer agent may know more kinds.
///
/// # Errors
/// When the volumes can't be read.
pub(super) fn read_traces(dir: &Path) -> io::Result<RoleTraces> {
    let mut traces = RoleTraces::default();
    for path in trace_files(dir)? {
        let role = role_name(&path);
        let text = fs::read_to_string(&path)?;
        let (mut open, mut sent): (Vec<String>, Vec<Option<SpokenText>>) = (vec![], vec![]);
        for record in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            match record["record"].as_str() {
                Some("answer") => {
                    let calls = record["message"]["tool_calls"].as_array();
                    open = tool_names(&record["message"]);
                    let words = record["message"]["content"].as_str();
                    if let Some(words) = words.filter(|text| open.is_empty() && !text.is_empty()) {
                        traces.habits.said += 1;
                        traces.spoken.push(SpokenText { text: words.to_owned(), plan: false });
                    }
                    sent = calls.into_iter().flatten().map(sent_text).collect();
                    traces.calls.extend(calls.into_iter().flatten().map(|call| ScannedCall {
                        role: role.clone(),
                        tool: call["name"].as_str().unwrap_or_default().to_owned(),
                        arguments: call["arguments"].as_str().unwrap_or_default().to_owned(),
                    }));
                }
                Some("result") => {
                    let place =
                        record["call"].as_u64().and_then(|place| usize::try_from(place).ok());
                    let tool = place.and_then(|place| open.get(place)).map_or("", String::as_str);
                    let sent = place.and_then(|place| sent.get_mut(place)?.take());
                    traces.take_result(tool, &record, sent);
                }
                Some("compacted") => traces.habits.compactions += 1,
                Some(kind) if CORRECTIONS.contains(&kind) => traces.habits.corrections += 1,
                _ => {}
            }
        }
    }
    Ok(traces)
}

/// Copies them into a folder, by role.
///
/// # Errors
/// When it can't be written.
pub(super) fn keep_traces(dir: &Path, into: &Path) -> io::Result<()> {
    fs::create_dir_all(into)?;
    for path in trace_files(dir)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        fs::copy(&path, into.join(format!("{}-{name}", role_name(&path))))?;
    }
    Ok(())
}

fn role_name(path: &Path) -> String {
    path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned()
}

/// Below `agent/` of each volume: a worktree's own files are none.
fn trace_files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    fn below(dir: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            if path.symlink_metadata()?.is_dir() {
                below(&path, found)?;
            } else if path.extension().is_some_and(|end| end == "jsonl") {
                found.push(path);
            }
        }
        Ok(())
    }
    let mut found = Vec::new();
    for volume in fs::read_dir(dir.join("stack").join("volumes"))? {
        let agent = volume?.path().join("agent");
        if agent.is_dir() {
            below(&agent, &mut found)?;
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_goes_wrong_is_counted_by_kind() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("stack/volumes/pv/agent/coder");
        fs::create_dir_all(&folder).unwrap();
        let call = |name: &str| {
            let arguments = json!({"message": "1. Fix it.", "decision": "plan"}).to_string();
            json!({"id": "1", "name": name, "arguments": arguments}).to_string()
        };
        let answer = |calls: &[&str]| {
            let calls: Vec<String> = calls.iter().map(|name| call(name)).collect();
            format!(
                "{{\"record\":\"answer\",\"message\":{{\"tool_calls\":[{}]}}}}\n",
                calls.join(",")
            )
        };
        let result = |place: u32, text: &str| {
            format!(
                "{{\"record\":\"result\",\"call\":{place},\"text\":\"{text}\",\"kind\":\"plain\"}}\n"
            )
        };
        let text = [
            answer(&["Edit", "Edit", "GitPush", "SendMessage"]),
            result(0, "Error: does not occur"),
            result(1, "done"),
            result(2, "Error: not approved"),
            result(3, "Posted as message 1."),
            answer(&["SendMessage", "SendMessage"]),
            result(0, "Error: not posted, since people wrote"),
            result(1, "Posted as message 2."),
            answer(&["SendMessage"]),
            "{\"record\":\"held\",\"why\":\"x\"}\n".to_owned(),
            "{\"record\":\"compacted\",\"upto\":4,\"summary\":\"x\"}\n".to_owned(),
            "{\"record\":\"answer\",\"message\":{\"content\":\"Done.\"}}\n".to_owned(),
        ];
        fs::write(folder.join("transcript.jsonl"), text.concat()).unwrap();
        let traces = read_traces(dir.path()).unwrap();
        let expected = TeamHabits {
            edits: 2,
            edits_failed: 1,
            refusals: 2,
            corrections: 1,
            said: 3,
            compactions: 1,
        };
        assert_eq!(traces.habits, expected);
        let plan = SpokenText { text: "1. Fix it.".into(), plan: true };
        let done = SpokenText { text: "Done.".into(), plan: false };
        assert_eq!(traces.spoken, [plan.clone(), plan, done], "refused and cut off ones aside");
    }

    #[test]
    fn what_is_sent_is_a_plan_or_a_message() {
        let sent =
            |name: &str, arguments: &str| sent_text(&json!({"name": name, "arguments": arguments}));
        let text = |text: &str, plan| Some(SpokenText { text: text.into(), plan });
        assert_eq!(sent("SendMessage", r#"{"message":"hi"}"#), text("hi", false));
        assert_eq!(sent("SendMessage", r#"{"message":"1.","decision":"plan"}"#), text("1.", true));
        assert_eq!(sent("SplitRequest", r#"{"parts":[]}"#), text(r#"{"parts":[]}"#, true));
        for (name, arguments) in [("SendMessage", "{"), ("SendMessage", "{}"), ("Bash", "{}")] {
            assert_eq!(sent(name, arguments), None, "{name} {arguments}");
        }
    }

    #[test]
    fn calls_and_faults_are_counted_in_the_agents_part_of_a_volume() {
        let dir = tempfile::tempdir().unwrap();
        let volume = dir.path().join("stack/volumes/pv");
        for (path, text) in [
            (
                "agent/coder/transcript.jsonl",
                "{\"record\":\"answer\",\"message\":{\"tool_calls\":[{\"id\":\"1\",\"name\":\"Bash\",\"arguments\":\"{}\"}]}}\n\
                 {\"record\":\"result\",\"call\":0,\"text\":\"no\",\"kind\":\"fault\"}\n{\"record\":\"novelty\"}\n{\"rec",
            ),
            (
                "work/coder/transcript.jsonl",
                "{\"record\":\"result\",\"call\":0,\"text\":\"\",\"kind\":\"fault\"}\n",
            ),
        ] {
            let path = volume.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let traces = read_traces(dir.path()).unwrap();
        assert_eq!(traces.errors, 1);
        assert_eq!(traces.calls.len(), 1);
        assert_eq!(
            (traces.calls[0].role.as_str(), traces.calls[0].tool.as_str()),
            ("coder", "Bash")
        );
        keep_traces(dir.path(), &dir.path().join("kept")).unwrap();
        assert!(dir.path().join("kept/coder-transcript.jsonl").exists());
    }
}
