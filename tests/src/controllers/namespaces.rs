//! Empties namespaces that are being deleted, then lets them go.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::task::JoinSet;

use super::{insist_on, is_over, kinds};

const FINALIZER: &str = "kubernetes";

/// Runs the namespace controller; never returns.
pub(super) async fn run_namespaces(client: Client) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let config = watcher::Config::default();
    let mut seen = Box::pin(watcher(namespaces, config).default_backoff().applied_objects());
    let busy = Arc::new(Mutex::new(HashSet::new()));
    let mut tasks = JoinSet::new();
    loop {
        let namespace = tokio::select! {
            next = seen.next() => match next {
                Some(Ok(namespace)) => namespace,
                Some(Err(_)) => continue,
                None => return,
            },
            Some(_) = tasks.join_next() => continue,
        };
        let name = namespace.name_any();
        let held = namespace
            .spec
            .iter()
            .any(|spec| spec.finalizers.iter().flatten().any(|f| f == FINALIZER));
        let new = || busy.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone());
        if namespace.metadata.deletion_timestamp.is_some() && held && new() {
            let (client, busy) = (client.clone(), busy.clone());
            tasks.spawn(async move {
                end_namespace(&client, &name).await;
                busy.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
            });
        }
    }
}

/// Empties a namespace that is being deleted and lets it go.
pub(crate) async fn end_namespace(client: &Client, name: &str) {
    let mut pause = Duration::from_millis(20);
    while !empty_namespace(client, name).await {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(1));
    }
    insist_on("namespace", || finalize_namespace(client, name)).await;
}

/// Deletes all there is, and says whether nothing was left to begin with.
async fn empty_namespace(client: &Client, namespace: &str) -> bool {
    match count_remaining(client, namespace).await {
        Ok(left) => left == 0,
        Err(error) => {
            tracing::debug!(namespace, %error, "namespace is not empty yet");
            false
        }
    }
}

async fn count_remaining(client: &Client, namespace: &str) -> kube::Result<usize> {
    let mut left = 0;
    for kind in kinds::discover_kinds(client).await? {
        if !kind.is_namespaced() {
            continue;
        }
        let api = kind.api(client, Some(namespace));
        for object in api.list(&ListParams::default()).await? {
            left += 1;
            if object.metadata.deletion_timestamp.is_some() {
                continue;
            }
            match api.delete(&object.name_any(), &DeleteParams::background()).await {
                Err(error) if is_over(&error) => {}
                other => drop(other?),
            }
        }
    }
    Ok(left)
}

async fn finalize_namespace(client: &Client, name: &str) -> kube::Result<()> {
    let api: Api<Namespace> = Api::all(client.clone());
    let Some(mut namespace) = api.get_opt(name).await? else { return Ok(()) };
    if namespace.metadata.deletion_timestamp.is_none() {
        return Ok(());
    }
    let finalizers = &mut namespace.spec.get_or_insert_default().finalizers;
    finalizers.get_or_insert_default().retain(|finalizer| finalizer != FINALIZER);
    // The server's answer is the namespace, or a status if it has gone with this.
    let request = kube::core::Request::new("/api/v1/namespaces");
    let body = serde_json::to_vec(&namespace).map_err(kube::Error::SerdeError)?;
    let request = request
        .replace_subresource("finalize", name, &PostParams::default(), body)
        .map_err(kube::Error::BuildRequest)?;
    match client.request::<serde_json::Value>(request).await {
        // Changed in between: look at it again.
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => other.map(drop),
    }
}
