//! A roadmap is worked off by the harness: items become threads, approved criteria are approved plans, what
//! waits begins with a merge, and people see all of it in one message.

use codebutler_crds::Thread;
use codebutler_testbed::models::{Conversation, RoleScript, Script, Step, Text};
use codebutler_testbed::slack::MessageView;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use crate::support::{Setup, Team, asks};

const PATH: &str = ".codebutler/roadmap.md";
const ROADMAP: &str = "# Roadmap: shop\n\n## 1. Cents\n- Status: pending\n- Acceptance criteria: the price is 10 cents\n\n\
    ## 2. Currency\n- Status: pending\n- Acceptance criteria: the price names its currency\n\n\
    ## 3. Tax\n- Status: pending\n- Depends on: 1\n- Acceptance criteria: the price has its tax\n\n\
    ## 5. Shipping\n- Depends on: 9\n- Acceptance criteria: it is shipped\n";

fn talk(item: &str, steps: Vec<Step>) -> Conversation {
    Conversation { thread: Some(Text::Contains(format!("Implement item `{item}`"))), steps }
}

fn script() -> Script {
    let plan = |words: &str| asks(words, "plan");
    let question = json!({"message": "Which currency?", "waitForReply": true});
    let pm = vec![
        talk("1", vec![plan("Plan: ten cents.")]),
        talk("2", vec![Step::tool("SendMessage", question), plan("Plan: euros.")]),
        talk("3", vec![plan("Plan: tax.")]),
    ];
    let done = ROADMAP.replacen("Status: pending", "Status: done", 1);
    let coder = vec![
        Step::tool("Write", json!({"path": "src/price.txt", "content": "price = 10\n"})),
        Step::tool("Write", json!({"path": PATH, "content": done})),
        Step::tool("GitCommit", json!({"message": "Write cents"})),
        Step::tool("GitPush", json!({})),
        Step::tool("GHCreatePR", json!({"title": "Write cents", "body": "As planned."})),
        Step::say("@codebutler.lead done"),
    ];
    let lead =
        vec![asks("Merge?", "merge"), Step::tool("CloseThread", json!({"summary": "Cents."}))];
    let mut script = Script::default();
    script.0.insert("pm".to_owned(), RoleScript { conversations: pm });
    let only = |steps| RoleScript { conversations: vec![talk("1", steps)] };
    script.0.insert("coder".to_owned(), only(coder));
    script.0.insert("lead".to_owned(), only(lead));
    script
}

fn click(team: &Team, message: &MessageView, action: &str) {
    let (ana, channel) = (&team.stack.users["ana"], &team.stack.channel);
    team.stack.slack.click(ana, channel, &message.ts, action).unwrap();
}

/// The Threads of an item.
async fn of_item(team: &Team, item: &str) -> Vec<Thread> {
    let all = team.stack.threads().list(&ListParams::default()).await.unwrap();
    all.items.into_iter().filter(|thread| thread.spec.item.as_deref() == Some(item)).collect()
}

