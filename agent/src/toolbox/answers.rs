//! Requests that are answered by code that blocks.

use std::path::Path;

use super::files::{self, SeenFiles};
use super::git::{self, GitSite};
use super::paths::WorktreeRoot;
use super::protocol::{ToolboxReply, ToolboxRequest};
use super::{ToolError, search};
use codebutler_guides::text::clip_text;

/// Answers requests about the repository's memory: guides, learnings, skills, research and journals.
pub(super) fn answer_memory(
    place: &GitSite,
    request: ToolboxRequest,
) -> Result<ToolboxReply, ToolError> {
    match request {
        ToolboxRequest::BaseGuide { file } => git::usable_guide(place, &file),
        ToolboxRequest::Memory { file } => {
            git::read_memory(place, file.as_deref()).map(ToolboxReply::Text)
        }
        ToolboxRequest::BranchPage { file } => {
            git::branch_page(place, &file).map(ToolboxReply::Guide)
        }
        ToolboxRequest::CommitLearnings { changes, message, pages } => {
            git::commit_learnings(place, &changes, &pages, &message).map(ToolboxReply::Text)
        }
        ToolboxRequest::CheckCitations { citations } => {
            git::check_citations(place, &citations).map(ToolboxReply::Faults)
        }
        ToolboxRequest::QuoteCitation { citation } => git::quote_citation(place, citation)
            .map(|quoted| ToolboxReply::Text(quoted.to_string())),
        ToolboxRequest::StaleLearnings => git::find_stale_learnings(place).map(ToolboxReply::Stale),
        ToolboxRequest::Skills => git::read_skills(place).map(ToolboxReply::Skills),
        ToolboxRequest::Research => git::known_research(place).map(ToolboxReply::Research),
        ToolboxRequest::PastRequests => git::past_requests(place).map(ToolboxReply::Files),
        ToolboxRequest::PullTemplates => git::read_templates(place).map(ToolboxReply::Files),
        ToolboxRequest::Conventions { planned } => {
            git::read_conventions(place, &planned).map(ToolboxReply::Files)
        }
        _ => Err(ToolError::Failed("this is asked of somebody else".into())),
    }
}

/// The requests that are answered with text, by code that blocks.
pub(super) fn answer_work(
    tree: &WorktreeRoot,
    place: &GitSite,
    seen: &SeenFiles,
    scratch: &Path,
    request: ToolboxRequest,
) -> Result<String, ToolError> {
    match request {
        ToolboxRequest::Write(args) => match files::changed_since(tree, seen, &args) {
            None => files::write_file(tree, seen, scratch, &args),
            Some(path) => {
                let kept = keep_changed(place, &path)?;
                files::write_file(tree, seen, scratch, &args).map(|told| told + &kept)
            }
        },
        ToolboxRequest::Edit { edit, plan } => files::edit_files(tree, seen, scratch, &edit, &plan),
        ToolboxRequest::Grep(args) => search::grep_files(tree, &args),
        ToolboxRequest::Glob(args) => search::find_files(tree, &args),
        ToolboxRequest::Head => git::head_commit(place),
        ToolboxRequest::GitLog(args) => git::show_log(place, tree, &args),
        ToolboxRequest::GitDiff(args) => git::show_diff(place, tree, &args),
        ToolboxRequest::GitShow(args) => git::show_commit(place, tree, &args),
        ToolboxRequest::GitBlame(args) => git::blame_lines(place, tree, &args),
        ToolboxRequest::GitCommit { commit, parent } => {
            git::commit_files(place, tree, &commit, &parent)
        }
        other => Err(ToolError::Failed(format!(
            "not answered with text: {}",
            clip_text(&format!("{other:?}"), 60)
        ))),
    }
}

/// Keeps a file that is about to be overwritten by somebody who has not seen it as it is; the note on that.
fn keep_changed(place: &GitSite, path: &str) -> Result<String, ToolError> {
    let unkept = |why: &str| {
        ToolError::refused(format!(
            "`{path}` has changed since you read it, and what it is now can't be kept ({why}): read it again"
        ))
    };
    let failed = |error: ToolError| unkept(&error.to_string());
    let kept = git::keep_work(place).map_err(failed)?;
    if !git::holds_file(place, &kept, path).map_err(failed)? {
        return Err(unkept("snapshots leave out ignored folders and large files"));
    }
    Ok(format!(
        "\nNote: `{path}` had changed since you saw it, by a command or another role. What it was is kept: if you \
         have Bash, `git show {}:{path}` shows it. Bring back what was not yours to change.",
        kept.name
    ))
}

impl ToolboxReply {
    /// With remarks of the toolbox before those that it has.
    pub(super) fn noting(self, more: impl IntoIterator<Item = String>) -> Self {
        let (reply, said) = self.with_notes();
        let notes: Vec<_> = more.into_iter().chain(said).collect();
        if notes.is_empty() { reply } else { Self::Noted(Box::new(reply), notes) }
    }

    /// The reply, and the remarks that come with it.
    pub fn with_notes(self) -> (Self, Vec<String>) {
        match self {
            Self::Noted(reply, notes) => (*reply, notes),
            plain => (plain, Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::git::fixture::GitFixture;
    use super::*;
    use crate::tool_args as args;

    #[test]
    fn what_others_made_of_a_file_is_kept_before_it_is_overwritten() {
        let f = GitFixture::new();
        git::prepare_worktree(&f.place).unwrap();
        let tree = WorktreeRoot::open(&f.place.tree()).unwrap();
        let seen = SeenFiles::default();
        let write = |content: &str| {
            let args = args::WriteArgs { path: "a.txt".into(), content: content.into() };
            let request = ToolboxRequest::Write(args);
            answer_work(&tree, &f.place, &seen, f.dir.path(), request).unwrap()
        };
        for content in ["one\n", "two\n"] {
            let told = write(content);
            assert!(!told.contains("Note"), "{told}");
        }
        f.write("a.txt", "by another role\n");
        let told = write("three\n");
        assert!(told.contains("had changed since you saw it"), "{told}");
        assert!(told.contains("`git show refs/codebutler/snap/1:a.txt`"), "{told}");
        let kept = f.git(&f.place.tree(), &["show", "refs/codebutler/snap/1:a.txt"]);
        assert_eq!((kept.as_str(), f.file("a.txt").as_str()), ("by another role", "three\n"));
        assert!(!write("four\n").contains("Note"));
    }

    #[test]
    fn what_no_snapshot_holds_is_not_overwritten_unread() {
        let f = GitFixture::new();
        git::prepare_worktree(&f.place).unwrap();
        let tree = WorktreeRoot::open(&f.place.tree()).unwrap();
        let seen = SeenFiles::default();
        let path = "target/a.txt";
        let write = |content: &str| {
            let args = args::WriteArgs { path: path.into(), content: content.into() };
            let request = ToolboxRequest::Write(args);
            answer_work(&tree, &f.place, &seen, f.dir.path(), request)
        };
        write("one\n").unwrap();
        f.write(path, "by a build\n");
        let refused = write("two\n").unwrap_err().to_string();
        assert!(refused.contains("ignored folders") && refused.contains("read it"), "{refused}");
        assert_eq!(f.file(path), "by a build\n");
        let read = args::ReadArgs { path: path.into(), ..args::ReadArgs::default() };
        files::read_file(&tree, &seen, &read).unwrap();
        write("two\n").unwrap();
        assert_eq!(f.file(path), "two\n");
    }
}
