//! `POST /v1/close`: the end of a thread, the way a user decided. Each step finds what an earlier,
//! interrupted call has done, so that a repetition goes on where that one stopped. A merge that GitHub
//! does not do at once is taken up again by [`waiting::resume_merge`].

mod commit;
mod report;
mod turn;
mod waiting;

use std::sync::Arc;

use axum::extract::State;
use codebutler_crds::thread::{
    ClosingChoice, MergeWait, PullRequest, PullState, ThreadClosing, ThreadState,
};
use codebutler_crds::wire::{CloseThread, ErrorCode, ThreadClosed};
use codebutler_crds::{Repo, Thread, ThreadStatus, names};
use codebutler_description::reads_same;
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::approval::fresh_thread;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::extract::{AnyCaller, JsonBody, needs_tool};
use codebutler_gateway_core::github::{GitHub, GitHubError, GitHubPull, MergeProgress, text};
use codebutler_gateway_core::masks;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::explain_unwritten;
use codebutler_git::end_pictures;
use codebutler_runtime::step;
use codebutler_slack::usage;
use kube::ResourceExt as _;

use self::commit::CommitWords;
pub(super) use self::report::{tell_kept, write_report};
pub(super) use self::turn::{MergeTurn, let_go, merge_in_turn};
pub(super) use self::waiting::{MergePatience, find_wait, resume_merge};
use crate::origin;
use crate::overlap;
use crate::parts;
use crate::roadmap::stack;
use crate::work::WorkServices;

/// The report's key: one per thread.
pub(super) const REPORT: &str = "usage-report";
const MAX_SUMMARY: usize = 48_000;
/// Limits on the report of the roles' work: lines, and characters of each.
const MAX_WORK_LINES: usize = 16;
const MAX_WORK_LINE: usize = 400;

/// Closes the caller's Thread.
pub async fn close_thread(
    State(gateway): State<Arc<WorkServices>>,
    AnyCaller(caller): AnyCaller,
    JsonBody(wanted): JsonBody<CloseThread>,
) -> Result<axum::Json<ThreadClosed>, ApiError> {
    needs_tool(&caller, &["CloseThread"])?;
    if wanted.summary.len() > MAX_SUMMARY {
        let message = "`summary` is too long: write less than 48,000 characters";
        return Err(ApiError::new(ErrorCode::InvalidRequest, message));
    }
    // On a task of its own: a merge that has begun is carried through to the closed Thread even if
    // the pod that asked for it goes away.
    let redactor = gateway.git.outcomes.redactor(&caller).await?;
    let last = LastWords {
        summary: redactor.mask(&wanted.summary).into_owned(),
        work: told_work(&redactor.mask(wanted.work.as_deref().unwrap_or_default())),
    };
    let ended = gateway.calls.spawn(run_closing(gateway.clone(), caller, last));
    let outcome = ended.await.ok().flatten().ok_or_else(|| {
        ApiError::new(ErrorCode::Unavailable, "the gateway was interrupted: try again")
    })?;
    outcome.map(axum::Json)
}

/// Report of the role that ends a Thread.
struct LastWords {
    summary: String,
    /// Each role's work, as lines of a list.
    work: String,
}

/// Cleans the report of the roles' work: only lines of a list, and not too many.
fn told_work(work: &str) -> String {
    let lines = text::outgoing_text(work);
    let lines = lines.lines().filter(|line| line.starts_with("- ")).take(MAX_WORK_LINES);
    lines.map(|line| line.chars().take(MAX_WORK_LINE).collect::<String>() + "\n").collect()
}

/// A Thread at its end, with what its steps need.
#[derive(Clone, Copy)]
struct ThreadEnding<'a> {
    gateway: &'a WorkServices,
    repo: &'a Arc<Repo>,
    thread: &'a Thread,
    github: &'a GitHub,
}

