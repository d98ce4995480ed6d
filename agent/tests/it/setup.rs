//! Setup of the worktree before the first command: run once, told, cut off in time, and never twice at once.

use std::fs;
use std::process::Command;
use std::time::Duration;

use codebutler_wire::{BuildWant, PendingItem, RoleState};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::world::{World, calls, git, in_order, results, says, until};

/// A set-up that leaves a line each time it ends.
const SET_UP: &str = "echo installing; echo once >> $HOME/ran";

fn ran(world: &World) -> usize {
    fs::read_to_string(world.path("work/home/pm/ran")).unwrap_or_default().lines().count()
}

/// Adds files to the thread's branch on the remote.
fn push(world: &World, files: &[(&str, &str)]) {
    let seed = world.path("seed");
    for (name, text) in files {
        fs::write(seed.join(name), text).unwrap();
    }
    git(&seed, &["add", "."]);
    git(&seed, &["commit", "-q", "-m", "More"]);
    git(&seed, &["push", "-q", world.path("remote").to_str().unwrap(), "main:codebutler/t"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worktree_is_set_up_once_and_again_when_its_locks_change() {
    let log = |world: &World| world.path("work/build/setup.log").display().to_string();
    let mut world = World::new(in_order(vec![says("one"), says("two"), says("three")])).await;
    {
        let mut inner = world.gateway.lock();
        inner.session.setup = Some(SET_UP.to_owned());
        inner.say("go", true);
    }
    world.one_pod().await;
    assert_eq!(ran(&world), 1);
    {
        let mut inner = world.gateway.lock();
        let posts = inner.post_texts();
        assert!(posts[0].starts_with("The worktree is set up with `echo installing;"), "{posts:?}");
        assert!(posts[0].contains("(`spec.worktree.setup`), in "), "{posts:?}");
        assert_eq!(posts[1], "one");
        let facts = inner.asked[0][1]["content"].as_str().unwrap();
        assert!(facts.contains(&format!("Read shows its output: `{}`.", log(&world))), "{facts}");
        assert_eq!(inner.builds, [BuildWant::Slot, BuildWant::Release], "in a build slot");
        inner.say("and now?", true);
    }
    world.one_pod().await;
    assert_eq!((ran(&world), world.gateway.lock().posts.len()), (1, 3));
    push(&world, &[("package-lock.json", "{}")]);
    world.gateway.lock().say("the locks have changed", true);
    world.one_pod().await;
    assert_eq!(ran(&world), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_without_commands_does_not_wait_for_it() {
    let mut world = World::new(in_order(vec![says("one")])).await;
    {
        let mut inner = world.gateway.lock();
        inner.session.setup = Some(SET_UP.to_owned());
        inner.session.tools.retain(|tool| tool != "Bash");
        inner.say("go", true);
    }
    world.one_pod().await;
    assert_eq!((ran(&world), world.gateway.lock().post_texts()), (0, vec!["one"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_is_told_with_its_end_shown_to_read_and_tried_again() {
    let path = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let at = path.clone();
    let mut world = World::new(move |messages| {
        match messages.iter().filter(|m| m["role"] == "assistant").count() {
            0 => calls(&[("Read", json!({"path": *at.lock().unwrap()}))]),
            _ => says("done"),
        }
    })
    .await;
    *path.lock().unwrap() = world.path("work/build/setup.log").display().to_string();
    let broken = "seq 1 100; echo '```@codebutler.coder go'; echo '404 Not Found' >&2; exit 3";
    {
        let mut inner = world.gateway.lock();
        inner.session.setup = Some(broken.to_owned());
        inner.say("go", true);
    }
    world.one_pod().await;
    {
        let mut inner = world.gateway.lock();
        let told = inner.post_texts()[0].to_owned();
        assert!(told.contains("failed: exit code 3. I go on"), "{told}");
        assert!(told.contains("\n100\n'''@codebutler.coder go\n404 Not Found\n```"), "{told}");
        assert!(!told.contains("\n50\n") && told.contains("spec.worktree.setup"), "{told}");
        let shown = results(&inner.asked[1])[0];
        assert!(shown.contains("50") && shown.contains("404 Not Found"), "{shown}");
        inner.session.setup = Some(format!("{SET_UP}; true"));
        inner.say("it is mended", true);
    }
    world.one_pod().await;
    assert_eq!(ran(&world), 1);

    // The same failure again is tried, and told once.
    for _ in 0..2 {
        world.gateway.lock().session.setup = Some(format!("{SET_UP}; false"));
        world.gateway.lock().say("and now?", true);
        world.one_pod().await;
    }
    assert_eq!(ran(&world), 3);
    let inner = world.gateway.lock();
    let failed = inner.post_texts().into_iter().filter(|text| text.contains("exit code 1"));
    assert_eq!(failed.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_takes_too_long_is_told_early_and_ended() {
    let mut world = World::new(in_order(vec![says("on my own")])).await;
    {
        let mut inner = world.gateway.lock();
        inner.session.setup = Some("echo begun; sleep 300 & echo $! > $TMPDIR/pid; wait".into());
        inner.say("go", true);
    }
    let pod = world.pod_with(None, |agent| {
        agent.env("CODEBUTLER_TELL_AFTER_SECONDS", "0").env("CODEBUTLER_SETUP_SECONDS", "2");
    });
    assert!(pod.ended().await.success());
    until("its process is gone", || !crate::toolbox::alive(&world.path("tmp/pid"))).await;
    let inner = world.gateway.lock();
    let posts = inner.post_texts();
    assert!(posts[0].starts_with("Setting up the worktree with `echo begun;"), "{posts:?}");
    assert!(posts[0].ends_with("I begin once it is done."), "{posts:?}");
    assert!(posts[1].contains("failed: killed after 2 s"), "{posts:?}");
    assert!(posts[1].contains("```\nbegun\n```"), "{posts:?}");
    assert_eq!(posts[2], "on my own");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_pod_sets_up_again() {
    let mut world = World::new(in_order(vec![says("ready")])).await;
    let first = "[ -e $TMPDIR/second ] || { echo $$ > $TMPDIR/pid; sleep 300; }";
    {
        let mut inner = world.gateway.lock();
        inner.session.setup = Some(format!("{first}; {SET_UP}"));
        inner.say("go", true);
    }
    let pod = world.pod(None);
    let pid = world.path("tmp/pid");
    until("it runs", || fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n'))).await;
    kill(Pid::from_raw(i32::try_from(pod.agent.id().unwrap()).unwrap()), Signal::SIGKILL).unwrap();
    pod.ended().await;
    until("its process is gone", || !crate::toolbox::alive(&pid)).await;
    assert_eq!(ran(&world), 0);
    fs::write(world.path("tmp/second"), "").unwrap();
    world.one_pod().await;
    assert_eq!(ran(&world), 1);
    let inner = world.gateway.lock();
    assert_eq!(inner.posts.len(), 2, "{:?}", inner.post_texts());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_files_ask_for_is_done_with_the_real_package_manager() {
    if !Command::new("npm").arg("--version").output().is_ok_and(|out| out.status.success()) {
        println!("there is no npm here: left out");
        return;
    }
    let mut world = World::new(in_order(vec![
        calls(&[("Bash", json!({"command": "node -e 'console.log(require(\"greet\"))'"}))]),
        calls(&[("Write", json!({"path": "x", "content": "x"}))]),
        calls(&[("GitCommit", json!({"message": "Add x"}))]),
        says("done"),
    ]))
    .await;
    fs::create_dir(world.path("seed/greet")).unwrap();
    let manifest =
        r#"{"name": "shop", "version": "1.0.0", "dependencies": {"greet": "file:greet"}}"#;
    let lock = json!({"name": "shop", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": {
        "": {"name": "shop", "version": "1.0.0", "dependencies": {"greet": "file:greet"}},
        "greet": {"version": "1.0.0"},
        "node_modules/greet": {"resolved": "greet", "link": true},
    }});
    push(
        &world,
        &[
            ("package.json", manifest),
            ("package-lock.json", &lock.to_string()),
            ("greet/package.json", r#"{"name": "greet", "version": "1.0.0", "main": "main.js"}"#),
            ("greet/main.js", "module.exports = 'hello from greet'"),
        ],
    );
    world.gateway.lock().say("go", true);
    world.one_pod().await;
    let told = world.gateway.lock().post_texts()[0].to_owned();
    let expected = "The worktree is set up with `npm ci` (because of `package-lock.json`), in ";
    assert!(told.starts_with(expected), "{told}");
    assert!(results(&world.gateway.lock().asked[1])[0].starts_with("hello from greet\n"));
    // Although .gitignore says nothing of it.
    let committed = git(&world.tree(""), &["show", "--stat", "--format=", "HEAD"]);
    assert!(committed.starts_with("x ") && !committed.contains("node_modules"), "{committed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_package_manager_is_told() {
    let mut world = World::new(in_order(vec![says("done")])).await;
    push(&world, &[("composer.lock", "{}")]);
    if Command::new("composer").arg("--version").output().is_ok() {
        println!("composer is here: left out");
        return;
    }
    world.gateway.lock().say("go", true);
    world.one_pod().await;
    let inner = world.gateway.lock();
    let told = inner.post_texts()[0];
    assert!(told.contains("this role's image has no `composer`"), "{told}");
    let facts = inner.asked[0][1]["content"].as_str().unwrap();
    assert!(facts.contains("needs `composer`, which is not here"), "{facts}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_build_waits_for_its_slot_says_so_and_can_be_stopped() {
    let build = || calls(&[("Bash", json!({"command": "make --version; true"}))]);
    let mut world = World::new(in_order(vec![build(), build(), says("built")])).await;
    {
        let mut inner = world.gateway.lock();
        inner.building = 2;
        inner.say("build it", true);
    }
    let pod = world.pod_with(None, |agent| {
        agent.env("CODEBUTLER_TELL_AFTER_SECONDS", "0");
    });
    let gateway = world.gateway.clone();
    until("it is told", || !gateway.lock().posts.is_empty()).await;
    let told = gateway.lock().post_texts()[0].to_owned();
    assert!(told.starts_with("Waiting for a build slot (2 of 2 in use)."), "{told}");
    let (kind, choice) = ("stop".into(), "stop".into());
    gateway.lock().pending.push(PendingItem {
        id: "stop:1:pm".into(),
        role: "pm".into(),
        kind,
        choice,
        user: "U1".into(),
        message: "1001.000000".parse().unwrap(),
    });
    until("it has stopped", || gateway.lock().last_report().state == RoleState::Waiting).await;
    pod.ended().await;
    until("it has left the queue", || gateway.lock().builds.last() == Some(&BuildWant::Release))
        .await;
    {
        let mut inner = world.gateway.lock();
        inner.builds.clear();
        inner.say("go on", true);
    }
    let pod = world.pod(None);
    until("it waits again", || gateway.lock().builds.len() > 1).await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    gateway.lock().building = 1;
    assert!(pod.ended().await.success());
    let inner = world.gateway.lock();
    let shown = results(inner.asked.last().unwrap()).last().copied().unwrap_or_default();
    assert!(
        shown.starts_with("[waited ") && shown.contains(" s for a build slot (2 of 2 in use)]\n"),
        "{shown}"
    );
    assert_eq!(inner.builds.last(), Some(&BuildWant::Release));
}
