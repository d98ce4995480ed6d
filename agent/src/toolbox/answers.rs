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
        ToolboxRequest::Write(args) => files::write_file(tree, seen, scratch, &args),
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
