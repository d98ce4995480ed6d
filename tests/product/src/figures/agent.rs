//! The cost of a role's pod beside its model and its commands: its start, its memory, and its own time
//! for a turn as the conversation grows. In the whole product, with a model that answers at once, so
//! each value holds for gateway and kubelet too. Where opencode can be installed, the same is asked of
//! it, for the reader to compare.

mod crowd;
mod earlier;
pub(super) mod opencode;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::json;

use self::opencode::OpencodeFigures;
use super::{MeasuredFigure, long_or_short, memory, product};
use codebutler_testbed::models::{ModelScript, ScriptStep};
use codebutler_testbed::stack::earlier::EarlierBuild;
use codebutler_testbed::stack::outside::StackSurroundings;
use codebutler_testbed::stack::{PagesAccess, RunningStack, StackOptions};

/// Messages of history at which turns are measured, and over how many turns.
const HISTORY: [usize; 3] = [10, long_or_short(100, 40), long_or_short(1_000, 80)];
const WINDOW: usize = 8;
/// Turns of the conversation.
const TURNS: usize = HISTORY[2] / 2 + WINDOW;
const PATIENCE: Duration = Duration::from_mins(5);
const PROGRAM: &str = "codebutler-agent";

/// Start, memory and time per turn.
pub(super) async fn measure_agent() -> anyhow::Result<Vec<MeasuredFigure>> {
    let agent = tokio::task::spawn_blocking(|| product::build_program(PROGRAM)).await??;
    let opencode = Box::pin(opencode::measure_opencode()).await;
    let mut steps = vec![ScriptStep::say("ready")];
    let cat = |n| ScriptStep::tool("Bash", json!({"command": format!("cat README.md # {n}")}));
    steps.extend((0..TURNS).map(cat));
    steps.push(ScriptStep::say("finished"));
    let dir = tempfile::tempdir()?;
    let stack = coder_stack(dir.path(), None, agent.clone(), steps).await?;
    let figures = Box::pin(measure_conversation(&stack, opencode.as_ref())).await;
    stack.stop().await?;
    let mut figures = figures?;
    figures.push(Box::pin(earlier::measure_earlier(&agent)).await?);
    figures.extend(Box::pin(crowd::measure_crowd(agent)).await?);
    Ok(figures)
}

/// A team of one coder, whose model plays this in every conversation: with this build's operator, or an earlier one's.
async fn coder_stack(
    dir: &Path,
    earlier: Option<EarlierBuild>,
    agent: PathBuf,
    steps: Vec<ScriptStep>,
) -> anyhow::Result<RunningStack> {
    let files = dir.join("files");
    std::fs::create_dir_all(&files)?;
    std::fs::write(files.join("README.md"), "# shop\n")?;
    let options = StackOptions {
        dir: dir.join("stack"),
        place: codebutler_testbed::place::InstallPlace::usual(),
        program: std::env::current_exe()?,
        name: "shop".to_owned(),
        users: vec!["ana".to_owned()],
        roles: vec!["coder".to_owned()],
        branch: "main".to_owned(),
        files,
        script: ModelScript::of("coder", steps),
        idle_timeout_seconds: Some(3),
        debounce_seconds: 0,
        log: "warn".to_owned(),
        looks_back: false,
        edit_repo: Some(Arc::new(|repo| {
            repo.limits.calls_per_hour = 1_000_000;
            (repo.limits.concurrent_threads, repo.limits.concurrent_runs) = (1_000, 1_000);
        })),
        edit_role: Some(Arc::new(|role| {
            role.limits.turns = 1_000;
            role.limits.timeout_seconds = 3_600;
            role.model.context_tokens = Some(10_000_000);
        })),
        inject_env: None,
        late_wall: None,
        agent_silence: None,
        nodes: None,
        pages: PagesAccess::default(),
    };
    std::fs::create_dir_all(&options.dir)?;
    let agent = Some(agent);
    let surroundings = StackSurroundings { agent, earlier, ..StackSurroundings::default() };
    Ok(Box::pin(RunningStack::start_in(options, surroundings)).await?)
}

