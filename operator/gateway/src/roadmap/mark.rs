//! An item is done when its pull request is merged: so that the file says so from then on, the pull request
//! itself has to.

use codebutler_crds::Thread;
use codebutler_crds::wire::ErrorCode;
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::github::{GitHub, GitHubError};
use codebutler_roadmap::{ItemStatus, RoadmapFile};

use super::PATH;

/// Result of checking an item in the roadmap's file, at the commit of its pull request.
#[derive(Debug, Default)]
pub struct ItemMark {
    /// Error that says what has to be added before the pull request can be opened.
    pub missing: Option<ApiError>,
    /// The issue that is done with it.
    pub issue: Option<u64>,
}

impl ItemMark {
    /// A pull request's description, by which GitHub closes the item's issue when it is merged.
    pub fn inscribe(&self, body: String) -> String {
        match self.issue.map(|number| format!("Closes #{number}")) {
            Some(closes) if !body.lines().any(|line| line.trim() == closes) => {
                format!("{body}\n\n{closes}")
            }
            _ => body,
        }
    }
}

/// Looks the item of a Thread up in the commit that its pull request is opened for; nothing for a Thread
/// without one.
///
/// # Errors
/// When GitHub can't be asked.
pub async fn find_mark(
    github: &GitHub,
    thread: &Thread,
    commit: Option<&str>,
) -> Result<ItemMark, GitHubError> {
    let Some((item, commit)) = thread.spec.item.as_deref().zip(commit) else {
        return Ok(ItemMark::default());
    };
    let Some(file) = github.file(PATH, commit).await? else { return Ok(ItemMark::default()) };
    let roadmap = RoadmapFile::read(&String::from_utf8_lossy(&file));
    let missing = is_unmarked(&roadmap, item);
    let message = || {
        format!(
            "item `{item}` is not done in `{PATH}` on this branch: set its `Status` to `done` and its `Branch` to this branch there, \
             change nothing else in the file, commit, push, and open the pull request again"
        )
    };
    let missing = missing.then(|| ApiError::new(ErrorCode::InvalidRequest, message()));
    Ok(ItemMark { missing, issue: roadmap.item(item).and_then(|item| item.issue) })
}

fn is_unmarked(roadmap: &RoadmapFile, item: &str) -> bool {
    roadmap.item(item).is_some_and(|item| item.status != ItemStatus::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_of_the_file_has_to_be_done_and_nothing_is_asked_of_others() {
        let file = "## 1. A\n- Status: done\n\n## 2. B\n- Acceptance criteria: b\n";
        let roadmap = RoadmapFile::read(file);
        assert!(is_unmarked(&roadmap, "2"));
        assert!(!is_unmarked(&roadmap, "1") && !is_unmarked(&roadmap, "nightly"));
    }

    #[test]
    fn a_pull_request_closes_the_issue_of_its_item_once() {
        let mark = ItemMark { missing: None, issue: Some(7) };
        let body = mark.inscribe("Done.".to_owned());
        assert_eq!(body, "Done.\n\nCloses #7");
        assert_eq!(mark.inscribe(body.clone()), body);
        assert_eq!(ItemMark::default().inscribe("Done.".to_owned()), "Done.");
    }
}