/// The conversation of an item, once there is one.
async fn conversation(team: &Team, item: &str) -> String {
    team.until(&format!("a conversation about {item}"), || async {
        let threads = of_item(team, item).await;
        threads.first().and_then(|thread| Some(thread.conversation()?.ts.to_string()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_roadmap_is_worked_off_within_what_people_approved() {
    let team = Setup::new(script()).file(PATH, ROADMAP).start().await;
    let root = team.says("ana", None, "develop everything for $20");
    let asked = team.message(&root, "Develop the roadmap: 3 items").await;
    for part in [
        "`1` Cents",
        "`3` Tax, after `1`",
        "$20.00",
        "item 5 depends on 9, which is not in the file",
    ] {
        assert!(asked.shown.contains(part), "{part}: {}", asked.shown);
    }
    assert!(of_item(&team, "1").await.is_empty(), "nobody has said yes");
    team.says("ana", Some(&root), "yes");
    team.until("the question to be settled", || async {
        let all = team.messages(&root);
        all.into_iter().find(|m| m.ts == asked.ts && m.shown.contains("Started by")).map(drop)
    })
    .await;

    // Its plan needs no second yes; and whoever built it has its commit say who gave the first.
    let first = conversation(&team, "1").await;
    team.message(&first, "a plan within them counts as approved").await;
    let ready = team.message(&first, "Merge?").await;
    let thread = of_item(&team, "1").await.remove(0);
    let ana = team.stack.users["ana"].clone();
    let status = thread.status.clone().unwrap();
    assert_eq!(status.plan.unwrap().approved_by.as_ref(), Some(&ana));
    let parent = team.thread(&root).await.name_any();
    assert_eq!(
        (thread.spec.parent.as_ref(), thread.spec.requested_by.as_ref()),
        (Some(&parent), Some(&ana))
    );

    // What waits for people is told, and keeps nobody else.
    let second = conversation(&team, "2").await;
    team.message(&second, "Which currency?").await;
    let blocked = team.message(&root, "`2` Currency is blocked").await;
    assert!(blocked.shown.contains("All others go on"), "{}", blocked.shown);
    let board = team.message(&root, "Roadmap: 0 of 3 merged").await;
    let shows = |part: &'static str| {
        let ts = board.ts.clone();
        let (team, root) = (&team, &root);
        async move {
            team.until(part, || async {
                let all = team.messages(root);
                all.into_iter().find(|m| m.ts == ts && m.shown.contains(part)).map(drop)
            })
            .await;
        }
    };
    shows("`1` Cents: ready, waits for you to merge it, PR #1").await;
    shows("`3` Tax: waits for `1`").await;
    assert!(of_item(&team, "3").await.is_empty(), "ready is not done");

    // A second conversation is told where the first one is.
    let other = team.says("ben", None, "develop everything");
    team.message(&other, &format!("another conversation already (Thread `{parent}`)")).await;

    click(&team, &ready, "merge:merge");
    let third = conversation(&team, "3").await;
    team.message(&third, "a plan within them counts as approved").await;
    shows("Roadmap: 1 of 3 merged").await;
    let roadmap = team.stack.remote.show("main", PATH).await.unwrap();
    assert!(roadmap.contains("## 1. Cents\n- Status: done"), "{roadmap}");

    // The same as a page, for whoever has no Slack at hand.
    let pages = team.stack.metrics.pages.unwrap();
    let address = format!("http://{pages}/{}/{parent}", team.stack.place.team);
    let fetch = |address: String| async { reqwest::get(address).await.unwrap().text().await };
    let page = team
        .until("the roadmap's page", || async {
            let page = fetch(format!("{address}/roadmap")).await.unwrap();
            page.contains("1 of 3 merged").then_some(page)
        })
        .await;
    for part in ["of $20.00 spent", "<b>2</b> Currency", "a question in its thread waits", "#1<"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let cost = of_item(&team, "1").await.remove(0).status.unwrap().cost.unwrap();
    assert!(page.contains(&format!("<td class=\"n\">{cost}</td>")), "{cost}: {page}");
    let whole = fetch(address).await.unwrap();
    assert!(
        whole.contains("Roadmap: 1 of 3 merged") && whole.contains("item 1: merged"),
        "{whole}"
    );
    let list = fetch(format!("http://{pages}/")).await.unwrap();
    assert!(list.contains("roadmap: 1 of 3"), "{list}");

    // Where a person speaks, a person approves.
    team.says("ben", Some(&second), "Euros.");
    let plan = team.message(&second, "Plan: euros.").await;
    let plan_of = || async { of_item(&team, "2").await.remove(0).status?.plan };
    // It is recorded after it is posted.
    let open = team.until("the plan to be asked about", plan_of).await;
    assert_eq!(open.ts.as_str(), plan.ts.as_str());
    shows("`2` Currency: blocked: a question in its thread waits for an answer").await;

    // Stop: what runs goes on, and nothing begins.
    team.says("ana", Some(&root), "stop");
    shows("Stopped: nothing more is started").await;
    assert_eq!(plan_of().await.unwrap().approved_by, None, "a person's to approve");
    for item in ["1", "2", "3"] {
        assert_eq!(of_item(&team, item).await.len(), 1, "{item}");
    }
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn items_of_a_deleted_conversation_are_told_and_keep_to_its_budget() {
    let question = json!({"message": "Which price?", "waitForReply": true});
    let pm = vec![Step::tool("SendMessage", question), asks("Plan: ten cents.", "plan")];
    let coder = vec![
        Step::tool("Write", json!({"path": "src/price.txt", "content": "price = 10\n"}))
            .costing(1000, 100, "1.2"),
        Step::say("@codebutler.lead done"),
    ];
    let mut script = Script::default();
    let only = |steps| RoleScript { conversations: vec![talk("1", steps)] };
    script.0.insert("pm".to_owned(), only(pm));
    script.0.insert("coder".to_owned(), only(coder));
    let page = ROADMAP.split("## 2.").next().unwrap().to_owned()
        + "## 3. Tax\n- Status: pending\n- Depends on: 1\n\
        - Acceptance criteria: the price has its tax\n";
    let team = Setup::new(script).file(PATH, &page).start().await;
    let root = team.says("ana", None, "develop everything for $1");
    let asked = team.message(&root, "Develop the roadmap: 2 items").await;
    click(&team, &asked, "roadmap:start");
    let first = conversation(&team, "1").await;
    team.message(&first, "Which price?").await;
    let parent = team.thread(&root).await.name_any();
    team.stack.threads().delete(&parent, &DeleteParams::default()).await.unwrap();
    let told = team.message(&first, "The conversation that this belongs to is gone").await;
    for part in
        [parent.as_str(), "all its items may still cost $1.00 together", "develop everything"]
    {
        assert!(told.shown.contains(part), "{part}: {}", told.shown);
    }
    // Nobody but a person approves now, and the budget is the one that was agreed.
    team.says("ben", Some(&first), "Ten cents.");
    let plan = team.message(&first, "Plan: ten cents.").await;
    click(&team, &plan, "plan:approve");
    let paused = team.message(&first, "of the budget of all threads of this roadmap").await;
    assert!(paused.shown.contains("$1.00"), "{}", paused.shown);
    assert!(of_item(&team, "3").await.is_empty(), "nobody begins it");
    let again = team.messages(&first);
    let said = again.iter().filter(|message| message.shown.contains("this belongs to is gone"));
    assert_eq!(said.count(), 1);
    team.stop().await;
}
