//! Check results of a commit from GitHub's own workflows, for credentials that may not read checks:
//! GitHub grants that to no fine-grained personal token.

use codebutler_crds::wire::HeadCheck;
use serde::Deserialize;

use super::checks::{unlisted_checks, unreadable_check};
use super::client::ListedItems;
use super::{GitHub, GitHubError, text};

/// Failed workflows whose jobs are looked at.
const LOOKED_AT: usize = 5;
/// Jobs and steps that are named.
const NAMED: usize = 10;

#[derive(Deserialize)]
struct WorkflowRun {
    id: u64,
    #[serde(default)]
    run_attempt: u64,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    conclusion: Option<String>,
}

#[derive(Deserialize)]
struct WorkflowJob {
    name: String,
    #[serde(default)]
    conclusion: Option<String>,
    #[serde(default)]
    steps: Vec<WorkflowStep>,
}

#[derive(Deserialize)]
struct WorkflowStep {
    name: String,
    #[serde(default)]
    conclusion: Option<String>,
}

fn has_failed(conclusion: Option<&String>) -> bool {
    matches!(
        conclusion.map(String::as_str),
        Some("failure" | "timed_out" | "cancelled" | "action_required" | "startup_failure")
    )
}

impl GitHub {
    /// The commit's workflow runs as checks, and that there may be others. What can't be read either is
    /// told so: nobody is to take silence for success.
    pub(super) async fn actions(&self, commit: &str) -> Result<Vec<HeadCheck>, GitHubError> {
        let path = self.client.repo("actions/runs");
        let query = format!("&head_sha={commit}");
        let runs = self.client.list_in::<WorkflowRun>(&path, "workflow_runs", &query).await?;
        let Some(ListedItems { items: runs, missing }) = runs else {
            let why = "the Repo's credentials may read neither checks nor Actions: use a GitHub App with \
                       `checks: read`, or let the token read Actions";
            return Ok(vec![HeadCheck {
                summary: Some(why.to_owned()),
                ..unreadable_check("checks")
            }]);
        };
        let mut checks = Vec::new();
        let mut looked_at = 0;
        for run in runs {
            let has_failed = has_failed(run.conclusion.as_ref());
            let summary = if has_failed && looked_at < LOOKED_AT {
                looked_at += 1;
                self.failures(run.id).await?
            } else {
                None
            };
            let done = run.status.as_deref() == Some("completed");
            let state = run.conclusion.filter(|_| done).unwrap_or_else(|| "pending".to_owned());
            let name = text::one_line(&run.name.unwrap_or_default(), 200);
            let attempt = Some(format!("{}:{}", run.id, run.run_attempt));
            checks.push(HeadCheck { name, state: text::one_line(&state, 40), summary, attempt });
        }
        checks.extend(unlisted_checks("workflow runs", missing));
        let others = "the Repo's token may not read checks, only what GitHub's own workflows say: those of \
                      other services need a GitHub App with `checks: read`";
        let others = HeadCheck {
            summary: Some(others.to_owned()),
            ..unreadable_check("checks of other services")
        };
        checks.push(others);
        Ok(checks)
    }

    /// Names the failed jobs of a run, and the steps at which they failed.
    async fn failures(&self, run: u64) -> Result<Option<String>, GitHubError> {
        let path = self.client.repo(&format!("actions/runs/{run}/jobs"));
        let jobs = self.client.list_in::<WorkflowJob>(&path, "jobs", "&filter=latest").await;
        // The runs' own conclusions say enough without them.
        let Ok(Some(ListedItems { items: jobs, .. })) = jobs else { return Ok(None) };
        let jobs = jobs.iter().filter(|job| has_failed(job.conclusion.as_ref())).take(NAMED);
        let told = jobs.map(|job| {
            let steps = job.steps.iter().filter(|step| has_failed(step.conclusion.as_ref()));
            let steps: Vec<_> =
                steps.take(NAMED).map(|step| text::one_line(&step.name, 100)).collect();
            let at =
                if steps.is_empty() { String::new() } else { format!(" at {}", steps.join(", ")) };
            format!("{} failed{at}", text::one_line(&job.name, 100))
        });
        let told = told.collect::<Vec<_>>().join("\n");
        Ok(Some(told).filter(|told| !told.is_empty()))
    }
}
