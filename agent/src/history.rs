//! Events of a conversation beside its messages, for the lead's retrospective: from every role's transcript and
//! decision log on the volume, and from what the gateway keeps; no model writes any of it.

mod kept;
mod roles;
mod transcripts;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use codebutler_wire::TokenUsage;

pub use self::kept::KeptHistory;
use self::roles::count_noun;
pub use self::roles::{RoleHistory, RoleWork};
pub use self::transcripts::{find_green_commands, list_roles};
use crate::memory::ForeignTexts;

/// Lines of each kind that are told of a role.
const MAX_LINES: usize = 12;

/// History of each role: from its transcript, or from what the gateway keeps where that knows more, as after a volume
/// was lost.
pub fn list_histories(state_dir: &Path, kept: &mut KeptHistory) -> Vec<(String, RoleHistory)> {
    let roles = list_workers(state_dir, kept).into_iter().map(|role| {
        let own = transcripts::read_role(&state_dir.join(&role));
        let history = match kept.find_role(&role, &own) {
            Some(told) => {
                RoleHistory { decisions: [told.decisions, own.decisions].concat(), ..told }
            }
            None => own,
        };
        (role, history)
    });
    roles.collect()
}

/// Work of each role in the conversation, from the same sources.
pub fn list_work(state_dir: &Path, kept: &mut KeptHistory) -> Vec<(String, RoleWork)> {
    let roles = list_workers(state_dir, kept).into_iter().map(|role| {
        let own = transcripts::read_work(&state_dir.join(&role));
        let work = kept.find_work(&role, &own).unwrap_or(own);
        (role, work)
    });
    roles.collect()
}

fn list_workers(state_dir: &Path, kept: &KeptHistory) -> BTreeSet<String> {
    list_roles(state_dir).into_iter().chain(kept.list_roles().cloned()).collect()
}

/// Collects the texts that roles read and people said, to find the origin of words.
pub fn read_foreign(state_dir: &Path, kept: &KeptHistory) -> ForeignTexts {
    let mut texts = ForeignTexts::default();
    transcripts::read_foreign(state_dir, &mut texts);
    kept.read_foreign(&mut texts);
    texts
}

/// Ids of the learnings that roles went by.
pub fn find_used_learnings(histories: &[(String, RoleHistory)]) -> BTreeSet<String> {
    histories.iter().flat_map(|(_, history)| history.used.iter().cloned()).collect()
}

/// Describes the conversation in Markdown, for a model.
pub fn describe_thread(
    histories: &[(String, RoleHistory)],
    kept: &KeptHistory,
    usage: &[(String, TokenUsage)],
) -> String {
    let mut out = String::new();
    for (role, history) in histories.iter().filter(|(_, history)| history.runs > 0) {
        let cost = usage.iter().find(|(known, _)| known == role).map(|(_, usage)| usage.cost);
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
        list_lines(&mut out, "Test runs", &history.tests);
        list_lines(&mut out, "Went wrong", &history.troubles);
        list_lines(&mut out, "Decided by CodeButler", &history.decisions);
        out.push('\n');
    }
    if out.is_empty() {
        return "no role has run yet".to_owned();
    }
    let before = out.len();
    for (title, lines) in kept.list_facts() {
        list_lines(&mut out, title, &lines);
    }
    if out.len() > before {
        out.insert_str(before, "## The conversation\n");
        out.push('\n');
    }
    out
}

fn list_lines(out: &mut String, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
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

#[cfg(test)]
mod tests;
