//! Threads at a steady rate: how soon each has its volume claim and its pod, beside the bare requests
//! that it takes, made by the measurement itself on the same API server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use codebutler_crds::{Thread, names};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::operator::{Operator, mail, thread};
use super::{Figure, percentile};

/// Threads a second.
const RATE: u32 = if cfg!(debug_assertions) { 15 } else { 75 };
const SECONDS: u32 = 10;
const PATIENCE: Duration = Duration::from_mins(2);

/// When something of a name was first seen.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<HashMap<String, Instant>>>);

impl Seen {
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

/// See the module.
pub async fn measure() -> anyhow::Result<Vec<Figure>> {
    let operator = Operator::start().await?;
    let seen = Seen::default();
    let watches = [
        seen.watch(operator.api::<Pod>()).await?,
        seen.watch(operator.api::<PersistentVolumeClaim>()).await?,
    ];
    let mut bare = run(&operator, &seen, true).await?;
    let mut ours = run(&operator, &seen, false).await?;
    for watch in watches {
        watch.abort();
    }
    operator.stop().await?;
    let (p50, baseline) = (percentile(&mut ours, 50), percentile(&mut bare, 50));
    Ok(vec![
        Figure::at_most("admission.p50", p50, "ms", 100.0),
        Figure::at_most("admission.p99", percentile(&mut ours, 99), "ms", 300.0)
            .beside(percentile(&mut bare, 99)),
        Figure::ratio("admission.beside_bare_calls", p50, baseline, 1.3),
    ])
}

/// Milliseconds from a Thread's creation until claim and pod are seen, for every Thread.
async fn run(operator: &Operator, seen: &Seen, bare: bool) -> anyhow::Result<Vec<f64>> {
    let mut tick = tokio::time::interval(Duration::from_secs(1) / RATE);
    let mut starts = Vec::new();
    let mut tasks = Vec::new();
    for index in 0..RATE * SECONDS {
        tick.tick().await;
        let name = format!("{}-{index:05}", if bare { "bare" } else { "thread" });
        starts.push((name.clone(), Instant::now()));
        let threads = operator.api::<Thread>();
        let (claims, pods) = (operator.api(), operator.api());
        tasks.push(tokio::spawn(async move {
            if bare {
                let mut closed = thread(&name)?;
                closed.spec.state = codebutler_crds::thread::ThreadState::Closed;
                threads.create(&PostParams::default(), &closed).await?;
                threads.patch_status(&name, &PatchParams::default(), &mail()).await?;
                threads.patch_status(&name, &PatchParams::default(), &admitted()).await?;
                return by_hand(&claims, &pods, &name).await;
            }
            threads.create(&PostParams::default(), &thread(&name)?).await?;
            threads.patch_status(&name, &PatchParams::default(), &mail()).await?;
            anyhow::Ok(())
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

/// The slot, which is on record before anything is made for it.
fn admitted() -> Patch<Value> {
    Patch::Merge(json!({"status": {"roles": {"pm": {"admitted": true}}}}))
}

/// What the controller has to create, created without one.
async fn by_hand(
    claims: &Api<PersistentVolumeClaim>,
    pods: &Api<Pod>,
    name: &str,
) -> anyhow::Result<()> {
    let claim = serde_json::from_value(json!({"metadata": {"name": name}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    }}))?;
    claims.create(&PostParams::default(), &claim).await?;
    let pod = names::pod_name(name, "pm");
    let pod = serde_json::from_value(json!({"metadata": {"name": pod}, "spec": {
        "serviceAccountName": "codebutler-shop", "automountServiceAccountToken": false,
        "schedulerName": "nobody", "restartPolicy": "Never",
        "containers": [{"name": "agent", "image": "image:1"}],
    }}))?;
    pods.create(&PostParams::default(), &pod).await?;
    Ok(())
}
