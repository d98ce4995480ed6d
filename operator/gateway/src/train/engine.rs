//! Decides the next step of a merge train: one step at a time, each of which may be begun anew. What is put on record
//! before a step and what a step finds done is all that it needs: whoever dies in between is followed by somebody who
//! goes on.
//!
//! All that is left is put together on top of the base branch and tested as one commit. Green: it is merged
//! one by one, as long as each merge leads to exactly the tree that was put together. Red: half as many are
//! tried, until the one that fails stands alone and is left out. Whoever conflicts waits until those before
//! it are merged; conflicting with the base branch alone, it is left out.

use std::collections::BTreeSet;

use async_trait::async_trait;
use codebutler_crds::thread::{MergeTrain, TrainCar, TrainEnd, TrainRound, TrainStep};
use codebutler_git::PushedBranch;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Timeout after the push for the first sign of any check.
const SILENCE: SignedDuration = SignedDuration::from_mins(3);
/// Failed trees that are kept: the newest.
const MOST_FAILED: usize = 200;
/// Longest reason, in characters.
const REASON: usize = 500;

/// Pull requests on top of the base branch, not pushed yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TrainAssembly {
    /// The branch's commit and its tree.
    pub base: String,
    pub base_tree: String,
    /// Pull requests that merge with the ones before them.
    pub steps: Vec<TrainStep>,
    /// The commit that has them all, and the branch for its tests.
    pub commit: String,
    pub branch: String,
    /// Pull requests that conflict with one before them or with the base branch, with the files.
    pub apart: Vec<(u64, Vec<String>)>,
    /// Pull requests that are not what was approved any more, with the reason.
    pub gone: Vec<(u64, String)>,
}

/// Verdict of the checks of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CheckVerdict {
    Passed,
    /// These checks have failed.
    Failed(BTreeSet<String>),
    /// These checks are not over yet.
    Pending(BTreeSet<String>),
    /// All checks are green for the first time: more of them may begin.
    Settles,
    /// The commit has no checks.
    Silent,
}

/// Outcome of one merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TrainLanding {
    /// The commit on the base branch, whose tree is the one that was tested.
    Done(String),
    /// The commit on the base branch; somebody else's came in between.
    Otherwise(String),
    /// The base branch is not at the tree that this one was tested on.
    Moved,
    /// GitHub's merge queue has it.
    Queued,
    /// The merge was refused, for this reason.
    Refused(String),
}

/// Everything outside: Git, GitHub, Threads, the clock. Each can be asked again for what is done already.
#[async_trait]
pub(super) trait TrainHost: Sync {
    type Error: Send;

    /// Records in a Thread that its pull request is merged here; returns the reason if that can't be.
    async fn couple(&self, car: &TrainCar) -> Result<Option<String>, Self::Error>;

    /// True if only GitHub's merge queue changes the base branch.
    async fn has_queue(&self) -> Result<bool, Self::Error>;

    /// True if GitHub tests anything of these pull requests.
    async fn is_tested(&self, cars: &[&TrainCar]) -> Result<bool, Self::Error>;

    /// Puts them together, in order.
    async fn assemble(&self, cars: &[&TrainCar]) -> Result<TrainAssembly, Self::Error>;

    /// Pushes a round's commit for its tests.
    async fn push(
        &self,
        round: &TrainRound,
        cars: &[&TrainCar],
    ) -> Result<PushedBranch, Self::Error>;

    async fn checks(&self, commit: &str) -> Result<CheckVerdict, Self::Error>;

    /// Checks that a Thread's own role has tested exactly this tree; returns what is missing, if not.
    async fn prove(&self, car: &TrainCar, tree: &str) -> Result<Option<String>, Self::Error>;

    /// Merges it, if the base branch is at the first of two trees.
    async fn land(
        &self,
        car: &TrainCar,
        trees: Option<(&str, &str)>,
    ) -> Result<TrainLanding, Self::Error>;

    /// Takes a branch for tests away.
    async fn clear(&self, branch: &str) -> Result<(), Self::Error>;

