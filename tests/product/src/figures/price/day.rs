//! The cost of a team's day: questions, status requests, thanks, fixes and features, with the models of the shipped
//! roles, of which a cheaper one looks first, and with those of an earlier version without one, in turns. A
//! conversation of each kind is billed by the provider's rules, and counted as often as it comes in a day.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use codebutler_crds::role::RoleModel;
use codebutler_crds::{AgentRole, NanoUsd};
use serde_json::json;

use super::super::long_or_short;
use super::{MeasuredFigure, PATIENCE, WINDOW, filler_text};
use codebutler_testbed::models::{ModelCard, ModelOptions, ModelScript, PriceCard, ScriptStep};
use codebutler_testbed::stack::outside::StackSurroundings;
use codebutler_testbed::stack::{PagesAccess, RunningStack, StackOptions};

const ROLES: [&str; 4] = ["pm", "coder", "reviewer", "lead"];
/// The most that a day may cost beside one without a first look, and the same of all that changes no code.
const DAY: f64 = 0.45;
const TALK: f64 = 0.1;
/// The most that the first answered question may cost, in USD.
const FIRST_LOOK: f64 = 0.02;
/// Conversations of a kind; the first one pays for what the later ones share.
const TIMES: usize = long_or_short(3, 2);
/// Models of the roles as they were shipped at commit 6af8e570, beside which a day is measured.
const BEFORE: [(&str, &str); 4] = [
    ("pm", "anthropic/claude-opus-5"),
    ("coder", "anthropic/claude-opus-5"),
    ("reviewer", "anthropic/claude-sonnet-5"),
    ("lead", "anthropic/claude-sonnet-5"),
];
/// Prices, as a provider lists them.
const LISTED: &str = include_str!("../../../../corpus/openrouter-models.json");

/// Something that people ask for.
struct RequestKind {
    name: &'static str,
    /// Number of requests of this kind in a day.
    count: u64,
    /// True if the request changes code.
    changes: bool,
    /// Files that each role reads, and whether somebody else goes on.
    pm: usize,
    others: Option<[usize; 3]>,
    /// True if the person thanks for the answer.
    thanks: bool,
}

const KINDS: [RequestKind; 4] = [
    RequestKind { name: "question", count: 25, changes: false, pm: 3, others: None, thanks: false },
    RequestKind { name: "thanked", count: 15, changes: false, pm: 3, others: None, thanks: true },
    RequestKind { name: "status", count: 10, changes: false, pm: 1, others: None, thanks: false },
    RequestKind {
        name: "fix",
        count: 12,
        changes: true,
        pm: 4,
        others: Some([9, 5, 2]),
        thanks: false,
    },
];
/// A feature is longer than a fix, in all roles.
const FEATURE: RequestKind = RequestKind {
    name: "feature",
    count: 3,
    changes: true,
    pm: 8,
    others: Some([24, 9, 3]),
    thanks: false,
};

/// Bills of the conversations of a kind.
struct KindBills {
    /// Bill of the first one, which finds nothing in a cache.
    first: NanoUsd,
    /// Mean bill of the later ones.
    later: NanoUsd,
}

/// The names of the figures are those of the promises.
pub(super) async fn measure_day() -> anyhow::Result<Vec<MeasuredFigure>> {
    let (mut now, mut before) = ((0.0, 0.0), (0.0, 0.0));
    let mut first_look = None;
    for kind in KINDS.iter().chain([&FEATURE]) {
        for (looks_first, sums) in [(true, &mut now), (false, &mut before)] {
            let run = Box::pin(run_kind(kind, looks_first));
            let bills = run.await.with_context(|| format!("{}, {looks_first}", kind.name))?;
            // The first conversation of all is a question, as a newcomer's is.
            first_look.get_or_insert(bills.first);
            #[allow(clippy::cast_precision_loss)] // tens
            let cost = bills.later.as_f64() * kind.count as f64;
            sums.0 += cost;
            sums.1 += if kind.changes { 0.0 } else { cost };
        }
    }
    let first_look = first_look.context("a first conversation")?.as_f64();
    Ok(vec![
        MeasuredFigure::at_most("price.first_look", first_look, "USD", FIRST_LOOK),
        MeasuredFigure::ratio("price.day", now.0, before.0, DAY),
        MeasuredFigure::ratio("price.day_talk", now.1, before.1, TALK),
    ])
}

