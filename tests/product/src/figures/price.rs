//! The bill of a coder's long run at a provider with Anthropic's cache rules: as the product asks,
//! against the same of a model that nobody knows to want marks. Counted by the provider.

mod day;
mod team;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use codebutler_crds::NanoUsd;
use serde_json::json;

use super::MeasuredFigure;
use codebutler_testbed::models::{
    CacheRule, ModelCard, ModelOptions, ModelScript, PriceCard, ScriptStep, ServedAnswer,
};
use codebutler_testbed::stack::outside::StackSurroundings;
use codebutler_testbed::stack::{PagesAccess, RunningStack, StackOptions};

/// Model calls that read something, before the last word.
const TURNS: usize = 50;
/// Bytes of a file that is read: 2,000 to 4,000 tokens a turn, its answer included.
const FILE: usize = 9_000;
/// Calls after which most of what is sent has to be known already.
const WARM: usize = 3;
/// The most that marks may leave of the price.
const SHARE: f64 = 0.3;
/// The least share of the input, from then on, that was kept.
const CACHED: f64 = 0.8;
const PATIENCE: Duration = Duration::from_mins(5);
const WINDOW: u32 = 1_000_000;

/// Dollars with marks and without, and the share of the input that was sold for less.
pub(super) async fn measure_price() -> anyhow::Result<Vec<MeasuredFigure>> {
    let taking = |card: ModelCard| card.taking(u64::from(WINDOW), 16_000);
    let marked = taking(ModelCard::new("anthropic/scripted-coder"));
    // The same rules and prices, but nothing tells that it takes marks.
    let pricing =
        PriceCard { input_cache_write: None, input_cache_read: None, ..marked.pricing.clone() };
    let plain =
        taking(ModelCard::new("plain/scripted-coder")).priced(pricing).caching(marked.cache);
    ensure!(matches!(marked.cache, CacheRule::Marked { .. }), "marks are what is measured");
    let with = Box::pin(run_model(marked)).await.context("with marks")?;
    let without = Box::pin(run_model(plain)).await.context("without marks")?;
    ensure!(without.iter().all(|call| call.cached_tokens == 0), "nothing marks what nobody may");
    let dollars =
        |calls: &[ServedAnswer]| calls.iter().map(|call| call.cost).sum::<NanoUsd>().as_f64();
    let warm = with.get(WARM..).unwrap_or_default();
    let sum = |count: fn(&ServedAnswer) -> u64| warm.iter().map(count).sum::<u64>();
    #[allow(clippy::cast_precision_loss)] // a few million
    let share = sum(|call| call.cached_tokens) as f64 / sum(|call| call.prompt_tokens) as f64;
    let (billed, full) = (dollars(&with), dollars(&without));
    let mut figures = vec![
        MeasuredFigure::at_most("price.billed", billed, "USD", SHARE * full).beside(full),
        MeasuredFigure::at_least("price.cached_share", share, "x", CACHED),
    ];
    figures.extend(Box::pin(team::measure_team()).await?);
    figures.extend(Box::pin(day::measure_day()).await?);
    Ok(figures)
}

/// Plays one run with a model; returns every answer that was billed.
async fn run_model(card: ModelCard) -> anyhow::Result<Vec<ServedAnswer>> {
    let dir = tempfile::tempdir()?;
    let files = dir.path().join("files");
    std::fs::create_dir_all(&files)?;
    for n in 0..TURNS {
        std::fs::write(files.join(format!("{n}.txt")), filler_text(n))?;
    }
    let model = card.id.clone();
    let options = StackOptions {
        dir: dir.path().join("stack"),
        place: codebutler_testbed::place::InstallPlace::usual(),
        program: std::env::current_exe()?,
        name: "shop".to_owned(),
        users: vec!["ana".to_owned()],
        roles: vec!["coder".to_owned()],
        branch: "main".to_owned(),
        files,
        script: price_script(),
        idle_timeout_seconds: Some(60),
        debounce_seconds: 0,
        log: "warn".to_owned(),
        looks_back: false,
        edit_repo: Some(Arc::new(|repo| repo.limits.calls_per_hour = 1_000_000)),
        edit_role: Some(Arc::new(move |role| {
            role.limits.turns = 1_000;
            role.limits.timeout_seconds = 3_600;
            role.model.default.clone_from(&model);
            role.model.context_tokens = Some(WINDOW);
        })),
        inject_env: None,
        late_wall: None,
        agent_silence: None,
        nodes: None,
        pages: PagesAccess::default(),
    };
    std::fs::create_dir_all(&options.dir)?;
    let provider = ModelOptions { metered: true, ..ModelOptions::default() }.offer(card);
    let surroundings = StackSurroundings { provider, ..StackSurroundings::default() };
    let stack = Box::pin(RunningStack::start_in(options, surroundings)).await?;
    let ended = Box::pin(hold_conversation(&stack)).await;
    let served = stack.models.served();
    let failures = stack.models.failures();
    stack.stop().await?;
    ended.with_context(|| failures.join("\n"))?;
    Ok(served)
}

/// Words that compress no better than a source file's.
fn filler_text(n: usize) -> String {
    let line =
        |at: usize| format!("line {at} of file {n}: the total of {} and {}\n", at * 7 + n, at * 13);
    let mut text: String = (0..).map(line).take(FILE / 45).collect();
    text.truncate(FILE);
    text
}

fn price_script() -> ModelScript {
    let read = |n: usize| {
        let step = ScriptStep::tool("Read", json!({"path": format!("{n}.txt")}));
        ScriptStep { say: Some(format!("Next I look at file {n}, for the sums in it.")), ..step }
    };
    let mut steps: Vec<ScriptStep> = (0..TURNS).map(read).collect();
    steps.push(ScriptStep::say("All sums are right."));
    ModelScript::of("coder", steps)
}

async fn hold_conversation(stack: &RunningStack) -> anyhow::Result<()> {
    let user = stack.users.get("ana").context("ana")?;
    stack.slack.post_as(user, &stack.channel, None, "are the sums right?")?;
    let deadline = Instant::now() + PATIENCE;
    while stack.models.served().len() <= TURNS {
        let count = stack.models.served().len();
        ensure!(Instant::now() < deadline, "the conversation came to a halt at {count}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
