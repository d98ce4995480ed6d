//! The gateway killed at every step of calls that run side by side while the budget is nearly spent:
//! whatever happens, and whoever takes over, the cap holds.

use codebutler_crds::NanoUsd;
use codebutler_testbed::models::{ModelScript, ScriptStep};
use serde_json::json;

use super::World;
use super::crash::Holder;

/// Estimate and price of each call.
const CALL: NanoUsd = NanoUsd(300_000_000);
/// Two calls are left of the cap of a dollar.
const LEFT: NanoUsd = NanoUsd(2 * CALL.0);
const SPENT: &str = "0.35";
const AT_ONCE: usize = 4;
/// More than such calls pass: a walk that goes on for longer never ends.
const MOST: u64 = 80;

impl World {
    /// Sets the account as if all earlier calls had come to this, and nothing were open. No gateway runs.
    async fn has_spent(&self, amount: &str) {
        let usage = json!({"cost": amount, "promptTokens": 1, "completionTokens": 1, "calls": 1});
        let status = json!({"cost": amount, "budget": null, "roles": {"coder": {"usage": usage}}});
        self.patch_thread(&json!({"status": status})).await;
        let none = json!({"status": {"spend": null}});
        self.cluster.patch::<codebutler_crds::Repo>(self.cluster.team(), "shop", &none).await;
    }

    /// Settled, and granted or flagged, of the Thread.
    async fn on_record(&self) -> (NanoUsd, NanoUsd) {
        let status = self.thread().await.status.unwrap();
        let budget = status.budget.unwrap_or_default();
        (status.cost.unwrap_or_default(), budget.granted + budget.flagged)
    }
}

async fn asks(holder: &Holder, world: &World) -> Vec<Option<u16>> {
    let calls = (0..AT_ONCE).map(|_| holder.ask(world));
    futures::future::join_all(calls).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cap_holds_whenever_the_holder_dies_with_calls_side_by_side() {
    let script = ModelScript::of("coder", vec![ScriptStep::say("one").costing(10, 10, "0.3")]);
    let prices = json!({"scripted/coder": {"completion": "300"}});
    let limits = json!({"budget": {"perThread": "1.00", "perDay": "50"}});
    let spec = json!({"model": {"prices": prices}, "limits": limits});
    let world = World::play(script, &spec, &json!({})).await;
    let spent: NanoUsd = SPENT.parse().unwrap();
    let (mut kills, mut step) = (0, 0);
    loop {
        step += 1;
        assert!(step < MOST, "it never lives: {}", world.log());
        world.has_spent(SPENT).await;
        let before = world.models.billed().total();
        let billed = || world.models.billed().total().less(before);
        let mut first = Holder::start(&world, Some(step)).await;
        let answers = asks(&first, &world).await;
        first.rests(&world).await;
        let lived = first.stop().await;
        kills += u64::from(!lived);
        assert!(billed() <= LEFT, "{step}: past the cap before anybody took over");
        let (settled, open) = world.on_record().await;
        assert!(settled <= spent + billed() && spent + billed() <= settled + open, "{step}");

        // A replica that takes over lets through no more than what is left for certain.
        let second = Holder::start(&world, None).await;
        let later = asks(&second, &world).await;
        assert!(second.stop().await, "{}", world.log());
        assert!(billed() <= LEFT, "{step}: past the cap after a takeover: {answers:?} {later:?}");
        let (settled, open) = world.on_record().await;
        assert!(settled <= spent + billed() && spent + billed() <= settled + open, "{step}");
        if lived && answers.iter().all(Option::is_some) {
            let served = answers.iter().filter(|status| **status == Some(200)).count();
            let refused = answers.iter().filter(|status| **status == Some(402)).count();
            assert_eq!((served, refused), (2, AT_ONCE - 2), "{answers:?}");
            break;
        }
    }
    assert!(kills >= 8, "{kills} steps of calls side by side");
}