/// Plays the conversations of a kind.
async fn run_kind(kind: &RequestKind, looks_first: bool) -> anyhow::Result<KindBills> {
    let dir = tempfile::tempdir()?;
    let files = dir.path().join("files");
    std::fs::create_dir_all(&files)?;
    for n in 0..30 {
        std::fs::write(files.join(format!("{n}.txt")), filler_text(n))?;
    }
    let options = StackOptions {
        script: kind_script(kind, looks_first),
        edit_role: Some(Arc::new(move |role| {
            role.model.first_look = (looks_first && role.role == "pm").then(quick_model);
            role.model.default = model_of(&role.role);
            role.model.tiers = None;
            role.model.context_tokens = Some(WINDOW);
            role.limits.turns = 1_000;
        })),
        ..stack_options(dir.path(), files)?
    };
    let metered = ModelOptions { metered: true, ..ModelOptions::default() };
    let card = |id: &str| ModelCard::new(id).taking(u64::from(WINDOW), 16_000);
    let mut provider = metered;
    for (role, earlier) in BEFORE {
        let shipped = shipped_models(role)?;
        let own = if looks_first { shipped.default.as_str() } else { earlier };
        provider = provider.offer(card(&model_of(role)).priced(listed_price(own)?));
        if let Some(first_look) = shipped.first_look {
            provider = provider.offer(card(&quick_model()).priced(listed_price(&first_look)?));
        }
    }
    let surroundings = StackSurroundings { provider, ..StackSurroundings::default() };
    let stack = Box::pin(RunningStack::start_in(options, surroundings)).await?;
    let ended = Box::pin(hold_conversations(&stack, kind, looks_first)).await;
    let failures = stack.models.failures();
    stack.stop().await?;
    ended.with_context(|| failures.join("\n"))
}

fn stack_options(dir: &Path, files: std::path::PathBuf) -> anyhow::Result<StackOptions> {
    let options = StackOptions {
        dir: dir.join("stack"),
        place: codebutler_testbed::place::InstallPlace::usual(),
        program: std::env::current_exe()?,
        name: "shop".to_owned(),
        users: vec!["ana".to_owned()],
        roles: ROLES.map(str::to_owned).to_vec(),
        branch: "main".to_owned(),
        files,
        script: ModelScript::default(),
        idle_timeout_seconds: Some(60),
        debounce_seconds: 0,
        log: "warn".to_owned(),
        looks_back: false,
        edit_repo: Some(Arc::new(|repo| repo.limits.calls_per_hour = 1_000_000)),
        edit_role: None,
        inject_env: None,
        late_wall: None,
        agent_silence: None,
        nodes: None,
        pages: PagesAccess::default(),
    };
    std::fs::create_dir_all(&options.dir)?;
    Ok(options)
}

fn model_of(role: &str) -> String {
    format!("anthropic/scripted-{role}")
}

fn quick_model() -> String {
    "openai/scripted-quick".to_owned()
}

/// The models of a role as it is shipped.
fn shipped_models(role: &str) -> anyhow::Result<RoleModel> {
    let name = format!("{role}.yaml");
    let mut files = codebutler_testbed::seeds::role_files();
    let (_, yaml) = files.find(|(file, _)| file.ends_with(&name)).context(name)?;
    let role: AgentRole = serde_saphyr::from_str(yaml)?;
    Ok(role.spec.model)
}

fn listed_price(model: &str) -> anyhow::Result<PriceCard> {
    let list: serde_json::Value = serde_json::from_str(LISTED)?;
    let mut all = list["data"].as_array().context("a list of models")?.iter();
    let listed = all.find(|listed| listed["id"] == model).context(model.to_owned())?;
    let price = |name: &str| listed["pricing"][name].as_str();
    let [input, output, read] =
        ["prompt", "completion", "input_cache_read"].map(|name| price(name).unwrap_or("0"));
    Ok(match price("input_cache_write") {
        Some(write) => PriceCard::anthropic(input, output, read, write),
        None => PriceCard::automatic(input, output, read),
    })
}

