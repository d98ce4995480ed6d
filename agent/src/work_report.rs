//! Who did what in a conversation, with which models and tools, how long, and who asked whom: for people, at its
//! end. From the transcripts on the volume; no model writes any of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::history::{call_name, list_roles, read_lines};
use codebutler_guides::text::clip_text;

/// Tools that are named of a role: those it used most.
const MAX_TOOLS: usize = 6;
/// Files beside the plan that are named.
const MAX_FILES: usize = 10;

/// What one role did.
#[derive(Debug, Default)]
struct RoleWork {
    models: BTreeMap<String, u32>,
    tools: BTreeMap<String, u32>,
    /// While it ran.
    millis: u64,
    /// How often it posted a plan.
    plans: u32,
    beside: BTreeSet<String>,
    /// By which role it was asked, and how often.
    asked_by: BTreeMap<String, BTreeSet<String>>,
    /// What people answered to plans, but for a yes.
    answers: Vec<String>,
}

/// A few lines of Markdown; nothing where no role has run.
pub fn report_work(state_dir: &Path) -> String {
    let roles = list_roles(state_dir).into_iter();
    let work = roles.map(|role| {
        let records = read_lines(&state_dir.join(&role).join("transcript.jsonl"));
        (role, RoleWork::of(&records))
    });
    let work: Vec<_> = work.filter(|(_, work)| !work.models.is_empty()).collect();
    let mut out = String::new();
    for (role, work) in &work {
        let _ = writeln!(out, "- {role}: {}", work.shown());
    }
    let asked: Vec<_> = work
        .iter()
        .flat_map(|(role, work)| {
            work.asked_by
                .iter()
                .map(move |(by, messages)| format!("{by} → {role} {}", messages.len()))
        })
        .collect();
    if !asked.is_empty() {
        let _ = writeln!(out, "- Who asked whom: {}", asked.join(", "));
    }
    let changes: Vec<String> =
        work.iter().flat_map(|(role, work)| work.plan_changes(role)).collect();
    if !changes.is_empty() {
        let _ = writeln!(out, "- What changed the plan: {}", changes.join("; "));
    }
    out
}

impl RoleWork {
    fn of(records: &[Value]) -> Self {
        let mut work = Self::default();
        let mut began = None;
        for record in records {
            let at = record["ms"].as_u64();
            match record["record"].as_str().unwrap_or_default() {
                "run_started" => began = at,
                "run_ended" => {
                    if let (Some(from), Some(to)) = (began.take(), at) {
                        work.millis = work.millis.saturating_add(to.saturating_sub(from));
                    }
                }
                "answer" => work.answer(record),
                "planned" => work.plans += 1,
                "deviated" => {
                    let files = record["files"].as_array().into_iter().flatten();
                    work.beside = files.filter_map(Value::as_str).map(str::to_owned).collect();
                }
                "taken" | "request" => work.take(record),
                _ => {}
            }
        }
        // A run that has not ended lasts until now.
        if let (Some(from), Some(to)) = (began, records.last().and_then(|last| last["ms"].as_u64()))
        {
            work.millis = work.millis.saturating_add(to.saturating_sub(from));
        }
        work
    }

    fn answer(&mut self, record: &Value) {
        let source = &record["source"];
        let model = source["by"].as_str().or_else(|| source["model"].as_str()).unwrap_or("unknown");
        *self.models.entry(clip_text(model, 80)).or_default() += 1;
        for call in record["message"]["tool_calls"].as_array().into_iter().flatten() {
            *self.tools.entry(call_name(call)).or_default() += 1;
        }
    }

    fn take(&mut self, record: &Value) {
        for message in record["messages"].as_array().into_iter().flatten() {
            let by = message["author"]["role"].as_str().filter(|_| message["addressed"] == true);
            if let (Some(by), Some(ts)) = (by, message["ts"].as_str()) {
                self.asked_by.entry(by.to_owned()).or_default().insert(ts.to_owned());
            }
        }
        for item in record["pending"].as_array().into_iter().flatten() {
            if item["kind"] == "plan" && item["choice"] != "approve" {
                self.answers.extend(item["choice"].as_str().map(|choice| clip_text(choice, 20)));
            }
        }
    }

    fn shown(&self) -> String {
        let models: Vec<_> = self.models.iter().map(|(name, n)| format!("{name} {n}")).collect();
        let mut tools: Vec<_> = self.tools.iter().collect();
        tools.sort_by_key(|(name, n)| (std::cmp::Reverse(**n), name.as_str()));
        let tools: Vec<_> =
            tools.into_iter().take(MAX_TOOLS).map(|(name, n)| format!("{name} {n}")).collect();
        let tools = if tools.is_empty() { "no tool".to_owned() } else { tools.join(", ") };
        format!("{}; {tools}; {}", models.join(", "), show_time(self.millis))
    }

    fn plan_changes(&self, role: &str) -> Vec<String> {
        let mut changes = Vec::new();
        if self.plans > 1 {
            changes.push(format!("{role} posted it {} times", self.plans));
        }
        if !self.answers.is_empty() {
            changes.push(format!("people answered {}", self.answers.join(", ")));
        }
        if !self.beside.is_empty() {
            let files: Vec<_> = self.beside.iter().take(MAX_FILES).map(String::as_str).collect();
            changes.push(format!("{role} changed `{}` beside it", files.join("`, `")));
        }
        changes
    }
}

fn show_time(millis: u64) -> String {
    match millis / 1000 {
        seconds @ 0..100 => format!("{seconds} s"),
        seconds => format!("{} min", (seconds + 30) / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_tools_times_and_who_asked_whom_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let write = |role: &str, lines: &[&str]| {
            std::fs::create_dir_all(dir.path().join(role)).unwrap();
            std::fs::write(dir.path().join(role).join("transcript.jsonl"), lines.join("\n"))
                .unwrap();
        };
        assert_eq!(report_work(dir.path()), "");
        let asked = r#"{"record":"taken","messages":[{"ts":"2.0","author":{"role":"pm"},"addressed":true}],"pending":[]}"#;
        let answer = r#"{"record":"answer","message":{"tool_calls":[{"name":"Bash"},{"name":"Edit"},{"name":"Bash"}]},"source":{"model":"m/one"}}"#;
        write(
            "coder",
            &[
                r#"{"record":"run_started","run":"a","ms":1000}"#,
                asked,
                asked,
                answer,
                r#"{"record":"deviated","files":["b.rs"]}"#,
                r#"{"record":"run_ended","ms":61000}"#,
                r#"{"record":"run_started","run":"b","ms":100000}"#,
                r#"{"record":"answer","message":{},"source":{"model":"m/one","by":"m/two"},"ms":220000}"#,
            ],
        );
        let modify =
            r#"{"record":"taken","messages":[],"pending":[{"kind":"plan","choice":"modify"}]}"#;
        write(
            "pm",
            &[
                r#"{"record":"run_started","ms":0}"#,
                r#"{"record":"planned"}"#,
                modify,
                r#"{"record":"planned"}"#,
                r#"{"record":"answer","message":{},"source":{"model":"m/one"},"ms":9000}"#,
            ],
        );
        assert_eq!(
            report_work(dir.path()),
            "- coder: m/one 1, m/two 1; Bash 2, Edit 1; 3 min\n- pm: m/one 1; no tool; 9 s\n- Who asked whom: pm → \
             coder 1\n- What changed the plan: coder changed `b.rs` beside it; pm posted it 2 times; people answered \
             modify\n"
        );
    }
}
