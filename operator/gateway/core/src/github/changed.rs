//! Lists the pull requests that changed: one list, the newest change first, instead of a question
//! for each.

use http::StatusCode;
use http::header::DATE;
use jiff::Timestamp;
use jiff::fmt::rfc2822;

use super::{GitHub, GitHubError, GitHubPull};

/// Pull requests that a page holds.
const PAGE: usize = 100;
/// Pages that are read at most: what is further down is asked for by number.
const PAGES: u64 = 5;

/// Pull requests by their last change, newest first.
#[derive(Debug, Default)]
pub struct ChangedPulls {
    /// Pull requests in the form that lists have.
    pub pulls: Vec<GitHubPull>,
    /// GitHub's own time when it was asked.
    pub at: Option<Timestamp>,
    pub requests: u64,
}

impl GitHub {
    /// The pull requests that changed at `since` or later, and perhaps some others.
    ///
    /// # Errors
    /// When GitHub can't be asked.
    pub async fn changed(&self, since: Option<Timestamp>) -> Result<ChangedPulls, GitHubError> {
        let mut changed = ChangedPulls::default();
        for page in 1..=PAGES {
            let query =
                format!("pulls?state=all&sort=updated&direction=desc&per_page={PAGE}&page={page}");
            let answer = self.client.get(&self.client.repo(&query)).await?;
            changed.requests += 1;
            changed.at = changed.at.or_else(|| {
                let text = answer.header(DATE.as_str())?;
                Some(rfc2822::parse(text).ok()?.timestamp())
            });
            let pulls: Vec<GitHubPull> = self.client.expect(&answer, StatusCode::OK)?;
            let is_last = pulls.len() < PAGE;
            let oldest = pulls.last().and_then(GitHubPull::updated);
            changed.pulls.extend(pulls);
            if is_last || oldest.is_none() || since.is_some_and(|since| oldest < Some(since)) {
                break;
            }
        }
        Ok(changed)
    }
}
