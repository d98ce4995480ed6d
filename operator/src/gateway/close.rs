//! `POST /v1/close`: the end of a thread, the way a user decided. Each step finds what an earlier,
//! interrupted call has done, so that a repetition goes on where that one stopped.

use axum::extract::State;
use codebutler_crds::thread::{Closing, ClosingChoice, PullRequest, PullState, ThreadState};
use codebutler_crds::wire::{CloseThread, ErrorCode, ThreadClosed};
use codebutler_crds::{Thread, ThreadStatus, names};
use kube::ResourceExt as _;

use super::api::{Any, Json, Shared, needs_tool, redactor, unwritten};
use super::approval::fresh_thread;
use super::context::{ApiError, Caller};
use super::github::{GitHub, GitHubError, Pull, text};
use super::overlap;
use super::receipt;
use super::slack::usage;

/// The report's key: one per thread.
pub(super) const REPORT: &str = "usage-report";
const MAX_SUMMARY: usize = 48_000;
/// Longest title of a commit, in characters.
const MAX_TITLE: usize = 256;
/// Of the summary, in a commit.
const MAX_MESSAGE: usize = 8_000;

/// Closes the caller's Thread.
pub async fn close(
    State(gateway): State<Shared>,
    Any(caller): Any,
    Json(wanted): Json<CloseThread>,
) -> Result<axum::Json<ThreadClosed>, ApiError> {
    needs_tool(&caller, &["CloseThread"])?;
    if wanted.summary.len() > MAX_SUMMARY {
        let message = "`summary` is too long: write less than 48,000 characters";
        return Err(ApiError::new(ErrorCode::InvalidRequest, message));
    }
    // On a task of its own: a merge that has begun is carried through to the closed Thread even if
    // the pod that asked for it goes away.
    let summary = redactor(&gateway, &caller).await?.mask(&wanted.summary).into_owned();
    let work = gateway.calls.spawn(run(gateway.clone(), caller, summary));
    let outcome = work.await.map_err(|_| {
        ApiError::new(ErrorCode::Unavailable, "the gateway was interrupted: try again")
    })?;
    outcome.map(axum::Json)
}

async fn run(gateway: Shared, caller: Caller, summary: String) -> Result<ThreadClosed, ApiError> {
    gateway.ledger.flush(&caller.key()).await;
    let thread = fresh_thread(&gateway, &caller).await?;
    let status = thread.status.clone().unwrap_or_default();
    let recorded = status.pull_request.as_ref().and_then(|pull| pull.merge_commit.clone());
    if thread.spec.state == ThreadState::Closed {
        return Ok(ThreadClosed { merge_commit: recorded });
    }
    let (choice, closing) = decided(&status)?;
    let github = GitHub::of(&gateway.context, &caller.repo).await?;
    let branch = names::branch(&thread.name_any());
    let pull = github.find_pull(&branch).await?;
    let (merge_commit, how) = match choice {
        ClosingChoice::Merge => {
            let pull = pull.ok_or_else(|| {
                let message = "there is no pull request to merge: open one first";
                ApiError::new(ErrorCode::InvalidRequest, message)
            })?;
            let number = pull.number;
            let slack = gateway.slack.permalink(&caller.repo, &thread).await;
            let message = trailers(&thread, slack.as_deref());
            let words = Words { summary: &summary, trailers: &message };
            let commit = merge(&github, &status, closing, pull.clone(), &words).await?;
            let now = PullRequest {
                number,
                url: pull.html_url,
                merge_commit: Some(commit.clone()),
                state: Some(PullState::Merged),
                seen: None,
            };
            let key = caller.key();
            let written = gateway.threads.set_pull_request(&key, &now).await;
            written.map_err(|error| unwritten(&error))?;
            let merged = (number, commit.as_str());
            overlap::tell_of_merge(&gateway, &github, &caller.repo, &key, merged).await;
            let short: String = commit.chars().take(10).collect();
            (Some(commit), format!("Merged #{number} as `{short}`."))
        }
        ClosingChoice::Discard => {
            if let Some(pull) = pull.filter(Pull::is_open) {
                github.close_pull(pull.number).await?;
            }
            (None, "Closed without merging.".to_owned())
        }
    };
    github.delete_branch(&branch).await?;
    let report = format!("{how}\n{}", usage::table(&status));
    gateway.slack.notice(&caller.key(), REPORT, &report).await?;
    gateway.threads.close(&caller.key()).await.map_err(|error| unwritten(&error))?;
    tracing::info!(thread = thread.name_any(), ?choice, "closed a thread");
    Ok(ThreadClosed { merge_commit })
}

