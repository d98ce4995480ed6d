//! Redaction of a Repo, complete before its first text leaves: a process that has just begun asks
//! the Git host what the repository itself wants masked. Later every Git request brings it up to
//! date.

use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::Repo;
use kube::ResourceExt as _;
use tokio::time::timeout;

use crate::context::GatewayContext;
use crate::github::GitHub;
use crate::github_access::GitHubError;
use crate::policy::{self, WantedMasking};
use crate::redact::SecretRedactor;

/// Time that a text waits for the repository's patterns.
const PATIENCE: Duration = Duration::from_secs(10);

/// The redactor of a Repo, with the patterns of its repository's base branch.
///
/// # Errors
/// When they are not known and can't be read: then nothing may leave.
pub async fn current_redactor(
    context: &GatewayContext,
    repo: &Repo,
) -> Result<Arc<SecretRedactor>, GitHubError> {
    let redactors = &context.redactors;
    if !redactors.has_learned(repo) {
        let base = &repo.spec.git.branch;
        let github = GitHub::of(context, repo).await?;
        let Some(tip) = github.tip(base).await? else { return Err(github.no_base(base).await) };
        let file = github.file(policy::FILE, &tip.commit).await?;
        let WantedMasking { rules, problems, approvals, approvals_unread } =
            file.map(|file| policy::parse_policy(&file)).unwrap_or_default();
        // With an empty commit the next Git request reads the file again and tells the thread of
        // the problems.
        let commit = if problems.is_empty() { tip.commit.as_str() } else { "" };
        redactors.learn(repo, commit, rules, problems.is_empty());
        redactors.learn_approvals(repo, approvals, approvals_unread);
    }
    Ok(redactors.of(repo))
}

/// Returns the redactor for texts that people wait for: where the repository's own patterns can't
/// be read soon, all others are in force.
pub async fn as_known(context: &GatewayContext, repo: &Repo) -> Arc<SecretRedactor> {
    let redactors = &context.redactors;
    if redactors.has_missed(repo) && !redactors.has_learned(repo) {
        return redactors.of(repo);
    }
    let why = match timeout(PATIENCE, current_redactor(context, repo)).await {
        Ok(Ok(redactor)) => return redactor,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "GitHub takes too long".to_owned(),
    };
    redactors.miss(repo);
    tracing::warn!(repo = repo.name_any(), why, "redaction_patterns_unknown");
    redactors.of(repo)
}