fn reads(count: usize) -> Vec<ScriptStep> {
    let read = |n: usize| ScriptStep::tool("Read", json!({"path": format!("{n}.txt")}));
    (0..count).map(read).collect()
}

fn ending(mut steps: Vec<ScriptStep>, last: &str) -> Vec<ScriptStep> {
    steps.push(ScriptStep::say(last));
    steps
}

/// The cheaper model answers as the pm would, and hands up after one look where code has to change.
fn kind_script(kind: &RequestKind, looks_first: bool) -> ModelScript {
    let answers = |steps| {
        let steps = ending(steps, "The answer is in `1.txt:7`, as it was before.");
        ending(steps, "You are welcome.")
    };
    let Some([coder, reviewer, lead]) = kind.others else {
        return ModelScript::of("pm", answers(reads(kind.pm)))
            .and("quick", answers(reads(kind.pm)));
    };
    let pass = "@codebutler.coder the cause is in `1.txt:7`: mend it.";
    let mut quick = reads(1);
    quick.push(ScriptStep::tool("HandUp", json!({"why": "code has to change"})));
    // Answers from before the hand-over are part of the conversation, and are not given again.
    let looked = usize::from(looks_first);
    // A review without a plan of its own is sent back.
    let none = json!({"level": "none", "why": "It changes one sum."});
    let risks =
        ["security", "performance", "compatibility", "correctness"].map(|risk| (risk, &none));
    let goes_by = json!({
        "invariants": ["The other sums stay."],
        "risks": BTreeMap::from(risks),
        "noTests": "The sums are tested.",
    });
    let mut review = vec![ScriptStep::tool("PlanReview", goes_by)];
    review.extend(reads(reviewer));
    ModelScript::of("pm", ending(reads(kind.pm + looked), pass))
        .and("quick", quick)
        .and("coder", ending(reads(coder), "@codebutler.reviewer it is done: is it right?"))
        .and("reviewer", ending(review, "@codebutler.lead it is right."))
        .and("lead", ending(reads(lead), "All of it is done."))
}

async fn hold_conversations(
    stack: &RunningStack,
    kind: &RequestKind,
    looks_first: bool,
) -> anyhow::Result<KindBills> {
    let user = stack.users.get("ana").context("ana")?;
    let mut bills = Vec::new();
    for thread in 1..=TIMES {
        let before = stack.models.served().len();
        let text = format!("{} {thread}: what about the sums?", kind.name);
        let root = stack.slack.post_as(user, &stack.channel, None, &text)?;
        let last = if kind.changes { "All of it is done." } else { "The answer is in" };
        until_said(stack, &root, last).await?;
        if kind.thanks {
            // Without a first look, what an earlier version did with thanks: it asked a model.
            let words = if looks_first { "thanks!" } else { "thanks for that one" };
            let said = stack.slack.post_as(user, &stack.channel, Some(&root), words)?;
            if looks_first {
                until_seen(stack, &root, &said).await?;
            } else {
                until_said(stack, &root, "You are welcome.").await?;
            }
        }
        let served = stack.models.served();
        bills.push(served[before..].iter().map(|call| call.cost).sum::<NanoUsd>());
    }
    let later = bills.split_off(1);
    let first = bills.pop().context("a first conversation")?;
    let all: NanoUsd = later.iter().copied().sum();
    Ok(KindBills { first, later: NanoUsd(all.0 / later.len() as u64) })
}

async fn until_said(stack: &RunningStack, root: &str, words: &str) -> anyhow::Result<()> {
    until(stack, root, || {
        let all = stack.slack.messages(&stack.channel, Some(root));
        all.iter().any(|message| message.text.contains(words))
    })
    .await
}

async fn until_seen(stack: &RunningStack, root: &str, said: &str) -> anyhow::Result<()> {
    until(stack, root, || {
        let all = stack.slack.messages(&stack.channel, Some(root));
        all.iter().any(|message| message.ts == said && message.has_reaction("blush"))
    })
    .await
}

async fn until(stack: &RunningStack, root: &str, holds: impl Fn() -> bool) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        let count = stack.models.served().len();
        let last = || stack.slack.messages(&stack.channel, Some(root)).pop().map(|last| last.shown);
        ensure!(Instant::now() < deadline, "came to a halt at call {count}, after {:?}", last());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
