//! A night in which a roadmap is carried out and nobody looks: nothing waits for what can wait, and people find one
//! message in the morning.

mod stacked;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use codebutler_crds::thread::ThreadState;
use codebutler_crds::{Thread, names};
use codebutler_testbed::github::PullState;
use codebutler_testbed::models::{
    ModelScript, RoleScript, ScriptStep, ScriptedConversation, TextMatch,
};
use codebutler_testbed::slack::MessageView;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;

use crate::support::{Setup, Team, asks, retrospective_at_any_cost};

const PATH: &str = ".codebutler/roadmap.md";
/// Longest time of twelve items on two processors.
const NIGHT: Duration = Duration::from_mins(9);

/// Items with what each waits for.
fn roadmap(items: &[(&str, &str)]) -> String {
    let item = |(id, on): &(&str, &str)| {
        format!(
            "## {id}. Item {id}\n- Status: pending\n- Depends on: {on}\n- Acceptance criteria: src/{id}.txt says {id}\n\n"
        )
    };
    format!("# Roadmap: shop\n\n{}", items.iter().map(item).collect::<String>())
}

fn talk(item: &str, steps: Vec<ScriptStep>) -> ScriptedConversation {
    ScriptedConversation {
        thread: Some(TextMatch::Contains(format!("Implement item `{item}`"))),
        steps,
    }
}

fn plan(item: &str) -> Vec<ScriptStep> {
    vec![asks(&format!("Plan: write src/{item}.txt."), "plan")]
}

fn build(item: &str) -> Vec<ScriptStep> {
    let write = format!(
        "set -e; mkdir -p src; echo {item} > src/{item}.txt; sed -i 's/^- Status: in_progress$/- Status: done/' {PATH}"
    );
    vec![
        ScriptStep::tool("Bash", json!({"command": write})),
        ScriptStep::tool("GitCommit", json!({"message": format!("Write {item}")})),
        ScriptStep::tool("GitPush", json!({})),
        ScriptStep::tool(
            "GHCreatePR",
            json!({"title": format!("Write {item}"), "body": "As planned."}),
        ),
        ScriptStep::say("@codebutler.lead done"),
    ]
}

fn close(item: &str) -> Vec<ScriptStep> {
    vec![
        asks(&format!("Merge {item}?"), "merge"),
        ScriptStep::tool("CloseThread", json!({"summary": format!("{item} is there.")})),
    ]
}

fn script(items: &[&str]) -> ModelScript {
    let mut script = ModelScript::default();
    let mut role = |name: &str, steps: fn(&str) -> Vec<ScriptStep>| {
        let conversations = items.iter().map(|item| talk(item, steps(item))).collect();
        script.0.insert(name.to_owned(), RoleScript { conversations });
    };
    role("pm", plan);
    role("coder", build);
    role("lead", close);
    script
}

fn setup(script: ModelScript, items: &[(&str, &str)]) -> Setup {
    let mut setup = Setup::new(script).file(PATH, &roadmap(items)).repo(|repo| {
        repo.retrospective = Some(retrospective_at_any_cost());
        repo.limits.concurrent_threads = 4;
    });
    setup.roles.retain(|role| role != "reviewer");
    setup
}

fn click(team: &Team, message: &MessageView, action: &str) {
    let (ana, channel) = (&team.stack.users["ana"], &team.stack.channel);
    team.stack.slack.click(ana, channel, &message.ts, action).unwrap();
}

/// Threads of items, by item.
async fn items(team: &Team) -> BTreeMap<String, Thread> {
    let all = team.stack.threads().list(&ListParams::default()).await.unwrap();
    let own = |thread: Thread| Some((thread.spec.item.clone()?, thread));
    all.items.into_iter().filter_map(own).collect()
}

/// Starts the roadmap; answers with its conversation.
async fn develop(team: &Team, count: usize) -> String {
    let root = team.says("ana", None, "develop everything");
    let asked = team.message(&root, &format!("Develop the roadmap: {count} item")).await;
    click(team, &asked, "roadmap:start");
    root
}

/// The conversation of an item, as soon as it says something.
async fn says(team: &Team, item: &str, text: &str) -> (String, MessageView) {
    let root = team
        .until(&format!("a conversation about {item}"), || async {
            Some(items(team).await.get(item)?.conversation()?.ts.to_string())
        })
        .await;
    let message = team.message(&root, text).await;
    (root, message)
}

/// Waits until the Thread of an item is closed.
async fn closed(team: &Team, item: &str) {
    team.until(&format!("{item} to be closed"), || async {
        let state = items(team).await.get(item)?.spec.state;
        (state == ThreadState::Closed).then_some(())
    })
    .await;
}

