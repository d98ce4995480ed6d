//! A roadmap of a hundred items, whose gateway and controller die at random moments. Afterwards each item had
//! one Thread, and none waited for long once what it depends on was merged.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use codebutler_crds::Thread;
use codebutler_crds::thread::RoadmapEnd;
use kube::Api;
use kube::ResourceExt as _;
use kube::api::{ListParams, Patch, PatchParams};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;

use super::super::{MeasuredFigure, long_or_short, wait_until};
use super::{CLICKS_AGAIN, PATIENCE, chaos_options, choose_seed, start_again};
use codebutler_testbed::models::{ModelScript, ScriptStep};
use codebutler_testbed::stack::RunningStack;

const ITEMS: usize = long_or_short(100, 6);
/// Items that wait for nothing.
const FREE: usize = 4;
const KILLS: usize = long_or_short(100, 4);
const PAUSE: std::ops::Range<u64> = 200..900;
/// Timeout of the whole play.
const END: Duration = Duration::from_mins(20);

/// Items without or with more than one Thread, and the longest wait of one that was free to begin.
pub(super) async fn measure_roadmap() -> anyhow::Result<Vec<MeasuredFigure>> {
    let seed = choose_seed();
    let dir = tempfile::tempdir()?;
    let files = dir.path().join("files");
    std::fs::create_dir_all(files.join(".codebutler"))?;
    std::fs::write(files.join(".codebutler/roadmap.md"), write_roadmap())?;
    let script =
        ModelScript::of("pm", vec![ScriptStep::say("Noted."), ScriptStep::say("Noted again.")]);
    let mut stack =
        Box::pin(RunningStack::start(chaos_options(dir.path(), files, script)?)).await?;
    let figures = Box::pin(run_roadmap(&mut stack, StdRng::seed_from_u64(seed))).await;
    stack.stop().await?;
    figures.with_context(|| format!("CODEBUTLER_SEED={seed} tries this again"))
}

/// Item `n` waits for item `n / 2`, but for the first ones.
fn depends_on(n: usize) -> Option<usize> {
    (n >= FREE).then_some(n / 2)
}

fn write_roadmap() -> String {
    let item = |n: usize| {
        let depends = depends_on(n).map_or_else(|| "—".to_owned(), |before| before.to_string());
        format!(
            "## {n}. Item {n}\n- Status: pending\n- Depends on: {depends}\n- Acceptance criteria: {n} works\n\n"
        )
    };
    (0..ITEMS).map(item).collect()
}

async fn run_roadmap(
    stack: &mut RunningStack,
    mut rng: StdRng,
) -> anyhow::Result<Vec<MeasuredFigure>> {
    let threads = stack.threads();
    let ana = stack.users.get("ana").context("ana")?.clone();
    let root = stack.slack.post_as(&ana, &stack.channel, None, "develop everything")?;
    let asked = wait_until("the question", PATIENCE, || async {
        let messages = stack.slack.messages(&stack.channel, Some(&root));
        Ok(messages.into_iter().find(|message| message.shown.contains("Develop the roadmap")))
    })
    .await?;
    let mut clicked: Option<Instant> = None;
    let parent = codebutler_crds::names::thread_name("shop", &root.parse()?);
    let began = Instant::now();
    let (mut seen, mut merged) = (BTreeMap::new(), BTreeMap::new());
    let mut kills = 0;
    let mut next = Instant::now();
    loop {
        anyhow::ensure!(began.elapsed() < END, "{} of {ITEMS} are merged", merged.len());
        if kills < KILLS && Instant::now() >= next {
            let process =
                if rng.random_bool(0.8) { &mut stack.gateway } else { &mut stack.controller };
            start_again(process).await?;
            kills += 1;
            next = Instant::now() + Duration::from_millis(rng.random_range(PAUSE));
        }
        look_at(&threads, &mut seen, &mut merged).await?;
        let run = threads.get(&parent).await?.status.unwrap_or_default().roadmap;
        if run.as_ref().is_some_and(|run| run.ended == Some(RoadmapEnd::Done)) {
            break;
        }
        // Slack tells a person at once when nobody takes a click.
        if !run.is_some_and(|run| run.is_approved())
            && clicked.is_none_or(|at| at.elapsed() > CLICKS_AGAIN)
        {
            clicked = Some(Instant::now());
            // Once it counted the button is gone, and a click fails.
            let _ = stack.slack.click(&ana, &stack.channel, &asked.ts, "roadmap:start");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let wrong = (0..ITEMS)
        .filter(|n| seen.get(n).map(|(names, _): &(Vec<String>, Instant)| names.len()) != Some(1));
    let waited = (0..ITEMS).filter_map(|n| {
        let free = depends_on(n).map_or(Some(began), |before| merged.get(&before).copied())?;
        Some(seen.get(&n)?.1.saturating_duration_since(free).as_secs_f64())
    });
    // Of what waits for a place alone nobody says that it is forgotten: the longest is of all.
    let longest = waited.fold(0.0, f64::max);
    #[allow(clippy::cast_precision_loss)] // handfuls
    let count =
        |name, value: usize, limit| MeasuredFigure::at_most(name, value as f64, "count", limit);
    #[allow(clippy::cast_precision_loss)]
    let kills = MeasuredFigure::at_least("chaos.roadmap_kills", kills as f64, "count", 50.0);
    Ok(vec![
        kills,
        count("chaos.roadmap_items_not_once", wrong.count(), 0.0),
        MeasuredFigure::at_most("chaos.roadmap_longest_wait", longest, "s", 300.0),
    ])
}

/// Takes note of new Threads, and merges what is open, as people would.
async fn look_at(
    threads: &Api<Thread>,
    seen: &mut BTreeMap<usize, (Vec<String>, Instant)>,
    merged: &mut BTreeMap<usize, Instant>,
) -> anyhow::Result<()> {
    for thread in threads.list(&ListParams::default()).await? {
        let Some(item) = thread.spec.item.as_ref().and_then(|item| item.parse().ok()) else {
            continue;
        };
        let name = thread.name_any();
        let (names, _) = seen.entry(item).or_insert_with(|| (Vec::new(), Instant::now()));
        if !names.contains(&name) {
            names.push(name.clone());
        }
        let opened = thread.conversation().is_some();
        if merged.contains_key(&item) || !opened {
            continue;
        }
        let pull = json!({"number": item + 1, "url": "https://git.example.org/1", "state": "merged",
            "mergeCommit": "1".repeat(40)});
        let (params, status) = (PatchParams::default(), json!({"status": {"pullRequest": pull}}));
        threads.patch_status(&name, &params, &Patch::Merge(&status)).await?;
        let closed = json!({"spec": {"state": "Closed"}});
        threads.patch(&name, &params, &Patch::Merge(&closed)).await?;
        merged.insert(item, Instant::now());
    }
    Ok(())
}
