//! Runs one kind's reconciler over its queue: one look at a time per object, many objects at once,
//! with backoff by object.

use std::convert::Infallible;
use std::fmt::Debug;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::channel::mpsc::UnboundedReceiver;
use futures::{StreamExt as _, TryFutureExt as _};
use kube::Resource;
use kube::runtime::controller::{self, Action, applier};
use kube::runtime::reflector::{ObjectRef, Store};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::backoff::Backoff;
use super::context::Context;
use super::index::Key;
use super::metrics::Outcome;
use crate::apply::ApplyError;

/// How soon to look again when the cache was behind. Its watch usually brings that sooner.
const STALE: Duration = Duration::from_millis(200);
/// Objects of one kind that are looked at at once.
const CONCURRENCY: u16 = 64;

/// Why a look at an object failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A write failed.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// A bug.
    #[error("the reconciler broke down")]
    Broken(#[from] tokio::task::JoinError),
}

/// Reconciles what comes out of `queue` until `stop`, then ends what is in progress.
pub async fn drive<K, F>(
    store: Store<K>,
    queue: UnboundedReceiver<ObjectRef<K>>,
    context: Arc<Context>,
    reconcile: fn(Arc<K>, Arc<Context>) -> F,
    stop: CancellationToken,
) where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + Unpin + 'static,
    K::DynamicType: Eq + Hash,
    F: Future<Output = Result<Action, ApplyError>> + Send + 'static,
{
    let backoff = Arc::new(Backoff::<Key>::default());
    let (succeeded, gone) = (backoff.clone(), backoff.clone());
    let look = move |object: Arc<K>, context: Arc<Context>| {
        let (key, succeeded) = (Key::of(&*object), succeeded.clone());
        let metrics = context.metrics.clone();
        let task = tokio::spawn(async move {
            let start = Instant::now();
            let (result, outcome) = match reconcile(object, context).await {
                Ok(action) => (Ok(action), Outcome::Done),
                Err(ApplyError::Stale { .. }) => (Ok(Action::requeue(STALE)), Outcome::Stale),
                Err(error) => (Err(Error::from(error)), Outcome::Failed),
            };
            metrics.reconciled(kind::<K>(), outcome, start.elapsed());
            if outcome == Outcome::Done {
                succeeded.reset(&key);
            }
            result
        });
        // What drops this loses the right to act.
        let task = AbortOnDropHandle::new(task);
        Box::pin(task.map_err(Error::from).and_then(std::future::ready))
    };
    let retry = move |object: Arc<K>, error: &Error, _: Arc<Context>| {
        let key = Key::of(&*object);
        let delay = backoff.failed(key.clone());
        let error = chain(error);
        tracing::warn!(kind = kind::<K>(), object = %key, error, ?delay, "failed, trying again");
        Action::requeue(delay)
    };
    let queue = queue.map(Ok::<_, Infallible>).take_until(stop.cancelled_owned());
    let config = controller::Config::default().concurrency(CONCURRENCY);
    let mut results = std::pin::pin!(applier(look, retry, context, store, queue, config));
    // What goes wrong is told where it is retried.
    while let Some(result) = results.next().await {
        if let Err(controller::Error::ObjectNotFound(object)) = result {
            gone.reset(&Key::new(object.namespace.unwrap_or_default(), object.name));
        }
    }
}

fn kind<K: Resource<DynamicType = ()>>() -> &'static str {
    match K::kind(&()) {
        std::borrow::Cow::Borrowed(kind) => kind,
        std::borrow::Cow::Owned(_) => "other",
    }
}

/// An error with its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
