//! Tools of a team's own servers: what the way through gateway and pod adds to a call of the official client over
//! standard input and output, what calls at once hold in the gateway, what servers cost that a role does not use, and
//! what a role's list of tools takes of its model's window.

mod bed;
mod direct;
mod listing;

use std::time::{Duration, Instant};

use anyhow::ensure;
use codebutler_testbed::mcp::{McpServer, ToolAnswer};
use futures::future::join_all;
use serde_json::{Value, json};

use self::bed::McpBed;
use self::direct::DirectClient;
use super::wake::{await_call, await_settled};
use super::{MeasuredFigure, find_percentile, long_or_short, memory};

/// Runs that are measured, after one that is not, and the calls of each.
const RUNS: usize = long_or_short(25, 1);
const CALLS: usize = 20;
/// Calls under way at the same time, and the seconds that each lasts.
const AT_ONCE: usize = 100;
const SECONDS: u32 = 3;
/// Interval between looks at the gateway's memory.
const LOOK: Duration = Duration::from_millis(10);
/// Servers that are configured and not used.
const UNUSED: usize = 10;
/// Starts of a run, with these servers and without: so many turns of so many starts.
const TURNS: usize = long_or_short(8, 1);
const STARTS: usize = long_or_short(5, 2);
/// Pause between two starts: one app may read 50 conversations a minute at Slack.
const PAUSE: Duration = Duration::from_secs(2);

/// Measures.
///
/// # Errors
/// When there is no node, the product does not start, or a call fails.
pub(super) async fn measure_mcp() -> anyhow::Result<Vec<MeasuredFigure>> {
    let bed = Box::pin(McpBed::start()).await?;
    let measured = Box::pin(measure_on(&bed)).await;
    bed.stop().await?;
    measured
}

async fn measure_on(bed: &McpBed) -> anyhow::Result<Vec<MeasuredFigure>> {
    let mut figures = time_calls(bed).await?;
    figures.push(hold_calls(bed).await?);
    figures.push(time_starts(bed).await?);
    figures.push(Box::pin(listing::measure_list(bed)).await?);
    Ok(figures)
}

/// Times the same call in turns: by the official client, and by a role whose model wants it. The agent's
/// own record says how long it took, from the call to its result.
async fn time_calls(bed: &McpBed) -> anyhow::Result<Vec<MeasuredFigure>> {
    let mut official = DirectClient::start(bed.dir.path(), &bed.modules, "everything")?;
    let mut direct = Vec::new();
    for run in 0..=RUNS {
        for _ in 0..CALLS {
            let alone = official.time_call().await?;
            if run > 0 {
                direct.push(alone);
            }
        }
        await_call(&bed.stack, Some(&bed.root)).await?;
        await_settled(&bed.stack, &bed.root).await?;
        tokio::time::sleep(PAUSE).await;
    }
    let recorded = bed.recorded_calls().await?;
    ensure!(recorded.len() == (RUNS + 1) * CALLS, "{} calls are on record", recorded.len());
    let mut through = recorded[CALLS..].to_vec();
    let mut added = |name: &str, percent, limit| {
        let alone = find_percentile(&mut direct, percent);
        let added = find_percentile(&mut through, percent) - alone;
        MeasuredFigure::at_most(name, added, "ms", limit).beside(alone)
    };
    Ok(vec![added("mcp.added_p50", 50, 5.0), added("mcp.added_p99", 99, 15.0)])
}

/// The most memory that the gateway has while many calls are under way, above what it had before.
async fn hold_calls(bed: &McpBed) -> anyhow::Result<MeasuredFigure> {
    let pid = bed.gateway_pid()?;
    let before = memory::resident_memory(pid)?;
    let keys: Vec<String> = (0..AT_ONCE).map(|call| format!("held-{call}")).collect();
    let arguments = || json!({"duration": SECONDS, "steps": SECONDS});
    let begun = Instant::now();
    let calls = keys.iter().map(|key| bed.call(key, "trigger-long-running-operation", arguments()));
    let mut calls = Box::pin(join_all(calls));
    let mut most = before;
    let answers = loop {
        tokio::select! {
            answers = &mut calls => break answers,
            () = tokio::time::sleep(LOOK) => most = most.max(memory::resident_memory(pid)?),
        }
    };
    answers.into_iter().collect::<anyhow::Result<Vec<()>>>()?;
    // One after the other, they would have held nothing.
    let at_once = begun.elapsed() < Duration::from_secs(10 * u64::from(SECONDS));
    ensure!(at_once, "the calls were not under way at the same time");
    Ok(MeasuredFigure::at_most("mcp.held", most - before, "MiB", 20.0).beside(before))
}

/// Times the start of a run, from a message to the first model call of an awake role, with servers of
/// its own that it does not use and without, in turns. Their tools were listed once, as those of any
/// server that is not quite new.
async fn time_starts(bed: &McpBed) -> anyhow::Result<MeasuredFigure> {
    let playing = McpServer::start(None).await?;
    let tool = json!({"name": "search", "inputSchema": {"type": "object"}});
    playing.set_tool(tool, ToolAnswer::Text("done".into()));
    let unused: Vec<Value> = (0..UNUSED).map(|at| make_unused(at, &playing.url())).collect();
    bed.set_servers(&unused).await?;
    bed.await_listed(UNUSED).await?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        for (servers, samples) in [(&unused[..], &mut with), (&[], &mut without)] {
            bed.set_servers(servers).await?;
            bed.await_listed(servers.len()).await?;
            for _ in 0..STARTS {
                tokio::time::sleep(PAUSE).await;
                samples.push(await_call(&bed.stack, Some(&bed.root)).await?.1);
                await_settled(&bed.stack, &bed.root).await?;
            }
        }
    }
    let without = find_percentile(&mut without, 50);
    let added = find_percentile(&mut with, 50) - without;
    Ok(MeasuredFigure::at_most("mcp.unused_added_p50", added, "ms", 5.0).beside(without))
}

/// A remote one, or one with an image, in turns. All are the role's.
fn make_unused(at: usize, url: &str) -> Value {
    let name = format!("unused-{at}");
    if at.is_multiple_of(2) {
        json!({"name": name, "url": url})
    } else {
        bed::run_everything(&name)
    }
}
