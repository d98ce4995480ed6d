//! Budgets of people and teams: caps that calls side by side can't pass, a warning in time, and who is told what.

use codebutler_crds::spend::CallLimit;
use codebutler_crds::{NanoUsd, Repo};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::Event;
use serde_json::{Value, json};

use super::budget::{CALL, CHAT, ask};
use super::{World, eventually};

/// A Repo with these budgets.
async fn world(budget: &Value) -> World {
    super::budget::world(&json!({"budget": budget})).await
}

async fn asked(world: &World) -> Option<(CallLimit, Option<String>)> {
    let budget = world.thread().await.status.and_then(|status| status.budget)?;
    budget.ask.map(|ask| (ask.limit, ask.of))
}

#[tokio::test]
async fn parallel_calls_cannot_pass_a_persons_budget_and_who_is_over_waits() {
    let people = json!({"default": {"perDay": "1.00", "perMonth": "20"}});
    let world = world(&json!({"people": people, "contacts": ["U0BOSS"]})).await;
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
    eventually("the person's grant is on record before the money is spent", || async {
        let spend = world.spend().await;
        spend.people.get("U0ANA").is_some_and(|ana| ana.granted == reserved)
    })
    .await;
    world.models.release();
    for _ in 0..3 {
        let (status, body) = calls.next().await.unwrap();
        assert_eq!(status, 200, "{body}");
    }
    drop(calls);
    assert_eq!(world.models.billed().total(), reserved);
    eventually("all is charged to the person", || async {
        let ana = world.spend().await.people.remove("U0ANA").unwrap_or_default();
        let money = (ana.day.settled, ana.month.settled, ana.granted);
        money == (reserved, reserved, NanoUsd::ZERO)
    })
    .await;
    let own = Some((CallLimit::PersonPerDay, Some("U0ANA".to_owned())));
    assert_eq!(asked(&world).await, own);
    let messages = world.slack.messages(&world.channel, Some(&world.root));
    let told: Vec<_> = messages.iter().filter(|m| m.text.contains("waits: ")).collect();
    assert_eq!(told.len(), 1, "once, however many calls ran into it");
    let text = &told[0].text;
    for part in [
        "of the budget of <@U0ANA> for today in",
        "It is renewed <!date^",
        "<@U0BOSS> can raise it sooner",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("+$1"), "a button in the thread would undo it: {text}");

    // An administrator raises it: who waits is woken, and goes on.
    let more = json!({"users": [{"user": "U0ANA", "perDay": "1.20"}]});
    let more = json!({"spec": {"limits": {"budget": {"people": more}}}});
    world.cluster.patch::<Repo>(world.cluster.team(), "shop", &more).await;
    eventually("the role is woken", || async {
        let status = world.thread().await.status.unwrap();
        status.pending.iter().any(|p| p.kind == "budget" && p.role == "coder")
    })
    .await;
    assert_eq!(asked(&world).await, None);
    assert_eq!(world.post("coder", CHAT, &ask()).await.0, 200);
    assert_eq!(
        world.post("coder", CHAT, &ask()).await.0,
        402,
        "1.20 is used up to the nano-dollar"
    );
}

#[tokio::test]
async fn a_team_is_warned_once_and_stops_at_what_its_members_have_spent() {
    let team = json!({"name": "payments", "members": ["U0ANA", "U0BEN"], "perMonth": "1.00"});
    let world = world(&json!({"teams": [team], "warnAt": 50})).await;
    // Somebody of the team has spent a part of it in another conversation.
    let day = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    let (day, month) = (day.to_string(), day.strftime("%Y-%m").to_string());
    let ben = json!({"month": {"settled": "0.35"}});
    let spend = json!({"day": day, "month": month, "settled": "0", "people": {"U0BEN": ben}});
    let status = json!({"status": {"spend": spend}});
    world.cluster.patch::<Repo>(world.cluster.team(), "shop", &status).await;
    for expected in [200, 200, 402] {
        let (status, body) = world.post("coder", CHAT, &ask()).await;
        assert_eq!(status, expected, "{body}");
    }
    let of_team = Some((CallLimit::TeamPerMonth, Some("payments".to_owned())));
    assert_eq!(asked(&world).await, of_team);
    let near = "$0.65 of $1.00 of the budget of team `payments` for this month in `shop` is used.";
    eventually("the thread is warned", || async { world.told(near) == 1 }).await;
    assert_eq!(world.told("is used."), 1);
    assert_eq!(world.told("An administrator of the cluster can raise it sooner"), 1);
    eventually("an event says so", || async {
        let events = world.cluster.api::<Event>(world.cluster.team());
        let events = events.list(&kube::api::ListParams::default()).await.unwrap();
        events.items.iter().any(|event| event.reason.as_deref() == Some("BudgetNear"))
    })
    .await;
    let metrics = world.metrics().await;
    for line in [
        r#"codebutler_budget_warnings_total{repo="team/shop",limit="teamPerMonth"} 1"#,
        r#"codebutler_limit_exceeded_total{repo="team/shop",limit="teamPerMonth"} 1"#,
    ] {
        let line = line.replace("team/shop", &format!("{}/shop", world.cluster.team()));
        assert!(metrics.lines().any(|l| l == line), "{line}: {metrics}");
    }
}

#[tokio::test]
async fn a_budget_that_makes_no_sense_is_refused_with_a_sentence() {
    let world = world(&json!({})).await;
    let repos = world.cluster.api::<Repo>(world.cluster.team());
    let team = |more: Value| {
        let mut team = json!({"name": "payments", "members": ["U0ANA"]});
        team.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"teams": [team]})
    };
    for (budget, expected) in [
        (
            json!({"people": {"default": {"perDay": "10", "perMonth": "9.99"}}}),
            "perDay is more than perMonth",
        ),
        (json!({"people": {"users": [{"user": "ana", "perDay": "1"}]}}), "users[0].user"),
        (json!({"people": {"users": [{"user": "U0ANA"}, {"user": "U0ANA"}]}}), "Duplicate value"),
        (json!({"people": {"default": {"perDay": "ten"}}}), "perDay"),
        (team(json!({})), "a team's budget has perDay, perMonth, or both"),
        (team(json!({"perDay": "100", "perMonth": "20"})), "perDay is more than perMonth"),
        (team(json!({"perDay": "1", "name": "Pay ments"})), "teams[0].name"),
        (team(json!({"perDay": "1", "members": []})), "teams[0].members"),
    ] {
        let patch = json!({"spec": {"limits": {"budget": budget}}});
        let patch = kube::api::Patch::Merge(&patch);
        let refused = repos.patch("shop", &kube::api::PatchParams::default(), &patch).await;
        let kube::Error::Api(refused) = refused.unwrap_err() else { panic!("{budget}") };
        assert_eq!(refused.code, 422, "{budget}: {}", refused.message);
        assert!(refused.message.contains(expected), "{expected}: {}", refused.message);
    }
}