/// The bases of open pull requests, by item.
async fn bases(team: &Team) -> BTreeMap<String, String> {
    let threads = items(team).await;
    let pulls = team.stack.remote.pulls().await.unwrap();
    let of = |(item, thread): (&String, &Thread)| {
        let branch = names::branch_name(&thread.name_any());
        let pull =
            pulls.iter().find(|pull| pull.head == branch && pull.state == PullState::Open)?;
        Some((item.clone(), pull.base.clone()))
    };
    threads.iter().filter_map(of).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_night_of_twelve_items_in_three_chains_ends_with_one_message() {
    let ids = ["a1", "a2", "a3", "a4", "b1", "b2", "b3", "b4", "c1", "c2", "c3", "c4"];
    let before = ["—", "a1", "a2", "a3", "—", "b1", "b2", "b3", "—", "c1", "c2", "c3"];
    let chains: Vec<_> = ids.into_iter().zip(before).collect();
    let look = ScriptedConversation {
        thread: Some(TextMatch::Contains("All items are merged".to_owned())),
        steps: vec![ScriptStep::say("Nothing new was learned.").expecting("`c4` Item c4")],
    };
    let mut script = script(&ids);
    script.0.get_mut("lead").unwrap().conversations.insert(0, look);
    let team = setup(script, &chains).start().await;
    let root = develop(&team, 12).await;
    let began = Instant::now();
    loop {
        let threads = items(&team).await;
        let asks = |thread: &&Thread| {
            thread.status.as_ref().is_some_and(|status| status.closing.is_some())
        };
        let ready = threads.values().filter(asks).count();
        if ready == 12 {
            break;
        }
        assert!(began.elapsed() < NIGHT, "{ready} of 12 are ready\n{}", team.logs());
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let told = team.message(&root, "12 items wait for you to merge").await;
    // Each is for the branch of the one before it, and shows nothing else.
    let (threads, pulls) = (items(&team).await, bases(&team).await);
    for (id, on) in &chains {
        let base = threads.get(*on).map(|thread| names::branch_name(&thread.name_any()));
        assert_eq!(pulls.get(*id), Some(&base.unwrap_or_else(|| "main".to_owned())), "{id}");
    }
    let ana = format!("<@{}>", team.stack.users["ana"]);
    let calls = |root: &str| {
        let all = team.messages(root).into_iter();
        let all = all.filter(|message| message.text.contains(&ana)).map(|message| message.shown);
        // Messages name the person who said yes in the evening, and in whose name an item begins; nobody is asked
        // anything.
        all.filter(|text| !text.contains("Develop the") && !text.starts_with("From the cluster"))
            .filter(|text| {
                let settled = usize::from(text.contains("Approved by @ana"));
                text.matches("@ana").count() > settled
            })
            .collect::<Vec<_>>()
    };
    let mut called = calls(&root);
    for thread in threads.values() {
        called.extend(calls(thread.conversation().unwrap().ts.as_str()));
    }
    assert_eq!(called, [told.shown], "what asks a person");

    // In the morning, in whatever order.
    for id in ids.iter().rev() {
        let (_, ready) = says(&team, id, &format!("Merge {id}?")).await;
        click(&team, &ready, "merge:merge");
    }
    let began = Instant::now();
    loop {
        let threads = items(&team).await;
        let left = threads.values().filter(|thread| thread.spec.state == ThreadState::Active);
        let left: Vec<_> = left.map(ResourceExt::name_any).collect();
        if left.is_empty() {
            break;
        }
        assert!(began.elapsed() < NIGHT, "{left:?} are not merged\n{}", team.logs());
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    team.message(&root, "Roadmap: 12 of 12 merged").await;
    let file = team.stack.remote.show("main", PATH).await.unwrap();
    assert_eq!(file.matches("- Status: done").count(), 12, "{file}");
    for id in ids {
        let text = team.stack.remote.show("main", &format!("src/{id}.txt")).await;
        assert_eq!(text.as_deref().map(str::trim), Some(id));
    }
    let branches = team.stack.remote.branches().await.unwrap();
    let own = names::branch_name(&team.thread(&root).await.name_any());
    let left: Vec<_> = branches.keys().filter(|name| *name != "main" && **name != own).collect();
    assert!(left.is_empty(), "no item's branch is left: {left:?}");
    team.message(&root, "Nothing new was learned").await;
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_item_teaches_is_asked_about_when_all_is_merged() {
    let learnings = |learnings: serde_json::Value| {
        json!({
            "wentWell": [{"what": "It was built at once", "evidence": "src/price.txt:1"}],
            "learnings": learnings,
        })
    };
    let entry = json!([{
        "file": "coder.md", "claim": "Items say themselves", "when": "an item is written",
        "rule": "write its id", "confidence": "high", "citations": ["src/price.txt:1"],
        "reason": "Each file does",
    }]);
    let mut script = script(&["a1"]);
    let lead = vec![
        ScriptStep::tool("ProposeLearnings", learnings(entry.clone())),
        asks("Merge a1?", "merge").expecting("together with the others'"),
        ScriptStep::tool("CloseThread", json!({"summary": "a1 is there."})),
    ];
    let after = vec![
        ScriptStep::tool("ProposeLearnings", learnings(entry)).expecting("`a1` Item a1"),
        asks("Merge what was learned?", "merge").expecting("Remembered on this branch"),
        ScriptStep::tool("CloseThread", json!({"summary": "Learned."})),
    ];
    // Tried in order: who looks back is told of earlier requests, too.
    let talks = vec![
        ScriptedConversation {
            thread: Some(TextMatch::Contains("All items are merged".to_owned())),
            steps: after,
        },
        talk("a1", lead),
    ];
    script.0.insert("lead".to_owned(), RoleScript { conversations: talks });
    let team = setup(script, &[("a1", "—")]).start().await;
    let root = develop(&team, 1).await;
    let (item, ready) = says(&team, "a1", "Merge a1?").await;
    let asked = |root: &str| {
        let all = team.messages(root);
        all.iter().filter(|message| message.shown.contains("Retrospective")).count()
    };
    assert_eq!(asked(&item), 0, "nobody is asked before the merge");
    click(&team, &ready, "merge:merge");
    let proposed = team.message(&root, "Items say themselves").await;
    click(&team, &proposed, "learning:1:approve");
    let ready = team.message(&root, "Merge what was learned?").await;
    click(&team, &ready, "merge:merge");
    let closed = |thread: &Thread| thread.spec.state == ThreadState::Closed;
    team.thread_when(&root, "the end", closed).await;
    let page = team.stack.remote.show("main", ".codebutler/coder.md").await.unwrap();
    assert!(page.contains("write its id"), "{page}");
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_on_an_items_branch_says_what_is_up() {
    let question = json!({"message": "Which words?", "waitForReply": true});
    let mut script = script(&["a1"]);
    let coder = [vec![ScriptStep::tool("SendMessage", question)], build("a1")].concat();
    script.0.insert("coder".to_owned(), RoleScript { conversations: vec![talk("a1", coder)] });
    let team = setup(script, &[("a1", "—")]).start().await;
    let _ = develop(&team, 1).await;
    let (root, _) = says(&team, "a1", "Which words?").await;
    let branch = names::branch_name(&items(&team).await["a1"].name_any());
    let file = |part: &'static str| {
        let (team, branch) = (&team, &branch);
        async move {
            team.until(part, || async {
                team.stack.remote.show(branch, PATH).await.filter(|text| text.contains(part))
            })
            .await
        }
    };
    let text = file("- Status: blocked").await;
    assert!(text.contains("- Reason: a question in its thread waits for an answer"), "{text}");
    assert!(text.contains(&format!("- Branch: {branch}")), "{text}");
    team.says("ana", Some(&root), "Its own id.");
    let text = file("- Status: done").await;
    assert!(!text.contains("Reason"), "{text}");
    let log = team.stack.remote.log(&format!("main..{branch}")).await.unwrap();
    let subjects: Vec<_> = log.iter().map(|commit| commit.subject().to_owned()).collect();
    let begins = "Roadmap: item a1 is in progress";
    assert_eq!(subjects, ["Write a1", begins, "Roadmap: item a1 is blocked", begins]);
    // From then on nothing moves what people are asked about.
    let (_, ready) = says(&team, "a1", "Merge a1?").await;
    click(&team, &ready, "merge:merge");
    closed(&team, "a1").await;
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_built_on_a_rejected_item_is_told_and_not_merged() {
    let mut script = script(&["a1", "a2"]);
    let lead = vec![
        asks("Merge a2?", "merge"),
        ScriptStep::tool("CloseThread", json!({"summary": "a2 is there."})),
        asks("Merge a2 without it?", "merge").expecting("Keep it."),
        ScriptStep::tool("CloseThread", json!({"summary": "a2 is there."})),
    ];
    let talks = vec![talk("a1", close("a1")), talk("a2", lead)];
    script.0.insert("lead".to_owned(), RoleScript { conversations: talks });
    let team = setup(script, &[("a1", "—"), ("a2", "a1")]).start().await;
    let root = develop(&team, 2).await;
    let (second, early) = says(&team, "a2", "Merge a2?").await;
    let (_, ready) = says(&team, "a1", "Merge a1?").await;
    // A yes to the second waits for the first.
    click(&team, &early, "merge:merge");
    team.message(&second, "on whose branch it is built").await;
    click(&team, &ready, "merge:discard");
    closed(&team, "a1").await;
    team.message(&second, "What this is built on was closed without a merge").await;
    team.message(&root, "`a2` Item a2 is blocked: it is built on `a1`").await;
    team.until("the pull request to be for main", || async {
        (bases(&team).await.get("a2")? == "main").then_some(())
    })
    .await;
    let is_merged = || async { team.stack.remote.show("main", "src/a2.txt").await.is_some() };
    assert!(!is_merged().await, "the yes was given before the no");
    // Asked anew, people know.
    team.says("ana", Some(&second), "@codebutler.lead Keep it.");
    let anew = team.message(&second, "Merge a2 without it?").await;
    click(&team, &anew, "merge:merge");
    closed(&team, "a2").await;
    assert!(is_merged().await);
    team.stop().await;
}
