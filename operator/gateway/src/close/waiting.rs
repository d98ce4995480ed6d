//! A merge that GitHub does not do at once: it waits for required checks, or lies in a merge queue. It
//! stands in the Thread's status, and whoever watches pull requests comes back to it.

use std::sync::Arc;

use codebutler_crds::thread::{ClosingChoice, MergeWait, ThreadClosing, ThreadState};
use codebutler_crds::wire::ThreadClosed;
use codebutler_crds::{Repo, Thread};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::github::{GitHub, GitHubPull};
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::explain_unwritten;
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::turn::let_go;
use super::{LastWords, MergeProgress, ThreadEnding, commit, merge_commit};
use crate::parts;
use crate::work::WorkServices;

/// Policy for a merge that GitHub says is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MergePatience {
    /// The merge is tried only as soon as it is ready.
    Waits,
    /// The merge is tried now, to hear GitHub's reason.
    Asks,
}

/// The condition that a Thread's merge waits for, if it does.
pub(crate) fn find_wait(thread: &Thread) -> Option<MergeWait> {
    let closing = thread.status.as_ref()?.closing.as_ref()?;
    let decided = closing.choice == Some(ClosingChoice::Merge) && closing.decided_by.is_some();
    closing.waits.filter(|_| decided && thread.spec.state == ThreadState::Active)
}

/// Looks at a merge that waits: ends the Thread if it is done, tries again, or tells why not.
///
/// # Errors
/// When GitHub, Slack or the API server can't be asked: the next round goes on.
pub(crate) async fn resume_merge(
    gateway: &WorkServices,
    repo: &Arc<Repo>,
    github: &GitHub,
    key: &ThreadKey,
    patience: MergePatience,
) -> Result<(), ApiError> {
    gateway.ledger.flush(key).await;
    let thread = gateway.threads.read(key).await.map_err(|error| explain_unwritten(&error))?;
    let status = thread.status.clone().unwrap_or_default();
    let (Some(wait), Some(closing), Some(known)) =
        (find_wait(&thread), status.closing, status.pull_request)
    else {
        return Ok(());
    };
    let ending = ThreadEnding { gateway, repo, thread: &thread, github };
    let pull = github.pull(known.number).await?;
    if let Some(commit) = merge_commit(&pull)? {
        return ending.merged(&pull, &commit).await;
    }
    if wait == MergeWait::Train {
        // Whoever runs the train sees to it, as long as there is one.
        return if has_train(gateway, &thread) {
            Ok(())
        } else {
            let_go(gateway, key, "its merge train is gone").await
        };
    }
    let unmet = parts::find_unmet(gateway, &thread);
    if wait == MergeWait::Depends && unmet.is_some() && pull.is_open() {
        return Ok(());
    }
    let is_closing_head = closing.head.as_deref() == Some(pull.head());
    if !pull.is_open() {
        return ending.give_up(&closing, &pull, "it was closed at GitHub").await;
    }
    match wait {
        MergeWait::Queue if is_closing_head => {
            if github.is_on_its_way(&pull).await? {
                return Ok(());
            }
            // Somebody may have merged it between the two requests.
            let pull = github.pull(known.number).await?;
            if let Some(commit) = merge_commit(&pull)? {
                return ending.merged(&pull, &commit).await;
            }
            let why = "GitHub took it out of its merge queue, which it does when checks fail there";
            ending.give_up(&closing, &pull, why).await
        }
        MergeWait::Depends => ending.try_again(&closing, &pull).await,
        _ if !is_closing_head || pull.is_ready() || patience == MergePatience::Asks => {
            ending.try_again(&closing, &pull).await
        }
        _ => Ok(()),
    }
}

/// True if a merge train of the same Repo has a Thread's pull request.
fn has_train(gateway: &WorkServices, thread: &Thread) -> bool {
    let name = thread.name_any();
    gateway.context.attended.all().into_iter().any(|other| {
        let same = other.namespace() == thread.namespace() && other.spec.repo == thread.spec.repo;
        let fresh = || {
            let key = ThreadKey::from(&*other);
            gateway.threads.freshest(&key, Some(Arc::clone(&other)))
        };
        same && fresh().is_some_and(|other| {
            let train = other.status.as_ref().and_then(|status| status.train.as_deref());
            let open = other.spec.state == ThreadState::Active && !other.is_going();
            open && train.is_some_and(|train| train.holds(&name))
        })
    })
}

impl ThreadEnding<'_> {
    async fn try_again(&self, closing: &ThreadClosing, pull: &GitHubPull) -> Result<(), ApiError> {
        let summary = commit::summary_in(pull.body.as_deref().unwrap_or_default());
        let last = LastWords { summary, work: commit::work_of(pull) };
        match self.merge(closing, pull, &last).await {
            Ok(MergeProgress::Done(commit)) => self.merged(pull, &commit).await,
            Ok(MergeProgress::Waits(wait, said)) => {
                self.put_off(closing, pull, wait, &said).await.map(drop)
            }
            Err(error) if error.code == codebutler_crds::wire::ErrorCode::Unavailable => Err(error),
            Err(error) => self.give_up(closing, pull, &error.message).await,
        }
    }

    /// Records that the merge waits, and says so in the thread.
    pub(super) async fn put_off(
        &self,
        closing: &ThreadClosing,
        pull: &GitHubPull,
        wait: MergeWait,
        said: &str,
    ) -> Result<ThreadClosed, ApiError> {
        let key = self.key();
        let written = self.gateway.threads.set_wait(&key, &closing.ts, Some(wait)).await;
        written.map_err(|error| explain_unwritten(&error))?;
        let (name, page) = (pull.number, &pull.html_url);
        let (id, text) = match wait {
            MergeWait::Checks => (
                "checks",
                format!(
                    "The merge of [#{name}]({page}) waits until its required checks are green."
                ),
            ),
            MergeWait::Queue => {
                ("queue", format!("GitHub merges [#{name}]({page}) by itself as soon as it may."))
            }
            MergeWait::Depends => ("depends", format!("[#{name}]({page}) {said}.")),
            MergeWait::Train => (
                "train",
                format!("[#{name}]({page}) is merged when its turn comes in the merge train."),
            ),
        };
        let is_own = matches!(wait, MergeWait::Train | MergeWait::Depends);
        let said = if said.is_empty() || is_own {
            String::new()
        } else {
            format!(" It says: “{said}”")
        };
        let text = format!("{text}{said}");
        let id = format!("merge-waits-{id}-{}", closing.ts);
        self.gateway
            .slack
            .notice(&key, &id, &format!("{text}\nNobody has to do anything."))
            .await?;
        Ok(ThreadClosed { merge_commit: None, waiting: Some(text) })
    }

    /// Tells the thread that the merge can't go on without somebody, and hands that to the role that was to end it.
    async fn give_up(
        &self,
        closing: &ThreadClosing,
        pull: &GitHubPull,
        why: &str,
    ) -> Result<(), ApiError> {
        let key = self.key();
        let at = pull.updated_at().and_then(|time| time.parse::<Timestamp>().ok());
        let id = format!("merge-stopped-{}", at.map_or(0, Timestamp::as_second));
        let text = format!(
            "Pull request [#{}]({}) was not merged: {why}.\nOnce that is fixed, say that it is to be \
             merged; new commits need a new decision.",
            pull.number, pull.html_url
        );
        self.gateway.slack.remark(&key, &id, &text, &closing.role).await?;
        let written = self.gateway.threads.set_wait(&key, &closing.ts, None).await;
        written.map_err(|error| explain_unwritten(&error))
    }
}
