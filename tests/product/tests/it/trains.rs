//! Several pull requests that are ready are merged with one word: tested together, in order, and the one that
//! fails is left out with its branch.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use codebutler_crds::Thread;
use codebutler_crds::thread::ThreadState;
use codebutler_testbed::github::DrivenRepository;
use codebutler_testbed::models::{
    ModelScript, RoleScript, ScriptStep, ScriptedConversation, TextMatch,
};
use codebutler_testbed::slack::MessageView;
use kube::ResourceExt as _;

use serde_json::json;

use crate::support::{Setup, Team, asks, journal_of, looking_back, retrospective_at_any_cost};

const BRANCHES: &str = "codebutler-train/";

fn talk(about: &str, steps: Vec<ScriptStep>) -> ScriptedConversation {
    ScriptedConversation {
        thread: Some(TextMatch::Contains(format!("please write {about}"))),
        steps,
    }
}

/// Each conversation writes a file of its own, tests it and asks whether to merge.
fn script(files: &[&str]) -> ModelScript {
    let mut script = ModelScript::default();
    let all = |steps: fn(&str) -> Vec<ScriptStep>| RoleScript {
        conversations: files.iter().map(|file| talk(file, steps(file))).collect(),
    };
    let pm = all(|file| vec![asks(&format!("Plan: write {file}."), "plan")]);
    let coder = all(|file| {
        vec![
            ScriptStep::tool("Write", json!({"path": file, "content": "1\n"})),
            ScriptStep::tool("Bash", json!({"command": "true"})),
            ScriptStep::tool("GitCommit", json!({"message": format!("Write {file}")})),
            ScriptStep::tool("GitPush", json!({})),
            ScriptStep::tool(
                "GHCreatePR",
                json!({"title": format!("Write {file}"), "body": "Planned."}),
            ),
            ScriptStep::say("@codebutler.lead done"),
        ]
    });
    let lead = all(|file| {
        vec![
            asks(&format!("Merge {file}?"), "merge"),
            ScriptStep::tool("CloseThread", json!({"summary": format!("Has {file}.")})),
            ScriptStep::say("I have heard it."),
        ]
    });
    script.0.extend([
        ("pm".to_owned(), pm),
        ("coder".to_owned(), coder),
        ("lead".to_owned(), lead),
    ]);
    script
}

fn click(team: &Team, message: &MessageView, action: &str) {
    let (ana, channel) = (&team.stack.users["ana"], &team.stack.channel);
    team.stack.slack.click(ana, channel, &message.ts, action).unwrap();
}

/// Conversations up to the question whether to merge, by file.
async fn ready(team: &Team, files: &[&str]) -> BTreeMap<String, String> {
    let mut roots = BTreeMap::new();
    for file in files {
        let root = team.says("ana", None, &format!("please write {file}"));
        let plan = team.message(&root, "Plan:").await;
        click(team, &plan, "plan:approve");
        team.message(&root, &format!("Merge {file}?")).await;
        roots.insert((*file).to_owned(), root);
    }
    roots
}

/// Plays GitHub's workflows: a tree with `bad.txt` in it fails. Runs for pushes to a train and pull requests.
#[derive(Default)]
pub(crate) struct Workflows {
    /// Commits of trains that were tested, with what came of it.
    trains: Mutex<Vec<(String, bool)>>,
}

