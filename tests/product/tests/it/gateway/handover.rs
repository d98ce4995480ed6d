//! Two gateways of which one is told to stop in the middle of answers: it serves them to their end
//! while the other one keeps the books, and whoever dies when, every dollar is accounted for once.

use codebutler_crds::spend::LeavingGateway;
use codebutler_crds::{NanoUsd, Repo};
use codebutler_testbed::models::{ModelScript, ScriptStep};
use futures::future::join_all;
use serde_json::json;

use super::crash::{Holder, answer_at};
use super::replicas::{LEASE, PODS, is_candidate};
use super::{World, eventually};

/// Billed price of the call, to the nano-dollar.
const BILLED: &str = "0.123456789";
/// More than a hand-over passes: a walk that goes on for longer never ends.
const MOST: u64 = 40;

/// Amounts in an account.
#[derive(Debug, Default, PartialEq, Eq)]
struct Books {
    settled: NanoUsd,
    granted: NanoUsd,
    flagged: NanoUsd,
    leaving: Vec<LeavingGateway>,
}

impl Books {
    /// Sum of what is settled in any part of the account.
    fn known(&self) -> NanoUsd {
        self.settled + self.leaving.iter().map(|own| own.settled).sum()
    }

    /// Amount that counts as spent.
    fn spent(&self) -> NanoUsd {
        self.known()
            + self.granted
            + self.flagged
            + self.leaving.iter().map(|own| own.granted).sum()
    }
}

impl World {
    /// Starts a world with a coder's call that costs other than it is estimated at.
    async fn that_bills() -> Self {
        let say = ScriptStep::say("one two three four").costing(12, 8, BILLED);
        let prices = json!({"scripted/coder": {"completion": "300"}});
        let spec = json!({"model": {"prices": prices}});
        Self::play(ModelScript::of("coder", vec![say]), &spec, &json!({})).await
    }

    /// The Thread's account and the Repo's.
    async fn both_books(&self) -> [Books; 2] {
        let status = self.thread().await.status.unwrap_or_default();
        let budget = status.budget.unwrap_or_default();
        let spend = self.repo().await.status.and_then(|status| status.spend).unwrap_or_default();
        [
            Books {
                settled: status.cost.unwrap_or_default(),
                granted: budget.granted,
                flagged: budget.flagged,
                leaving: budget.leaving.into_values().collect(),
            },
            Books {
                settled: spend.settled,
                granted: spend.granted,
                flagged: spend.flagged,
                leaving: spend.leaving.into_values().collect(),
            },
        ]
    }

    /// True if exactly what was billed since then is settled, and nothing else.
    async fn is_settled(&self, since: NanoUsd) -> bool {
        let billed = self.models.billed().total().less(since);
        let whole = Books { settled: billed, ..Books::default() };
        self.both_books().await.iter().all(|own| *own == whole)
    }

    /// Nothing that was billed since then is missing, and nothing is settled that was not.
    async fn accounts_for_all(&self, since: NanoUsd, when: &str) {
        let billed = self.models.billed().total().less(since);
        for own in self.both_books().await {
            let right = own.known() <= billed && billed <= own.spent();
            assert!(right, "{when}: {billed} of {own:?}\n{}", self.log());
        }
    }

    async fn clear_books(&self) {
        let nothing =
            json!({"status": {"cost": null, "budget": null, "roles": {"coder": {"usage": null}}}});
        self.patch_thread(&nothing).await;
        let nothing = json!({"status": {"spend": null}});
        self.cluster.patch::<Repo>(self.cluster.team(), "shop", &nothing).await;
    }

    /// Tells a gateway to stop in the middle of an answer, and lets that go on when it is in another
    /// one's books; answers with what status it came, if it did, and whether the gateway lived.
    async fn hands_over(&self, mut holder: Holder) -> (Option<u16>, bool) {
        let answer = answer_at(self, holder.address, true);
        tokio::pin!(answer);
        tokio::select! {
            // Refused before it came to the model: nothing would ever wait there.
            early = &mut answer => {
                return (early.map(|(status, _)| status), holder.stop().await);
            }
            () = self.models.held_midway() => {}
            _ = holder.child.wait() => {}
        }
        let (answered, ()) = tokio::join!(answer, async {
            holder.tell_to_stop();
            let apart = eventually("what is under way is apart", || async {
                self.both_books().await.iter().all(|own| own.leaving.len() == 1)
            });
            tokio::select! {
                () = apart => {}
                _ = holder.child.wait() => {}
            }
            self.models.release_midway();
        });
        (answered.map(|(status, _)| status), holder.stop().await)
    }
}