async fn run_closing(
    gateway: Arc<WorkServices>,
    caller: ProvenCaller,
    last: LastWords,
) -> Result<ThreadClosed, ApiError> {
    gateway.ledger.flush(&caller.key()).await;
    let thread = fresh_thread(&gateway.context, &caller).await?;
    let status = thread.status.clone().unwrap_or_default();
    if thread.spec.state == ThreadState::Closed {
        let recorded = status.pull_request.and_then(|pull| pull.merge_commit);
        return Ok(ThreadClosed { merge_commit: recorded, waiting: None });
    }
    let (choice, closing) = find_decision(&status)?;
    let github = GitHub::of(&gateway.context, &caller.repo).await?;
    let ending =
        ThreadEnding { gateway: &gateway, repo: &caller.repo, thread: &thread, github: &github };
    let pull = github.find_pull(&names::branch_name(&thread.name_any())).await?;
    match choice {
        ClosingChoice::Merge => {
            let pull = pull.ok_or_else(|| {
                let message = "there is no pull request to merge: open one first";
                ApiError::new(ErrorCode::InvalidRequest, message)
            })?;
            if closing.waits == Some(MergeWait::Train) && pull.is_open() {
                ending.describe(&pull, &last).await?;
                return ending.put_off(closing, &pull, MergeWait::Train, "").await;
            }
            match ending.merge(closing, &pull, &last).await? {
                MergeProgress::Done(commit) => {
                    ending.merged(&pull, &commit).await?;
                    Ok(ThreadClosed { merge_commit: Some(commit), waiting: None })
                }
                MergeProgress::Waits(wait, said) => {
                    ending.put_off(closing, &pull, wait, &said).await
                }
            }
        }
        ClosingChoice::Discard => ending.discard(pull.as_ref(), &last.work).await,
    }
}

/// The decision of a user on the Thread's end. Nobody else can decide.
fn find_decision(status: &ThreadStatus) -> Result<(ClosingChoice, &ThreadClosing), ApiError> {
    let closing = status.closing.as_deref();
    let answer = closing.and_then(|closing| Some((closing.choice?, closing)));
    answer.filter(|(_, closing)| closing.decided_by.is_some()).ok_or_else(|| {
        let message = "no user has decided yet: ask with a merge decision and wait for the answer";
        ApiError::new(ErrorCode::NeedsApproval, message)
    })
}