impl Workflows {
    pub(crate) fn run(remote: &DrivenRepository) -> (Arc<Self>, tokio::task::JoinHandle<()>) {
        let own = Arc::new(Self::default());
        let (all, remote) = (Arc::clone(&own), remote.clone());
        let task = tokio::spawn(async move {
            let mut known = Vec::new();
            loop {
                for (branch, commit) in remote.branches().await.unwrap() {
                    let is_train = branch.starts_with(BRANCHES);
                    let tested = is_train || branch.starts_with("codebutler/");
                    if !tested || known.contains(&commit) {
                        continue;
                    }
                    let files = remote.git().files(&commit).await.unwrap();
                    let good = !files.iter().any(|file| file == "bad.txt");
                    if is_train {
                        all.trains.lock().unwrap().push((commit.clone(), good));
                    }
                    let said = if good || !is_train { "success" } else { "failure" };
                    remote.report_check(&commit, "ci", Some(said), "").await.unwrap();
                    known.push(commit);
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        (own, task)
    }
}

/// Waits until the message that shows the train says something.
pub(crate) async fn shows(team: &Team, root: &str, part: &str) -> MessageView {
    team.until(&format!("the train to show `{part}`"), || async {
        let all = team.messages(root).into_iter();
        all.filter(|m| m.shown.contains("Merge train:")).find(|m| m.shown.contains(part))
    })
    .await
}

async fn is_closed(team: &Team, root: &str) -> Thread {
    team.thread_when(root, "the thread to be closed", |thread| {
        thread.spec.state == ThreadState::Closed
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_are_ready_are_merged_and_a_bad_one_is_left_out_with_its_branch() {
    let files = ["one.txt", "two.txt", "bad.txt", "four.txt"];
    let team = Setup::new(script(&files)).start().await;
    let remote = &team.stack.remote;
    let (workflows, task) = Workflows::run(remote);
    let roots = ready(&team, &files).await;
    let root = team.says("ben", None, "merge all that are ready");
    let asked = team.message(&root, "Merge these 4 pull requests into `main`").await;
    for file in files {
        assert!(asked.shown.contains(&format!("Write {file} (1 file, 1 line")), "{}", asked.shown);
    }
    assert_eq!(remote.log("main").await.unwrap().len(), 1, "nobody has said yes");
    click(&team, &asked, "train:start");
    shows(&team, &root, "Merge train: 3 of 4 merged").await;
    let end = shows(&team, &root, "Done: 1 left out").await;
    assert!(end.shown.contains("left out, `ci` failed"), "{}", end.shown);

    // The tree of the base branch is one that was tested, in at most four rounds.
    let trains = workflows.trains.lock().unwrap().clone();
    assert!(trains.len() <= 4, "{trains:?}");
    let tree = async |commit: &str| remote.log(commit).await.unwrap()[0].tree.clone();
    let main = tree("main").await;
    let mut green = Vec::new();
    for (commit, good) in &trains {
        if *good {
            green.push(tree(commit).await);
        }
    }
    assert!(green.contains(&main), "{green:?}");
    let log = remote.log("main").await.unwrap();
    assert_eq!(log.len(), 4, "{log:?}");
    let ana = &team.stack.users["ana"];
    let lines = [format!("Merge-approved-by: {ana}")];
    for commit in &log[..3] {
        assert!(lines.iter().all(|line| commit.message.contains(line)), "{commit:?}");
    }

    // A Thread that was left out keeps everything, and its role knows.
    let bad = &roots["bad.txt"];
    team.message(bad, "was left out of the merge train: `ci` failed").await;
    let thread = team.thread(bad).await;
    let branch = codebutler_crds::names::branch_name(&thread.name_any());
    let branches = remote.branches().await.unwrap();
    assert!(branches.contains_key(&branch), "{branches:?}");
    assert!(!branches.keys().any(|name| name.starts_with(BRANCHES)), "{branches:?}");
    let pulls = remote.pulls().await.unwrap();
    let open: Vec<_> = pulls.iter().filter(|pull| pull.merge_commit.is_none()).collect();
    assert_eq!((open.len(), open[0].head.as_str()), (1, branch.as_str()));
    for file in ["one.txt", "two.txt", "four.txt"] {
        let thread = is_closed(&team, &roots[file]).await;
        let merged = thread.status.unwrap().pull_request.unwrap().merge_commit.unwrap();
        assert!(log.iter().any(|commit| commit.sha == merged), "{file}: {merged}");
    }
    team.settled(bad, "lead").await;
    let closing = team.thread(bad).await.status.unwrap().closing;
    assert!(closing.is_none(), "its decision is void: {closing:?}");

    // Nothing is ready now.
    let other = team.says("ben", None, "merge everything that's ready");
    team.message(&other, "Nothing is ready to be merged").await;
    task.abort();
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_workflows_what_a_thread_has_tested_itself_counts() {
    let files = ["one.txt", "two.txt"];
    let test = || Some("true".to_owned());
    // Each is looked back on before anybody is asked to merge it: its journal needs no new test.
    let setup = Setup::new(looking_back(script(&files))).repo(move |repo| {
        repo.worktree.test = test();
        repo.retrospective = Some(retrospective_at_any_cost());
    });
    let team = setup.start().await;
    let roots = ready(&team, &files).await;
    for root in roots.values() {
        team.message(root, "Retrospective").await;
    }
    let root = team.says("ben", None, "merge all that are ready");
    let asked = team.message(&root, "Merge these 2 pull requests").await;
    assert_eq!(asked.shown.matches("tested in its thread").count(), 2, "{}", asked.shown);
    click(&team, &asked, "train:start");
    let end = shows(&team, &root, "Done: 1 left out").await;
    assert!(end.shown.contains("Merge train: 1 of 2 merged"), "{}", end.shown);
    is_closed(&team, &roots["one.txt"]).await;
    let told = team.message(&roots["two.txt"], "was left out of the merge train").await;
    assert!(told.shown.contains("without what `main` has by now"), "{}", told.shown);
    assert_eq!(team.stack.remote.log("main").await.unwrap().len(), 2);
    let merged = team.stack.remote.git().files("main").await.unwrap();
    let has = |file: &str| merged.contains(&journal_of(&roots[file]));
    assert!(has("one.txt") && !has("two.txt"), "{merged:?}");
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_queue_of_the_hosts_is_used_and_stop_lets_the_others_go() {
    let files = ["one.txt", "two.txt"];
    let team = Setup::new(script(&files)).start().await;
    let remote = &team.stack.remote;
    let roots = ready(&team, &files).await;
    // Checks that never end: the train waits, until somebody stops it.
    remote.set_rules(|rules| rules.required_checks = vec!["ci".into()]).await.unwrap();
    let first = team.says("ben", None, "merge all that are ready");
    let asked = team.message(&first, "Merge these 2 pull requests").await;
    click(&team, &asked, "train:start");
    shows(&team, &first, "Testing 2 pull requests together").await;
    let other = team.says("ana", None, "merge all that are ready");
    team.message(&other, "under way in another conversation").await;
    team.says("ben", Some(&first), "stop");
    shows(&team, &first, "Stopped: nothing more is merged").await;
    for root in roots.values() {
        team.message(root, "somebody stopped the merge train").await;
    }
    team.until("its branch to be gone", || async {
        let branches = remote.branches().await.unwrap();
        (!branches.keys().any(|name| name.starts_with(BRANCHES))).then_some(())
    })
    .await;
    assert_eq!(remote.log("main").await.unwrap().len(), 1);
    team.stop().await;
}
