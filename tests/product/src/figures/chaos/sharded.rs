//! The same with three leaders of the gateways and one that stands by: each leads for a Repo in which people work, and
//! any of them dies at any time.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context as _;
use codebutler_crds::Repo;
use codebutler_runtime::shards::GatewayShard;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use super::super::{MeasuredFigure, wait_until};
use super::{CountedHarm, PATIENCE, ProcessKiller, TeamOffice, choose_seed, shop_options};
use codebutler_testbed::place::TEAM;
use codebutler_testbed::stack::RunningStack;
use codebutler_testbed::stack::outside::StackSurroundings;

const SHARDS: u16 = 3;

/// Kills, lost messages, doubled effects and missing money.
pub(in super::super) async fn measure_sharded() -> anyhow::Result<Vec<MeasuredFigure>> {
    let seed = choose_seed();
    let dir = tempfile::tempdir()?;
    let options = shop_options(dir.path())?;
    let surroundings = StackSurroundings { shards: SHARDS, ..StackSurroundings::default() };
    let mut stack = Box::pin(RunningStack::start_in(options, surroundings)).await?;
    let figures = Box::pin(run_sharded(&mut stack, StdRng::seed_from_u64(seed))).await;
    stack.stop().await?;
    figures.with_context(|| format!("CODEBUTLER_SEED={seed} tries this again"))
}

/// A Repo of each shard: the stack's own, and copies of it with other names and channels.
async fn open_repos(stack: &RunningStack) -> anyhow::Result<Vec<(String, String)>> {
    let repos = Api::<Repo>::namespaced(stack.cluster.client(), TEAM);
    let first = repos.get(&stack.repo).await?;
    let ana = stack.users.get("ana").context("ana")?;
    let shard_of = |name: &str| GatewayShard::of_repo(TEAM, name, SHARDS.into()).index();
    let mut opened = Vec::new();
    for shard in 0..u32::from(SHARDS) {
        if shard_of(&stack.repo) == shard {
            opened.push((stack.repo.clone(), stack.channel.clone()));
            continue;
        }
        let mut names = (0..).map(|n: u32| format!("shop{n}"));
        let name = names.find(|name| shard_of(name) == shard).context("a name")?;
        let channel = stack.slack.create_channel(&name, &[ana.as_str()]);
        let mut repo = first.clone();
        repo.metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
        repo.status = None;
        repo.spec.slack.channel.clone_from(&channel);
        repos.create(&PostParams::default(), &repo).await?;
        opened.push((name, channel));
    }
    for (name, _) in &opened {
        wait_until("a Repo to know its shard", PATIENCE, || async {
            let known = repos.get(name).await?.status.and_then(|status| status.shard);
            Ok((known == Some(shard_of(name))).then_some(()))
        })
        .await?;
    }
    Ok(opened)
}

async fn run_sharded(stack: &mut RunningStack, rng: StdRng) -> anyhow::Result<Vec<MeasuredFigure>> {
    let repos = open_repos(stack).await?;
    let threads = stack.threads();
    let pods = Api::<Pod>::namespaced(stack.cluster.client(), TEAM);
    let killed = AtomicUsize::new(0);
    let ana = stack.users.get("ana").context("ana")?;
    let offices: Vec<TeamOffice<'_>> = repos
        .iter()
        .map(|(repo, channel)| TeamOffice {
            slack: &stack.slack,
            remote: &stack.remote,
            models: &stack.models,
            threads: &threads,
            ana,
            repo,
            channel,
            killed: &killed,
        })
        .collect();
    let trouble = ProcessKiller {
        controller: &mut stack.controller,
        gateways: stack.further_gateways.iter_mut().chain([&mut stack.gateway]).collect(),
        kubelet: stack.kubelet.as_ref().context("a kubelet")?,
        pods,
        threads: &threads,
        killed: &killed,
        rng,
    };
    let desks = try_join_all(offices.iter().enumerate().map(|(desk, office)| office.work(desk)));
    let (done, ()) = tokio::try_join!(desks, trouble.kill())?;
    let all: Vec<&CountedHarm> = done.iter().map(|(_, harm)| harm).collect();
    let lost: usize = all.iter().map(|harm| harm.lost).sum();
    let doubled: usize = all.iter().map(|harm| harm.doubled).sum();
    // The books of one are those of all: they are on the Threads.
    let missing = offices.first().context("an office")?.missing().await?;
    #[allow(clippy::cast_precision_loss)] // handfuls, and less than a dollar
    let figure = |name, value, limit| MeasuredFigure::at_most(name, value as f64, "count", limit);
    #[allow(clippy::cast_precision_loss)]
    let kills = killed.load(Ordering::SeqCst) as f64;
    Ok(vec![
        MeasuredFigure::at_least("shards.kills", kills, "count", 100.0),
        figure("shards.lost_messages", lost as u64, 0.0),
        figure("shards.doubled_effects", doubled as u64, 0.0),
        figure("shards.missing_nano_dollars", missing, 0.0),
    ])
}
