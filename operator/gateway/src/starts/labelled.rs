//! Issues at GitHub that have the label of their Repo.

use codebutler_crds::wire::RepoIssue;
use codebutler_crds::{Repo, names};
use codebutler_gateway_core::github::GitHub;
use codebutler_runtime::step;
use kube::ResourceExt as _;

use super::record::{self, BegunWork};
use super::{
    PATIENCE, StartError, ThreadOrigin, WorkServices, ensure_thread, is_open, issue, thread_of,
};

/// Begins work on issues of a Repo that have none yet.
///
/// # Errors
/// When GitHub or the cluster refuses.
pub(super) async fn look_at(gateway: &WorkServices, repo: &Repo) -> Result<(), StartError> {
    let Some(spec) = &repo.spec.issues else { return Ok(()) };
    let found = async {
        GitHub::of(&gateway.context, repo).await?.labelled(&spec.label, issue::BODY).await
    };
    let found = tokio::time::timeout(PATIENCE, found).await.map_err(|_| StartError::Slow)??;
    begin_labelled(gateway, repo, &found).await
}

/// Begins what has none yet, the oldest first, as far as there is room.
async fn begin_labelled(
    gateway: &WorkServices,
    repo: &Repo,
    found: &[RepoIssue],
) -> Result<(), StartError> {
    let known = repo.status.as_ref().map(|status| status.begun_issues.as_slice());
    let known = known.unwrap_or_default();
    let origin = Some(ThreadOrigin::Issue.label());
    let open = gateway.context.attended.all().into_iter().filter(|thread| {
        let here = thread.namespace() == repo.namespace() && thread.spec.repo == repo.name_any();
        here && is_open(thread) && thread.labels().get(names::LABEL_ORIGIN).map(|l| &**l) == origin
    });
    let places = repo.spec.limits.concurrent_threads as usize;
    let mut free = places.saturating_sub(open.count());
    let (mut begun, mut failed) = (Vec::new(), None);
    for issue in found.iter().filter(|issue| !known.contains(&issue.number)) {
        if free == 0 {
            break;
        }
        let (id, by) = (issue.number.to_string(), format!("issue #{}", issue.number));
        let shown = format!("issue-{id}");
        let own = thread_of(repo, ThreadOrigin::Issue, (&id, &shown), &by, issue::prompt_of(issue));
        match ensure_thread(gateway, repo, own).await {
            Ok(thread) => {
                step::point("an issue has its thread");
                let (name, issue) = (thread.name_any(), issue.number);
                tracing::info!(thread = name, issue, "issue_thread_started");
                free -= usize::from(is_open(&thread));
                begun.push(issue);
            }
            // This issue has to wait: the others go on.
            Err(StartError::Going) => {}
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    if !begun.is_empty() {
        let waiting: Vec<u64> = found.iter().map(|issue| issue.number).collect();
        let change = |work: &mut BegunWork| work.put_issues(&begun, &waiting);
        record::update_record(&gateway.context.client, repo, change).await?;
    }
    failed.map_or(Ok(()), Err)
}
