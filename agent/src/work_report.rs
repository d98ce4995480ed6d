//! The report on a conversation, for people, at its end: the work of each role, with models, tools and times, and who
//! asked whom. From the transcripts on the volume and what the gateway keeps; no model writes any of it.

use std::fmt::Write as _;
use std::path::Path;

use codebutler_wire::show_tool_name;

use crate::history::{KeptHistory, RoleWork, list_work};

/// Tools that are named of a role: those it used most.
const MAX_TOOLS: usize = 6;
/// Files beside the plan that are named.
const MAX_FILES: usize = 10;

/// A few lines of Markdown; nothing where no role has run.
pub(crate) fn report_work(state_dir: &Path, kept: &mut KeptHistory) -> String {
    let work = list_work(state_dir, kept).into_iter();
    let work: Vec<_> = work.filter(|(_, work)| !work.models.is_empty()).collect();
    let mut out = String::new();
    for (role, work) in &work {
        let _ = writeln!(out, "- {role}: {}", show_work(work));
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
        work.iter().flat_map(|(role, work)| list_changes(role, work)).collect();
    if !changes.is_empty() {
        let _ = writeln!(out, "- What changed the plan: {}", changes.join("; "));
    }
    out
}

fn show_work(work: &RoleWork) -> String {
    let models: Vec<_> = work.models.iter().map(|(name, n)| format!("{name} {n}")).collect();
    let mut tools: Vec<_> = work.tools.iter().collect();
    tools.sort_by_key(|(name, n)| (std::cmp::Reverse(**n), name.as_str()));
    let tools =
        tools.into_iter().take(MAX_TOOLS).map(|(name, n)| format!("{} {n}", show_tool_name(name)));
    let tools: Vec<_> = tools.collect();
    let tools = if tools.is_empty() { "no tool".to_owned() } else { tools.join(", ") };
    format!("{}; {tools}; {}", models.join(", "), show_time(work.millis))
}

fn list_changes(role: &str, work: &RoleWork) -> Vec<String> {
    let mut changes = Vec::new();
    if work.plans > 1 {
        changes.push(format!("{role} posted it {} times", work.plans));
    }
    if !work.answers.is_empty() {
        changes.push(format!("people answered {}", work.answers.join(", ")));
    }
    if !work.beside.is_empty() {
        let files: Vec<_> = work.beside.iter().take(MAX_FILES).map(String::as_str).collect();
        changes.push(format!("{role} changed `{}` beside it", files.join("`, `")));
    }
    changes
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
        assert_eq!(report_work(dir.path(), &mut KeptHistory::default()), "");
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
            report_work(dir.path(), &mut KeptHistory::default()),
            "- coder: m/one 1, m/two 1; Bash 2, Edit 1; 3 min\n- pm: m/one 1; no tool; 9 s\n- Who asked whom: pm → \
             coder 1\n- What changed the plan: coder changed `b.rs` beside it; pm posted it 2 times; people answered \
             modify\n"
        );
    }
}
