//! A roadmap is carried out by the harness: items become threads, approved criteria are approved plans, what
//! waits begins with a merge, and people see all of it in one message.

use codebutler_crds::Thread;
use codebutler_testbed::models::{
    ModelScript, RoleScript, ScriptStep, ScriptedConversation, TextMatch,
};
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

fn talk(item: &str, steps: Vec<ScriptStep>) -> ScriptedConversation {
    ScriptedConversation {
        thread: Some(TextMatch::Contains(format!("Implement item `{item}`"))),
        steps,
    }
}

fn script() -> ModelScript {
    let plan = |words: &str| asks(words, "plan");
    let question = json!({"message": "Which currency?", "waitForReply": true});
    let pm = vec![
        talk("1", vec![plan("Plan: ten cents.")]),
        talk("2", vec![ScriptStep::tool("SendMessage", question), plan("Plan: euros.")]),
        talk("3", vec![plan("Plan: tax.")]),
    ];
    let done = ROADMAP.replacen("Status: pending", "Status: done", 1);
    let coder = vec![
        ScriptStep::tool("Write", json!({"path": "src/price.txt", "content": "price = 10\n"})),
        ScriptStep::tool("Write", json!({"path": PATH, "content": done})),
        ScriptStep::tool("GitCommit", json!({"message": "Write cents"})),
        ScriptStep::tool("GitPush", json!({})),
        ScriptStep::tool("GHCreatePR", json!({"title": "Write cents", "body": "As planned."})),
        ScriptStep::say("@codebutler.lead done"),
    ];
    let lead = vec![
        asks("Merge?", "merge"),
        ScriptStep::tool("CloseThread", json!({"summary": "Cents."})),
    ];
    let mut script = ModelScript::default();
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

/// Lists the Threads of an item.
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

    // An item that waits for people is told, and keeps nobody else.
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
    // The item that it waits for only waits for people: it begins on that branch.
    let third = conversation(&team, "3").await;
    team.message(&third, "a plan within them counts as approved").await;

    // A second conversation is told where the first one is.
    let other = team.says("ben", None, "develop everything");
    team.message(&other, &format!("another conversation already (Thread `{parent}`)")).await;

    click(&team, &ready, "merge:merge");
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
    for part in
        [">$20.00</data> spent", "<b>2</b> Currency", "a question in its thread waits", "#1<"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    let cost = of_item(&team, "1").await.remove(0).status.unwrap().cost.unwrap();
    assert!(page.contains(&format!("<data value=\"{cost}\"")), "{cost}: {page}");
    assert!(page.contains(">develop everything for $20</a>"), "{page}");
    let whole = fetch(address).await.unwrap();
    assert!(
        whole.contains("Roadmap: 1 of 3 merged") && whole.contains("item 1: merged"),
        "{whole}"
    );
    let list = fetch(format!("http://{pages}/")).await.unwrap();
    assert!(list.contains("roadmap: 1 of 3"), "{list}");

    // In a thread where a person speaks, a person approves.
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
    let pm = vec![ScriptStep::tool("SendMessage", question), asks("Plan: ten cents.", "plan")];
    let coder = vec![
        ScriptStep::tool("Write", json!({"path": "src/price.txt", "content": "price = 10\n"}))
            .costing(1000, 100, "1.2"),
        ScriptStep::say("@codebutler.lead done"),
    ];
    let mut script = ModelScript::default();
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
    for part in [parent.as_str(), "all its items may cost $1.00 together", "develop everything"] {
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

#[tokio::test(flavor = "multi_thread")]
async fn what_people_accept_of_new_items_lands_in_the_roadmap() {
    let propose = |items: serde_json::Value| {
        ScriptStep::tool(
            "ProposeItems",
            json!({"items": items, "reason": "Shoes are hard to find."}),
        )
    };
    let index = json!({"title": "Index", "criteria": ["finds 10,000 shoes in 50 ms"]});
    let page =
        json!({"title": "Search page", "criteria": ["shows 20 hits"], "dependsOn": ["Index", "1"]});
    let words = json!({"title": "Synonyms", "criteria": ["trainers are shoes"], "dependsOn": ["Search page"],
        "notes": "Ask Ben."});
    let pm = vec![
        ScriptStep::say("@codebutler.lead three items: index, search page, synonyms.")
            .expecting("asks for the skill `roadmap-add`"),
    ];
    let lead = vec![
        propose(json!([{"title": "Lost", "criteria": ["x"], "dependsOn": ["Nothing"]}])),
        propose(json!([page, index])).expecting("is no item of the roadmap (1)"),
        propose(json!([index, page, words]))
            .expecting("put each item behind those that it depends on"),
        asks("Merge the plan?", "merge"),
        ScriptStep::tool("CloseThread", json!({"summary": "Planned."})),
    ];
    let cents = ROADMAP.split("## 2.").next().unwrap();
    let team =
        Setup::new(ModelScript::of("pm", pm).and("lead", lead)).file(PATH, cents).start().await;
    let root = team.says("ana", None, "add shoe search to the roadmap");
    let asked = team.message(&root, "For the roadmap").await;
    for part in ["Index", "finds 10,000 shoes in 50 ms", "Search page", "Synonyms"] {
        assert!(asked.shown.contains(part), "{part}: {}", asked.shown);
    }
    // The items that waited for the one that nobody wants wait for it no more.
    for button in ["1:reject", "2:approve", "3:approve"] {
        click(&team, &asked, &format!("learning:{button}"));
    }
    team.message(&root, "Planned on this branch").await;
    let ready = team.message(&root, "Merge the plan?").await;
    click(&team, &ready, "merge:merge");
    let closed =
        |thread: &Thread| thread.spec.state == codebutler_crds::thread::ThreadState::Closed;
    team.thread_when(&root, "the end", closed).await;
    let text = team.stack.remote.show("main", PATH).await.unwrap();
    assert!(text.starts_with(cents.trim_end()) && !text.contains("Index"), "{text}");
    let id = |title: &str| {
        let heading = text.lines().find(|line| line.starts_with("## ") && line.ends_with(title));
        heading.and_then(|line| line[3..].split('.').next()).unwrap_or_default().to_owned()
    };
    let (page, words) = (id(". Search page"), id(". Synonyms"));
    assert!(!page.is_empty() && !words.is_empty() && page != words, "{text}");
    let (of_page, of_words) = text.split_once(&format!("## {words}. ")).unwrap();
    assert!(of_page.contains("- Depends on: 1\n"), "{text}");
    assert!(of_words.contains(&format!("- Depends on: {page}\n")), "{text}");
    assert!(of_words.contains("Ask Ben."), "{text}");
    team.stop().await;
}
