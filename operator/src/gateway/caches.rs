//! The watch caches behind the [`Context`], and the tasks that keep them.

use std::fmt::Debug;
use std::hash::Hash;
use std::pin::pin;

use codebutler_crds::Thread;
use futures::StreamExt as _;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch};
use kube::{Api, Client, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::context::Context;
use super::identity::PodIndex;

/// Starts the caches and returns when all of them are complete; nothing if told to stop before.
pub async fn start(
    client: Client,
    namespace: String,
    index: &PodIndex,
    stop: &CancellationToken,
) -> Option<Context> {
    let index = index.clone();
    let context = Context {
        repos: keep(&client, stop, |_| {}),
        roles: keep(&client, stop, |_| {}),
        threads: keep(&client, stop, move |event: &Event<Thread>| index.observe(event)),
        client,
        namespace,
        redactors: super::redact::Redactors::default(),
        github: super::github::Access::default(),
    };
    let synced = async {
        let _ = tokio::join!(
            context.repos.wait_until_ready(),
            context.roles.wait_until_ready(),
            context.threads.wait_until_ready(),
        );
    };
    stop.run_until_cancelled(synced).await?;
    Some(context)
}

fn keep<K>(
    client: &Client,
    stop: &CancellationToken,
    observe: impl Fn(&Event<K>) + Send + 'static,
) -> Store<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Default + Eq + Hash + Clone,
{
    let (store, writer) = reflector::store();
    let events = watch(Api::<K>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .modify(|object| object.managed_fields_mut().clear())
        .reflect(writer);
    let stop = stop.clone();
    tokio::spawn(async move {
        let mut events = pin!(events);
        while let Some(Some(event)) = stop.run_until_cancelled(events.next()).await {
            match event {
                Ok(event) => observe(&event),
                Err(error) => tracing::warn!(kind = %K::kind(&()), %error, "a watch failed"),
            }
        }
    });
    store
}
