//! Deletes what has lost its owners, and lets owners go that wait for their dependents.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt, core::DynamicObject};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::graph::{GraphObject, GraphVerdict, ObjectUid, OwnerGraph};
use super::kinds::{WatchedKind, discover_kinds, find_kind};
use super::{insist_on, is_over};

/// Kinds may also come from aggregated API servers, which nothing tells about.
const REDISCOVERY: Duration = Duration::from_mins(1);
/// A definition may be served a little after it has been seen.
const SETTLING: Duration = Duration::from_millis(500);
const WORKERS: usize = 4;

struct GarbageCollector {
    client: Client,
    kinds: RwLock<Arc<Vec<WatchedKind>>>,
    graph: Mutex<OwnerGraph>,
    queue: mpsc::UnboundedSender<ObjectUid>,
}

/// Runs the garbage collector; never returns.
pub(super) async fn run_garbage(client: Client) {
    let (queue, waiting) = mpsc::unbounded_channel();
    let collector = Arc::new(GarbageCollector {
        client,
        kinds: RwLock::default(),
        graph: Mutex::default(),
        queue,
    });
    tokio::join!(collector.clone().watch_kinds(), collector.work(waiting));
}

impl GarbageCollector {
    /// Watches the objects of every kind, and the kinds.
    async fn watch_kinds(self: Arc<Self>) {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let mut definitions =
            Box::pin(watcher(definitions, watcher::Config::default()).default_backoff());
        let mut running = JoinSet::new();
        let mut watched = BTreeMap::new();
        let mut pause = REDISCOVERY;
        loop {
            insist_on("discovery", || self.discover()).await;
            let kinds = self.kinds();
            let now: BTreeSet<_> = kinds.iter().map(kind_key).collect();
            watched.retain(|key, handle: &mut tokio::task::AbortHandle| {
                let keep = now.contains(key);
                if !keep {
                    handle.abort();
                }
                keep
            });
            let known = watched.len();
            for kind in kinds.iter() {
                watched
                    .entry(kind_key(kind))
                    .or_insert_with(|| running.spawn(self.clone().watch(kind.clone())));
            }
            if watched.len() > known {
                // Owners that could not be looked for before.
                for uid in self.graph().doubtful() {
                    let _ = self.queue.send(uid);
                }
            }
            let relevant = async {
                while let Some(event) = definitions.next().await {
                    if matches!(event, Ok(Event::Apply(_) | Event::Delete(_) | Event::InitDone)) {
                        return;
                    }
                }
            };
            let seen = tokio::time::timeout(pause, relevant).await.is_ok();
            pause = if seen { SETTLING } else { REDISCOVERY };
        }
    }

    async fn discover(&self) -> kube::Result<()> {
        let mut kinds = discover_kinds(&self.client).await?;
        kinds.retain(WatchedKind::is_collected);
        let kinds = Arc::new(kinds);
        *self.kinds.write().unwrap_or_else(PoisonError::into_inner) = kinds;
        Ok(())
    }

    async fn watch(self: Arc<Self>, kind: WatchedKind) {
        let (api_version, name) = (kind.resource.api_version.clone(), kind.resource.kind.clone());
        let as_object = |object: DynamicObject| {
            let uid = object.uid().unwrap_or_default();
            (uid, GraphObject::new(api_version.clone(), name.clone(), object.metadata))
        };
        let api = kind.api(&self.client, None);
        let mut events = Box::pin(watcher(api, watcher::Config::default()).default_backoff());
        let mut listed = HashSet::new();
        while let Some(event) = events.next().await {
            let affected = match event {
                Ok(Event::Init) => {
                    listed.clear();
                    Vec::new()
                }
                Ok(Event::InitApply(object)) => {
                    let (uid, object) = as_object(object);
                    listed.insert(uid.clone());
                    self.graph().put(&uid, object)
                }
                Ok(Event::Apply(object)) => {
                    let (uid, object) = as_object(object);
                    self.graph().put(&uid, object)
                }
                Ok(Event::Delete(object)) => self.graph().remove(&object.uid().unwrap_or_default()),
                Ok(Event::InitDone) => {
                    let mut graph = self.graph();
                    let gone = graph.of_kind(&api_version, &name);
                    let gone = gone.into_iter().filter(|uid| !listed.contains(uid));
                    gone.flat_map(|uid| graph.remove(&uid)).collect()
                }
                Err(error) => {
                    tracing::debug!(kind = name, %error, "watch");
                    Vec::new()
                }
            };
            for uid in affected {
                let _ = self.queue.send(uid);
            }
        }
    }

