//! Merge trains: everything of a repository that is ready is merged one behind the other, tested together. By
//! the harness and no model; one gateway does, the one that serves agents.
//!
//! [`engine`] says what comes next and is tried on a thousand random trains; [`host`] is what it is about:
//! GitHub, the gateway's copy, the Threads. [`ready`] says what is asked about, [`messages`] what people read.

mod engine;
mod host;
mod messages;
mod ready;
mod verdict;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::thread::{MergeTrain, ThreadState, TrainCar};
use codebutler_crds::{Repo, Thread, ThreadStatus};
use codebutler_gateway_core::github::GitHub;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::thread_queue::{ThreadQueue, ThreadReconciler, drive_one_by_one};
use codebutler_runtime::queue::FollowUp;
use codebutler_runtime::step;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;

use self::engine::{TrainProgress, advance_train};
use self::host::{HostCache, RepoHost, TrainError};
use self::messages::ShownPull;
use crate::work::WorkServices;

/// Interval between two looks at a train.
const EVERY: Duration = Duration::from_millis(700);
/// Interval before a retry after a failure.
const AGAIN: Duration = Duration::from_secs(10);
/// Interval of polls of checks, and of polls that have to confirm that all is green.
const CHECKS: Duration = Duration::from_secs(8);
const SETTLE: Duration = Duration::from_secs(3);
/// Steps of one look: others wait meanwhile.
const STEPS: usize = 8;
/// The key of the message that shows how it stands.
const DASHBOARD: &str = "train-dashboard";

/// Cache that saves requests. It may be lost.
#[derive(Default)]
struct TrainCache {
    links: HashMap<ThreadKey, String>,
    /// Text of a conversation's dashboard.
    shown: HashMap<ThreadKey, String>,
    host: HostCache,
}

/// Looks after all merge trains until the gateway stops. `poll`: how often GitHub is asked at least.
pub async fn run_trains(gateway: &WorkServices, poll: Duration) {
    let queue = ThreadQueue::new(&gateway.context.attended, is_candidate, (AGAIN, AGAIN));
    let trains = TrainReconciler { gateway, poll, cache: TrainCache::default() };
    drive_one_by_one(queue, &gateway.shutdown, trains).await;
}

struct TrainReconciler<'a> {
    gateway: &'a WorkServices,
    poll: Duration,
    cache: TrainCache,
}

impl ThreadReconciler for TrainReconciler<'_> {
    const NAME: &'static str = "merge_train";
    type Error = TrainError;

    async fn reconcile(&mut self, key: &ThreadKey, _: &Thread) -> Result<FollowUp, TrainError> {
        let looked = self.cache.look_at(self.gateway, key, self.poll).await;
        if let Some(error) = looked.as_ref().err().filter(|error| error.is_about_repo()) {
            complain(self.gateway, key, error).await;
        }
        looked
    }

    fn forget(&mut self, key: &ThreadKey) {
        self.cache.shown.remove(key);
    }
}

/// The train that somebody wants in a Thread.
fn train_of(thread: &Thread) -> Option<&MergeTrain> {
    thread.status.as_ref().and_then(|status| status.train.as_deref())
}

fn is_open(thread: &Thread) -> bool {
    thread.spec.state == ThreadState::Active && !thread.is_going()
}

fn is_candidate(thread: &Thread) -> bool {
    is_open(thread) && train_of(thread).is_some() && thread.conversation().is_some()
}

/// True if anything is left to be done for the train.
fn is_due(train: &MergeTrain) -> bool {
    let is_new = train.answered.as_ref() != Some(&train.wanted) && train.proposal.is_none();
    let ends = train.approved_by.is_some()
        && (train.round.is_some() || train.cars.iter().any(TrainCar::is_here));
    is_new || train.is_under_way() || ends || is_asked_again(train)
}

/// Somebody wants what is under way, or was, once more.
fn is_asked_again(train: &MergeTrain) -> bool {
    train.approved_by.is_some() && train.answered.as_ref() != Some(&train.wanted)
}

impl TrainCache {
    async fn look_at(
        &mut self,
        gateway: &WorkServices,
        key: &ThreadKey,
        poll: Duration,
    ) -> Result<FollowUp, TrainError> {
        for _ in 0..STEPS {
            let cached = gateway.context.thread(key);
            let Some(parent) = gateway.threads.freshest(key, cached) else {
                return Ok(FollowUp::await_change());
            };
            let Some(train) = train_of(&parent).filter(|train| is_due(train)) else {
                return Ok(FollowUp::await_change());
            };
            let repo = gateway.context.repo(&key.namespace, &parent.spec.repo);
            let Some(repo) = repo.filter(|repo| !repo.spec.suspend) else {
                return Ok(FollowUp::requeue(EVERY));
            };
            let github = GitHub::of(&gateway.context, &repo).await?;
            if is_asked_again(train) {
                tell_under_way(gateway, key, train).await?;
                continue;
            }
            if train.approved_by.is_none() {
                ready::ask_train(gateway, &repo, &github, &parent, train).await?;
                return Ok(FollowUp::requeue(EVERY));
            }
            let host = RepoHost {
                gateway,
                repo: &repo,
                train,
                namespace: &key.namespace,
                github: &github,
                cache: &self.host,
            };
            let progress = advance_train(train, &host).await?;
            let shown = match &progress {
                TrainProgress::Changed(next) => {
                    put_on_record(gateway, key, next).await?;
                    step::point("a train is on record");
                    (**next).clone()
                }
                TrainProgress::Waits { .. } | TrainProgress::Over => train.clone(),
            };
            self.show(gateway, &repo, key, &shown).await?;
            match progress {
                TrainProgress::Waits { soon } => {
                    let pause = if soon { SETTLE } else { poll.min(CHECKS) };
                    return Ok(FollowUp::hold_off(pause));
                }
                TrainProgress::Over => return Ok(FollowUp::requeue(EVERY)),
                TrainProgress::Changed(_) => {}
            }
        }
        Ok(FollowUp::requeue(EVERY))
    }

