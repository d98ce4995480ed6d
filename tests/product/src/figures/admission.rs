//! Threads at a steady rate: how soon each has its volume claim and its pod, beside the bare requests
//! that it takes: those that the controller made for the first of these Threads, made again under other
//! names by the measurement itself, on the same API server and with the controller looking on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use codebutler_crds::thread::ThreadState;
use codebutler_crds::{Thread, names};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::operator::{RunningOperator, mail_patch, make_thread};
use super::{MeasuredFigure, find_percentile};

/// Number of new Threads per second.
const RATE: u32 = if cfg!(debug_assertions) { 15 } else { 75 };
const SECONDS: u32 = 10;
const PATIENCE: Duration = Duration::from_mins(2);

/// Time at which an object of each name was first seen.
#[derive(Clone, Default)]
struct SeenCalls(Arc<Mutex<HashMap<String, Instant>>>);

impl SeenCalls {
    fn note(&self, name: String) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.entry(name).or_insert_with(Instant::now);
    }

    fn at(&self, name: &str) -> Option<Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied()
    }

    /// Notes everything that appears from now on.
    async fn watch<K>(&self, api: Api<K>) -> anyhow::Result<JoinHandle<()>>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
    {
        let list = api.list_metadata(&ListParams::default().limit(1)).await?;
        let version = list.metadata.resource_version.unwrap_or_default();
        let params = WatchParams::default().timeout(290);
        let mut events = api.watch_metadata(&params, &version).await?.boxed();
        let seen = self.clone();
        Ok(tokio::spawn(async move {
            while let Ok(Some(event)) = events.try_next().await {
                if let WatchEvent::Added(object) = event {
                    seen.note(object.name_any());
                }
            }
        }))
    }
}

/// Measures the admission of Threads; see the module.
pub(super) async fn measure_admission() -> anyhow::Result<Vec<MeasuredFigure>> {
    let operator = RunningOperator::start().await?;
    let seen = SeenCalls::default();
    let watches = [
        seen.watch(operator.api::<Pod>()).await?,
        seen.watch(operator.api::<PersistentVolumeClaim>()).await?,
    ];
    let model = Arc::new(MeasuredModel::of(&operator, &seen).await?);
    let mut bare = run_round(&operator, &seen, Some(model)).await?;
    let mut ours = run_round(&operator, &seen, None).await?;
    for watch in watches {
        watch.abort();
    }
    operator.stop().await?;
    let (p50, baseline) = (find_percentile(&mut ours, 50), find_percentile(&mut bare, 50));
    Ok(vec![
        MeasuredFigure::at_most("admission.p50", p50, "ms", 100.0),
        MeasuredFigure::at_most("admission.p99", find_percentile(&mut ours, 99), "ms", 300.0)
            .beside(find_percentile(&mut bare, 99)),
        MeasuredFigure::ratio("admission.beside_bare_calls", p50, baseline, 1.3),
    ])
}