impl ThreadEnding<'_> {
    fn key(&self) -> ThreadKey {
        ThreadKey::from(self.thread)
    }

    fn status(&self) -> ThreadStatus {
        self.thread.status.clone().unwrap_or_default()
    }

    /// The merge: of an earlier call, or made now, or not yet.
    async fn merge(
        &self,
        closing: &ThreadClosing,
        pull: &GitHubPull,
        last: &LastWords,
    ) -> Result<MergeProgress, ApiError> {
        let Self { github, repo, .. } = self;
        if let Some(commit) = merge_commit(pull)? {
            return Ok(MergeProgress::Done(commit));
        }
        let settled = stack::settle_base(self.gateway, github, repo, self.thread, pull).await?;
        let pull = settled.as_ref().unwrap_or(pull);
        let unmet = parts::find_unmet(self.gateway, self.thread);
        // Stacked on what is not merged yet, it is for another branch until that is; and then the gateway puts the
        // base branch on it: a head that nobody has decided on may be its own merge, not yet on record.
        let is_stacked =
            pull.base() != repo.spec.git.branch && stack::stacked_on(self.thread).is_some();
        let waits = is_stacked || stack::awaits_upkeep(self.gateway, self.thread);
        if let Some(what) = unmet.clone().filter(|_| waits && pull.is_open()) {
            return Ok(MergeProgress::Waits(MergeWait::Depends, what));
        }
        if pull.is_open() && stack::is_behind_merge(self.thread, pull.head()) {
            let what = "is merged once the host shows its newest commit".to_owned();
            return Ok(MergeProgress::Waits(MergeWait::Depends, what));
        }
        let head = mergeable_head(pull, closing, &repo.spec.git.branch)?;
        if let Some(what) = unmet {
            return Ok(MergeProgress::Waits(MergeWait::Depends, what));
        }
        let words = self.describe(pull, last).await?;
        let method = repo.spec.git.merge_method.map(|method| *method);
        match github.merge(pull, head, method, words.message()).await {
            Ok(merging) => Ok(merging),
            // The answer may have been lost, and the merge not.
            Err(error) => {
                let now = github.pull(pull.number).await.ok().filter(GitHubPull::is_merged);
                let commit = now.and_then(|pull| pull.merge_commit_sha);
                commit.map(MergeProgress::Done).ok_or_else(|| error.into())
            }
        }
    }

    /// Writes the pull request's last description; gives what the commit is to say.
    async fn describe(&self, pull: &GitHubPull, last: &LastWords) -> Result<CommitWords, ApiError> {
        let Self { github, repo, .. } = self;
        let (link, names) = origin::read_origin(self.gateway, repo, self.thread).await;
        let needed = parts::find_needed(self.gateway, self.thread);
        let trailers = commit::write_trailers(self.thread, link.as_deref(), &names, &needed);
        let words = CommitWords::of(pull, &last.summary, &trailers);
        let people = origin::at_end(self.thread, link.as_deref(), &names);
        let body = words.description(pull, &self.status(), &format!("{people}{}", last.work));
        let before = pull.body.as_deref().unwrap_or_default();
        let is_whole = body.as_ref().is_some_and(|body| body.is_whole);
        if let Some(body) = body.filter(|body| !reads_same(&body.text, before)) {
            github.update_pull(pull.number, None, Some(&body.text)).await?;
        }
        if !is_whole {
            self.tell_of_full(pull).await?;
        }
        Ok(words)
    }

    /// Tells the thread that the description is full: people's words are not shortened for ours.
    async fn tell_of_full(&self, pull: &GitHubPull) -> Result<(), ApiError> {
        let text = format!(
            "The description of [#{}]({}) has no room for all of my summary: GitHub takes 65,536 characters. It stands \
             in the message of the merge commit instead.",
            pull.number, pull.html_url
        );
        let key = format!("description-full:{}", pull.number);
        self.gateway.slack.notice(&self.key(), &key, &text).await?;
        Ok(())
    }

    /// Records a merge: tells other threads of it, and closes the Thread.
    async fn merged(&self, pull: &GitHubPull, commit: &str) -> Result<(), ApiError> {
        let (gateway, key) = (self.gateway, self.key());
        let now = PullRequest {
            merge_commit: Some(commit.to_owned()),
            state: Some(PullState::Merged),
            ..pull.record()
        };
        let written = gateway.threads.set_pull_request(&key, &now).await;
        written.map_err(|error| explain_unwritten(&error))?;
        let merged = (pull.number, commit);
        overlap::tell_of_merge(gateway, self.github, self.repo, &key, merged).await;
        let short: String = commit.chars().take(10).collect();
        // The pull request already tells each role's work, so the report omits it.
        self.close(&format!("Merged #{} as `{short}`", pull.number), Some(pull), "").await
    }

    /// Closes the Thread without a merge, unless somebody has merged at GitHub meanwhile: that can't be taken back here.
    async fn discard(
        &self,
        pull: Option<&GitHubPull>,
        work: &str,
    ) -> Result<ThreadClosed, ApiError> {
        if let Some(pull) = pull {
            if let Some(commit) = merge_commit(pull)? {
                Box::pin(self.merged(pull, &commit)).await?;
                return Ok(ThreadClosed { merge_commit: Some(commit), waiting: None });
            }
            if pull.is_open() {
                self.github.close_pull(pull.number).await?;
            }
            // Nobody asks about the pull request of a closed Thread any more.
            let now = PullRequest { state: Some(PullState::Closed), ..pull.record() };
            let written = self.gateway.threads.set_pull_request(&self.key(), &now).await;
            written.map_err(|error| explain_unwritten(&error))?;
        }
        self.close("Closed without merging", pull, work).await?;
        Ok(ThreadClosed { merge_commit: None, waiting: None })
    }

    /// Closes the Thread with a report; each role's `work` is in it only where no page has that.
    async fn close(
        &self,
        how: &str,
        pull: Option<&GitHubPull>,
        work: &str,
    ) -> Result<(), ApiError> {
        let (gateway, key) = (self.gateway, self.key());
        stack::release_successors(gateway, self.github, self.repo, self.thread).await?;
        step::point("pull requests are for the base branch");
        let branch = names::branch_name(&key.name);
        let is_gone = self.github.delete_branch(&branch).await?;
        end_pictures(&gateway.context, self.repo, self.thread).await?;
        let status = self.status();
        let begun = self.thread.conversation().map(|slack| &slack.ts);
        let redactor = masks::as_known(&gateway.context, self.repo).await;
        let title = pull.map(|pull| redactor.mask(&pull.title)).unwrap_or_default();
        let page = gateway.context.page(&key);
        let cost = usage::usage_line(&status, begun);
        let pull = pull.map(|pull| (pull, &*title));
        let mut report = write_report(how, pull, page.as_deref(), &cost);
        if page.is_none() && !work.is_empty() {
            report = format!("{report}\n{}", work.trim_end());
        }
        report += &tell_kept(&branch, is_gone);
        gateway.slack.notice(&key, REPORT, &report).await?;
        gateway.threads.close(&key).await.map_err(|error| explain_unwritten(&error))?;
        tracing::info!(thread = key.name, how, "thread_closed");
        Ok(())
    }
}

