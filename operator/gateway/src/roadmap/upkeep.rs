//! Branches of stacked items, kept up to date by the gateway itself. What comes to the branch below is merged into
//! the one above; once the item below is merged, the base branch is, and what the branch above has of the one below
//! counts as merged, under whatever name the host put it there. A role is needed only where both sides really changed
//! the same lines: the radar tells it.
//!
//! Before a merge is pushed it is on record in the Thread's status: whoever follows a process that died in the middle
//! finds by it what was done. A branch that has moved on meanwhile is looked at again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::thread::{StackMerge, StackStanding};
use codebutler_crds::{Repo, Thread, ThreadStatus, names};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::thread_queue::{ThreadQueue, ThreadReconciler, drive_one_by_one};
use codebutler_gateway_core::threads::WriteError;
use codebutler_git::mirror::MirrorError;
use codebutler_git::{MadeMerge, PushedBranch, UpkeepBench, UpkeepMerge};
use codebutler_runtime::queue::FollowUp;
use codebutler_runtime::step;
use kube::ResourceExt as _;

use super::child::ChildState;
use super::stack::{self, describe_item, standing_of};
use crate::naming::name_files;
use crate::work::WorkServices;

/// Interval of looks at the branch below: the Thread itself does not change when that one moves.
const EVERY: Duration = Duration::from_secs(2);
/// Backoff after a failure: its beginning, and its maximum.
const AGAIN: (Duration, Duration) = (Duration::from_secs(3), Duration::from_mins(1));
/// Time that a host may take to show a merge that it has told of.
const LAG: Duration = Duration::from_mins(2);
/// Characters of a commit's short id.
const SHORT: usize = 10;

/// Reason why a look failed.
#[derive(Debug, thiserror::Error)]
enum UpkeepError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Copy(#[from] MirrorError),
    #[error("the base branch `{0}` is not on the remote")]
    NoBase(String),
}

/// Looks after stacked branches until the gateway stops.
pub(super) async fn run_upkeep(gateway: &WorkServices) {
    let queue = ThreadQueue::new(&gateway.context.attended, has_stacked_branch, AGAIN);
    let reconciler =
        UpkeepReconciler { gateway, looked: HashMap::new(), merged_since: HashMap::new() };
    drive_one_by_one(queue, &gateway.shutdown, reconciler).await;
}

struct UpkeepReconciler<'a> {
    gateway: &'a WorkServices,
    /// Tip of the branch below at the latest look. It saves requests, and may be lost.
    looked: HashMap<ThreadKey, String>,
    /// Time since which the item below is merged, and the base branch does not show it.
    merged_since: HashMap<ThreadKey, Instant>,
}

impl ThreadReconciler for UpkeepReconciler<'_> {
    const NAME: &'static str = "stacked_branch";
    type Error = UpkeepError;

    async fn reconcile(&mut self, key: &ThreadKey, _: &Thread) -> Result<FollowUp, UpkeepError> {
        Box::pin(self.look_at(key)).await
    }

    fn forget(&mut self, key: &ThreadKey) {
        self.looked.remove(key);
        self.merged_since.remove(key);
    }
}

fn has_stacked_branch(thread: &Thread) -> bool {
    let branch = thread.status.as_ref().and_then(|status| status.branch.as_ref());
    stack::is_active(thread) && stack::stacked_on(thread).is_some() && branch.is_some()
}

/// A stacked branch and the remote at one moment.
struct StackLook<'a> {
    gateway: &'a WorkServices,
    repo: &'a Arc<Repo>,
    bench: UpkeepBench,
    key: &'a ThreadKey,
    thread: &'a Thread,
    /// Thread of the item below.
    before: &'a Thread,
    branch: &'a str,
    /// Tip of the Thread's own branch.
    own: String,
    standing: StackStanding,
}

