//! An item whose predecessor is merged under another name, and changes the same lines.

use std::time::Duration;

use codebutler_crds::thread::StackStanding;

use super::*;

const PRICE: &str = "src/price.txt";
const OTHER: &str = "src/other.txt";
const PAIR: [(&str, &str); 2] = [("a1", "—"), ("a2", "a1")];
const THREE: [(&str, &str); 3] = [("a1", "—"), ("a2", "a1"), ("a3", "a2")];

/// Commits, pushes, opens a pull request and hands over.
fn build_with(item: &str, write: &str) -> Vec<ScriptStep> {
    let mut steps = build(item);
    let done =
        format!("set -e; {write}; sed -i 's/^- Status: in_progress$/- Status: done/' {PATH}");
    steps[0] = ScriptStep::tool("Bash", json!({"command": done}));
    steps
}

/// Changes the price from one number to another.
fn reprice(item: &str, from: &str, to: &str) -> Vec<ScriptStep> {
    build_with(
        item,
        &format!("grep -q 'price = {from}$' {PRICE}; sed -i 's/{from}$/{to}/' {PRICE}"),
    )
}

fn script_of(coder: Vec<ScriptedConversation>) -> ModelScript {
    let mut script = script(&["a1", "a2"]);
    script.0.insert("coder".to_owned(), RoleScript { conversations: coder });
    script
}

fn stack_of(thread: &Thread) -> StackStanding {
    let known = thread.status.as_ref().and_then(|status| status.stack.as_deref());
    known.cloned().unwrap_or_default()
}

/// Number of a role's calls to its model.
fn calls(thread: &Thread, role: &str) -> u64 {
    let status = thread.status.as_ref().unwrap();
    status.roles.get(role).map_or(0, |role| role.usage.calls)
}

async fn price(team: &Team) -> String {
    team.stack.remote.show("main", PRICE).await.unwrap_or_default()
}

/// Checks that no failure shows in the thread of the second item.
fn is_quiet(team: &Team, root: &str) {
    let all = team.messages(root);
    let said = all.iter().map(|message| message.shown.as_str());
    let loud: Vec<_> = said
        .filter(|text| {
            ["conflict", "GitUpdate", "not merged", "put on top of"]
                .iter()
                .any(|word| text.contains(word) && !text.contains("Nothing conflicts"))
        })
        .collect();
    assert!(loud.is_empty(), "{loud:#?}");
}