    /// Tells a Thread that it was left out.
    async fn release(&self, car: &TrainCar, why: &str) -> Result<(), Self::Error>;

    fn now(&self) -> Timestamp;

    /// The base branch, for people.
    fn base(&self) -> &str;

    /// Timeout of checks.
    fn patience(&self) -> SignedDuration;
}

/// Outcome of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TrainProgress {
    /// The train has changed: this is put on record, and the next step follows.
    Changed(Box<MergeTrain>),
    /// Checks are awaited; they may be over in a moment.
    Waits { soon: bool },
    /// Nothing is left to do: the train has ended.
    Over,
}

impl TrainProgress {
    fn changed(train: MergeTrain) -> Self {
        Self::Changed(Box::new(train))
    }
}

/// Does the next step of a train that people approved.
///
/// # Errors
/// When something outside can't be asked: the step is begun anew later.
pub(super) async fn advance_train<H: TrainHost>(
    train: &MergeTrain,
    host: &H,
) -> Result<TrainProgress, H::Error> {
    let mut next = train.clone();
    let untold = next.cars.iter_mut().find(|car| car.left_out.is_some() && !car.told);
    if let Some(car) = untold {
        let why = car.left_out.clone().unwrap_or_default();
        host.release(car, &why).await?;
        car.told = true;
        return Ok(TrainProgress::changed(next));
    }
    if train.ended.is_some() {
        return wind_up(next, host).await;
    }
    if let Some(car) = next.cars.iter_mut().find(|car| car.is_left() && !car.coupled) {
        match host.couple(car).await? {
            None => car.coupled = true,
            Some(why) => (car.left_out, car.told) = (Some(clip_reason(&why)), true),
        }
        return Ok(TrainProgress::changed(next));
    }
    match train.round.clone() {
        None => begin_round(next, host).await,
        Some(round) if round.passed => land_next(next, &round, host).await,
        Some(round) => test_round(next, round, host).await,
    }
}

/// Ends a train without further merges: releases the remaining pull requests, and removes its branch.
async fn wind_up<H: TrainHost>(mut next: MergeTrain, host: &H) -> Result<TrainProgress, H::Error> {
    if let Some(round) = next.round.take() {
        host.clear(&round.branch).await?;
        return Ok(TrainProgress::changed(next));
    }
    let why = match next.ended {
        Some(TrainEnd::Failed) => next.reason.clone().unwrap_or_default(),
        _ => "somebody stopped the merge train".to_owned(),
    };
    let mut left = next.cars.iter_mut().filter(|car| car.is_left()).peekable();
    if left.peek().is_none() {
        return Ok(TrainProgress::Over);
    }
    for car in left {
        (car.left_out, car.told) = (Some(clip_reason(&why)), !car.coupled);
    }
    Ok(TrainProgress::changed(next))
}

