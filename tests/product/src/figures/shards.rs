//! What one leader of the gateways carries, and what three carry: model calls of three Repos, through the one leader of
//! an installation and through the leaders of another one's three shards, in turns. A leader is as much as its process
//! can do. So calls are counted for each second of processor time that the busiest leader has used, on a machine of any
//! size. After that come a hundred kills with three leaders.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use codebutler_runtime::shards::GatewayShard;
use futures::future::{join_all, try_join_all};
use serde_json::json;

use super::proxy::bed::{MODEL, ProxyBed, ShardLeader, repo_name};
use super::proxy::provider::LocalProvider;
use super::{MeasuredFigure, chaos, long_or_short};
use codebutler_testbed::place::TEAM;

const SHARDS: u16 = 3;
/// Repos from which one is taken for each shard.
const REPOS: usize = 4;
/// Turns of each side.
const TURNS: usize = long_or_short(4, 1);
/// Duration of a turn.
const TURN: Duration =
    if cfg!(debug_assertions) { Duration::from_secs(1) } else { Duration::from_secs(4) };
/// Concurrent calls for each Repo.
const BUSY: usize = long_or_short(16, 2);

/// Measures.
///
/// # Errors
/// When the parts don't start, or a call fails.
pub(super) async fn measure_shards() -> anyhow::Result<Vec<MeasuredFigure>> {
    let provider = LocalProvider::start().await?;
    let none = ("https://git.invalid/acme/figures", "none");
    let alone = ProxyBed::start_for(&provider, &[none; REPOS]).await.context("one leader")?;
    let mut shared = ProxyBed::start_for(&provider, &[none; REPOS]).await.context("three")?;
    let leaders = shared.lead_shards(SHARDS).await?;
    let repos = one_of_each_shard()?;
    let (mut with_one, mut with_three) =
        (AnsweredCalls::default(), vec![AnsweredCalls::default(); leaders.len()]);
    for _ in 0..TURNS {
        with_one.add(measure_one(&alone, &repos).await?);
        let turns = leaders.iter().zip(&repos).map(|(leader, repo)| rush(&shared, leader, *repo));
        for (all, own) in with_three.iter_mut().zip(try_join_all(turns).await?) {
            all.add(own);
        }
    }
    for leader in leaders {
        leader.stop().await?;
    }
    shared.stop().await?;
    alone.stop().await?;
    let calls: f64 = with_three.iter().map(|own| own.calls).sum();
    let busiest = with_three.iter().map(|own| own.seconds).fold(0.0, f64::max);
    let one = with_one.calls / with_one.seconds;
    let three = calls / busiest;
    let mut figures = vec![
        MeasuredFigure::at_least("shards.one_carries", one, "1/s", 500.0),
        MeasuredFigure::at_least("shards.three_carry", three / one, "x", 2.6),
    ];
    figures.extend(Box::pin(chaos::measure_sharded()).await?);
    Ok(figures)
}

/// Calls that were answered, and seconds of processor time that they took of a gateway.
#[derive(Clone, Copy, Debug, Default)]
struct AnsweredCalls {
    calls: f64,
    seconds: f64,
}

impl AnsweredCalls {
    fn add(&mut self, more: Self) {
        self.calls += more.calls;
        self.seconds += more.seconds;
    }
}

/// The first Repo of each shard.
fn one_of_each_shard() -> anyhow::Result<Vec<usize>> {
    let shard_of = |repo: usize| GatewayShard::of_repo(TEAM, &repo_name(repo), SHARDS.into());
    let first = |shard: u16| (0..REPOS).find(|repo| shard_of(*repo).index() == u32::from(shard));
    let all: Option<Vec<usize>> = (0..SHARDS).map(first).collect();
    all.context("a shard without a Repo: take more")
}

/// One turn of the leader of all Repos.
async fn measure_one(bed: &ProxyBed, repos: &[usize]) -> anyhow::Result<AnsweredCalls> {
    let before = bed.cpu_seconds()?;
    let client = bed.client()?;
    let calls = repos.iter().map(|repo| call_often(&client, bed, *repo));
    let calls: f64 = try_join_all(calls).await?.iter().sum();
    Ok(AnsweredCalls { calls, seconds: bed.cpu_seconds()? - before })
}

/// One turn of a shard's leader.
async fn rush(bed: &ProxyBed, leader: &ShardLeader, repo: usize) -> anyhow::Result<AnsweredCalls> {
    let before = leader.cpu_seconds()?;
    let calls = call_often(&bed.client_at(leader.address)?, bed, repo).await?;
    Ok(AnsweredCalls { calls, seconds: leader.cpu_seconds()? - before })
}

/// Calls as the pods of a Repo for one turn; the number of calls that were answered.
async fn call_often(client: &reqwest::Client, bed: &ProxyBed, repo: usize) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let url = format!("{}/v1/chat/completions", bed.url());
    let tokens = bed.tokens(repo);
    let callers = (0..BUSY).map(|n| {
        let (client, url, token) = (client.clone(), url.clone(), tokens[n % tokens.len()].clone());
        tokio::spawn(async move {
            let body = json!({
                "model": MODEL, "max_tokens": 100, "stream": false,
                "messages": [{"role": "user", "content": "What does this repository do?"}],
            });
            let mut calls = 0_u32;
            while begun.elapsed() < TURN {
                let answer = client.post(&url).bearer_auth(&token).json(&body).send().await?;
                ensure!(answer.status().is_success(), "{}", answer.text().await?);
                answer.bytes().await?;
                calls += 1;
            }
            anyhow::Ok(calls)
        })
    });
    let mut calls = 0.0;
    for caller in join_all(callers).await {
        calls += f64::from(caller??);
    }
    Ok(calls)
}
