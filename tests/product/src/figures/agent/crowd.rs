//! Many runs side by side in one workspace, whose Slack allows fifty reads a minute for all of them
//! together: how often Slack is asked for what people and roles said, and whether a turn waits for it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::json;

use super::super::{MeasuredFigure, long_or_short};
use super::{coder_stack, until_some};
use codebutler_testbed::models::ScriptStep;
use codebutler_testbed::stack::RunningStack;

/// Runs, how often each takes a turn, and for how long.
const RUNS: usize = long_or_short(60, 3);
const TURN: Duration = Duration::from_secs(2);
const TURNS: usize = long_or_short(60, 4);
/// Pause between the starts of two people: they do not all write at once either.
const BEGIN: Duration = Duration::from_millis(1300);
/// Time of a turn beside its command. A turn that waits for Slack takes at least the pace of a call longer.
const OWN: Duration = Duration::from_millis(1200);
const READ: &str = "conversations.replies";

/// Reads of conversations a message, and turns that waited.
pub(super) async fn measure_crowd(
    agent: std::path::PathBuf,
) -> anyhow::Result<Vec<MeasuredFigure>> {
    let seconds = TURN.as_secs();
    let sleep = |n| ScriptStep::tool("Bash", json!({"command": format!("sleep {seconds} # {n}")}));
    let mut steps: Vec<ScriptStep> = (0..TURNS).map(sleep).collect();
    steps.push(ScriptStep::say("finished"));
    let dir = tempfile::tempdir()?;
    let stack = coder_stack(dir.path(), None, agent, steps).await?;
    let figures = watch_crowd(&stack).await;
    stack.stop().await?;
    figures
}

async fn watch_crowd(stack: &RunningStack) -> anyhow::Result<Vec<MeasuredFigure>> {
    let ana = stack.users.get("ana").context("ana")?;
    let workspace = &stack.slack;
    let reads = workspace.calls(READ);
    let mut roots = Vec::new();
    for n in 0..RUNS {
        roots.push(workspace.post_as(ana, &stack.channel, None, &format!("go {n}"))?);
        tokio::time::sleep(BEGIN).await;
    }
    let finished = |root: &String| {
        workspace
            .messages(&stack.channel, Some(root.as_str()))
            .iter()
            .any(|m| m.text.contains("finished"))
    };
    let mut seen: BTreeMap<u64, (usize, Instant)> = BTreeMap::new();
    let (mut known, mut waited) = (0, 0_u32);
    until_some("all runs to end", || {
        let served = stack.models.served();
        let now = Instant::now();
        for answer in &served[known..] {
            let before = seen.insert(answer.conversation, (answer.step, now));
            // The first turns belong to the start.
            let turn = before.filter(|(step, _)| *step > 0 && *step + 1 == answer.step);
            if turn.is_some_and(|(_, at)| now.duration_since(at) > TURN + OWN) {
                waited += 1;
            }
        }
        known = served.len();
        roots.iter().all(&finished).then_some(())
    })
    .await?;
    let said: usize = roots
        .iter()
        .map(|root| {
            let all = workspace.messages(&stack.channel, Some(root.as_str()));
            all.iter().filter(|m| m.ts == *root || m.text.contains("finished")).count()
        })
        .sum();
    #[expect(clippy::cast_precision_loss, reason = "some hundreds")]
    let ratio = (workspace.calls(READ) - reads) as f64 / said as f64;
    #[expect(clippy::cast_precision_loss, reason = "some hundreds")]
    let early = ["chat.update", "agents.sessions.setStatus", READ]
        .iter()
        .map(|method| workspace.early_calls(method))
        .sum::<u64>() as f64;
    Ok(vec![
        MeasuredFigure::at_most("agent.crowd_reads", ratio, "a message", 1.0),
        MeasuredFigure::at_most("agent.crowd_waits", f64::from(waited), "turns", 0.0),
        MeasuredFigure::at_most("agent.crowd_early_calls", early, "calls", 0.0),
    ])
}