/// Puts the next ones together.
async fn begin_round<H: TrainHost>(
    mut next: MergeTrain,
    host: &H,
) -> Result<TrainProgress, H::Error> {
    let left: Vec<TrainCar> = next.left().cloned().collect();
    let Some(first) = left.first() else {
        next.ended = Some(TrainEnd::Done);
        return Ok(TrainProgress::changed(next));
    };
    if host.has_queue().await? {
        let landing = host.land(first, None).await?;
        note_landing(&mut next, first.number, landing);
        return Ok(TrainProgress::changed(next));
    }
    if next.rounds == 0 && !next.untested {
        let tested = host.is_tested(&left.iter().collect::<Vec<_>>()).await?;
        if !tested {
            next.untested = true;
            return Ok(TrainProgress::changed(next));
        }
    }
    let limit = if next.untested { Some(1) } else { next.limit };
    let most = limit.map_or(left.len(), |limit| limit as usize).clamp(1, left.len());
    let tried: Vec<&TrainCar> = left[..most].iter().collect();
    let found = host.assemble(&tried).await?;
    for (number, why) in &found.gone {
        leave_out(&mut next, *number, why);
    }
    let idle = without_effect(&found);
    for number in &idle {
        let why = format!("it changes nothing that `{}` does not have", host.base());
        leave_out(&mut next, *number, &why);
    }
    if !found.gone.is_empty() || !idle.is_empty() {
        return Ok(TrainProgress::changed(next));
    }
    let Some(last) = found.steps.last().cloned() else {
        // Without any before them, they conflict with the base branch itself.
        for (number, files) in &found.apart {
            let why = format!("it conflicts with `{}`{}", host.base(), in_files(files));
            leave_out(&mut next, *number, &why);
        }
        return Ok(TrainProgress::changed(next));
    };
    if next.failed.contains(&last.tree) {
        blame_cars(&mut next, &found.steps, "its tests failed");
        return Ok(TrainProgress::changed(next));
    }
    let mut round = TrainRound {
        branch: found.branch,
        commit: found.commit,
        base: found.base,
        base_tree: found.base_tree,
        steps: found.steps,
        pushed: None,
        passed: false,
    };
    if next.untested {
        let car = tried.into_iter().find(|car| car.number == last.number);
        if let Some(car) = car
            && let Some(why) = host.prove(car, &last.tree).await?
        {
            leave_out(&mut next, car.number, &why);
            return Ok(TrainProgress::changed(next));
        }
        round.passed = true;
    } else {
        next.rounds += 1;
    }
    next.round = Some(round);
    Ok(TrainProgress::changed(next))
}

/// Pull requests of an assembly that leave the tree as it was.
fn without_effect(found: &TrainAssembly) -> Vec<u64> {
    let mut before = &found.base_tree;
    let mut idle = Vec::new();
    for step in &found.steps {
        if step.tree == *before {
            idle.push(step.number);
        }
        before = &step.tree;
    }
    idle
}

/// Pushes a round for its tests, or reads their results.
async fn test_round<H: TrainHost>(
    mut next: MergeTrain,
    round: TrainRound,
    host: &H,
) -> Result<TrainProgress, H::Error> {
    let Some(pushed) = &round.pushed else {
        let cars: Vec<TrainCar> = cars_of(&next, &round).cloned().collect();
        match host.push(&round, &cars.iter().collect::<Vec<_>>()).await? {
            PushedBranch::Done => {
                let pushed = Some(Time(host.now()));
                next.round = Some(TrainRound { pushed, ..round });
            }
            PushedBranch::Stale => {
                host.clear(&round.branch).await?;
                next.rounds -= 1;
                next.round = None;
            }
            PushedBranch::Refused(why) => {
                let why = format!("branch `{}` can't be pushed for tests: {why}", round.branch);
                fail_train(&mut next, &why);
            }
        }
        return Ok(TrainProgress::changed(next));
    };
    let waited = host.now().duration_since(pushed.0);
    match host.checks(&round.commit).await? {
        CheckVerdict::Passed => next.round = Some(TrainRound { passed: true, ..round }),
        CheckVerdict::Failed(names) => {
            if round.steps.len() == 1
                && let CheckVerdict::Failed(before) = host.checks(&round.base).await?
                && before.iter().any(|name| names.contains(name))
            {
                let both: BTreeSet<String> = before.intersection(&names).cloned().collect();
                let why = format!("{} failed on `{}` itself", name_checks(&both), host.base());
                fail_train(&mut next, &why);
                return Ok(TrainProgress::changed(next));
            }
            host.clear(&round.branch).await?;
            next.round = None;
            if let Some(last) = round.steps.last() {
                next.failed.push(last.tree.clone());
                let surplus = next.failed.len().saturating_sub(MOST_FAILED);
                next.failed.drain(..surplus);
            }
            blame_cars(&mut next, &round.steps, &format!("{} failed", name_checks(&names)));
        }
        CheckVerdict::Silent if waited >= SILENCE => {
            host.clear(&round.branch).await?;
            (next.round, next.untested) = (None, true);
            (next.limit, next.suspects) = (None, None);
            next.rounds -= 1;
        }
        CheckVerdict::Pending(names) if waited >= host.patience() => {
            let minutes = host.patience().as_mins();
            let why = format!("{} did not end within {minutes} minutes", name_checks(&names));
            fail_train(&mut next, &why);
        }
        CheckVerdict::Settles => return Ok(TrainProgress::Waits { soon: true }),
        CheckVerdict::Pending(_) | CheckVerdict::Silent => {
            return Ok(TrainProgress::Waits { soon: false });
        }
    }
    Ok(TrainProgress::changed(next))
}

