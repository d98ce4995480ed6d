//! The bill of a team's ten conversations about one repository, with marks as Anthropic has them: beside an
//! earlier build of the product, in turns.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use codebutler_crds::NanoUsd;
use serde_json::json;

use super::super::baseline::find_baseline;
use super::{MeasuredFigure, PATIENCE, WINDOW};
use codebutler_testbed::models::{ModelCard, ModelOptions, ModelScript, ScriptStep, ServedAnswer};
use codebutler_testbed::stack::earlier::EarlierBuild;
use codebutler_testbed::stack::outside::StackSurroundings;
use codebutler_testbed::stack::{PagesAccess, RunningStack, StackOptions};

const BILLED: &str = "price.team_billed";
const ROLES: [&str; 4] = ["pm", "coder", "reviewer", "lead"];
const THREADS: usize = 10;
/// Calls of one conversation.
const CALLS: usize = 8;
/// The most that the same may cost beside the baseline.
const SHARE: f64 = 0.75;
/// The least share of a later conversation's first requests that an earlier one has paid for.
const SHARED: f64 = 0.75;
/// Tokens of a first request, by role.
const FIRST: [(&str, f64); 2] = [("pm", 6_000.0), ("coder", 4_600.0)];

/// The names of the figures are those of the promises.
pub(super) async fn measure_team() -> anyhow::Result<Vec<MeasuredFigure>> {
    let baseline = find_baseline(BILLED)?;
    let (mut now, mut before) = (NanoUsd::ZERO, NanoUsd::ZERO);
    let mut served = Vec::new();
    // Twice in turns, so that a slow machine is slow for both.
    for _ in 0..if baseline.is_some() { 2 } else { 1 } {
        served = Box::pin(run_team(None)).await.context("this build")?;
        now += total_cost(&served);
        if let Some(earlier) = baseline.clone() {
            let other = Box::pin(run_team(Some(earlier))).await.context("the baseline")?;
            before += total_cost(&other);
        }
    }
    let mut figures =
        vec![MeasuredFigure::at_least("price.team_shared", shared_share(&served), "x", SHARED)];
    for (role, most) in FIRST {
        let first = first_calls(&served).find(|call| call.role == role);
        let first = first.with_context(|| format!("{role} was never asked"))?;
        #[allow(clippy::cast_precision_loss)] // thousands
        let tokens = first.prompt_tokens as f64;
        let name = format!("price.first_{role}");
        figures.push(MeasuredFigure::at_most(&name, tokens, "tokens", most));
    }
    figures.push(if baseline.is_some() {
        MeasuredFigure::ratio(BILLED, now.as_f64(), before.as_f64(), SHARE)
    } else {
        MeasuredFigure::at_most(BILLED, f64::NAN, "x", SHARE)
    });
    Ok(figures)
}

fn total_cost(served: &[ServedAnswer]) -> NanoUsd {
    served.iter().map(|call| call.cost).sum()
}

/// The first call of each role in each conversation.
fn first_calls(served: &[ServedAnswer]) -> impl Iterator<Item = &ServedAnswer> {
    served.iter().filter(|call| call.step == 0 && !call.repeat)
}

/// The share of first requests that was known, from the second conversation on.
#[allow(clippy::cast_precision_loss)] // thousands
fn shared_share(served: &[ServedAnswer]) -> f64 {
    let later = first_calls(served).skip(ROLES.len());
    let (cached, all) = later.fold((0, 0), |(cached, all), call| {
        (cached + call.cached_tokens, all + call.prompt_tokens)
    });
    cached as f64 / (all as f64).max(1.0)
}

/// The answers of this build's conversations, or of an earlier one's.
async fn run_team(earlier: Option<EarlierBuild>) -> anyhow::Result<Vec<ServedAnswer>> {
    let dir = tempfile::tempdir()?;
    let files = dir.path().join("files");
    std::fs::create_dir_all(files.join("src"))?;
    std::fs::write(
        files.join("AGENTS.md"),
        "Run `cargo test` before you push. Prices are whole cents.\n",
    )?;
    std::fs::write(files.join("src/price.rs"), "pub const PRICE: u64 = 10;\n")?;
    let options = StackOptions {
        dir: dir.path().join("stack"),
        place: codebutler_testbed::place::InstallPlace::usual(),
        program: std::env::current_exe()?,
        name: "shop".to_owned(),
        users: vec!["ana".to_owned()],
        roles: ROLES.map(str::to_owned).to_vec(),
        branch: "main".to_owned(),
        files,
        script: team_script(),
        idle_timeout_seconds: Some(60),
        debounce_seconds: 0,
        log: "warn".to_owned(),
        looks_back: false,
        edit_repo: Some(Arc::new(|repo| repo.limits.calls_per_hour = 1_000_000)),
        edit_role: Some(Arc::new(|role| {
            role.model.default = model_of(&role.role);
            role.model.tiers = None;
            role.model.context_tokens = Some(WINDOW);
        })),
        inject_env: None,
        late_wall: None,
        agent_silence: None,
        nodes: None,
        pages: PagesAccess::default(),
    };
    std::fs::create_dir_all(&options.dir)?;
    let metered = ModelOptions { metered: true, ..ModelOptions::default() };
    let card = |role| ModelCard::new(&model_of(role)).taking(u64::from(WINDOW), 16_000);
    let provider = ROLES.into_iter().fold(metered, |provider, role| provider.offer(card(role)));
    let surroundings = StackSurroundings { provider, earlier, ..StackSurroundings::default() };
    let stack = Box::pin(RunningStack::start_in(options, surroundings)).await?;
    let ended = Box::pin(hold_conversations(&stack)).await;
    let served = stack.models.served();
    let failures = stack.models.failures();
    stack.stop().await?;
    ended.with_context(|| failures.join("\n"))?;
    Ok(served)
}

fn model_of(role: &str) -> String {
    format!("anthropic/scripted-{role}")
}

/// Script of a team whose roles, one after the other, hear of the task, look, and pass it on.
fn team_script() -> ModelScript {
    let read = || ScriptStep::tool("Read", json!({"path": "src/price.rs"}));
    let role = |last: &str| vec![read(), ScriptStep::say(last)];
    ModelScript::of("pm", role("@codebutler.coder is a price a whole number of cents?"))
        .and("coder", role("@codebutler.reviewer it is one: is that right?"))
        .and("reviewer", role("@codebutler.lead it is right."))
        .and("lead", role("A price is a whole number of cents."))
}

async fn hold_conversations(stack: &RunningStack) -> anyhow::Result<()> {
    let user = stack.users.get("ana").context("ana")?;
    for thread in 1..=THREADS {
        let text = format!("question {thread}: are prices cents?");
        stack.slack.post_as(user, &stack.channel, None, &text)?;
        let deadline = Instant::now() + PATIENCE;
        while stack.models.served().len() < thread * CALLS {
            let count = stack.models.served().len();
            ensure!(Instant::now() < deadline, "the team came to a halt at call {count}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}