/// The commit on the base branch of a pull request that is merged.
fn merge_commit(pull: &GitHubPull) -> Result<Option<String>, GitHubError> {
    if !pull.is_merged() {
        return Ok(None);
    }
    pull.merge_commit_sha.clone().map(Some).ok_or(GitHubError::Garbled)
}

/// The commit that may be merged: the one that the user saw, and into the branch that it is for.
fn mergeable_head<'p>(
    pull: &'p GitHubPull,
    closing: &ThreadClosing,
    base: &str,
) -> Result<&'p str, ApiError> {
    if !pull.is_open() {
        let message = "the pull request was closed: open it again, or close the thread";
        return Err(ApiError::new(ErrorCode::InvalidRequest, message));
    }
    if closing.head.as_deref() != Some(pull.head()) {
        return Err(GitHubError::HeadMoved.into());
    }
    if pull.base() != base {
        let (found, base) = (text::one_line(pull.base(), 120), base.to_owned());
        return Err(GitHubError::OtherBase { found, base }.into());
    }
    Ok(pull.head())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn closing(choice: Option<ClosingChoice>, head: Option<&str>) -> ThreadClosing {
        ThreadClosing {
            ts: "2.000000".parse().unwrap(),
            role: "lead".into(),
            choice,
            decided_by: choice.map(|_| "U1".into()),
            head: head.map(Into::into),
            waits: None,
        }
    }

    fn pull(state: &str) -> GitHubPull {
        let head = json!({"sha": "abc"});
        let base = json!({"ref": "main"});
        let pull = json!({
            "number": 7, "html_url": "https://h/7", "state": state, "head": head, "base": base,
        });
        serde_json::from_value(pull).unwrap()
    }

    #[test]
    fn only_a_user_ends_a_thread() {
        let status = |closing| ThreadStatus { closing, ..ThreadStatus::default() };
        let code =
            |closing| find_decision(&status(closing)).map(|(choice, _)| choice).map_err(|e| e.code);
        assert_eq!(code(None), Err(ErrorCode::NeedsApproval));
        assert_eq!(code(Some(Box::new(closing(None, None)))), Err(ErrorCode::NeedsApproval));
        let merge = Some(ClosingChoice::Merge);
        assert_eq!(code(Some(Box::new(closing(merge, None)))), Ok(ClosingChoice::Merge));
        let by_nobody = ThreadClosing { decided_by: None, ..closing(merge, None) };
        assert_eq!(code(Some(Box::new(by_nobody))), Err(ErrorCode::NeedsApproval));
    }

    #[test]
    fn only_the_commit_that_the_user_saw_is_merged() {
        let merge = Some(ClosingChoice::Merge);
        let head = |state, head| {
            mergeable_head(&pull(state), &closing(merge, head), "main")
                .map(str::to_owned)
                .map_err(|e| e.code)
        };
        assert_eq!(head("open", Some("abc")), Ok("abc".into()));
        assert_eq!(head("open", Some("abd")), Err(ErrorCode::NeedsApproval));
        assert_eq!(head("open", None), Err(ErrorCode::NeedsApproval));
        assert_eq!(head("closed", Some("abc")), Err(ErrorCode::InvalidRequest));
        let pull = pull("open");
        let other = mergeable_head(&pull, &closing(merge, Some("abc")), "next");
        assert!(other.unwrap_err().message.contains("merged into `main`"));
    }
}
