//! An item is done when its pull request is merged: so that the file says so from then on, the pull request
//! itself has to.

use codebutler_crds::Thread;
use codebutler_crds::wire::ErrorCode;
use codebutler_roadmap::{ItemStatus, Roadmap};

use super::PATH;
use crate::gateway::api_error::ApiError;
use crate::gateway::github::{GitHub, GitHubError};

/// What the commit that a pull request is opened for lacks, if it is for an item of the roadmap.
///
/// # Errors
/// When GitHub can't be asked.
pub async fn find_missing_mark(
    github: &GitHub,
    thread: &Thread,
    commit: Option<&str>,
) -> Result<Option<ApiError>, GitHubError> {
    let Some((item, commit)) = thread.spec.item.as_deref().zip(commit) else { return Ok(None) };
    let Some(file) = github.file(PATH, commit).await? else { return Ok(None) };
    let missing = is_unmarked(&Roadmap::read(&String::from_utf8_lossy(&file)), item);
    let message = || {
        format!(
            "item `{item}` is not done in `{PATH}` on this branch: set its `Status` to `done` and its `Branch` to this branch there, \
             change nothing else in the file, commit, push, and open the pull request again"
        )
    };
    Ok(missing.then(|| ApiError::new(ErrorCode::InvalidRequest, message())))
}

fn is_unmarked(roadmap: &Roadmap, item: &str) -> bool {
    roadmap.item(item).is_some_and(|item| item.status != ItemStatus::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_of_the_file_has_to_be_done_and_nothing_is_asked_of_others() {
        let file = "## 1. A\n- Status: done\n\n## 2. B\n- Acceptance criteria: b\n";
        let roadmap = Roadmap::read(file);
        assert!(is_unmarked(&roadmap, "2"));
        assert!(!is_unmarked(&roadmap, "1") && !is_unmarked(&roadmap, "nightly"));
    }
}
