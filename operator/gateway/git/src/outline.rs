//! A push in the words that people are shown before it happens. Pure.

use codebutler_crds::policy::GuardedEffects;
use codebutler_gateway_core::consent::GuardedEffect;

use super::host::RefUpdate;
use super::rules::IncomingPush;

/// Commits and files that are named.
const MOST: usize = 40;
/// Characters of a commit's first line.
const LINE: usize = 100;

pub(crate) struct ChangeOutline {
    summary: String,
    detail: String,
}

impl ChangeOutline {
    /// Summarizes what a push would do to its branch.
    pub(crate) fn of(incoming: &IncomingPush, update: &RefUpdate) -> Self {
        let branch = update.name.trim_start_matches("refs/heads/");
        let count = incoming.commits.len();
        let commits = if count == 1 { "commit" } else { "commits" };
        let from = short_id(update.old.as_deref().unwrap_or("nothing"));
        let back = if incoming.fast_forward { "" } else { ", taking back what is on it" };
        let summary = format!(
            "Push {count} {commits} to `{branch}` (`{from}..{}`){back}",
            short_id(&update.new)
        );
        let title = |text: &str| {
            let message = text.split_once("\n\n").map_or("", |(_, message)| message);
            message.lines().next().unwrap_or_default().chars().take(LINE).collect::<String>()
        };
        let mut lines: Vec<String> = incoming
            .commits
            .iter()
            .map(|commit| format!("{} {}", short_id(&commit.id), title(&commit.text)))
            .collect();
        cut_lines(&mut lines, "commits");
        let changes = incoming.commits.iter().flat_map(|commit| commit.changes.iter());
        let mut files: Vec<String> = changes
            .map(|change| {
                let sign = match (&change.blob, change.before.is_empty()) {
                    (None, _) => '-',
                    (Some(_), true) => '+',
                    (Some(_), false) => '*',
                };
                format!("{sign} {}", change.path)
            })
            .collect();
        files.sort_unstable();
        files.dedup();
        cut_lines(&mut files, "files");
        lines.push(String::new());
        lines.append(&mut files);
        Self { summary, detail: lines.join("\n") }
    }

    /// The effect that people are asked about: this commit on that one.
    pub(crate) fn effect<'a>(&self, exactly: &'a [&'a str; 3]) -> GuardedEffect<'a> {
        let (summary, detail) = (self.summary.clone(), self.detail.clone());
        let kind = GuardedEffects::Push;
        GuardedEffect { kind, is_required: false, summary, detail, exactly }
    }
}

fn cut_lines(lines: &mut Vec<String>, of: &str) {
    let more = lines.len().saturating_sub(MOST);
    if more > 0 {
        lines.truncate(MOST);
        lines.push(format!("and {more} more {of}"));
    }
}

fn short_id(id: &str) -> &str {
    id.get(..10).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{FileChange, NewCommit};

    fn change(path: &str, blob: Option<&str>, before: &[&str]) -> FileChange {
        let before = before.iter().map(ToString::to_string).collect();
        FileChange { path: path.to_owned(), blob: blob.map(str::to_owned), before }
    }

    #[test]
    fn people_see_commits_and_files() {
        let update = RefUpdate {
            name: "refs/heads/codebutler/t".to_owned(),
            old: Some("1".repeat(40)),
            new: "2".repeat(40),
        };
        let commit = NewCommit {
            id: "2".repeat(40),
            text: "tree x\nauthor y\n\nFix the total\n\nBecause.\n".to_owned(),
            changes: vec![
                change("src/b.rs", Some("b"), &["a"]),
                change("src/a.rs", Some("a"), &[]),
                change("old.txt", None, &["c"]),
            ]
            .into(),
            ..NewCommit::default()
        };
        let mut incoming =
            IncomingPush { fast_forward: true, commits: vec![commit], ..IncomingPush::default() };
        let outline = ChangeOutline::of(&incoming, &update);
        assert_eq!(outline.summary, "Push 1 commit to `codebutler/t` (`1111111111..2222222222`)");
        assert_eq!(outline.detail, "2222222222 Fix the total\n\n* src/b.rs\n+ src/a.rs\n- old.txt");
        incoming.fast_forward = false;
        incoming.commits[0].changes =
            (0..100).map(|n| change(&format!("f{n}"), Some("a"), &[])).collect();
        let outline = ChangeOutline::of(&incoming, &update);
        assert!(outline.summary.ends_with("taking back what is on it"), "{}", outline.summary);
        assert!(outline.detail.ends_with("and 60 more files"), "{}", outline.detail);
    }
}
