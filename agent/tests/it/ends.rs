//! Good ends of runs: changes are on the remote, and a gateway that is away for a moment is no reason to go on
//! without what was asked for.

use std::fs;

use axum::http::StatusCode;
use codebutler_wire::ErrorCode;
use serde_json::{Value, json};

use crate::gateway::check_keys;
use crate::world::{World, calls, git, in_order, results, says};

fn write(path: &str) -> Value {
    calls(&[("Write", json!({"path": path, "content": "new\n"}))])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_run_left_uncommitted_is_committed_and_pushed_at_its_end() {
    let mut world =
        World::new(in_order(vec![write("src/a.rs"), says("done"), says("and now?")])).await;
    world.gateway.lock().say("go", true);
    world.one_pod().await;
    assert_eq!(world.git(&["show", "codebutler/t:src/a.rs"]), "new");
    let log = world.git(&["log", "-1", "--format=%an: %s", "codebutler/t"]);
    assert_eq!(log, "CodeButler PM: Work in progress by pm");
    assert_eq!(git(&world.tree(""), &["status", "--porcelain"]), "");
    world.gateway.lock().say("go on", true);
    world.one_pod().await;
    let inner = world.gateway.lock();
    // The role knows of it, and nobody else is bothered.
    let told = inner.asked[2].iter().map(ToString::to_string).collect::<String>();
    assert!(told.contains("they were committed as `Work in progress by pm` and pushed"), "{told}");
    assert_eq!(inner.post_texts(), ["done", "and now?"]);
    assert_eq!(world.git(&["rev-list", "--count", "codebutler/t"]), "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_no_commit_is_told_to_the_role_and_to_people() {
    let make = calls(&[("Bash", json!({"command": "head -c 6000000 /dev/zero > data.bin"}))]);
    let steps = vec![make, says("done"), says("and now?"), says("still?")];
    let mut world = World::new(in_order(steps)).await;
    for text in ["go", "go on", "go on"] {
        world.gateway.lock().say(text, true);
        world.one_pod().await;
    }
    let inner = world.gateway.lock();
    let left = "`data.bin` (new, and larger than 5 MB)";
    let told = inner.asked[2].iter().map(ToString::to_string).collect::<String>();
    assert!(told.contains(&format!("in no commit: {left}")), "{told}");
    // People hear of the same files once.
    let posts = inner.post_texts();
    let with = posts.iter().filter(|post| post.contains(left)).count();
    assert_eq!((with, posts.len()), (1, 4), "{posts:?}");
    assert_eq!(world.git(&["rev-list", "--count", "codebutler/t"]), "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conflict_that_a_run_left_is_pushed_and_told_to_the_role_and_to_people() {
    let command = "printf '<<<<<<< HEAD\nhello\n=======\nhi\n>>>>>>> theirs\n' > README";
    let make = calls(&[("Bash", json!({"command": command}))]);
    let mut world = World::new(in_order(vec![make, says("done"), says("and now?")])).await;
    for text in ["go", "go on"] {
        world.gateway.lock().say(text, true);
        world.one_pod().await;
    }
    assert!(world.git(&["show", "codebutler/t:README"]).contains("<<<<<<< HEAD"));
    let inner = world.gateway.lock();
    let left = "holds both sides of a conflict in `README` (from line 1 on)";
    let told = inner.asked[2].iter().map(ToString::to_string).collect::<String>();
    assert!(told.contains(&format!("What your run left {left}: settle it first")), "{told}");
    assert!(
        told.contains("[CodeButler] Your run ended") && !told.contains("> [CodeButler]"),
        "{told}"
    );
    let posts = inner.post_texts();
    let with = posts.iter().filter(|post| post.contains(left)).count();
    assert_eq!((with, posts.len()), (1, 3), "{posts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_hear_of_a_conflict_also_where_the_pod_ends_before_it_was_told() {
    let command = "printf '<<<<<<< HEAD\nhello\n=======\nhi\n>>>>>>> theirs\n' > README";
    let make = calls(&[("Bash", json!({"command": command}))]);
    let mut world = World::new(in_order(vec![make, says("done"), says("and now?")])).await;
    let refusal = ("/v1/messages", StatusCode::BAD_REQUEST, ErrorCode::InvalidRequest, "not now");
    world.gateway.lock().refuse = vec![refusal];
    world.gateway.lock().say("go", true);
    let status = world.pod(None).ended().await;
    assert!(!status.success(), "{status}");
    world.one_pod().await;
    assert!(world.git(&["show", "codebutler/t:README"]).contains("<<<<<<< HEAD"));
    let inner = world.gateway.lock();
    let posts = inner.post_texts();
    let left = "What my run left holds both sides of a conflict in `README` (from line 1 on)";
    let with = posts.iter().filter(|post| post.contains(left)).count();
    assert_eq!(with, 1, "{posts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_cut_short_leaves_nothing_in_the_volume_alone() {
    let mut world = World::new(in_order(vec![write("a"); 9])).await;
    {
        let mut inner = world.gateway.lock();
        inner.session.max_turns = 1;
        inner.say("go", true);
    }
    world.one_pod().await;
    assert_eq!(world.git(&["show", "codebutler/t:a"]), "new");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_not_be_pushed_is_told_once_and_kept_until_it_may() {
    let approve = "a user has to approve the plan first";
    let refusal =
        ("/v1/git/git-receive-pack", StatusCode::FORBIDDEN, ErrorCode::NeedsApproval, approve);
    let mut world =
        World::new(in_order(vec![write("a"), says("one"), says("two"), says("three")])).await;
    for text in ["go", "and?"] {
        world.gateway.lock().refuse = vec![refusal];
        world.gateway.lock().say(text, true);
        world.one_pod().await;
    }
    assert_eq!(world.git(&["rev-list", "--count", "codebutler/t"]), "1");
    assert_eq!(fs::read_to_string(world.tree("a")).unwrap(), "new\n");
    {
        let mut inner = world.gateway.lock();
        let told = "What I changed is not pushed: a user has to approve the plan first. It stays in this \
                    thread's worktree, and I try again at the end of my next run.";
        assert_eq!(inner.post_texts(), [told, "one", "two"]);
        let known = inner.asked[2].iter().map(ToString::to_string).collect::<String>();
        assert!(
            known.contains("not on the remote: a user has to approve the plan first. You had not"),
            "{known}"
        );
        // Whatever it is that must be in no commit of a push is in none.
        let log = git(&world.tree(""), &["log", "-1", "--format=%s"]);
        assert!(!log.contains("Work in progress"), "{log}");
        assert_eq!(git(&world.tree(""), &["status", "--porcelain"]), "?? a");
        inner.say("approved", true);
    }
    world.one_pod().await;
    assert_eq!(world.git(&["show", "codebutler/t:a"]), "new");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_mended_is_told_to_the_role_also_where_its_push_is_refused() {
    let approve = "a user has to approve the plan first";
    let refusal =
        ("/v1/git/git-receive-pack", StatusCode::FORBIDDEN, ErrorCode::NeedsApproval, approve);
    let broken = calls(&[("Bash", json!({"command": "rm .git/index; echo new > a"}))]);
    let mut world = World::new(in_order(vec![broken, says("one"), says("two")])).await;
    world.gateway.lock().refuse = vec![refusal];
    for text in ["go", "and?"] {
        world.gateway.lock().say(text, true);
        world.one_pod().await;
    }
    let inner = world.gateway.lock();
    let known = inner.asked[2].iter().map(ToString::to_string).collect::<String>();
    for told in ["was made again from the last commit", "not on the remote: a user has to approve"]
    {
        assert!(known.contains(told), "{told}: {known}");
    }
}

/// The gateway dies after each effect and before it is answered, and nobody answers for a while: the
/// model hears of nothing, and nothing happens twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_is_away_for_a_moment_costs_no_effect_and_doubles_none() {
    for cut in ["/v1/git/info/refs", "/v1/git/git-receive-pack", "/v1/pull-request", "/v1/messages"]
    {
        let mut world = World::new(in_order(vec![
            write("a"),
            calls(&[("GitCommit", json!({"message": "Add a"}))]),
            calls(&[("GitPush", json!({}))]),
            calls(&[("GHCreatePR", json!({"title": "A", "body": "As planned."}))]),
            calls(&[("SendMessage", json!({"message": "half"}))]),
            says("done"),
        ]))
        .await;
        // Also while the worktree is made ready, where that is asked for.
        world.gateway.lock().cut = vec![cut; if cut.ends_with("refs") { 3 } else { 1 }];
        world.gateway.lock().say("go", true);
        world.one_pod().await;
        let inner = world.gateway.lock();
        let told = inner.asked.last().unwrap();
        assert!(
            results(told).iter().all(|result| !result.starts_with("Error")),
            "{cut}: {told:#?}"
        );
        assert_eq!(inner.post_texts(), ["half", "done"], "{cut}");
        check_keys(&inner.posts);
        assert_eq!(inner.pull_requests, ["A"], "{cut}");
        assert_eq!(world.git(&["rev-list", "--count", "codebutler/t"]), "2", "{cut}");
        let pushes = world.git(&["reflog", "codebutler/t"]);
        assert_eq!(pushes.lines().filter(|line| line.contains("push")).count(), 1, "{cut}");
        assert!(inner.cut.is_empty(), "{cut}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn last_words_with_which_the_work_would_rest_are_held_once() {
    let answers =
        vec![says("All tests pass."), write("a"), says("@codebutler.coder look"), says("hm")];
    let mut world = World::new(in_order(answers)).await;
    {
        let mut inner = world.gateway.lock();
        inner.nudges = ["there is no pull request", "never said twice"].map(str::to_owned).into();
        inner.say("go", true);
    }
    world.one_pod().await;
    let inner = world.gateway.lock();
    assert_eq!(inner.post_texts(), ["@codebutler.coder look"]);
    assert!(inner.posts[0].last);
    let told = inner.asked[1].last().unwrap()["content"].as_str().unwrap();
    assert_eq!(told, "[CodeButler] there is no pull request");
    // Once in a run: what it says then is posted.
    assert_eq!(inner.last_words, ["All tests pass."]);
    assert_eq!(inner.nudges.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_turn_left_last_words_are_posted() {
    let mut world = World::new(in_order(vec![says("Done.")])).await;
    {
        let mut inner = world.gateway.lock();
        inner.session.max_turns = 1;
        inner.nudges.push_back("go on".to_owned());
        inner.say("go", true);
    }
    world.one_pod().await;
    assert_eq!(world.gateway.lock().post_texts(), ["Done."]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mere_done_after_a_hand_over_is_not_posted() {
    let over = calls(&[("SendMessage", json!({"message": "*@codebutler.coder* please look"}))]);
    let told = calls(&[("SendMessage", json!({"message": "I begin."}))]);
    let answers =
        vec![over.clone(), says("Done."), over, says("The tests failed."), told, says("Done.")];
    let mut world = World::new(in_order(answers)).await;
    let mut expected = vec!["*@codebutler.coder* please look"];
    for more in
        [&[][..], &["*@codebutler.coder* please look", "The tests failed."], &["I begin.", "Done."]]
    {
        world.gateway.lock().say("go", true);
        world.one_pod().await;
        expected.extend(more);
        let inner = world.gateway.lock();
        assert_eq!(inner.post_texts(), expected);
        assert_eq!(inner.last_report().state, codebutler_wire::RoleState::Idle);
    }
}