/// Milliseconds from a Thread's creation until claim and pod are seen, for every Thread.
/// By the controller, or, with a model to follow, by bare requests.
async fn run_round(
    operator: &RunningOperator,
    seen: &SeenCalls,
    model: Option<Arc<MeasuredModel>>,
) -> anyhow::Result<Vec<f64>> {
    let mut tick = tokio::time::interval(Duration::from_secs(1) / RATE);
    let mut starts = Vec::new();
    let mut tasks = Vec::new();
    for index in 0..RATE * SECONDS {
        tick.tick().await;
        // As long as one another, so that the requests are.
        let name = format!("{}-{index:05}", if model.is_some() { "plain" } else { "usual" });
        starts.push((name.clone(), Instant::now()));
        let (client, namespace) = (operator.client.clone(), operator.namespace.clone());
        let model = model.clone();
        tasks.push(tokio::spawn(async move {
            let threads = Api::<Thread>::namespaced(client.clone(), &namespace);
            let mut new = make_thread(&name)?;
            if model.is_some() {
                new.spec.state = ThreadState::Closed;
            }
            threads.create(&PostParams::default(), &new).await?;
            threads.patch_status(&name, &PatchParams::default(), &mail_patch()).await?;
            match model {
                Some(model) => model.repeat(&client, &namespace, &name).await,
                None => Ok(()),
            }
        }));
    }
    for task in tasks {
        task.await??;
    }
    let deadline = Instant::now() + PATIENCE;
    let mut samples = Vec::with_capacity(starts.len());
    for (name, start) in starts {
        let pod = names::pod_name(&name, "pm");
        let both = loop {
            if let (Some(claim), Some(pod)) = (seen.at(&name), seen.at(&pod)) {
                break claim.max(pod);
            }
            anyhow::ensure!(Instant::now() < deadline, "{name} has no pod or no claim");
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        samples.push(both.duration_since(start).as_secs_f64() * 1000.0);
    }
    Ok(samples)
}

/// The objects that the controller made for one Thread, as its requests had them.
struct MeasuredModel {
    thread: String,
    claim: Value,
    pod: Value,
    status: Value,
}

impl MeasuredModel {
    async fn of(operator: &RunningOperator, seen: &SeenCalls) -> anyhow::Result<Self> {
        let name = "model-00000".to_owned();
        let (threads, pods) = (operator.api::<Thread>(), operator.api::<Pod>());
        threads.create(&PostParams::default(), &make_thread(&name)?).await?;
        threads.patch_status(&name, &PatchParams::default(), &mail_patch()).await?;
        let pod = names::pod_name(&name, "pm");
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            let status = threads.get(&name).await?.status.unwrap_or_default();
            if seen.at(&pod).is_some() && status.roles.values().any(|role| role.pod_uid.is_some()) {
                break status;
            }
            anyhow::ensure!(Instant::now() < deadline, "{name} gets no pod");
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let claims = operator.api::<PersistentVolumeClaim>();
        let written = json!({"status": {
            "observedGeneration": status.observed_generation, "conditions": status.conditions,
            "roles": {"pm": {"podUID": status.roles["pm"].pod_uid, "admitted": true}},
        }});
        Ok(Self {
            claim: asked_for(&claims.get(&names::volume_claim(&name)).await?)?,
            pod: asked_for(&pods.get(&pod).await?)?,
            thread: name,
            status: written,
        })
    }

    /// Repeats the requests for another Thread, each once the one before it is answered.
    async fn repeat(&self, client: &Client, namespace: &str, name: &str) -> anyhow::Result<()> {
        let (claims, pods) = (
            Api::namespaced(client.clone(), namespace),
            Api::namespaced(client.clone(), namespace),
        );
        let claim: PersistentVolumeClaim = self.renamed(&self.claim, name)?;
        claims.create(&PostParams::default(), &claim).await?;
        let pod: Pod = self.renamed(&self.pod, name)?;
        pods.create(&PostParams::default(), &pod).await?;
        let threads = Api::<Thread>::namespaced(client.clone(), namespace);
        let status = Patch::Merge(&self.status);
        threads.patch_status(name, &PatchParams::default(), &status).await?;
        Ok(())
    }

    /// Owned by the Thread that it was made for, so that the controller takes it for nobody's.
    fn renamed<K: DeserializeOwned>(&self, object: &Value, name: &str) -> anyhow::Result<K> {
        Ok(serde_json::from_str(&object.to_string().replace(&self.thread, name))?)
    }
}

/// An object without what the API server has added.
fn asked_for<K: Serialize>(object: &K) -> anyhow::Result<Value> {
    let mut object = serde_json::to_value(object)?;
    let fields = object.as_object_mut().context("no object")?;
    fields.remove("status");
    let metadata = fields.get_mut("metadata").and_then(Value::as_object_mut);
    let given = ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"];
    metadata.context("no metadata")?.retain(|name, _| !given.contains(&name.as_str()));
    Ok(object)
}
