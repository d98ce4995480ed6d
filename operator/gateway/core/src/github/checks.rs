//! Full state of a pull request: checks, reviews, remarks.

use codebutler_crds::wire::{HeadCheck, PullRequestState};
use serde::Deserialize;

use super::client::ListedItems;
use super::{GitHub, GitHubError, GitHubPull, text};

/// Longest summary of a check, in characters.
const SUMMARY: usize = 1000;

#[derive(Deserialize)]
struct CheckRun {
    #[serde(default)]
    id: u64,
    name: String,
    status: String,
    #[serde(default)]
    conclusion: Option<String>,
    /// Another one where a service runs the check again under the same id.
    #[serde(default)]
    completed_at: Option<String>,
    #[serde(default)]
    output: CheckOutput,
}

#[derive(Default, Deserialize)]
struct CheckOutput {
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    summary: Option<String>,
}

#[derive(Deserialize)]
struct CommitStatus {
    #[serde(default)]
    id: u64,
    context: String,
    state: String,
    #[serde(default)]
    description: Option<String>,
}

impl From<CheckRun> for HeadCheck {
    fn from(run: CheckRun) -> Self {
        let done = run.status == "completed";
        let ended = run.completed_at.filter(|_| done).unwrap_or_default();
        let attempt = Some(format!("{}:{}", run.id, text::one_line(&ended, 40)));
        let state = run.conclusion.filter(|_| done).unwrap_or_else(|| "pending".to_owned());
        let said = [run.output.title, run.output.summary].into_iter().flatten();
        let said = text::incoming_text(&said.collect::<Vec<_>>().join("\n"), SUMMARY);
        let summary = Some(said).filter(|said| !said.is_empty());
        let (name, state) = (text::one_line(&run.name, 200), text::one_line(&state, 40));
        Self { name, state, summary, attempt }
    }
}

impl From<CommitStatus> for HeadCheck {
    fn from(status: CommitStatus) -> Self {
        let said = text::incoming_text(&status.description.unwrap_or_default(), SUMMARY);
        Self {
            name: text::one_line(&status.context, 200),
            // One that is still at work is often reported again, with other words.
            attempt: (status.state != "pending").then(|| status.id.to_string()),
            state: text::one_line(&status.state, 40),
            summary: Some(said).filter(|said| !said.is_empty()),
        }
    }
}

impl GitHub {
    /// A pull request with everything that is known of it.
    ///
    /// # Errors
    /// When GitHub can't be asked.
    pub async fn state(&self, pull: GitHubPull) -> Result<PullRequestState, GitHubError> {
        let (checks, talk) = tokio::try_join!(self.checks(pull.head()), self.talk(pull.number))?;
        let mut state = pull.into_state(false);
        state.checks = checks;
        state.reviews = talk.verdicts();
        state.remarks = talk.remarks();
        Ok(state)
    }

    /// Check runs and commit statuses. A credential that may not read them is told so as a check of
    /// its own: nobody is to take silence for success.
    ///
    /// # Errors
    /// When GitHub can't be asked.
    pub async fn checks(&self, commit: &str) -> Result<Vec<HeadCheck>, GitHubError> {
        let path = |below: &str| self.client.repo(&format!("commits/{commit}/{below}"));
        let (runs, statuses) = (path("check-runs"), path("status"));
        let (runs, statuses) = tokio::try_join!(
            self.client.list_in::<CheckRun>(&runs, "check_runs", ""),
            self.client.list_in::<CommitStatus>(&statuses, "statuses", "")
        )?;
        let mut checks = Vec::new();
        match runs {
            None => checks.extend(self.actions(commit).await?),
            Some(ListedItems { items, missing }) => {
                checks.extend(items.into_iter().map(HeadCheck::from));
                checks.extend(unlisted_checks("check runs", missing));
            }
        }
        match statuses {
            None => checks.push(unreadable_check("commit statuses")),
            Some(ListedItems { items, missing }) => {
                checks.extend(items.into_iter().map(HeadCheck::from));
                checks.extend(unlisted_checks("commit statuses", missing));
            }
        }
        Ok(checks)
    }
}

/// Checks that were not read because there are too many of them: they are not taken for green.
pub(super) fn unlisted_checks(what: &str, missing: usize) -> Option<HeadCheck> {
    (missing > 0).then(|| HeadCheck {
        name: format!("{missing} more {what}"),
        state: "action_required".to_owned(),
        summary: Some("there are too many to read all of them: look at them at GitHub".to_owned()),
        attempt: None,
    })
}

pub(super) fn unreadable_check(what: &str) -> HeadCheck {
    HeadCheck {
        name: what.to_owned(),
        state: "unknown".to_owned(),
        summary: Some(format!("the Repo's credentials may not read {what}")),
        attempt: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_attempt_is_known_by_its_id_and_its_end() {
        let run = |id: u64, status: &str, ended: Option<&str>| {
            let conclusion = ended.map(|_| "failure");
            let run = json!({"id": id, "name": "test", "status": status, "conclusion": conclusion,
                "completed_at": ended});
            HeadCheck::from(serde_json::from_value::<CheckRun>(run).unwrap())
        };
        let first = run(1, "completed", Some("2026-11-30T10:00:00Z"));
        for again in [
            run(2, "in_progress", None),
            run(2, "completed", Some("2026-11-30T10:00:00Z")),
            run(1, "completed", Some("2026-11-30T10:05:00Z")),
        ] {
            assert_ne!(first.attempt, again.attempt, "{again:?}");
        }
        assert_eq!(run(1, "queued", None).attempt, run(1, "in_progress", None).attempt);
        let status = |id: u64, state: &str| {
            let status = json!({"id": id, "context": "ci", "state": state});
            HeadCheck::from(serde_json::from_value::<CommitStatus>(status).unwrap()).attempt
        };
        assert_eq!(status(1, "pending"), status(2, "pending"));
        assert_ne!(status(1, "failure"), status(2, "failure"));
    }
}
