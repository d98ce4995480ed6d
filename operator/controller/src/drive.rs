//! Runs one kind's reconciler over its queue: one look at a time per object, many objects at once,
//! with backoff by object.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_runtime::apply::ApplyError;
use codebutler_runtime::queue::{FollowUp, KeyBackoff, WorkQueue, wait_until};
use futures::StreamExt as _;
use futures::channel::mpsc::UnboundedReceiver;
use futures::stream::FuturesUnordered;
use kube::Resource;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;
use tracing::field::{Empty, display};

use super::context::ControllerContext;
use super::index::ObjectKey;
use super::metrics::LookOutcome;

/// Delay before the next look after the cache was behind. Its watch usually triggers one sooner.
const STALE: Duration = Duration::from_millis(200);
/// First and longest backoff after a failed look.
const AGAIN: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_mins(1);
/// Objects of one kind that are looked at at once.
const CONCURRENCY: usize = 64;

/// A look at an object failed.
#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error("the reconciler broke down")]
    Broken(#[from] tokio::task::JoinError),
    /// The right to act is lost.
    #[error("another replica acts")]
    Cut,
}

/// Reconciles what comes out of `queue` until `stop`, then ends what is in progress.
pub(crate) async fn drive_reconciler<K, F>(
    store: &Store<K>,
    queue: &mut UnboundedReceiver<ObjectKey>,
    context: Arc<ControllerContext>,
    reconcile: fn(Arc<K>, Arc<ControllerContext>) -> F,
    stop: CancellationToken,
) where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash,
    F: Future<Output = Result<FollowUp, ApplyError>> + Send + 'static,
{
    let mut queue = std::pin::pin!(queue.take_until(stop.cancelled_owned()));
    let (mut work, backoff) = (WorkQueue::<ObjectKey>::default(), KeyBackoff::new(AGAIN, LONGEST));
    let mut looks = FuturesUnordered::new();
    let mut open = true;
    while open || !looks.is_empty() {
        while open
            && looks.len() < CONCURRENCY
            && let Some(key) = work.begin()
        {
            if let Some(object) = store.get(&ObjectRef::new(&key.name).within(&key.namespace)) {
                looks.push(look_once(key, object, context.clone(), reconcile));
            } else {
                backoff.reset(&key);
                work.end(&key);
            }
        }
        let due = work.first_due().filter(|_| open);
        tokio::select! {
            asked = queue.next(), if open => match asked {
                Some(key) => work.now(key),
                None => open = false,
            },
            Some((key, outcome)) = looks.next(), if !looks.is_empty() => {
                work.end(&key);
                if let Some(after) = follow_up::<K>(&key, outcome, &backoff).after {
                    work.later(key, Instant::now() + after);
                }
            }
            () = wait_until(due) => work.wake(Instant::now()),
        }
    }
}

/// Looks at an object once, in a task of its own.
async fn look_once<K, F>(
    key: ObjectKey,
    object: Arc<K>,
    context: Arc<ControllerContext>,
    reconcile: fn(Arc<K>, Arc<ControllerContext>) -> F,
) -> (ObjectKey, Result<FollowUp, LookError>)
where
    K: Resource<DynamicType = ()> + Send + Sync + 'static,
    F: Future<Output = Result<FollowUp, ApplyError>> + Send + 'static,
{
    let metrics = context.metrics.clone();
    let looks = context.looks.clone();
    let kind_of = kind_name::<K>();
    let span = tracing::info_span!("reconcile", kind = kind_of, object = %key, thread = Empty);
    if kind_of == "Thread" {
        span.record("thread", display(&key));
    }
    let looking = async move {
        let start = Instant::now();
        let result = reconcile(object, context).await;
        let outcome = match &result {
            Ok(action) if action.failed => LookOutcome::Failed,
            Ok(_) => LookOutcome::Done,
            Err(ApplyError::Stale { .. }) => LookOutcome::Stale,
            Err(_) => LookOutcome::Failed,
        };
        metrics.reconciled(kind_name::<K>(), outcome, start.elapsed());
        result
    };
    let task = looks.spawn(looking.instrument(span));
    // Aborts the task when this future is dropped: its result would be of no use to anybody then.
    let result = match AbortOnDropHandle::new(task).await {
        Ok(Some(result)) => result.map_err(LookError::from),
        Ok(None) => Err(LookError::Cut),
        Err(broken) => Err(LookError::from(broken)),
    };
    (key, result)
}

fn follow_up<K: Resource<DynamicType = ()>>(
    key: &ObjectKey,
    result: Result<FollowUp, LookError>,
    backoff: &KeyBackoff<ObjectKey>,
) -> FollowUp {
    match result {
        Ok(action) => {
            backoff.reset(key);
            action
        }
        Err(LookError::Apply(ApplyError::Stale { .. })) => FollowUp::requeue(STALE),
        Err(error) => {
            let (delay, error) = (backoff.failed(key.clone()), join_causes(&error));
            tracing::warn!(kind = kind_name::<K>(), object = %key, error, ?delay, "reconcile_failed");
            FollowUp::requeue(delay)
        }
    }
}

fn kind_name<K: Resource<DynamicType = ()>>() -> &'static str {
    match K::kind(&()) {
        std::borrow::Cow::Borrowed(kind) => kind,
        std::borrow::Cow::Owned(_) => "other",
    }
}

/// Formats an error with its causes in one line.
fn join_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
