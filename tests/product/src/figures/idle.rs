//! The cost of a gateway that has nothing to do, among many conversations that rest and many more that
//! are over.

use std::time::{Duration, Instant};

use anyhow::ensure;
use codebutler_crds::{Thread, names};
use futures::{StreamExt as _, TryStreamExt as _};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use super::MeasuredFigure;
use super::proxy::bed::ProxyBed;
use super::proxy::provider::LocalProvider;
use codebutler_testbed::place::TEAM;

/// Open and closed ones. Unoptimized code is tried on fewer.
const SIZES: (usize, usize) = if cfg!(debug_assertions) { (100, 500) } else { (20_000, 100_000) };
/// Requests under way while they are made.
const AT_ONCE: usize = 64;
/// Duration of the measurement.
const WINDOW: Duration = Duration::from_secs(30);
/// Shorter looks that say when it has come to rest.
const GLANCE: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_mins(5);

/// Percent of a core; on a given cluster nothing.
pub(super) async fn measure_idle() -> anyhow::Result<Vec<MeasuredFigure>> {
    // Nobody else's cluster is filled with so many.
    if std::env::var_os("KUBECONFIG").is_some() {
        return Ok(Vec::new());
    }
    let provider = LocalProvider::start().await?;
    let bed = ProxyBed::start_own(&provider.url()).await?;
    await_rest(&bed).await?;
    let alone = watch_processor(&bed, WINDOW).await?;
    make_threads(&bed).await?;
    await_rest(&bed).await?;
    let among = watch_processor(&bed, WINDOW).await?;
    bed.stop().await?;
    Ok(vec![MeasuredFigure::at_most("reconcile.idle_gateway", among, "%", 1.0).beside(alone)])
}

async fn make_threads(bed: &ProxyBed) -> anyhow::Result<()> {
    let api = Api::<Thread>::namespaced(bed.cluster().client(), TEAM);
    let (open, closed) = SIZES;
    futures::stream::iter(0..open + closed)
        .map(|n| make_thread(&api, n, n < open))
        .buffer_unordered(AT_ONCE)
        .try_for_each(|()| std::future::ready(Ok(())))
        .await
}

/// Makes a Thread in which everybody has read everything.
async fn make_thread(api: &Api<Thread>, n: usize, open: bool) -> anyhow::Result<()> {
    let (name, root) = (format!("idle-{n:06}"), format!("{}.000100", 1_700_000_000 + n));
    let (state, finalizers) =
        if open { ("Active", vec![names::FINALIZER]) } else { ("Closed", vec![]) };
    let thread = json!({
        "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
        "metadata": {"name": name, "finalizers": finalizers},
        "spec": {"repo": "figures0", "state": state, "slack": {"channel": "C0FIGURES", "ts": root}},
    });
    api.create(&PostParams::default(), &serde_json::from_value(thread)?).await?;
    if open {
        let pm = json!({"inbox": root, "done": root, "state": "Idle"});
        let status = json!({"status": {"roles": {"pm": pm}, "finished": root}});
        api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await?;
    }
    Ok(())
}

/// Waits until two looks in a row say the same.
async fn await_rest(bed: &ProxyBed) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let mut last = watch_processor(bed, GLANCE).await?;
    loop {
        let now = watch_processor(bed, GLANCE).await?;
        if (now - last).abs() < 0.5 {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "the gateway does not come to rest: {now} % of a core");
        last = now;
    }
}

async fn watch_processor(bed: &ProxyBed, time: Duration) -> anyhow::Result<f64> {
    let (began, used) = (Instant::now(), bed.cpu_seconds()?);
    tokio::time::sleep(time).await;
    Ok((bed.cpu_seconds()? - used) / began.elapsed().as_secs_f64() * 100.0)
}