fn repricing() -> ModelScript {
    script_of(vec![talk("a1", reprice("a1", "0.1", "1")), talk("a2", reprice("a2", "1", "2"))])
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lines_of_a_squashed_predecessor_wake_nobody() {
    let team = setup(repricing(), &PAIR).start().await;
    let root = develop(&team, 2).await;
    let (second, early) = says(&team, "a2", "Merge a2?").await;
    let worked = calls(&items(&team).await["a2"], "coder");
    let (_, ready) = says(&team, "a1", "Merge a1?").await;
    // One yes before the other: it holds for what the gateway makes of the branch.
    click(&team, &early, "merge:merge");
    team.message(&second, "on whose branch it is built").await;
    click(&team, &ready, "merge:merge");
    closed(&team, "a1").await;
    team.message(&second, "`main` is merged into this branch as").await;
    closed(&team, "a2").await;
    assert_eq!(price(&team).await, "price = 2\n");
    is_quiet(&team, &second);
    let thread = items(&team).await["a2"].clone();
    assert_eq!(calls(&thread, "coder"), worked, "no role was woken");
    team.message(&root, "Roadmap: 2 of 2 merged").await;
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_item_took_back_of_its_predecessor_stays_taken_back() {
    let script = script_of(vec![
        talk("a1", reprice("a1", "0.1", "1")),
        // Nothing conflicts for Git, which would bring the price of the first one back without a word.
        talk("a2", reprice("a2", "1", "0.1")),
    ]);
    let team = setup(script, &PAIR).start().await;
    let _ = develop(&team, 2).await;
    let (second, _) = says(&team, "a2", "Merge a2?").await;
    let (_, ready) = says(&team, "a1", "Merge a1?").await;
    click(&team, &ready, "merge:merge");
    closed(&team, "a1").await;
    team.message(&second, "`main` is merged into this branch as").await;
    assert_eq!(price(&team).await, "price = 1\n");
    let (_, ready) = says(&team, "a2", "Merge a2?").await;
    click(&team, &ready, "merge:merge");
    closed(&team, "a2").await;
    assert_eq!(price(&team).await, "price = 0.1\n");
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_dies_while_a_successor_is_brought_up_to_date_ends_it() {
    let mut team = setup(repricing(), &PAIR).start().await;
    let _ = develop(&team, 2).await;
    let (second, early) = says(&team, "a2", "Merge a2?").await;
    let (_, ready) = says(&team, "a1", "Merge a1?").await;
    click(&team, &early, "merge:merge");
    team.message(&second, "on whose branch it is built").await;
    team.stack.github.set_latency(Duration::from_millis(250));
    click(&team, &ready, "merge:merge");
    // Three times: before the merge, while it is made, and after it.
    for what in ["the predecessor's end", "a merge under way", "the end"] {
        team.until(what, || async {
            let items = items(&team).await;
            let merge = stack_of(&items["a2"]).merge.is_some();
            let over = items["a1"].spec.state == ThreadState::Closed;
            let is_now = match what {
                "the predecessor's end" => over,
                "a merge under way" => merge,
                _ => stack_of(&items["a2"]).settled,
            };
            is_now.then_some(())
        })
        .await;
        team.stack.gateway.kill().await.unwrap();
        team.stack.gateway.restart().await.unwrap();
    }
    team.stack.github.set_latency(Duration::ZERO);
    closed(&team, "a2").await;
    assert_eq!(price(&team).await, "price = 2\n");
    is_quiet(&team, &second);
    let told = team.messages(&second);
    let told = told.iter().filter(|message| message.shown.contains("`main` is merged into this"));
    assert_eq!(told.count(), 1, "it is told once");
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_of_the_predecessor_comes_to_the_successor_that_is_at_work() {
    let question = json!({"message": "Which number?", "waitForReply": true});
    let more = vec![
        ScriptStep::tool("Bash", json!({"command": "echo more > src/more.txt"})),
        ScriptStep::tool("GitCommit", json!({"message": "Add more"})),
        ScriptStep::tool("GitPush", json!({})),
        ScriptStep::say("@codebutler.lead done"),
    ];
    let first = [reprice("a1", "0.1", "1"), more].concat();
    let second =
        [vec![ScriptStep::tool("SendMessage", question)], reprice("a2", "1", "2")].concat();
    let mut script = script_of(vec![talk("a1", first), talk("a2", second)]);
    let lead = vec![
        asks("Merge a1?", "merge"),
        asks("Merge a1 with more?", "merge"),
        ScriptStep::tool("CloseThread", json!({"summary": "a1 is there."})),
    ];
    let talks = vec![talk("a1", lead), talk("a2", close("a2"))];
    script.0.insert("lead".to_owned(), RoleScript { conversations: talks });
    let team = setup(script, &PAIR).start().await;
    let _ = develop(&team, 2).await;
    let (second, _) = says(&team, "a2", "Which number?").await;
    let (first, _) = says(&team, "a1", "Merge a1?").await;
    team.says("ana", Some(&first), "@codebutler.coder Add more.");
    team.message(&second, "has new commits: they are merged into this branch as").await;
    let branch = names::branch_name(&items(&team).await["a2"].name_any());
    let more = team.stack.remote.show(&branch, "src/more.txt").await;
    assert_eq!(more.as_deref(), Some("more\n"));
    team.says("ana", Some(&second), "Two.");
    says(&team, "a2", "Merge a2?").await;
    let pulls = team.stack.remote.pulls().await.unwrap();
    let pull = pulls.iter().find(|pull| pull.head == branch).unwrap();
    let changes = team.stack.remote.changes(&pull.base, &branch).await.unwrap();
    let files: Vec<_> = changes.iter().map(|change| change.path.clone()).collect();
    assert_eq!(files, [PATH, PRICE], "the pull request shows the item's own changes alone");
    let (_, ready) = says(&team, "a1", "Merge a1 with more?").await;
    click(&team, &ready, "merge:merge");
    closed(&team, "a1").await;
    let (_, ready) = says(&team, "a2", "Merge a2?").await;
    click(&team, &ready, "merge:merge");
    closed(&team, "a2").await;
    assert_eq!(price(&team).await, "price = 2\n");
    assert!(team.stack.remote.show("main", "src/more.txt").await.is_some());
    is_quiet(&team, &second);
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_conflicts_with_the_base_branch_itself_wakes_the_coder() {
    let both = format!("sed -i 's/= 1$/= 2/' {PRICE}; echo mine > {OTHER}");
    let settle = vec![
        ScriptStep::tool("GitUpdate", json!({})).expecting("GitUpdate"),
        ScriptStep::tool("Bash", json!({"command": format!("cat {PRICE}; echo both > {OTHER}")}))
            .expecting(&format!("conflict with this branch in {OTHER}. ")),
        ScriptStep::tool("GitCommit", json!({"message": "Merge main"})).expecting("price = 2"),
        ScriptStep::tool("GitPush", json!({})),
        ScriptStep::say("@codebutler.lead done"),
    ];
    let second = [build_with("a2", &both), settle].concat();
    let mut script = script_of(vec![talk("a1", reprice("a1", "0.1", "1")), talk("a2", second)]);
    let lead = vec![
        asks("Merge a2?", "merge"),
        asks("Merge a2 now?", "merge"),
        ScriptStep::tool("CloseThread", json!({"summary": "a2 is there."})),
    ];
    let talks = vec![talk("a1", close("a1")), talk("a2", lead)];
    script.0.insert("lead".to_owned(), RoleScript { conversations: talks });
    let team = setup(script, &PAIR).file(OTHER, "it\n").start().await;
    let _ = develop(&team, 2).await;
    let (second, _) = says(&team, "a2", "Merge a2?").await;
    let changed = [(OTHER, Some("theirs\n"))];
    team.stack.remote.commit("main", "Ben", "Change it", &changed).await.unwrap();
    let (_, ready) = says(&team, "a1", "Merge a1?").await;
    click(&team, &ready, "merge:merge");
    closed(&team, "a1").await;
    let told = team.message(&second, "To bring the branch up to date").await;
    assert!(told.shown.contains("conflict in `src/other.txt`"), "{}", told.shown);
    let (_, ready) = says(&team, "a2", "Merge a2 now?").await;
    let branch = names::branch_name(&items(&team).await["a2"].name_any());
    let merge = team.stack.remote.log(&branch).await.unwrap();
    let base = team.stack.remote.head("main").await.unwrap();
    assert_eq!(merge[0].parents.get(1), Some(&base), "the usual two parents");
    click(&team, &ready, "merge:merge");
    closed(&team, "a2").await;
    assert_eq!(price(&team).await, "price = 2\n");
    let other = team.stack.remote.show("main", OTHER).await;
    assert_eq!(other.as_deref(), Some("both\n"));
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_blocked_item_is_blocked_and_says_so() {
    let question = json!({"message": "Which words?", "waitForReply": true});
    let ids = ["a1", "a2", "a3"];
    let mut script = script(&ids);
    let coder = [vec![ScriptStep::tool("SendMessage", question)], build("a1")].concat();
    let talks = vec![talk("a1", coder), talk("a2", build("a2")), talk("a3", build("a3"))];
    script.0.insert("coder".to_owned(), RoleScript { conversations: talks });
    let team = setup(script, &[("a1", "—"), ("a2", "a1"), ("a3", "a2")]).start().await;
    let root = develop(&team, 3).await;
    let (first, _) = says(&team, "a1", "Which words?").await;
    team.message(&root, "`a2` Item a2: blocked: waits for a1, which is blocked").await;
    team.message(&root, "`a3` Item a3: blocked: waits for a2, which is blocked").await;
    let branch = names::branch_name(&items(&team).await["a1"].name_any());
    let file = || async { team.stack.remote.show(&branch, PATH).await.unwrap_or_default() };
    let held = |text: &str| text.contains("- Reason: waits for a2, which is blocked");
    team.until("the file to say so", || async { held(&file().await).then_some(()) }).await;
    let text = file().await;
    assert_eq!(text.matches("- Status: blocked").count(), 3, "{text}");
    assert!(text.contains("- Reason: waits for a1, which is blocked"), "{text}");
    team.says("ana", Some(&first), "Its own id.");
    for id in ids {
        let (_, ready) = says(&team, id, &format!("Merge {id}?")).await;
        click(&team, &ready, "merge:merge");
    }
    for id in ids {
        closed(&team, id).await;
    }
    let text = team.stack.remote.show("main", PATH).await.unwrap();
    assert_eq!(text.matches("- Status: done").count(), 3, "{text}");
    assert!(!text.contains("Reason"), "{text}");
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_items_on_top_of_each_other_land_one_by_one() {
    let mut script = script(&["a1", "a2", "a3"]);
    let coder = [("a1", "0.1", "1"), ("a2", "1", "2"), ("a3", "2", "3")];
    let conversations =
        coder.iter().map(|(item, from, to)| talk(item, reprice(item, from, to))).collect();
    script.0.insert("coder".to_owned(), RoleScript { conversations });
    let team = setup(script, &THREE).start().await;
    let root = develop(&team, 3).await;
    let (third, last) = says(&team, "a3", "Merge a3?").await;
    let (second, middle) = says(&team, "a2", "Merge a2?").await;
    let (_, first) = says(&team, "a1", "Merge a1?").await;
    let worked: Vec<u64> =
        items(&team).await.values().map(|thread| calls(thread, "coder")).collect();
    // From the top: each yes waits for what is below.
    click(&team, &last, "merge:merge");
    team.message(&third, "on whose branch it is built").await;
    click(&team, &middle, "merge:merge");
    team.message(&second, "on whose branch it is built").await;
    click(&team, &first, "merge:merge");
    for item in ["a1", "a2", "a3"] {
        closed(&team, item).await;
    }
    assert_eq!(price(&team).await, "price = 3\n");
    is_quiet(&team, &second);
    is_quiet(&team, &third);
    let after: Vec<u64> =
        items(&team).await.values().map(|thread| calls(thread, "coder")).collect();
    assert_eq!(after, worked, "no role was woken");
    assert_eq!(team.stack.remote.log("main").await.unwrap().len(), 4);
    team.message(&root, "Roadmap: 3 of 3 merged").await;
    team.stop().await;
}