async fn measure_conversation(
    stack: &RunningStack,
    other: Option<&OpencodeFigures>,
) -> anyhow::Result<Vec<MeasuredFigure>> {
    let served = || stack.models.served().len();
    let user = stack.users.get("ana").context("ana")?;
    let root = stack.slack.post_as(user, &stack.channel, None, "hello")?;
    wait_until("the first answer", || served() >= 1).await?;
    let idle = until_some("an agent", || agent_pids().first().copied()).await?;
    // The loop has settled down once it waits for mail.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let resting = memory::resident_memory(idle)?;
    wait_until("the pod to sleep", || agent_pids().is_empty()).await?;

    stack.slack.post_as(user, &stack.channel, Some(&root), "go on")?;
    let agent = until_some("the agent to wake", || agent_pids().first().copied()).await?;
    let born = Instant::now();
    let watched = watch_turns(&served, 2, TURNS + 2, agent).await?;
    let start = watched.first.duration_since(born).as_secs_f64() * 1e3;
    let mut figures = vec![
        MeasuredFigure::at_most("agent.start", start, "ms", 50.0)
            .perhaps_beside(other.map(|other| other.start)),
        MeasuredFigure::at_most("agent.idle_memory", resting, "MiB", 20.0)
            .perhaps_beside(other.map(|other| other.idle_memory)),
        MeasuredFigure::at_most("agent.peak_memory", watched.peak, "MiB", 60.0)
            .perhaps_beside(other.map(|other| other.peak_memory)),
    ];
    for messages in HISTORY {
        let name = format!("agent.turn_{messages}");
        let measured = other.filter(|_| messages == HISTORY[0]).map(|other| other.turn);
        let figure = MeasuredFigure::at_most(&name, watched.turn(messages), "ms", 20.0);
        figures.push(figure.perhaps_beside(measured));
    }
    Ok(figures)
}

/// A conversation as its model sees it.
struct WatchedConversation {
    /// Time at which the first awaited answer was served.
    first: Instant,
    /// Times at which each answer was seen to be served; all earlier ones have the time of the first look.
    reached: Vec<Instant>,
    /// The most memory that the process had in use, in MiB.
    peak: f64,
}

impl WatchedConversation {
    /// Milliseconds for a turn with so many messages of history.
    fn turn(&self, messages: usize) -> f64 {
        let at = messages / 2;
        let took = self.reached[at + WINDOW].duration_since(self.reached[at]).as_secs_f64() * 1e3;
        #[allow(clippy::cast_precision_loss)] // a handful
        let turns = WINDOW as f64;
        took / turns
    }
}

/// Looks on from answer `from` until there are `to`.
async fn watch_turns(
    served: &impl Fn() -> usize,
    from: usize,
    to: usize,
    pid: u32,
) -> anyhow::Result<WatchedConversation> {
    let deadline = Instant::now() + PATIENCE;
    wait_until("an answer", || served() >= from).await?;
    let first = Instant::now();
    let (mut reached, mut peak) = (Vec::with_capacity(to), 0.0_f64);
    loop {
        let count = served();
        reached.resize(count, Instant::now());
        if count >= to {
            return Ok(WatchedConversation { first, reached, peak });
        }
        peak = memory::peak_memory(pid).unwrap_or(peak);
        ensure!(Instant::now() < deadline, "the conversation came to a halt at {count}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Processes that are an agent's loop.
fn agent_pids() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        let program =
            words.next().map(|word| PathBuf::from(String::from_utf8_lossy(word).as_ref()));
        let named = program.is_some_and(|path| path.ends_with(PROGRAM));
        named && words.next() == Some(&b"run"[..])
    })
    .collect()
}

async fn wait_until(what: &str, mut holds: impl FnMut() -> bool) -> anyhow::Result<()> {
    until_some(what, || holds().then_some(())).await
}

async fn until_some<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> anyhow::Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return Ok(found);
        }
        ensure!(Instant::now() < deadline, "gave up waiting for {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
