//! Pull requests that are ready: an open Thread asks whether to merge exactly this commit, and nobody has answered.

use std::sync::Arc;

use codebutler_crds::thread::{MOST_CARS, MergeTrain, TrainCar};
use codebutler_crds::wire::ChangeSize;
use codebutler_crds::{Repo, Thread, ThreadStatus};
use codebutler_gateway_core::github::{GitHub, GitHubPull};
use codebutler_gateway_core::thread_key::ThreadKey;
use jiff::Timestamp;
use kube::ResourceExt as _;
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;

use super::host::{TrainError, why_gone};
use super::messages::{self, ReadyPull, ShownPull};
use super::{is_open, other_train};
use crate::parts;
use crate::steering::SteeringSearch;
use crate::work::WorkServices;

/// Key of the line that says why nothing is merged.
const REFUSED: &str = "train-refused";

/// Pull requests that are ready, in the order of merging (the smaller first, then the older), and the others with
/// reasons.
type ReadyPulls = (Vec<ReadyPull>, Vec<(u64, String)>);

/// Asks about everything that is ready, or says that nothing is.
pub(super) async fn ask_train(
    gateway: &WorkServices,
    repo: &Arc<Repo>,
    github: &GitHub,
    parent: &Thread,
    train: &MergeTrain,
) -> Result<(), TrainError> {
    let key = ThreadKey::from(parent);
    if let Some(other) = other_train(gateway, parent) {
        let text = format!(
            "A merge train of this repository is under way in another conversation (Thread `{}`). Ask again when it is done.",
            other.name_any()
        );
        return answer_wish(gateway, &key, train, (REFUSED, &text)).await;
    }
    let (ready, others) = find_ready(gateway, repo, github, parent).await?;
    if ready.is_empty() {
        let text = messages::describe_nothing(&others);
        return answer_wish(gateway, &key, train, (REFUSED, &text)).await;
    }
    let cars: Vec<TrainCar> = ready.iter().map(|one| one.car.clone()).collect();
    let show = |car: &TrainCar| {
        let child = ThreadKey { namespace: key.namespace.clone(), name: car.thread.clone() };
        let thread = gateway.context.thread(&child)?;
        let url = thread.status.as_ref()?.pull_request.as_ref()?.url.clone();
        Some(ShownPull { url, place: None })
    };
    let text = messages::merging_question(&ready, &others, &repo.spec.git.branch, show);
    let heads: Vec<&str> = cars.iter().map(|car| car.head.as_str()).collect();
    let digest = hex::encode(&Sha256::digest(heads.join("\n"))[..6]);
    let id = format!("train-{}-{digest}", train.wanted);
    Ok(gateway.slack.ask_train(&key, &id, &text, &cars).await?)
}

/// Answers a wish for a train with a line, under this key, instead of with a train.
pub(super) async fn answer_wish(
    gateway: &WorkServices,
    key: &ThreadKey,
    train: &MergeTrain,
    (notice, text): (&str, &str),
) -> Result<(), TrainError> {
    gateway.slack.notice(key, &format!("{notice}:{}", train.wanted), text).await?;
    let wanted = &train.wanted;
    let answered = |status: &mut ThreadStatus| {
        if let Some(train) = status.train.as_mut().filter(|train| train.wanted == *wanted) {
            train.answered = Some(wanted.clone());
        }
    };
    gateway.threads.update(key, answered).await?;
    Ok(())
}

async fn find_ready(
    gateway: &WorkServices,
    repo: &Arc<Repo>,
    github: &GitHub,
    parent: &Thread,
) -> Result<ReadyPulls, TrainError> {
    let mut found = Vec::new();
    let mut others = Vec::new();
    let (steering, key) = (OnceCell::new(), ThreadKey::from(parent));
    for thread in gateway.context.attended.all() {
        let same = thread.namespace() == parent.namespace() && thread.spec.repo == parent.spec.repo;
        if !same || !is_open(&thread) {
            continue;
        }
        let Some((car, status)) = asks_to_merge(&thread) else { continue };
        if thread.name_any() == parent.name_any() {
            let why = "this conversation's own: merge it by its own question".to_owned();
            others.push((car.number, why));
            continue;
        }
        if let Some(what) = parts::find_unmet(gateway, &thread) {
            others.push((car.number, format!("it {what}")));
            continue;
        }
        let pull = github.pull(car.number).await?;
        if let Some(why) = why_gone(&pull, &car.head, &repo.spec.git.branch) {
            others.push((car.number, why));
            continue;
        }
        let search = SteeringSearch::begin(&gateway.git, repo, &key);
        let search = steering.get_or_init(|| search).await;
        let steers = search.search(github, car.number, &car.head).await?;
        let restores = search.removed_from_base(&thread, &car.head).await;
        let warnings = steers.sentence().into_iter().chain(restores).collect();
        found.push((thread, ready_pull(car, &pull, &status, warnings)));
    }
    // Order by size only if each one's size is known.
    let sized = found.iter().all(|(_, one)| one.size.is_some());
    found.sort_by_cached_key(|(thread, one)| rank_ready(thread, one.size.filter(|_| sized)));
    let mut ready: Vec<ReadyPull> = found.into_iter().map(|(_, one)| one).collect();
    if ready.len() > MOST_CARS {
        let late = ready.split_off(MOST_CARS);
        others.extend(late.into_iter().map(|one| (one.car.number, "in the next one".to_owned())));
    }
    Ok((ready, others))
}

fn rank_ready(
    thread: &Thread,
    size: Option<ChangeSize>,
) -> (Option<u64>, Option<Timestamp>, String) {
    let lines = size.map(|size| size.lines);
    (lines, thread.creation_timestamp().map(|time| time.0), thread.name_any())
}

/// The pull request about which a Thread asks whether to merge it.
fn asks_to_merge(thread: &Thread) -> Option<(TrainCar, ThreadStatus)> {
    let status = thread.status.clone()?;
    let closing = status.closing.as_ref().filter(|closing| closing.choice.is_none())?;
    let pull = status.pull_request.as_ref().filter(|pull| pull.merge_commit.is_none())?;
    let car = TrainCar::ready(&thread.name_any(), pull.number, closing.head.as_deref()?);
    Some((car, status))
}

fn ready_pull(
    car: TrainCar,
    pull: &GitHubPull,
    status: &ThreadStatus,
    warnings: Vec<String>,
) -> ReadyPull {
    let receipt = status.receipt.as_ref().filter(|receipt| receipt.commit == car.head);
    ReadyPull {
        tested: receipt.map(|receipt| receipt.exit_code),
        size: pull.size(),
        title: pull.title.clone(),
        warnings,
        car,
    }
}
