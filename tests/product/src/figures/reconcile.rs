//! One change among few Threads and among many: how soon the controller's answer is on the Thread,
//! how often it looked, and what an idle Thread costs it; and what idle ones cost the gateway.

use std::time::{Duration, Instant};

use codebutler_crds::Thread;
use futures::{StreamExt as _, TryStreamExt as _};
use kube::api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::json;

use super::idle::measure_idle;
use super::operator::{RunningOperator, make_thread};
use super::{MeasuredFigure, find_percentile};

/// Threads of the small and of the large measurement. Unoptimized code is tried on fewer.
const SIZES: [usize; 2] = if cfg!(debug_assertions) { [100, 1000] } else { [1_000, 20_000] };
/// Changes that are timed, one after another.
const CHANGES: usize = 200;
/// Requests under way while Threads are made.
const AT_ONCE: usize = 32;
const PATIENCE: Duration = Duration::from_mins(2);

struct MeasuredIdle {
    p50: f64,
    looks: f64,
    resident: f64,
}

/// Measures reconciles among few and among many Threads; see the module.
pub(super) async fn measure_reconcile() -> anyhow::Result<Vec<MeasuredFigure>> {
    let operator = RunningOperator::start().await?;
    let few = measure_at(&operator, 0, SIZES[0]).await?;
    let many = measure_at(&operator, SIZES[0], SIZES[1]).await?;
    operator.stop().await?;
    let added = f64::from(u32::try_from(SIZES[1] - SIZES[0])?);
    let idle = Box::pin(measure_idle()).await?;
    let controller = vec![
        MeasuredFigure::at_most("reconcile.p50_few", few.p50, "ms", 4.0),
        MeasuredFigure::at_most("reconcile.p50_many", many.p50, "ms", 4.0),
        MeasuredFigure::ratio("reconcile.flat", many.p50, few.p50, 1.3),
        MeasuredFigure::at_most("reconcile.looks_per_change", many.looks, "count", 2.0),
        MeasuredFigure::at_most(
            "reconcile.idle_thread",
            (many.resident - few.resident) * 1024.0 / added,
            "KiB",
            4.0,
        ),
    ];
    Ok(controller.into_iter().chain(idle).collect())
}

/// Grows to `total` idle Threads, then times changes.
async fn measure_at(
    operator: &RunningOperator,
    have: usize,
    total: usize,
) -> anyhow::Result<MeasuredIdle> {
    let threads = operator.api::<Thread>();
    futures::stream::iter(have..total)
        .map(|index| {
            let threads = threads.clone();
            async move {
                let new = make_thread(&format!("t{index:06}"))?;
                threads.create(&PostParams::default(), &new).await?;
                anyhow::Ok(())
            }
        })
        .buffer_unordered(AT_ONCE)
        .try_for_each(|()| std::future::ready(Ok(())))
        .await?;
    await_quiet(operator).await?;
    let resident = operator.resident()?;
    let before = operator.reconciles().await?;
    let mut samples = Vec::with_capacity(CHANGES);
    let step = (total - have) / CHANGES;
    for change in 0..CHANGES.min(total - have) {
        let name = format!("t{:06}", have + change * step.max(1));
        samples.push(time_change(operator, &name).await?);
    }
    await_quiet(operator).await?;
    let count = f64::from(u32::try_from(samples.len())?);
    let looks = (operator.reconciles().await? - before) / count;
    Ok(MeasuredIdle { p50: find_percentile(&mut samples, 50), looks, resident })
}

/// Milliseconds from the answer to a change of a Thread's spec until the controller's status for it is seen.
async fn time_change(operator: &RunningOperator, name: &str) -> anyhow::Result<f64> {
    let threads = operator.api::<Thread>();
    // From now on: what the Thread itself was last changed by may be long forgotten.
    let own = format!("metadata.name={name}");
    let list = threads.list_metadata(&ListParams::default().fields(&own)).await?;
    let version = list.metadata.resource_version.unwrap_or_default();
    let params = WatchParams::default().fields(&own);
    let mut events = threads.watch(&params, &version).await?.boxed();
    let close = Patch::Merge(json!({"spec": {"state": "Closed"}}));
    let changed = threads.patch(name, &PatchParams::default(), &close).await?;
    let start = Instant::now();
    let wanted = changed.metadata.generation;
    let seen = async {
        while let Some(event) = events.try_next().await? {
            let (WatchEvent::Added(thread) | WatchEvent::Modified(thread)) = event else {
                continue;
            };
            if thread.status.and_then(|status| status.observed_generation) == wanted {
                return Ok(start.elapsed().as_secs_f64() * 1000.0);
            }
        }
        anyhow::bail!("the watch of {name} ended")
    };
    tokio::time::timeout(PATIENCE, seen).await?
}

/// Waits until the controller has nothing left to look at.
async fn await_quiet(operator: &RunningOperator) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let mut last = operator.reconciles().await?;
    let mut same = 0;
    while same < 4 {
        anyhow::ensure!(Instant::now() < deadline, "the controller does not come to rest");
        tokio::time::sleep(Duration::from_millis(250)).await;
        let now = operator.reconciles().await?;
        same = if (now - last).abs() < f64::EPSILON { same + 1 } else { 0 };
        last = now;
    }
    Ok(())
}
