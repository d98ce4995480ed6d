//! A merge train's outside: GitHub, the gateway's copy of the repository, and the Threads.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use codebutler_crds::repo::MergeMethod;
use codebutler_crds::thread::{
    ClosingChoice, MergeTrain, MergeWait, PullState, ThreadState, TrainCar, TrainRound, TrainStep,
};
use codebutler_crds::wire::MergeChoice;
use codebutler_crds::{Repo, Thread, ThreadStatus, names};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::github::{BranchRules, GitHub, GitHubError, GitHubPull};
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::{ChangeRefusal, WriteError};
use codebutler_git::mirror::MirrorError;
use codebutler_git::{PushedBranch, TrainBench, TrainHead};
use codebutler_runtime::step;
use codebutler_slack::questions::merge;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use super::engine::{CheckVerdict, TrainAssembly, TrainHost, TrainLanding};
use super::verdict::judge_checks;
use crate::close::{self, MergeTurn};
use crate::work::WorkServices;

/// Minutes that checks may take where the Repo does not say.
const MINUTES: u32 = 60;
/// Time for which rules of a branch are cached.
const FRESH: Duration = Duration::from_mins(2);
/// Prefix of the branches that are pushed for tests.
pub(super) const PREFIX: &str = "codebutler-train/";
/// Letters of a commit in a branch's name.
const SHORT: usize = 16;

/// Reason why a step has to be begun anew.
#[derive(Debug, thiserror::Error)]
pub(super) enum TrainError {
    #[error(transparent)]
    GitHub(#[from] GitHubError),
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Copy(#[from] MirrorError),
    #[error("the base branch `{0}` is not on the remote")]
    NoBase(String),
}

impl TrainError {
    /// True if somebody has to correct the Repo.
    pub(super) const fn is_about_repo(&self) -> bool {
        match self {
            Self::GitHub(error) => error.is_about_repo(),
            Self::Copy(MirrorError::Host(error)) => error.is_about_repo(),
            Self::NoBase(_) => true,
            Self::Api(_) | Self::Write(_) | Self::Copy(_) => false,
        }
    }
}

/// Cache that saves requests to GitHub. It may be lost.
#[derive(Default)]
pub(super) struct HostCache {
    /// The checks that a commit had when it was looked at last: others may be about to begin.
    seen: Mutex<HashMap<String, BTreeSet<String>>>,
    /// The rules of a Repo's base branch, by URL and branch.
    rules: Mutex<HashMap<(String, String), (Instant, BranchRules)>>,
}

/// The repository of a train.
pub(super) struct RepoHost<'a> {
    pub gateway: &'a WorkServices,
    pub repo: &'a Arc<Repo>,
    pub train: &'a MergeTrain,
    pub namespace: &'a str,
    pub github: &'a GitHub,
    pub cache: &'a HostCache,
}

impl RepoHost<'_> {
    fn key(&self, car: &TrainCar) -> ThreadKey {
        ThreadKey { namespace: self.namespace.to_owned(), name: car.thread.clone() }
    }

    async fn bench(&self) -> Result<TrainBench, TrainError> {
        let bench = TrainBench::take(&self.gateway.git, self.repo).await?;
        bench.ok_or_else(|| TrainError::NoBase(self.repo.spec.git.branch.clone()))
    }

    /// The rules of the base branch, as they were not long ago.
    async fn rules(&self) -> Result<BranchRules, TrainError> {
        let (url, base) = (&self.repo.spec.git.url, &self.repo.spec.git.branch);
        let key = (url.clone(), base.clone());
        let known = self.cache.rules.lock().get(&key).cloned();
        if let Some((_, rules)) = known.filter(|(at, _)| at.elapsed() < FRESH) {
            return Ok(rules);
        }
        let rules = self.github.branch_rules(base).await?;
        self.cache.rules.lock().insert(key, (Instant::now(), rules.clone()));
        Ok(rules)
    }

    /// True if a merge has both sides as parents.
    fn keeps_both(&self) -> bool {
        self.repo.spec.git.merge_method.is_some_and(|method| *method == MergeMethod::Merge)
    }

    /// Reason why a pull request is not what people approved any more, if so.
    async fn why_gone(
        &self,
        car: &TrainCar,
        bench: &TrainBench,
    ) -> Result<Option<String>, TrainError> {
        let pull = self.github.pull(car.number).await?;
        let why = why_gone(&pull, &car.head, &self.repo.spec.git.branch);
        // GitHub may not know yet what was pushed.
        let tip = bench.tip(&names::branch_name(&car.thread));
        Ok(why.or_else(|| (tip != Some(&car.head)).then(|| NEW_COMMITS.to_owned())))
    }
}

const NEW_COMMITS: &str = "it has new commits, which nobody has approved";

