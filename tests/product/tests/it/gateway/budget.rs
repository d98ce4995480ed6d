//! Caps, hours, warnings, and what people are asked.

use codebutler_crds::spend::{CallLimit, RepoSpend, ThreadBudget};
use codebutler_crds::{NanoUsd, Repo};
use codebutler_testbed::models::{ModelScript, ScriptStep};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use serde_json::{Value, json};

use super::{World, eventually};

pub(super) const CHAT: &str = "/v1/chat/completions";
/// Estimate and bill of each call.
pub(super) const CALL: NanoUsd = NanoUsd(300_000_000);

/// Estimated at exactly [`CALL`]: the prompt is free.
pub(super) fn ask() -> Value {
    let messages = json!([{"role": "user", "content": "x"}]);
    json!({"model": "scripted/coder", "messages": messages, "max_tokens": 1000})
}

pub(super) async fn world(limits: &Value) -> World {
    let script = ModelScript::of("coder", vec![ScriptStep::say("one").costing(10, 10, "0.3")]);
    let prices = json!({"scripted/coder": {"completion": "300"}});
    let spec = json!({"limits": limits, "model": {"prices": prices}});
    World::play(script, &spec, &json!({})).await
}

impl World {
    async fn budget(&self) -> ThreadBudget {
        *self.thread().await.status.and_then(|status| status.budget).unwrap_or_default()
    }

    pub(super) async fn spend(&self) -> RepoSpend {
        self.repo().await.status.and_then(|status| status.spend).unwrap_or_default()
    }

    pub(super) fn told(&self, what: &str) -> usize {
        let messages = self.slack.messages(&self.channel, Some(&self.root));
        messages.iter().filter(|message| message.text.contains(what)).count()
    }
}

#[tokio::test]
async fn parallel_calls_cannot_pass_a_cap_together_and_the_thread_is_asked_once() {
    let world = world(&json!({"budget": {"perThread": "1.00", "perDay": "50"}})).await;
    world.models.hold();
    let body = ask();
    let mut calls: FuturesUnordered<_> = (0..8).map(|_| world.post("coder", CHAT, &body)).collect();
    // Three fit; the others are refused while those are under way.
    for _ in 0..5 {
        let (status, body) = calls.next().await.unwrap();
        assert_eq!((status, &body["error"]["code"]), (402, &json!("budget_exceeded")), "{body}");
    }
    world.models.held().await;
    let reserved = NanoUsd(3 * CALL.0);
    eventually("the grants are on record before the money is spent", || async {
        let (budget, spend) = (world.budget().await, world.spend().await);
        budget.granted >= reserved && spend.granted >= reserved && budget.holder == spend.holder
    })
    .await;
    world.models.release();
    for _ in 0..3 {
        let (status, body) = calls.next().await.unwrap();
        assert_eq!(status, 200, "{body}");
    }
    drop(calls);
    assert_eq!(world.models.billed().total(), reserved);
    eventually("everything is settled and nothing granted any more", || async {
        let (thread, spend) = (world.thread().await.status.unwrap(), world.spend().await);
        let budget = thread.budget.unwrap_or_default();
        thread.cost == Some(reserved)
            && spend.settled == reserved
            && (budget.granted, spend.granted) == (NanoUsd::ZERO, NanoUsd::ZERO)
            && (budget.holder, budget.flagged) == (None, NanoUsd::ZERO)
    })
    .await;
    let asked = world.budget().await.ask.unwrap();
    assert_eq!((asked.limit, asked.cap), (CallLimit::PerThread, Some(NanoUsd(1_000_000_000))));
    assert_eq!((asked.roles, world.told("waits: ")), (vec!["coder".to_owned()], 1));

    // A person changes the Repo: who waits is woken, and goes on.
    let more = json!({"spec": {"limits": {"budget": {"perThread": "2.00"}}}});
    world.cluster.patch::<Repo>(world.cluster.team(), "shop", &more).await;
    eventually("the role is woken", || async {
        let status = world.thread().await.status.unwrap();
        let woken = status.pending.iter().any(|p| p.kind == "budget" && p.role == "coder");
        woken && status.budget.unwrap_or_default().ask.is_none()
    })
    .await;
    let (status, body) = world.post("coder", CHAT, &ask()).await;
    assert_eq!(status, 200, "{body}");
}

#[tokio::test]
async fn a_cap_that_comes_near_is_told_once() {
    let world = world(&json!({"budget": {"perThread": "1.00", "warnAt": 50}})).await;
    for _ in 0..3 {
        assert_eq!(world.post("coder", CHAT, &ask()).await.0, 200);
    }
    eventually("the thread is told", || async { world.told("$0.60 of $1.00 of this") == 1 }).await;
    assert_eq!(world.told("of this thread's budget is used"), 1);
}

#[tokio::test]
async fn calls_of_an_hour_run_out_for_the_repo_and_for_a_person() {
    let limits = json!({"callsPerHour": 3, "callsPerUserPerHour": 2});
    let world = world(&limits).await;
    // The user who started the thread pays until somebody else speaks.
    for expected in [200, 200, 402] {
        let (status, body) = world.post("coder", CHAT, &ask()).await;
        assert_eq!(status, expected, "{body}");
    }
    let mut answers = vec![world.budget().await.ask.unwrap()];
    world.patch_thread(&json!({"status": {"speaker": "U2"}})).await;
    eventually("another person has the Repo's last call", || async {
        world.post("coder", CHAT, &ask()).await.0 == 200
    })
    .await;
    let (status, body) = world.post("coder", CHAT, &ask()).await;
    assert_eq!(status, 402, "{body}");
    assert_eq!(world.models.requests().len(), 3);
    answers.push(world.budget().await.ask.unwrap());
    let limits: Vec<_> = answers.iter().map(|ask| ask.limit).collect();
    assert_eq!(limits, [CallLimit::CallsPerUserPerHour, CallLimit::CallsPerHour]);
    assert!(answers.iter().all(|ask| ask.until.is_some() && ask.cap.is_none()));
}