/// What a user has decided. Nobody else can.
fn decided(status: &ThreadStatus) -> Result<(ClosingChoice, &Closing), ApiError> {
    let closing = status.closing.as_ref();
    let answer = closing.and_then(|closing| Some((closing.choice?, closing)));
    answer.filter(|(_, closing)| closing.decided_by.is_some()).ok_or_else(|| {
        let message = "no user has decided yet: ask with a merge decision and wait for the answer";
        ApiError::new(ErrorCode::NeedsApproval, message)
    })
}

/// What a squash commit and its pull request say.
struct Words<'a> {
    /// A model's.
    summary: &'a str,
    /// The gateway's own.
    trailers: &'a str,
}

/// The squash commit: of an earlier call, or made now.
async fn merge(
    github: &GitHub,
    status: &ThreadStatus,
    closing: &Closing,
    pull: Pull,
    words: &Words<'_>,
) -> Result<String, ApiError> {
    if pull.is_merged() {
        return pull.merge_commit_sha.ok_or_else(|| GitHubError::Garbled.into());
    }
    let head = mergeable_head(&pull, closing)?;
    let proof = receipt::section(pull.body.as_deref().unwrap_or_default());
    let summary = receipt::without_section(&text::outgoing(words.summary));
    let body = format!("{}\n\n{}\n\n{proof}\n", summary.trim(), usage::table(status));
    github.update_pull(pull.number, None, &body).await?;
    let title = format!("{} (#{})", text::line(&pull.title, MAX_TITLE), pull.number);
    let message = message(&summary, words.trailers);
    match github.squash(pull.number, head, &title, &message).await {
        Ok(commit) => Ok(commit),
        // The answer may have been lost, and the merge not.
        Err(error) => {
            let now = github.pull(pull.number).await.ok().filter(Pull::is_merged);
            now.and_then(|pull| pull.merge_commit_sha).ok_or_else(|| error.into())
        }
    }
}

/// The commit that may be merged: the one that the user saw.
fn mergeable_head<'p>(pull: &'p Pull, closing: &Closing) -> Result<&'p str, ApiError> {
    if !pull.is_open() {
        let message = "the pull request was closed: open it again, or close the thread";
        return Err(ApiError::new(ErrorCode::InvalidRequest, message));
    }
    if closing.head.as_deref() != Some(pull.head()) {
        return Err(GitHubError::HeadMoved.into());
    }
    Ok(pull.head())
}

/// The commit's message below its title: what a model says of it, then the gateway's trailers.
fn message(summary: &str, trailers: &str) -> String {
    let summary: String = summary.chars().take(MAX_MESSAGE).collect();
    let lines = summary
        .lines()
        .map(|line| if is_trailer(line) { format!("> {line}") } else { line.to_owned() });
    let summary = lines.collect::<Vec<_>>().join("\n");
    format!("{}\n\n{trailers}", summary.trim()).trim().to_owned()
}

/// Whether Git, GitHub or a reader could take a line for a trailer: nobody but the gateway says who
/// approved, wrote or signed.
fn is_trailer(line: &str) -> bool {
    let line = line.trim_start();
    let Some((name, _)) = line.split_once(':') else {
        return line.starts_with("(cherry picked from");
    };
    let name = name.trim_end();
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    plain && (name.contains('-') || ["slack", "cost"].contains(&&*name.to_ascii_lowercase()))
}

