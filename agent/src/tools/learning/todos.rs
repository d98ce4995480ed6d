//! To-do notes such as `TODO` and `FIXME` in the lines that the change adds.

use std::fmt::Write as _;

use crate::tool_args as args;
use crate::toolbox::protocol::{ToolboxReply, ToolboxRequest};
use crate::tools::{ToolContext, ToolFailure};
use codebutler_guides::text::clip_text;

const MARKS: [&str; 4] = ["TODO", "FIXME", "XXX", "HACK"];
/// Most notes that are listed.
const MAX_LISTED: usize = 8;

/// Finds the to-do notes that the branch adds, each with its file.
pub(super) async fn find_todos(cx: &ToolContext) -> Result<Vec<(String, String)>, ToolFailure> {
    match cx.toolbox.ask(ToolboxRequest::GitDiff(args::GitDiff::default())).await? {
        ToolboxReply::Text(diff) => Ok(added_todos(&diff)),
        // A failure is ignored: no work waits for these notes.
        other => {
            tracing::debug!(?other, request = "git_diff", "toolbox_request_failed");
            Ok(Vec::new())
        }
    }
}

fn added_todos(diff: &str) -> Vec<(String, String)> {
    let mut file = String::new();
    let mut found = Vec::new();
    for line in diff.lines() {
        if let Some(path) = line.strip_prefix("+++ b/") {
            path.clone_into(&mut file);
        } else if let Some(added) = line.strip_prefix('+').filter(|rest| !rest.starts_with("++ ")) {
            let at = MARKS.iter().filter_map(|mark| find_word(added, mark)).min();
            found.extend(at.map(|at| (file.clone(), clip_text(added[at..].trim(), 160))));
        }
    }
    found
}

fn find_word(line: &str, word: &str) -> Option<usize> {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let mut places = line.match_indices(word).map(|(at, _)| at);
    places.find(|at| {
        !is_part(line[..*at].chars().next_back())
            && !is_part(line[at + word.len()..].chars().next())
    })
}

/// Text for people; empty if there are no notes.
pub(super) fn show_todos(todos: &[(String, String)]) -> String {
    if todos.is_empty() {
        return String::new();
    }
    let mut out = String::from("\n**Left to do, as the change says**");
    for (file, note) in todos.iter().take(MAX_LISTED) {
        let _ = write!(out, "\n- `{file}`: {}", note.replace('`', "'"));
    }
    if todos.len() > MAX_LISTED {
        let _ = write!(out, "\n- and {} more", todos.len() - MAX_LISTED);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_notes_that_come_are_listed() {
        let diff = "--- a/x.rs\n+++ b/x.rs\n@@ -1 +1 @@\n-// TODO: old\n // FIXME: stays\n+let a = 1; // TODO(ana): round it\n\
                    +let TODOS = 2;\n+++ b/y.rs\n+# FIXME later\n";
        let found = added_todos(diff);
        assert_eq!(
            show_todos(&found),
            "\n**Left to do, as the change says**\n- `x.rs`: TODO(ana): round it\n- `y.rs`: FIXME later"
        );
        assert_eq!(show_todos(&[]), "");
    }
}
