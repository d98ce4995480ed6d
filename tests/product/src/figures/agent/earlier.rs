//! A long conversation beside an earlier build of the product, in turns. That build's `codebutler-agent` is beside its
//! `figures`. Slack keeps its limits for both.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use serde_json::json;

use super::super::MeasuredFigure;
use super::super::baseline::find_baseline;
use super::{PROGRAM, coder_stack, until_some};
use codebutler_testbed::models::ScriptStep;
use codebutler_testbed::stack::RunningStack;
use codebutler_testbed::stack::earlier::EarlierBuild;

const NAME: &str = "agent.turn_beside_earlier";

/// Turns of this build's conversation.
const TURNS: usize = 500;
/// Turns of the other's between which its time a turn is taken: its pace has settled by then.
const SETTLED: (usize, usize) = (50, 100);
/// The most that a turn may take beside the baseline's.
const SHARE: f64 = 0.02;

/// Time a turn, beside that of the baseline; no number where none is named.
pub(super) async fn measure_earlier(agent: &Path) -> anyhow::Result<MeasuredFigure> {
    let Some(baseline) = find_baseline(NAME)? else {
        return Ok(MeasuredFigure::at_most(NAME, f64::NAN, "x", SHARE));
    };
    let other = baseline.program.with_file_name(PROGRAM);
    ensure!(other.exists(), "there is no {}: build it beside the baseline", other.display());
    let (mut now, mut before) = (0.0, 0.0);
    // Twice in turns, so that a slow machine is slow for both.
    for _ in 0..2 {
        now += time_turns(None, agent, (0, TURNS)).await.context("this build")?;
        let earlier = Some(baseline.clone());
        before += time_turns(earlier, &other, SETTLED).await.context("the baseline")?;
    }
    Ok(MeasuredFigure::ratio(NAME, now, before, SHARE))
}

/// Seconds a turn between two turns of a conversation.
async fn time_turns(
    earlier: Option<EarlierBuild>,
    agent: &Path,
    (from, to): (usize, usize),
) -> anyhow::Result<f64> {
    let cat = |n| ScriptStep::tool("Bash", json!({"command": format!("cat README.md # {n}")}));
    let mut steps: Vec<ScriptStep> = (0..to).map(cat).collect();
    steps.push(ScriptStep::say("finished"));
    let dir = tempfile::tempdir()?;
    let stack = coder_stack(dir.path(), earlier, agent.to_owned(), steps).await?;
    let timed = time_conversation(&stack, from, to).await;
    stack.stop().await?;
    timed
}

async fn time_conversation(stack: &RunningStack, from: usize, to: usize) -> anyhow::Result<f64> {
    let user = stack.users.get("ana").context("ana")?;
    stack.slack.post_as(user, &stack.channel, None, "go on")?;
    // The first answer ends the start of the pod, which is no turn.
    let served = |count: usize| (stack.models.served().len() > count).then(Instant::now);
    let begun = until_some("the first turns", || served(from)).await?;
    let ended = until_some("the last turn", || served(to)).await?;
    #[expect(clippy::cast_precision_loss, reason = "some hundreds")]
    let turns = (to - from) as f64;
    Ok(ended.duration_since(begun).as_secs_f64() / turns)
}