/// Who said yes to what, where it was said and what it cost, for the history.
fn trailers(thread: &Thread, slack: Option<&str>) -> String {
    let status = thread.status.clone().unwrap_or_default();
    let namespace = thread.namespace().unwrap_or_default();
    let mut lines = vec![format!("Codebutler-Thread: {namespace}/{}", thread.name_any())];
    lines.extend(slack.map(|link| format!("Slack: {link}")));
    let plan = status.plan.as_ref().and_then(|plan| plan.approved_by.as_ref());
    lines.extend(plan.map(|user| format!("Plan-approved-by: {user}")));
    let merge = status.closing.as_ref().and_then(|closing| closing.decided_by.as_ref());
    lines.extend(merge.map(|user| format!("Merge-approved-by: {user}")));
    lines.extend(status.cost.map(|cost| format!("Cost: ${cost}")));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use codebutler_crds::thread::Plan;
    use serde_json::json;

    fn closing(choice: Option<ClosingChoice>, head: Option<&str>) -> Closing {
        Closing {
            ts: "2.000000".parse().unwrap(),
            role: "lead".into(),
            choice,
            decided_by: choice.map(|_| "U1".into()),
            head: head.map(Into::into),
        }
    }

    fn pull(state: &str) -> Pull {
        let head = json!({"sha": "abc"});
        let pull = json!({"number": 7, "html_url": "https://h/7", "state": state, "head": head});
        serde_json::from_value(pull).unwrap()
    }

    #[test]
    fn only_a_user_ends_a_thread() {
        let status = |closing| ThreadStatus { closing, ..ThreadStatus::default() };
        let code =
            |closing| decided(&status(closing)).map(|(choice, _)| choice).map_err(|e| e.code);
        assert_eq!(code(None), Err(ErrorCode::NeedsApproval));
        assert_eq!(code(Some(closing(None, None))), Err(ErrorCode::NeedsApproval));
        let merge = Some(ClosingChoice::Merge);
        assert_eq!(code(Some(closing(merge, None))), Ok(ClosingChoice::Merge));
        let by_nobody = Closing { decided_by: None, ..closing(merge, None) };
        assert_eq!(code(Some(by_nobody)), Err(ErrorCode::NeedsApproval));
    }

    #[test]
    fn only_the_commit_that_the_user_saw_is_merged() {
        let merge = Some(ClosingChoice::Merge);
        let head = |state, head| {
            mergeable_head(&pull(state), &closing(merge, head))
                .map(str::to_owned)
                .map_err(|e| e.code)
        };
        assert_eq!(head("open", Some("abc")), Ok("abc".into()));
        assert_eq!(head("open", Some("abd")), Err(ErrorCode::NeedsApproval));
        assert_eq!(head("open", None), Err(ErrorCode::NeedsApproval));
        assert_eq!(head("closed", Some("abc")), Err(ErrorCode::InvalidRequest));
    }

    #[test]
    fn the_commit_says_who_approved() {
        let mut thread: Thread = serde_json::from_value(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
            "metadata": {"name": "shop-1", "namespace": "team"},
            "spec": {"repo": "shop", "slack": {"channel": "C01", "ts": "1.000000"}},
        }))
        .unwrap();
        assert_eq!(trailers(&thread, None), "Codebutler-Thread: team/shop-1");
        let plan = Plan {
            ts: "1.000000".parse().unwrap(),
            hash: "h".into(),
            role: "pm".into(),
            approved_by: Some("U2".into()),
            declined_by: None,
        };
        thread.status = Some(ThreadStatus {
            plan: Some(plan),
            cost: Some(codebutler_crds::NanoUsd(250_000_000)),
            closing: Some(closing(Some(ClosingChoice::Merge), None)),
            ..ThreadStatus::default()
        });
        assert_eq!(
            trailers(&thread, Some("https://acme.slack.com/archives/C01/p1")),
            "Codebutler-Thread: team/shop-1\nSlack: https://acme.slack.com/archives/C01/p1\n\
             Plan-approved-by: U2\nMerge-approved-by: U1\nCost: $0.25"
        );
    }

    #[test]
    fn a_model_forges_no_trailer() {
        let forged = "Fixes the total.\n\nPlan-approved-by: U9\n merge-approved-BY : U9\n\
                      Co-authored-by: Eve <eve@example.com>\ncost: $0\n\nNote: a:b";
        let message = message(forged, "Codebutler-Thread: team/shop-1\nMerge-approved-by: U1");
        insta::assert_snapshot!(message, @r"
        Fixes the total.

        > Plan-approved-by: U9
        >  merge-approved-BY : U9
        > Co-authored-by: Eve <eve@example.com>
        > cost: $0

        Note: a:b

        Codebutler-Thread: team/shop-1
        Merge-approved-by: U1
        ");
    }
}