    async fn work(self: &Arc<Self>, mut waiting: mpsc::UnboundedReceiver<ObjectUid>) {
        let mut workers = JoinSet::new();
        // The same object is not worked on twice at a time.
        let (mut busy, mut again) = (HashSet::new(), HashSet::new());
        loop {
            tokio::select! {
                Some(uid) = waiting.recv(), if workers.len() < WORKERS => {
                    if busy.insert(uid.clone()) {
                        let collector = self.clone();
                        workers.spawn(async move {
                            insist_on("garbage collection", || collector.treat(&uid)).await;
                            uid
                        });
                    } else {
                        again.insert(uid);
                    }
                }
                Some(Ok(uid)) = workers.join_next() => {
                    busy.remove(&uid);
                    if again.remove(&uid) {
                        let _ = self.queue.send(uid);
                    }
                }
            }
        }
    }

    async fn treat(&self, uid: &ObjectUid) -> kube::Result<()> {
        let (object, verdict) = {
            let graph = self.graph();
            let Some(object) = graph.get(uid).cloned() else { return Ok(()) };
            (object, graph.verdict(uid))
        };
        match verdict {
            GraphVerdict::Leave => Ok(()),
            GraphVerdict::Doubt(owners) => {
                for owner in owners {
                    let kinds = self.kinds();
                    // An owner of unknown kind can't be found missing.
                    let Some(kind) = find_kind(&kinds, &owner.api_version, &owner.kind) else {
                        return Ok(());
                    };
                    let api = kind.api(&self.client, object.namespace.as_deref());
                    let found = api.get_opt(&owner.name).await?;
                    if found.is_some_and(|found| found.uid().as_ref() == Some(&owner.uid)) {
                        return Ok(());
                    }
                }
                self.delete(uid, &object, PropagationPolicy::Background).await
            }
            GraphVerdict::DeleteDependents(dependents) => {
                for (uid, dependent) in dependents {
                    let policy = if self.graph().has_dependents(&uid) {
                        PropagationPolicy::Foreground
                    } else {
                        PropagationPolicy::Background
                    };
                    self.delete(&uid, &dependent, policy).await?;
                }
                Ok(())
            }
            GraphVerdict::Disown(dependents) => {
                for (dependent_uid, dependent) in dependents {
                    let mut owners = dependent.owners.clone();
                    owners.retain(|owner| &owner.uid != uid);
                    let meta = json!({"uid": dependent_uid, "ownerReferences": owners});
                    self.patch(&dependent, meta).await?;
                }
                self.release(uid, &object, super::graph::ORPHAN).await
            }
            GraphVerdict::Release(finalizer) => self.release(uid, &object, finalizer).await,
        }
    }

    async fn release(
        &self,
        uid: &ObjectUid,
        object: &GraphObject,
        finalizer: &str,
    ) -> kube::Result<()> {
        let left: Vec<_> = object.finalizers.iter().filter(|found| *found != finalizer).collect();
        self.patch(object, json!({"uid": uid, "finalizers": left})).await
    }

    async fn patch(&self, object: &GraphObject, meta: serde_json::Value) -> kube::Result<()> {
        let Some(api) = self.api(object) else { return Ok(()) };
        let patch = Patch::Merge(json!({"metadata": meta}));
        match api.patch(&object.name, &PatchParams::default(), &patch).await {
            Err(error) if is_over(&error) => Ok(()),
            other => other.map(drop),
        }
    }

    async fn delete(
        &self,
        uid: &ObjectUid,
        object: &GraphObject,
        policy: PropagationPolicy,
    ) -> kube::Result<()> {
        let Some(api) = self.api(object) else { return Ok(()) };
        let preconditions = Preconditions { uid: Some(uid.clone()), ..Preconditions::default() };
        let params = DeleteParams {
            propagation_policy: Some(policy),
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        match api.delete(&object.name, &params).await {
            Err(error) if is_over(&error) => Ok(()),
            other => other.map(drop),
        }
    }

    fn api(&self, object: &GraphObject) -> Option<Api<DynamicObject>> {
        let kinds = self.kinds();
        let kind = find_kind(&kinds, &object.api_version, &object.kind)?;
        Some(kind.api(&self.client, object.namespace.as_deref()))
    }

    fn kinds(&self) -> Arc<Vec<WatchedKind>> {
        self.kinds.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn graph(&self) -> MutexGuard<'_, OwnerGraph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn kind_key(kind: &WatchedKind) -> (String, String) {
    (kind.resource.api_version.clone(), kind.resource.plural.clone())
}