/// Reason why a pull request can't be merged as it was when people were asked, if there is one.
pub(super) fn why_gone(pull: &GitHubPull, head: &str, base: &str) -> Option<String> {
    match () {
        () if pull.is_merged() => Some("it was merged at GitHub".to_owned()),
        () if !pull.is_open() => Some("it was closed at GitHub".to_owned()),
        () if pull.head() != head => Some(NEW_COMMITS.to_owned()),
        () if pull.base() != base => Some("it is for another branch".to_owned()),
        () => None,
    }
}

/// Records in a Thread's status that a train has taken it in; returns the reason if it can't.
fn couple_car(
    status: &mut ThreadStatus,
    car: &TrainCar,
    by: &str,
    id: &str,
) -> Result<Option<String>, ChangeRefusal> {
    let not = |why: &str| Ok(Some(why.to_owned()));
    let Some(closing) = status.closing.clone() else {
        return not("its thread asks no more whether to merge");
    };
    if closing.head.as_ref() != Some(&car.head) {
        return not("its thread asks about another commit by now");
    }
    match (closing.choice, closing.waits) {
        (Some(ClosingChoice::Merge), Some(MergeWait::Train)) => return Ok(None),
        (Some(_), _) => return not("its thread has its own decision by now"),
        (None, _) => {}
    }
    let pull = status.pull_request.as_ref();
    if pull.is_none_or(|pull| pull.state.unwrap_or(PullState::Open) != PullState::Open) {
        return not("it is not open any more");
    }
    let who = (by, closing.role.as_str());
    merge::record_answer(status, &closing.ts, MergeChoice::Merge, who, id.to_owned())?;
    if let Some(closing) = &mut status.closing {
        closing.waits = Some(MergeWait::Train);
    }
    Ok(None)
}

