//! Pages on threads: how soon a step of an agent is on the pages of who watches, how much memory many
//! viewers take, how soon and how large the first page of a long thread is, and what Lighthouse says of pages.

use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use codebutler_crds::names;
use futures::StreamExt as _;
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::mpsc;

use super::lighthouse::{Lighthouse, PageScores};
use super::memory::resident_memory;
use super::{MeasuredFigure, SHORT, find_percentile, long_or_short};
use codebutler_testbed::models::{ModelScript, ScriptStep};
use codebutler_testbed::place::InstallPlace;
use codebutler_testbed::stack::part::StackPart;
use codebutler_testbed::stack::{PagesAccess, RunningStack, StackOptions};

/// Steps of the run that is watched while it works.
const STEPS: usize = 60;
/// Watched at once, and by how many.
const RUNS: usize = long_or_short(200, 5);
const VIEWERS: usize = long_or_short(500, 10);
/// Steps of a thread that is long.
const LONG: usize = long_or_short(5000, 200);
const LONG_OUTPUT: usize = 10;
/// Number of requests for the first page.
const OPENED: usize = long_or_short(20, 2);
const PATIENCE: Duration = Duration::from_mins(3);

/// Measures the latencies that spectators of a conversation notice.
///
/// # Errors
/// When the product does not start, or shows nothing.
pub(super) async fn measure_pages() -> anyhow::Result<Vec<MeasuredFigure>> {
    let dir = tempfile::tempdir()?;
    let files = dir.path().join("files");
    std::fs::create_dir_all(&files)?;
    std::fs::write(files.join("README.md"), "# shop\n")?;
    let step = |n| ScriptStep::tool("Bash", json!({"command": format!("echo step {n}")}));
    let steps = (0..STEPS).map(step).chain([ScriptStep::say("Looked.")]).collect();
    let options = StackOptions {
        dir: dir.path().join("stack"),
        place: InstallPlace::usual(),
        program: std::env::current_exe()?,
        name: "shop".to_owned(),
        users: vec!["ana".to_owned()],
        roles: vec!["coder".to_owned()],
        branch: "main".to_owned(),
        files,
        script: ModelScript::of("coder", steps),
        idle_timeout_seconds: Some(60),
        debounce_seconds: 0,
        log: "warn".to_owned(),
        looks_back: false,
        edit_repo: None,
        edit_role: None,
        inject_env: None,
        late_wall: None,
        agent_silence: None,
        nodes: None,
        pages: PagesAccess::Unlinked,
    };
    std::fs::create_dir_all(&options.dir)?;
    let stack = Box::pin(RunningStack::start(options)).await?;
    let figures = Box::pin(measure_watching(&stack)).await;
    stack.stop().await?;
    figures
}

async fn measure_watching(stack: &RunningStack) -> anyhow::Result<Vec<MeasuredFigure>> {
    let base = format!("http://{}", stack.metrics.pages.context("there are no pages")?);
    let mut delays = Box::pin(measure_live(stack, &base)).await?;
    let (first, shell) = Box::pin(measure_long(stack, &base)).await?;
    let scores = if SHORT { None } else { Box::pin(measure_scores(stack)).await? };
    let memory = Box::pin(measure_many(stack, &base)).await?;
    let mut figures = vec![
        MeasuredFigure::at_most("pages.event_p95", find_percentile(&mut delays, 95), "ms", 300.0),
        MeasuredFigure::at_most("pages.viewers_memory", memory, "MiB", 100.0),
        MeasuredFigure::at_most("pages.first_page_p95", first, "ms", 300.0),
        MeasuredFigure::at_most("pages.before_data", shell, "KiB", 100.0),
    ];
    // Without Lighthouse there is no number, and so no promise kept.
    if !SHORT {
        let score = |pick: fn(&PageScores) -> f64| scores.as_ref().map_or(f64::NAN, pick);
        let (access, practices) = (score(|s| s.accessibility), score(|s| s.best_practices));
        let performance = score(|s| s.performance);
        figures.extend([
            MeasuredFigure::at_least("pages.accessibility", access, "of 100", 100.0),
            MeasuredFigure::at_least("pages.best_practices", practices, "of 100", 100.0),
            MeasuredFigure::at_least("pages.performance", performance, "of 100", 98.0),
        ]);
    }
    Ok(figures)
}

/// The worst that Lighthouse says of any page.
async fn measure_scores(stack: &RunningStack) -> anyhow::Result<Option<PageScores>> {
    let Some(lighthouse) = Lighthouse::find().await? else { return Ok(None) };
    let at = stack.metrics.pages.context("there are no pages")?;
    let mut worst: Option<PageScores> = None;
    for path in ["/", "/costs", &format!("/{}/long-1", stack.place.team)] {
        let own = lighthouse.score(at, path).await?;
        worst = Some(worst.map_or(own, |worst| PageScores {
            accessibility: worst.accessibility.min(own.accessibility),
            best_practices: worst.best_practices.min(own.best_practices),
            performance: worst.performance.min(own.performance),
        }));
    }
    Ok(worst)
}

