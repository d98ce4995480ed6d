//! The branches of items, kept as they have to be: their file says how the item stands, and their pull request is for
//! the base branch once what they are stacked on is over. What fails is tried again, and holds up nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::{Repo, SlackTs, Thread};
use codebutler_gateway_core::github::{GitHub, GitHubError};
use codebutler_gateway_core::thread_key::ThreadKey;
use jiff::Timestamp;

use super::decide::{ItemStanding, RoadmapFacts};
use super::noted::{NotedStanding, note_item};
use super::{RoadmapCache, stack};
use crate::work::WorkServices;

/// Minimum age of a question: one that is answered at once is worth no commit, and no item on its branch.
const SETTLED: Duration = Duration::from_secs(15);
/// Interval before a note that failed is retried. It doubles with each failure, this often at most: what rules of the
/// repository forbid fails each time.
const AGAIN: Duration = Duration::from_secs(20);
const MOST_DOUBLED: u32 = 7;

/// The note that was written last on an item's branch.
#[derive(Clone, Debug)]
pub(super) struct NoteTaken {
    standing: NotedStanding,
    /// The question that it is about.
    since: Option<SlackTs>,
    at: Instant,
    done: bool,
    /// Failures in a row.
    failures: u32,
}

impl NoteTaken {
    /// Time for which it is not written again.
    fn rest(&self) -> Duration {
        AGAIN * 2_u32.pow(self.failures.saturating_sub(1).min(MOST_DOUBLED))
    }
}

impl RoadmapCache {
    /// Brings the branches of items up to date.
    pub(super) async fn keep_branches(
        &mut self,
        gateway: &WorkServices,
        repo: &Repo,
        facts: &RoadmapFacts<'_>,
        threads: &BTreeMap<String, Arc<Thread>>,
    ) {
        for item in &facts.run.items {
            let own = facts.children.get(&item.id).is_some_and(|child| !child.elsewhere);
            let Some(thread) = threads.get(&item.id).filter(|_| own) else { continue };
            let key = ThreadKey::from(&**thread);
            let standing = facts.standing(item);
            if let Some(due) = self.due_note(&key, &standing, || facts.held_by(&item.id)) {
                let done = note(gateway, repo, thread, (&item.id, &due)).await;
                let done = done.unwrap_or_else(|error| {
                    tracing::warn!(thread = key.name, %error, "roadmap_update_failed");
                    false
                });
                let since = since_of(&standing).cloned();
                let same = |known: &&NoteTaken| known.standing == due && known.since == since;
                let before = self.noted.get(&key).filter(same).map_or(0, |known| known.failures);
                let failures = if done { 0 } else { before.saturating_add(1) };
                let at = Instant::now();
                let taken = NoteTaken { standing: due, since, at, done, failures };
                self.noted.insert(key.clone(), taken);
            }
            if !self.based.contains(&key) && stack::is_base_over(gateway, thread) {
                match settle(gateway, repo, thread).await {
                    Ok(()) => drop(self.based.insert(key)),
                    Err(error) => {
                        tracing::warn!(thread = key.name, %error, "pull_request_retarget_failed");
                    }
                }
            }
        }
    }

    /// The note that is due on an item's branch now, if any.
    fn due_note(
        &self,
        key: &ThreadKey,
        standing: &ItemStanding,
        held: impl Fn() -> Vec<(String, String)>,
    ) -> Option<NotedStanding> {
        let due = NotedStanding::of(standing)?.holding(held());
        let since = since_of(standing);
        if since.is_some_and(|since| !is_settled(since, Timestamp::now())) {
            return None;
        }
        let same = |known: &&NoteTaken| known.standing == due && known.since.as_ref() == since;
        let known = self.noted.get(key).filter(same);
        let waits = known.is_some_and(|known| known.done || known.at.elapsed() < known.rest());
        (!waits).then_some(due)
    }
}

const fn since_of(standing: &ItemStanding) -> Option<&SlackTs> {
    match standing {
        ItemStanding::Asks(_, since) => since.as_ref(),
        _ => None,
    }
}

pub(super) fn is_settled(since: &SlackTs, now: Timestamp) -> bool {
    now.as_second() >= since.parts().0.saturating_add(SETTLED.as_secs()).cast_signed()
}

async fn note(
    gateway: &WorkServices,
    repo: &Repo,
    thread: &Thread,
    (item, standing): (&str, &NotedStanding),
) -> Result<bool, GitHubError> {
    let branch = thread.status.as_ref().and_then(|status| status.branch.as_deref());
    let Some(branch) = branch else { return Ok(false) };
    let github = GitHub::of(&gateway.context, repo).await?;
    note_item(&github, (item, branch), standing).await
}

/// Retargets the pull request of an item to the base branch.
async fn settle(gateway: &WorkServices, repo: &Repo, thread: &Thread) -> Result<(), GitHubError> {
    let pull = thread.status.as_ref().and_then(|status| status.pull_request.as_ref());
    let Some(number) = pull.map(|pull| pull.number) else { return Ok(()) };
    let github = GitHub::of(&gateway.context, repo).await?;
    let pull = github.pull(number).await?;
    stack::settle_base(gateway, &github, repo, thread, &pull).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_that_fails_each_time_is_tried_ever_more_seldom() {
        let rest = |failures: u32| {
            let (standing, at) = (NotedStanding::InProgress, Instant::now());
            NoteTaken { standing, since: None, at, done: false, failures }.rest().as_secs()
        };
        assert_eq!([1, 2, 4, 8, 99].map(rest), [20, 40, 160, 2560, 2560]);
    }

    #[test]
    fn a_question_that_is_answered_at_once_is_not_noted() {
        let now: Timestamp = "2026-11-28T02:00:00Z".parse().unwrap();
        let ago = |seconds: i64| format!("{}.000100", now.as_second() - seconds).parse().unwrap();
        assert!(!is_settled(&ago(3), now) && is_settled(&ago(60), now));
    }
}