#[async_trait]
impl TrainHost for RepoHost<'_> {
    type Error = TrainError;

    async fn couple(&self, car: &TrainCar) -> Result<Option<String>, TrainError> {
        let key = self.key(car);
        let known = self.gateway.threads.freshest(&key, self.gateway.context.thread(&key));
        let is_open = |thread: &Thread| thread.spec.state == ThreadState::Active;
        if !known.is_some_and(|thread| is_open(&thread) && !thread.is_going()) {
            return Ok(Some("its thread is closed".to_owned()));
        }
        let by = self.train.approved_by.as_deref().unwrap_or(&self.train.by);
        let id = format!("train:{}:{}", self.train.wanted, car.number);
        let change = |status: &mut ThreadStatus| couple_car(status, car, by, &id);
        let (_, why) = self.gateway.threads.try_update(&key, change).await?;
        step::point("a pull request is part of a train");
        Ok(why)
    }

    async fn has_queue(&self) -> Result<bool, TrainError> {
        Ok(self.rules().await?.queue)
    }

    async fn is_tested(&self, cars: &[&TrainCar]) -> Result<bool, TrainError> {
        let rules = self.rules().await?;
        for car in cars {
            let checks = self.github.checks(&car.head).await?;
            if judge_checks(&checks, &rules.checks) != CheckVerdict::Silent {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn assemble(&self, cars: &[&TrainCar]) -> Result<TrainAssembly, TrainError> {
        let bench = self.bench().await?;
        // Nobody needs what a train left behind that is not known any more.
        for branch in bench.branches(PREFIX) {
            self.github.delete_branch(&branch).await?;
        }
        let (mut heads, mut gone) = (Vec::new(), Vec::new());
        for car in cars {
            match self.why_gone(car, &bench).await? {
                Some(why) => gone.push((car.number, why)),
                None => heads.push(TrainHead { number: car.number, commit: car.head.clone() }),
            }
        }
        let made = bench.put_together(&bench.base, &heads, self.keeps_both()).await;
        let made = made.map_err(MirrorError::from)?;
        let steps = made.steps.into_iter().map(|(number, tree)| TrainStep { number, tree });
        let apart = made.apart.into_iter();
        Ok(TrainAssembly {
            branch: format!("{PREFIX}{}", made.commit.get(..SHORT).unwrap_or(&made.commit)),
            commit: made.commit,
            base: bench.base.clone(),
            base_tree: made.base_tree,
            steps: steps.collect(),
            apart: apart.map(|(number, files)| (number, files.into_iter().collect())).collect(),
            gone,
        })
    }

    async fn push(
        &self,
        round: &TrainRound,
        cars: &[&TrainCar],
    ) -> Result<PushedBranch, TrainError> {
        let bench = self.bench().await?;
        if bench.base != round.base {
            return Ok(PushedBranch::Stale);
        }
        let head = |car: &&TrainCar| TrainHead { number: car.number, commit: car.head.clone() };
        let heads: Vec<TrainHead> = cars.iter().map(head).collect();
        step::point("a train is pushed");
        let how = (round.base.as_str(), &heads[..], self.keeps_both());
        Ok(bench.push(&round.branch, &round.commit, how).await?)
    }

    async fn checks(&self, commit: &str) -> Result<CheckVerdict, TrainError> {
        let rules = self.rules().await?;
        let checks = self.github.checks(commit).await?;
        let verdict = judge_checks(&checks, &rules.checks);
        let names: BTreeSet<String> = checks.into_iter().map(|check| check.name).collect();
        let before = self.cache.seen.lock().insert(commit.to_owned(), names.clone());
        // One workflow may end before the next one begins, so green counts only the second time.
        if verdict == CheckVerdict::Passed && before.as_ref() != Some(&names) {
            return Ok(CheckVerdict::Settles);
        }
        Ok(verdict)
    }

    async fn prove(&self, car: &TrainCar, tree: &str) -> Result<Option<String>, TrainError> {
        let thread = self.gateway.threads.read(&self.key(car)).await?;
        let receipt = thread.status.as_ref().and_then(|status| status.receipt.clone());
        let receipt = receipt.filter(|receipt| receipt.commit == car.head);
        let own = self.bench().await?.tree(&car.head).await.map_err(MirrorError::from)?;
        let base = &self.repo.spec.git.branch;
        Ok(match receipt {
            None => Some("neither GitHub nor its own thread has tested it".to_owned()),
            Some(receipt) if receipt.exit_code != 0 => {
                let code = receipt.exit_code;
                Some(format!("its tests ended with exit code {code} in its thread"))
            }
            Some(_) if own != tree => Some(format!(
                "its thread has tested it without what `{base}` has by now: bring it up to date (GitUpdate), run the \
                 tests and push"
            )),
            Some(_) => None,
        })
    }

    async fn land(
        &self,
        car: &TrainCar,
        trees: Option<(&str, &str)>,
    ) -> Result<TrainLanding, TrainError> {
        let base = &self.repo.spec.git.branch;
        let pull = self.github.pull(car.number).await?;
        if let Some(why) = why_gone(&pull, &car.head, base).filter(|_| !pull.is_merged()) {
            return Ok(TrainLanding::Refused(why));
        }
        if let Some((before, _)) = trees.filter(|_| !pull.is_merged()) {
            let tip = self.github.tip(base).await?;
            if tip.is_none_or(|tip| tip.tree != before) {
                return Ok(TrainLanding::Moved);
            }
        }
        step::point("a turn comes");
        let key = self.key(car);
        let turn = close::merge_in_turn(self.gateway, self.repo, self.github, &key, &pull).await?;
        step::point("a turn is over");
        Ok(match turn {
            MergeTurn::Queued => TrainLanding::Queued,
            MergeTurn::Refused(why) => TrainLanding::Refused(why),
            MergeTurn::Merged(commit) => match trees {
                Some((_, after)) if self.github.tree_of(&commit).await? != after => {
                    TrainLanding::Otherwise(commit)
                }
                _ => TrainLanding::Done(commit),
            },
        })
    }

    async fn clear(&self, branch: &str) -> Result<(), TrainError> {
        self.cache.seen.lock().clear();
        self.github.delete_branch(branch).await?;
        Ok(())
    }

    async fn release(&self, car: &TrainCar, why: &str) -> Result<(), TrainError> {
        Ok(close::let_go(self.gateway, &self.key(car), why).await?)
    }

    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn base(&self) -> &str {
        &self.repo.spec.git.branch
    }

    fn patience(&self) -> SignedDuration {
        let minutes = self.repo.spec.branches.and_then(|branches| branches.train_minutes);
        SignedDuration::from_mins(minutes.unwrap_or(MINUTES).into())
    }
}

#[cfg(test)]
mod tests {
    use codebutler_crds::thread::{PullRequest, ThreadClosing};

    use super::*;

    #[test]
    fn a_thread_is_taken_in_only_as_it_was_when_people_were_asked() {
        let car = TrainCar::ready("t", 7, "h1");
        let asked = |head: &str, choice| ThreadStatus {
            closing: Some(Box::new(ThreadClosing {
                ts: "5.000000".parse().unwrap(),
                role: "lead".into(),
                choice,
                decided_by: choice.map(|_| "U2".into()),
                head: Some(head.into()),
                waits: None,
            })),
            pull_request: Some(Box::new(PullRequest::of(7, "https://h/7"))),
            ..ThreadStatus::default()
        };
        let mut status = asked("h1", None);
        for _ in 0..2 {
            assert_eq!(couple_car(&mut status, &car, "U1", "id").unwrap(), None);
            let closing = status.closing.clone().unwrap();
            assert_eq!(
                (closing.choice, closing.waits),
                (Some(ClosingChoice::Merge), Some(MergeWait::Train))
            );
            assert_eq!((closing.decided_by.as_deref(), status.pending.len()), (Some("U1"), 1));
        }
        let why = |mut status: ThreadStatus| {
            let before = status.clone();
            let why = couple_car(&mut status, &car, "U1", "id").unwrap().unwrap();
            assert_eq!(status, before);
            why
        };
        assert!(why(ThreadStatus::default()).contains("asks no more"));
        assert!(why(asked("h2", None)).contains("another commit"));
        assert!(why(asked("h1", Some(ClosingChoice::Merge))).contains("its own decision"));
        assert!(why(ThreadStatus { pull_request: None, ..asked("h1", None) }).contains("not open"));
    }
}