/// Merges the next one of a round that was tested.
async fn land_next<H: TrainHost>(
    mut next: MergeTrain,
    round: &TrainRound,
    host: &H,
) -> Result<TrainProgress, H::Error> {
    let mut before = &round.base_tree;
    let mut due = None;
    for step in &round.steps {
        let car = next.cars.iter().find(|car| car.number == step.number && car.is_left());
        if let Some(car) = car {
            due = Some((car.clone(), &step.tree));
            break;
        }
        before = &step.tree;
    }
    let landing = match due {
        None => None,
        Some((car, after)) => {
            let landing = host.land(&car, Some((before, after))).await?;
            let all = matches!(landing, TrainLanding::Done(_));
            note_landing(&mut next, car.number, landing);
            Some(all)
        }
    };
    if landing != Some(true) {
        host.clear(&round.branch).await?;
        next.round = None;
        // Go on with those that failed together with these; on another base branch the suspicion does not hold.
        let landed = u32::try_from(round.steps.len()).unwrap_or(u32::MAX);
        let suspects = next.suspects.filter(|_| landing.is_none());
        next.suspects = suspects.map(|all| all.saturating_sub(landed)).filter(|left| *left > 0);
        next.limit = next.suspects;
    }
    Ok(TrainProgress::changed(next))
}

fn note_landing(train: &mut MergeTrain, number: u64, landing: TrainLanding) {
    let Some(car) = train.cars.iter_mut().find(|car| car.number == number) else { return };
    match landing {
        TrainLanding::Done(commit) => car.merged = Some(commit),
        TrainLanding::Otherwise(commit) => (car.merged, car.overtaken) = (Some(commit), true),
        TrainLanding::Moved => {}
        TrainLanding::Queued => {
            car.left_out = Some("GitHub's merge queue has it".to_owned());
            car.told = true;
        }
        TrainLanding::Refused(why) => car.left_out = Some(clip_reason(&why)),
    }
}

/// These failed together: half of them are tried next, or the one is found.
fn blame_cars(train: &mut MergeTrain, steps: &[TrainStep], why: &str) {
    if let [only] = steps {
        leave_out(train, only.number, why);
        (train.limit, train.suspects) = (None, None);
    } else {
        train.suspects = u32::try_from(steps.len()).ok();
        train.limit = u32::try_from(steps.len() / 2).ok();
    }
}

fn leave_out(train: &mut MergeTrain, number: u64, why: &str) {
    if let Some(car) = train.cars.iter_mut().find(|car| car.number == number) {
        car.left_out = Some(clip_reason(why));
    }
}

fn fail_train(train: &mut MergeTrain, why: &str) {
    train.ended = Some(TrainEnd::Failed);
    train.reason = Some(clip_reason(why));
}

fn cars_of<'t>(train: &'t MergeTrain, round: &'t TrainRound) -> impl Iterator<Item = &'t TrainCar> {
    let car = |step: &TrainStep| train.cars.iter().find(|car| car.number == step.number);
    round.steps.iter().filter_map(car)
}

fn clip_reason(why: &str) -> String {
    why.chars().take(REASON).collect()
}

/// Some names as code, for people.
fn name_checks<'n>(names: impl IntoIterator<Item = &'n String>) -> String {
    let all: Vec<String> =
        names.into_iter().map(|name| format!("`{}`", name.replace('`', "'"))).collect();
    match all.len() {
        0..=5 => all.join(", "),
        more => format!("{} and {} more", all[..4].join(", "), more - 4),
    }
}

fn in_files(files: &[String]) -> String {
    if files.is_empty() { String::new() } else { format!(" in {}", name_checks(files)) }
}

#[cfg(test)]
mod tests;