/// Milliseconds from each step of an agent, by its own clock, to a page that is open.
async fn measure_live(stack: &RunningStack, base: &str) -> anyhow::Result<Vec<f64>> {
    let user = stack.users.get("ana").context("ana")?;
    let root = stack.slack.post_as(user, &stack.channel, None, "<@BOT> look")?;
    let name = names::thread_name(&stack.repo, &root.parse()?);
    let address = format!("{base}/{}/{name}/events?after=0", stack.place.team);
    let answer = reqwest::get(&address).await?.error_for_status()?;
    let (mut pieces, mut text, mut delays) = (answer.bytes_stream(), String::new(), Vec::new());
    let begun = Instant::now();
    while !text.contains("Looked.") {
        ensure!(begun.elapsed() < PATIENCE, "the run does not end");
        let piece = tokio::time::timeout(PATIENCE, pieces.next()).await?.context("cut off")??;
        let now = Timestamp::now();
        let piece = String::from_utf8_lossy(&piece).into_owned();
        // Only what an agent told: a tool that was used.
        for step in piece.split("<article class=\"step ").filter(|step| step.starts_with("tool")) {
            let at = step.split("datetime=\"").nth(1).and_then(|rest| rest.split('"').next());
            let Some(at) = at.and_then(|at| at.parse::<Timestamp>().ok()) else { continue };
            delays.push(now.duration_since(at).as_secs_f64() * 1e3);
        }
        text += &piece;
    }
    ensure!(delays.len() > STEPS / 2, "only {} steps were seen", delays.len());
    Ok(delays)
}

/// A line of a history, as an agent tells it.
fn history_line(seq: usize, output: &str) -> String {
    let at = Timestamp::now().as_millisecond();
    json!({"v": 1, "at": at, "source": "agent/coder/0a", "seq": seq, "role": "coder", "event": "tool",
        "tool": "Bash", "arguments": "{\"command\":\"make\"}", "output": output, "ok": true})
    .to_string()
        + "\n"
}

/// A history that another gateway writes.
struct ForeignHistory(std::fs::File);

impl ForeignHistory {
    fn open(stack: &RunningStack, name: &str) -> std::io::Result<Self> {
        let folder = stack.dir.join("history").join(&stack.place.team).join(name);
        std::fs::create_dir_all(&folder)?;
        let mut options = std::fs::OpenOptions::new();
        Ok(Self(options.append(true).create(true).open(folder.join("events.jsonl"))?))
    }
}

/// Milliseconds until the first page of a long thread is whole, and the KiB that come before any data.
async fn measure_long(stack: &RunningStack, base: &str) -> anyhow::Result<(f64, f64)> {
    let output = "a line of output\n".repeat(LONG_OUTPUT);
    let all: String = (1..=LONG).map(|seq| history_line(seq, &output)).collect();
    ForeignHistory::open(stack, "long-1")?.0.write_all(all.as_bytes())?;
    let address = format!("{base}/{}/long-1", stack.place.team);
    let mut took = Vec::new();
    for _ in 0..OPENED {
        let begun = Instant::now();
        let page = reqwest::get(&address).await?.error_for_status()?.text().await?;
        took.push(begun.elapsed().as_secs_f64() * 1e3);
        ensure!(page.contains(&format!("id=\"n{LONG}\"")), "the newest step is missing");
    }
    let mut bytes = 0;
    for path in ["/assets/page.css", "/assets/page.js", &format!("/{}/none-1", stack.place.team)] {
        bytes += reqwest::get(format!("{base}{path}")).await?.bytes().await?.len();
    }
    #[allow(clippy::cast_precision_loss)] // a few thousand
    Ok((find_percentile(&mut took, 95), bytes as f64 / 1024.0))
}

/// MiB that the gateway takes more when many runs are watched by more people.
async fn measure_many(stack: &RunningStack, base: &str) -> anyhow::Result<f64> {
    let StackPart::Process(gateway) = &stack.gateway else {
        bail!("the gateway has no process here")
    };
    let pid = gateway.pid().context("the gateway has ended")?;
    let name = |run: usize| format!("live-{run}");
    let mut runs = Vec::new();
    for run in 0..RUNS {
        let mut kept = ForeignHistory::open(stack, &name(run))?;
        kept.0.write_all(history_line(1, "begun").as_bytes())?;
        runs.push(kept);
    }
    let before = resident_memory(pid)?;
    let (heard, mut hearing) = mpsc::unbounded_channel();
    let client = reqwest::Client::new();
    for viewer in 0..VIEWERS {
        let run = name(viewer % RUNS);
        let address = format!("{base}/{}/{run}/events?after=1", stack.place.team);
        let (client, heard) = (client.clone(), heard.clone());
        tokio::spawn(async move {
            let answer = client.get(address).send().await?;
            let mut pieces = answer.bytes_stream();
            let mut count = 0;
            while let Some(Ok(piece)) = pieces.next().await {
                count += String::from_utf8_lossy(&piece).matches("id: ").count();
                if count >= LONG_OUTPUT {
                    let _ = heard.send(());
                }
            }
            anyhow::Ok(())
        });
    }
    let output = "a line of output\n".repeat(LONG_OUTPUT);
    let (begun, mut most, mut done) = (Instant::now(), before, 0);
    for seq in 2.. {
        ensure!(begun.elapsed() < PATIENCE, "only {done} of {VIEWERS} viewers see what happens");
        for kept in &mut runs {
            kept.0.write_all(history_line(seq, &output).as_bytes())?;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        most = most.max(resident_memory(pid)?);
        while hearing.try_recv().is_ok() {
            done += 1;
        }
        if done >= VIEWERS && seq > LONG_OUTPUT {
            break;
        }
    }
    Ok(most - before)
}