impl UpkeepReconciler<'_> {
    async fn look_at(&mut self, key: &ThreadKey) -> Result<FollowUp, UpkeepError> {
        let gateway = self.gateway;
        let (rests, later) = (Ok(FollowUp::await_change()), Ok(FollowUp::requeue(EVERY)));
        let thread = gateway.threads.freshest(key, gateway.context.thread(key));
        let Some(thread) = thread.filter(|thread| has_stacked_branch(thread)) else { return rests };
        let Some(before) = stack::find_predecessor(gateway, &thread) else { return rests };
        let status = thread.status.clone().unwrap_or_default();
        let standing = standing_of(&thread);
        let state = ChildState::of(&before);
        if state == ChildState::Dropped {
            return rests;
        }
        if state == ChildState::Merged && standing.settled {
            // People may have been asked about the earlier commit while the merge was pushed.
            if has_old_answer(&status) {
                gateway.threads.update(key, renew_answer).await?;
            }
            return rests;
        }
        let repo = gateway.context.repo(&key.namespace, &thread.spec.repo);
        let Some(repo) = repo.filter(|repo| !repo.spec.suspend) else { return later };
        let known = before.status.as_ref().and_then(|status| status.radar.as_ref()?.tip.clone());
        let is_known = known.is_some() && self.looked.get(key) == known.as_ref();
        // New commits would void what people are asked about: they come in with the merge of the item below.
        let rests_on_people = status.closing.is_some();
        if state != ChildState::Merged && standing.has.is_some() && (rests_on_people || is_known) {
            return later;
        }
        let bench = UpkeepBench::take(&gateway.git, &repo).await?;
        let bench = bench.ok_or_else(|| UpkeepError::NoBase(repo.spec.git.branch.clone()))?;
        let branch = status.branch.clone().unwrap_or_default();
        let Some(own) = bench.tip(&branch).map(str::to_owned) else { return later };
        let look = StackLook {
            gateway,
            repo: &repo,
            bench,
            key,
            thread: &thread,
            before: &before,
            branch: &branch,
            own,
            standing,
        };
        if state == ChildState::Merged {
            let since = *self.merged_since.entry(key.clone()).or_insert_with(Instant::now);
            return look.follow_base(since.elapsed() > LAG).await;
        }
        self.merged_since.remove(key);
        let is_done = look.follow_below(rests_on_people).await?;
        if let Some(known) = known.filter(|_| is_done && !rests_on_people) {
            self.looked.insert(key.clone(), known);
        }
        later
    }
}

