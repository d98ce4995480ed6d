//! The gateway killed in the middle of an answer: who takes over asks the provider what it cost.

use std::time::Duration;

use codebutler_crds::NanoUsd;
use codebutler_gateway_core::metrics::GatewayMetrics;
use codebutler_models::settle;
use codebutler_runtime::metrics::{MetricsServer, ReadyFlag, build_registry};
use codebutler_testbed::models::{ModelScript, ScriptStep};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::crash::Holder;
use super::{World, eventually};

/// Estimate of the call.
const CALL: NanoUsd = NanoUsd(300_000_000);
/// Billed price of the call, to the nano-dollar.
const BILLED: &str = "0.123456789";

#[derive(Debug, PartialEq, Eq)]
struct Money {
    settled: NanoUsd,
    flagged: NanoUsd,
    granted: NanoUsd,
    open: Vec<String>,
}

impl World {
    /// Accounts of the Thread, and of the Repo's day.
    async fn money(&self) -> [Money; 2] {
        let status = self.thread().await.status.unwrap();
        let budget = status.budget.unwrap_or_default();
        let spend = self.repo().await.status.and_then(|status| status.spend).unwrap_or_default();
        [
            Money {
                settled: status.cost.unwrap_or_default(),
                flagged: budget.flagged,
                granted: budget.granted,
                open: budget.open.into_keys().collect(),
            },
            Money {
                settled: spend.settled,
                flagged: spend.flagged,
                granted: spend.granted,
                open: spend.open.into_keys().collect(),
            },
        ]
    }

    /// A holder dies in the middle of an answer that the provider bills.
    async fn dies_in_an_answer(&self, stream: bool) {
        self.models.hold_midway();
        let mut holder = Holder::start(self, None).await;
        let watching = async {
            self.models.held_midway().await;
            eventually("the call is on record", || async {
                self.money().await.iter().all(|money| money.open.len() == 1)
            })
            .await;
        };
        let watched = tokio::select! {
            () = watching => true,
            _ = holder.call(self, stream) => false,
        };
        assert!(watched, "{}", self.log());
        holder.child.kill().await.unwrap();
    }
}

async fn world(per_thread: &str) -> World {
    let script = ModelScript::of(
        "coder",
        vec![ScriptStep::say("one two three four").costing(12, 8, BILLED)],
    );
    let prices = json!({"scripted/coder": {"completion": "300"}});
    let limits = json!({"budget": {"perThread": per_thread, "perDay": "50"}});
    let spec = json!({"model": {"prices": prices}, "limits": limits});
    World::play(script, &spec, &json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_holder_left_of_a_stream_is_settled_as_the_provider_billed_it() {
    left_behind(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_holder_left_of_a_whole_answer_is_settled_too() {
    left_behind(false).await;
}

async fn left_behind(stream: bool) {
    let world = world("5").await;
    world.dies_in_an_answer(stream).await;
    let [thread, repo] = world.money().await;
    assert_eq!((thread.settled, thread.granted), (NanoUsd::ZERO, CALL));
    assert_eq!((&thread.open, repo.granted), (&repo.open, CALL));

    // Its successors die as well, before and after each write.
    let nothing = |settled| Money {
        settled,
        flagged: NanoUsd::ZERO,
        granted: NanoUsd::ZERO,
        open: Vec::new(),
    };
    let billed = world.models.billed().total();
    assert_eq!(billed, BILLED.parse().unwrap());
    let done = || async { world.money().await == [nothing(billed), nothing(billed)] };
    let mut deaths = 0;
    for step in 1.. {
        assert!(step < 10, "nobody settles it: {:?} {}", world.money().await, world.log());
        let mut holder = Holder::start(&world, Some(step)).await;
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        while holder.child.try_wait().unwrap().is_none() && !done().await {
            assert!(tokio::time::Instant::now() < deadline, "{}", world.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        for money in world.money().await {
            let rest = if money.settled == billed { NanoUsd::ZERO } else { CALL };
            assert_eq!(money.flagged, rest, "{step}: {}", world.log());
        }
        let lived = holder.stop().await;
        deaths += u32::from(!lived);
        if lived && done().await {
            break;
        }
    }
    assert!(deaths >= 2, "{deaths} deaths: {}", world.log());
    let usage = world.thread().await.status.unwrap().roles["coder"].usage;
    assert_eq!((usage.calls, usage.cost), (1, billed));
    assert_eq!((usage.prompt_tokens, usage.completion_tokens), (12, 8));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_provider_tells_stays_flagged_and_is_said() {
    let world = world("0.50").await;
    world.models.keep_costs_secret();
    world.dies_in_an_answer(true).await;

    let stop = CancellationToken::new();
    let mut families = build_registry();
    let counted = GatewayMetrics::register(&mut families);
    let any = "127.0.0.1:0".parse().unwrap();
    let metrics = MetricsServer::start(any, families, ReadyFlag::default()).unwrap();
    let cache = world.dir.path().join("cache");
    let heir = super::gateway(&world.cluster, cache, &world.slack, counted, &stop).await;
    heir.work.ledger.inherit().await;
    let settling = std::sync::Arc::clone(&heir.models);
    tokio::spawn(async move { settle::run_settling(&settling, Duration::from_secs(2)).await });
    eventually("the provider is given up", || async {
        world.money().await.iter().all(|money| money.open.is_empty())
    })
    .await;
    for money in world.money().await {
        assert_eq!((money.settled, money.flagged), (NanoUsd::ZERO, CALL));
    }
    let page = format!("http://{}/metrics", metrics.address());
    let page = world.http.get(page).send().await.unwrap().text().await.unwrap();
    let repo = format!("{}/shop", world.cluster.team());
    let line = format!(r#"codebutler_calls_unknown_total{{repo="{repo}"}} 1"#);
    assert!(page.contains(&line), "{page}");

    // The thread hears of it with its costs.
    let url = super::serve(heir).await;
    let body = json!({
        "model": "scripted/coder", "max_tokens": 1000,
        "messages": [{"role": "user", "content": "x"}],
    });
    let call = world.http.post(format!("{url}/v1/chat/completions")).json(&body);
    let (status, answer) = super::answer(call.bearer_auth(world.token("coder"))).await;
    assert_eq!(status, 402, "{answer}");
    assert_eq!(
        world.told("Up to $0.30 more for calls whose cost the provider has not reported"),
        1
    );
    drop(stop);
}