/// Answers that are under way when a gateway is told to stop.
const STREAMS: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn a_hand_over_cuts_no_answer_and_pays_for_none_twice() {
    let price = NanoUsd(300_000_000);
    let world = World::start(vec![ScriptStep::say("one two three").costing(10, 10, "0.3")]).await;
    let mut first = Holder::spawn(&world, PODS[0], None, LEASE).await;
    assert!(first.serves().await, "{}", world.log());
    let mut second = Holder::spawn(&world, PODS[1], None, LEASE).await;
    eventually("the second one is a candidate", || async { is_candidate(&second).await }).await;
    world.models.hold_midway();
    let streams = (0..STREAMS).map(|_| first.answer(&world, true));
    let (answers, ()) = tokio::join!(join_all(streams), async {
        world.models.all_held_midway(STREAMS).await;
        first.tell_to_stop();
        assert!(second.serves().await, "{}", world.log());
        world.marks_only(PODS[1]).await;
        eventually("what is under way is apart, by its ids", || async {
            let leaving = world.granted().await.leaving;
            leaving.values().any(|own| own.granted > NanoUsd::ZERO && own.open.len() == STREAMS)
        })
        .await;
        // It keeps the books, and counts what is under way elsewhere.
        let (new, ()) = tokio::join!(second.answer(&world, true), async {
            world.models.all_held_midway(STREAMS + 1).await;
            assert!(world.granted().await.holder.is_some(), "{}", world.log());
            world.models.release_midway();
        });
        assert_eq!(new.map(|(status, _)| status), Some(200), "{}", world.log());
    });
    for answer in answers {
        let (status, body) = answer.expect("an answer is cut");
        let body = String::from_utf8_lossy(&body);
        assert!(status == 200 && body.ends_with("data: [DONE]\n\n"), "{status} {body}");
    }
    assert!(first.stop().await, "{}", world.log());
    let all = NanoUsd(price.0 * (u64::try_from(STREAMS).unwrap() + 1));
    assert_eq!(world.models.billed().total(), all);
    eventually("all is settled once", || world.is_settled(NanoUsd::ZERO)).await;
    let usage = world.thread().await.status.unwrap().roles["coder"].usage;
    assert_eq!((usage.calls, usage.cost), (u64::try_from(STREAMS).unwrap() + 1, all));
    assert!(second.stop().await, "{}", world.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_hands_over_dies_at_every_step_and_every_dollar_is_accounted_for() {
    let world = World::that_bills().await;
    let (mut kills, mut step) = (0, 0);
    loop {
        step += 1;
        assert!(step < MOST, "it never lives: {}", world.log());
        world.clear_books().await;
        world.models.hold_midway();
        let before = world.models.billed().total();
        let holder = Holder::start(&world, Some(step)).await;
        let (answered, lived) = world.hands_over(holder).await;
        kills += u64::from(!lived);
        world.accounts_for_all(before, &format!("dead at {step}")).await;

        let next = Holder::start(&world, None).await;
        eventually("grants of the dead are flagged", || async {
            world.both_books().await.iter().all(|own| own.granted == NanoUsd::ZERO)
        })
        .await;
        world.accounts_for_all(before, &format!("after the death at {step}")).await;
        if lived {
            assert_eq!(answered, Some(200), "step {step}: {}", world.log());
            eventually("all is settled", || world.is_settled(before)).await;
        }
        assert!(next.stop().await, "{}", world.log());
        if lived {
            break;
        }
    }
    assert!(kills >= 4, "{kills} steps of a hand-over");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_takes_over_dies_at_every_step_and_takes_each_account_in_once() {
    let world = World::that_bills().await;
    world.models.hold_midway();
    let holder = Holder::start(&world, None).await;
    assert_eq!(world.hands_over(holder).await, (Some(200), true), "{}", world.log());
    let final_ones = world.both_books().await;
    let nobody_took = final_ones.iter().all(|own| {
        own.settled == NanoUsd::ZERO && own.leaving.iter().all(|entry| entry.seconds == 0)
    });
    assert!(nobody_took, "{final_ones:?}");

    let (mut kills, mut step) = (0, 0);
    loop {
        step += 1;
        assert!(step < MOST, "it never lives: {}", world.log());
        let mut next = Holder::start(&world, Some(step)).await;
        let settled = eventually("all is settled", || world.is_settled(NanoUsd::ZERO));
        tokio::select! {
            () = settled => {}
            _ = next.child.wait() => {}
        }
        let lived = next.stop().await;
        kills += u64::from(!lived);
        world.accounts_for_all(NanoUsd::ZERO, &format!("dead at {step}")).await;
        if lived {
            break;
        }
    }
    assert!(kills >= 2, "{kills} steps of a take-over");
    assert!(world.is_settled(NanoUsd::ZERO).await, "{}", world.log());
    assert_eq!(world.thread().await.status.unwrap().roles["coder"].usage.calls, 1);
}