    /// Brings the message up to date that shows how it stands.
    async fn show(
        &mut self,
        gateway: &WorkServices,
        repo: &Repo,
        key: &ThreadKey,
        train: &MergeTrain,
    ) -> Result<(), TrainError> {
        for car in &train.cars {
            let child = ThreadKey { namespace: key.namespace.clone(), name: car.thread.clone() };
            if self.links.contains_key(&child) {
                continue;
            }
            let Some(thread) = gateway.context.thread(&child) else { continue };
            let link = gateway.slack.permalink(repo, &thread).await;
            self.links.insert(child, link.unwrap_or_default());
        }
        let links = &self.links;
        let shown = |car: &TrainCar| find_pull(gateway, &key.namespace, car, links);
        let text = messages::train_dashboard(train, &repo.spec.git.branch, shown);
        if self.shown.get(key) == Some(&text) {
            return Ok(());
        }
        let id = format!("{DASHBOARD}:{}", train_id(train));
        gateway.slack.show(key, &id, &text).await?;
        self.shown.insert(key.clone(), text);
        Ok(())
    }
}

/// Says why nothing happens; once for each reason.
async fn complain(gateway: &WorkServices, key: &ThreadKey, error: &TrainError) {
    let text = format!(":warning: The merge train has to wait: {error}. It is tried again.");
    let wanted = gateway.context.thread(key);
    let wanted = wanted.as_deref().and_then(train_of).map(|train| train.wanted.to_string());
    let id = format!("train-waits:{}", wanted.unwrap_or_default());
    if let Err(error) = gateway.slack.notice(key, &id, &text).await {
        tracing::warn!(thread = key.name, %error, notice = "merge_train", "notice_post_failed");
    }
}

/// Identity of a train among those of a conversation.
fn train_id(train: &MergeTrain) -> String {
    train.proposal.as_ref().map_or_else(|| train.wanted.to_string(), |asked| asked.ts.to_string())
}

/// A pull request with where its conversation is.
fn find_pull(
    gateway: &WorkServices,
    namespace: &str,
    car: &TrainCar,
    links: &HashMap<ThreadKey, String>,
) -> Option<ShownPull> {
    let child = ThreadKey { namespace: namespace.to_owned(), name: car.thread.clone() };
    let thread = gateway.context.thread(&child)?;
    let url = thread.status.as_ref()?.pull_request.as_ref()?.url.clone();
    let place = links.get(&child).filter(|link| !link.is_empty()).cloned();
    Some(ShownPull { url, place })
}

/// Puts a step on record, unless people have said something in between.
async fn put_on_record(
    gateway: &WorkServices,
    key: &ThreadKey,
    next: &MergeTrain,
) -> Result<(), TrainError> {
    let change = |status: &mut ThreadStatus| {
        let Some(known) = status.train.as_mut() else { return };
        if known.approved_by.is_none() || train_id(known) != train_id(next) {
            return;
        }
        // People's words win over this step: a newer wish, and stop.
        let (wanted, by, answered) =
            (known.wanted.clone(), known.by.clone(), known.answered.clone());
        let ended = next.ended.or(known.ended);
        **known = MergeTrain { wanted, by, answered, ended, ..next.clone() };
        status.last_activity = Some(Time(Timestamp::now()));
    };
    gateway.threads.update(key, change).await?;
    Ok(())
}

/// Tells somebody who asks for a train that one is under way.
async fn tell_under_way(
    gateway: &WorkServices,
    key: &ThreadKey,
    train: &MergeTrain,
) -> Result<(), TrainError> {
    let text = "A merge train is under way here. What has become ready since goes with the next one: ask again when this one is \
                done.";
    ready::answer_wish(gateway, key, train, ("train-again", text)).await
}

/// The conversation from which another train of this Repo is run.
fn other_train(gateway: &WorkServices, parent: &Thread) -> Option<Arc<Thread>> {
    gateway.context.attended.all().into_iter().find(|thread| {
        let same = thread.namespace() == parent.namespace() && thread.spec.repo == parent.spec.repo;
        let other = thread.name_any() != parent.name_any();
        same && other && is_open(thread) && train_of(thread).is_some_and(MergeTrain::is_under_way)
    })
}