impl StackLook<'_> {
    /// The newest commit of the branch below that this one has, from what is known of both.
    async fn find_has(&self) -> Result<Option<String>, UpkeepError> {
        if self.standing.has.is_some() {
            return Ok(self.standing.has.clone());
        }
        let below = names::branch_name(&self.before.name_any());
        let status = self.before.status.clone().unwrap_or_default();
        let heads = [
            self.bench.tip(&below).map(str::to_owned),
            status.closing.and_then(|closing| closing.head),
            status.radar.and_then(|radar| radar.tip),
        ];
        for head in heads.into_iter().flatten() {
            if let Some(found) = self.bench.common(&self.own, &head).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Brings in what the branch below has got since; answers whether there is nothing left to do about it.
    async fn follow_below(&self, rests_on_people: bool) -> Result<bool, UpkeepError> {
        let (bench, own) = (&self.bench, &*self.own);
        let below = names::branch_name(&self.before.name_any());
        let Some(tip) = bench.tip(&below) else { return Ok(false) };
        let has = self.find_has().await?;
        if has != self.standing.has {
            self.note(|known| known.has.clone_from(&has)).await?;
        }
        let Some(has) = has else { return Ok(true) };
        // Commits were taken off it.
        let is_back = has != tip && bench.contains(&has, tip).await?;
        if !is_back && bench.contains(own, tip).await? {
            if has != tip {
                self.note(|known| known.has = Some(tip.to_owned())).await?;
            }
            return Ok(true);
        }
        if rests_on_people {
            return Ok(true);
        }
        let is_rewritten = !bench.contains(tip, &has).await?;
        let message = format!("Merge branch '{below}' into {}", self.branch);
        let item = describe_item(self.before);
        let rewritten = if is_rewritten {
            " Its branch was rewritten on the remote: what was taken off it is taken off here, too."
        } else {
            ""
        };
        match bench.merge((own, tip), &[has], &message).await? {
            UpkeepMerge::Made(made) => {
                if let Some(refusal) = self.put(&made, false).await? {
                    return self.is_refused(&made, &refusal).await;
                }
                let text = format!(
                    "{item}, on whose branch this is built, has new commits: they are merged into this branch as {}.{rewritten}",
                    short(&made.commit)
                );
                self.tell(&format!("stack-follows:{}", made.commit), &text).await?;
                self.note(|known| known.has = Some(tip.to_owned())).await?;
                Ok(true)
            }
            UpkeepMerge::Conflict(files) => {
                let text = format!(
                    "{item}, on whose branch this is built, has new commits, and they and this branch change the same lines of \
                     {}.{rewritten} Nothing has to be done now: the two are brought together when it is merged.",
                    name_files(files.iter())
                );
                self.tell(&format!("stack-apart:{tip}"), &text).await?;
                Ok(true)
            }
            UpkeepMerge::Unknown => Ok(true),
        }
    }

    /// Brings in the base branch, of which the branch below is a part now. `is_late`: it was to show that long ago.
    async fn follow_base(&self, is_late: bool) -> Result<FollowUp, UpkeepError> {
        let (bench, own) = (&self.bench, &*self.own);
        let pull = self.before.status.as_ref().and_then(|status| status.pull_request.as_ref());
        let merge_commit = pull.and_then(|pull| pull.merge_commit.as_deref());
        let is_shown = match merge_commit {
            Some(commit) => bench.contains(&bench.base, commit).await?,
            None => false,
        };
        if !is_shown {
            // Commits that are not on the base branch may not count as merged: they would be taken out here.
            if is_late {
                self.settle(None).await?;
                return Ok(FollowUp::await_change());
            }
            return Ok(FollowUp::requeue(EVERY));
        }
        let has = self.find_has().await?;
        if bench.contains(own, &bench.base).await? || has.is_none() {
            self.settle(has).await?;
            return Ok(FollowUp::await_change());
        }
        let below = stack::merged_below(self.gateway, self.before);
        let merged: Vec<String> = has.clone().into_iter().chain(below).collect();
        let message = format!("Merge branch '{}' into {}", self.repo.spec.git.branch, self.branch);
        let merge = bench.merge((own, &bench.base), &merged, &message).await?;
        if let UpkeepMerge::Made(made) = &merge
            && !made.is_plain
            && let Some(refusal) = self.put(made, true).await?
            && !self.is_refused(made, &refusal).await?
        {
            return Ok(FollowUp::requeue(Duration::ZERO));
        }
        self.settle(has).await?;
        Ok(FollowUp::await_change())
    }

    /// Pushes a merge to the branch; returns the host's words where it refuses.
    async fn put(&self, made: &MadeMerge, base: bool) -> Result<Option<String>, UpkeepError> {
        let merge = StackMerge { from: self.own.clone(), to: made.commit.clone(), base };
        self.note(|known| known.merge = Some(merge.clone())).await?;
        step::point("a stacked branch is about to move");
        let pushed = self.bench.push(self.branch, made).await?;
        step::point("a stacked branch has moved");
        self.gateway.branches.touch(self.repo);
        let (thread, to) = (&self.key.name, &made.commit);
        match pushed {
            PushedBranch::Done => {
                tracing::info!(thread, to, "stacked_branch_updated");
                Ok(None)
            }
            PushedBranch::Stale => Ok(Some("it has moved".to_owned())),
            PushedBranch::Refused(why) => Ok(Some(why)),
        }
    }

    /// Tells the conversation that the host refuses the merge; false if the branch has moved meanwhile.
    async fn is_refused(&self, made: &MadeMerge, why: &str) -> Result<bool, UpkeepError> {
        let now = UpkeepBench::take(&self.gateway.git, self.repo).await?;
        if now.is_none_or(|now| now.tip(self.branch) != Some(&*self.own)) {
            return Ok(false);
        }
        let text = format!(
            ":warning: This branch could not be brought up to date ({why}). A role of this thread has to do it before the merge, \
             with GitUpdate and GitPush."
        );
        self.tell(&format!("stack-refused:{}", made.commit), &text).await?;
        Ok(true)
    }

    /// The item below is merged, and nothing is left to be done about it here.
    async fn settle(&self, has: Option<String>) -> Result<(), UpkeepError> {
        let merge = self.thread_now().stack.and_then(|stack| stack.merge);
        let now = UpkeepBench::take(&self.gateway.git, self.repo).await?;
        let tip = now.as_ref().and_then(|now| now.tip(self.branch));
        if let (Some(merge), Some(now), Some(tip)) = (merge, &now, tip)
            && merge.base
            && now.contains(tip, &merge.to).await?
        {
            let text = format!(
                "`{}` is merged into this branch as {}, as {}, on whose branch this was built, is merged. Nothing conflicts; a yes \
                 to merging this still counts.",
                self.repo.spec.git.branch,
                short(&merge.to),
                describe_item(self.before)
            );
            self.tell(&format!("stack-settled:{}", merge.to), &text).await?;
        }
        step::point("a stacked branch is settled");
        let settle = |status: &mut ThreadStatus| {
            renew_answer(status);
            let known = status.stack.get_or_insert_default();
            known.has.clone_from(&has);
            known.settled = true;
        };
        self.gateway.threads.update(self.key, settle).await?;
        self.gateway.branches.touch(self.repo);
        Ok(())
    }

    fn thread_now(&self) -> ThreadStatus {
        let known = self.gateway.context.thread(self.key);
        let now = self.gateway.threads.freshest(self.key, known);
        let status = now.as_deref().unwrap_or(self.thread).status.clone();
        status.unwrap_or_default()
    }

    async fn tell(&self, id: &str, text: &str) -> Result<(), UpkeepError> {
        self.gateway.slack.notice(self.key, id, text).await?;
        Ok(())
    }

    async fn note(
        &self,
        change: impl Fn(&mut StackStanding) + Send + Sync,
    ) -> Result<(), UpkeepError> {
        let write = |status: &mut ThreadStatus| change(status.stack.get_or_insert_default());
        self.gateway.threads.update(self.key, write).await?;
        Ok(())
    }
}

/// True if people were asked about the commit below the gateway's merge of the base branch.
fn has_old_answer(status: &ThreadStatus) -> bool {
    let merge = status.stack.as_ref().and_then(|stack| stack.merge.as_ref());
    let head = status.closing.as_ref().and_then(|closing| closing.head.as_ref());
    merge.is_some_and(|merge| merge.base && head == Some(&merge.from))
}

/// A decision about a commit is one about the gateway's merge of the base branch into it, too: what it brings in was
/// decided on before. Should the branch be elsewhere, nothing is merged on it as ever.
fn renew_answer(status: &mut ThreadStatus) {
    if !has_old_answer(status) {
        return;
    }
    let to = status.stack.as_ref().and_then(|stack| stack.merge.as_ref()).map(|m| m.to.clone());
    if let Some(closing) = &mut status.closing {
        closing.head = to;
    }
}

fn short(commit: &str) -> String {
    format!("`{}`", commit.get(..SHORT).unwrap_or(commit))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_yes_moves_with_a_merge_of_the_base_branch_and_with_no_other() {
        let status = |base: bool, head: &str| -> ThreadStatus {
            serde_json::from_value(json!({
                "closing": {"ts": "2.000000", "role": "lead", "choice": "merge", "head": head},
                "stack": {"merge": {"from": "one", "to": "two", "base": base}},
            }))
            .unwrap()
        };
        let renewed = |base, head| {
            let mut status = status(base, head);
            renew_answer(&mut status);
            status.closing.unwrap().head.unwrap()
        };
        assert_eq!(renewed(true, "one"), "two");
        assert_eq!(renewed(true, "else"), "else");
        assert_eq!(renewed(false, "one"), "one");
    }
}
