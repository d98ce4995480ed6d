//! The watch caches behind the [`GatewayContext`], and the tasks that keep them.

use std::pin::pin;

use codebutler_crds::Thread;
use codebutler_gateway_core::attended::AttendedThreads;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::dial::OutsideDialer;
use codebutler_gateway_core::identity::PodIndex;
use codebutler_runtime::scope::{WatchScope, WatchedKind};
use codebutler_runtime::shards::GatewayShard;
use futures::StreamExt as _;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt as _};
use tokio_util::sync::CancellationToken;

/// Starts the caches and returns when all of them are complete; nothing if told to stop before.
pub async fn start_caches(
    client: Client,
    (namespace, dialer): (String, OutsideDialer),
    scope: &WatchScope,
    index: &PodIndex,
    stop: &CancellationToken,
) -> Option<GatewayContext> {
    let (index, attended) = (index.clone(), AttendedThreads::default());
    let attends = attended.clone();
    let repo_index = index.clone();
    let context = GatewayContext {
        repos: keep_cache(&client, scope, stop, move |event| repo_index.observe_repo(event)),
        roles: keep_cache(&client, &scope.and(&namespace), stop, |_| {}),
        threads: keep_cache(&client, scope, stop, move |event: &Event<Thread>| {
            index.observe(event);
            attends.observe(event);
        }),
        attended,
        shard: GatewayShard::default(),
        client,
        namespace,
        redactors: codebutler_gateway_core::redact::RepoRedactors::default(),
        github: codebutler_gateway_core::github::GitHubAccess::default(),
        groups: codebutler_gateway_core::groups::UserGroups::default(),
        dialer,
        history: codebutler_gateway_core::history::HistoryKeeper::default(),
        mcp: codebutler_gateway_core::mcp_facts::McpFacts::default(),
        pages: None,
    };
    // Whoever keeps them ends only when told to stop.
    stop.run_until_cancelled(context.synced()).await?.ok()?;
    for repo in context.repos.state() {
        // Compile the Repo's patterns now, so that the first line of the log that speaks of it is masked.
        context.redactors.of(&repo);
    }
    Some(context)
}

fn keep_cache<K>(
    client: &Client,
    scope: &WatchScope,
    stop: &CancellationToken,
    observe: impl Fn(&Event<K>) + Send + 'static,
) -> Store<K>
where
    K: WatchedKind + Sync,
{
    let (store, writer) = reflector::store();
    let events = scope
        .events::<K>(client, &watcher::Config::default())
        .modify(|object| object.managed_fields_mut().clear())
        .reflect(writer);
    let stop = stop.clone();
    tokio::spawn(async move {
        let mut events = pin!(events);
        while let Some(Some(event)) = stop.run_until_cancelled(events.next()).await {
            match event {
                Ok(event) => observe(&event),
                Err(error) => tracing::warn!(kind = %K::kind(&()), %error, "watch_failed"),
            }
        }
    });
    store
}
