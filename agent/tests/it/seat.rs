//! A pod that waits for a Thread.

use std::net::TcpListener;

use codebutler_agent::toolbox::client::ToolboxClient;
use codebutler_agent::toolbox::protocol::{ToolboxHello, ToolboxReply, ToolboxRequest};
use codebutler_wire::{EgressWay, SeatSetUp, SeatSetUpEnd};

use crate::toolbox::{bash, hello, text};
use crate::world::{Pod, World, in_order, says, until};

/// Starts a pod that waits for a Thread, and whose clone is set up with this.
fn seat(world: &mut World, setup: &str) -> Pod {
    let share = world.path("share");
    std::fs::create_dir(&share).unwrap();
    {
        let mut inner = world.gateway.lock();
        let command = Some(setup.to_owned());
        inner.session.setup.clone_from(&command);
        inner.seat_set_up = Some(SeatSetUp { command, requires_enforcement: true });
    }
    world.pod_with(None, |agent| {
        agent.arg("--seat").arg("--share").arg(&share);
    })
}

fn take(world: &World) {
    let mut inner = world.gateway.lock();
    inner.say("Are you there?", true);
    inner.seat_taken = true;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clone_is_set_up_while_it_waits_and_not_again_by_the_thread_that_takes_it() {
    let mut world = World::new(in_order(vec![says("Here I am.")])).await;
    let pod = seat(&mut world, "mkdir -p deps; echo once >> deps/ran");
    until("a set-up", || world.gateway.lock().seat_ends == [SeatSetUpEnd::Done]).await;
    take(&world);
    assert!(pod.ended().await.success());
    let ran = std::fs::read_to_string(world.tree("deps/ran")).unwrap();
    assert_eq!(ran, "once\n");
    let posts: Vec<_> = world.gateway.lock().post_texts().into_iter().map(str::to_owned).collect();
    assert!(posts.len() == 2 && posts[0].starts_with("The worktree is set up"), "{posts:?}");
    assert!(world.gateway.lock().builds.is_empty(), "the Thread needed no build slot");
    let head = std::fs::read_to_string(world.tree(".git/HEAD")).unwrap();
    assert_eq!(head.trim(), "ref: refs/heads/codebutler/t");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_up_that_fails_is_told_once_and_tried_again_by_the_thread() {
    let mut world = World::new(in_order(vec![says("Here I am.")])).await;
    let pod = seat(&mut world, "echo once >> ran; exit 3");
    until("its end", || world.gateway.lock().seat_ends == [SeatSetUpEnd::Failed]).await;
    take(&world);
    assert!(pod.ended().await.success());
    assert_eq!(std::fs::read_to_string(world.tree("ran")).unwrap(), "once\nonce\n");
    let inner = world.gateway.lock();
    assert!(inner.post_texts()[0].contains("failed: exit code 3"), "{:?}", inner.post_texts());
    assert_eq!(inner.seat_ends, [SeatSetUpEnd::Failed]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clone_that_needs_no_set_up_counts_as_one_that_succeeded() {
    let mut world = World::new(in_order(vec![says("Here I am.")])).await;
    let share = world.path("share");
    std::fs::create_dir(&share).unwrap();
    // The set-up that failed in an earlier seat was taken out of the Repo since.
    world.gateway.lock().seat_set_up =
        Some(SeatSetUp { command: None, requires_enforcement: false });
    let pod = world.pod_with(None, |agent| {
        agent.arg("--seat").arg("--share").arg(&share);
    });
    until("its end", || world.gateway.lock().seat_ends == [SeatSetUpEnd::Done]).await;
    take(&world);
    assert!(pod.ended().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_does_not_wait_for_a_set_up_that_is_under_way_and_does_its_own() {
    let mut world = World::new(in_order(vec![says("Here I am.")])).await;
    let pod = seat(&mut world, "echo once >> ran; test $(wc -l < ran) -gt 1 || sleep 1000");
    until("a set-up that has begun", || world.tree("ran").exists()).await;
    take(&world);
    assert!(pod.ended().await.success());
    assert_eq!(std::fs::read_to_string(world.tree("ran")).unwrap(), "once\nonce\n");
    assert_eq!(world.gateway.lock().post_texts().last(), Some(&"Here I am."));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_way_that_opened_after_the_look_ahead_is_told_once_the_pod_is_taken() {
    let mut world = World::new(in_order(vec![says("Here I am.")])).await;
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let forbidden = free.local_addr().unwrap();
    drop(free);
    let share = world.path("share");
    std::fs::create_dir(&share).unwrap();
    let pod = world.pod_with(None, |agent| {
        agent
            .arg("--seat")
            .arg("--share")
            .arg(&share)
            .args(["--forbidden-host", "127.0.0.1"])
            .args(["--forbidden-port", &forbidden.port().to_string()]);
    });
    // The look ahead is done long before there is a clone.
    until("a clone", || share.join(".cloned").exists()).await;
    let _open = TcpListener::bind(forbidden).unwrap();
    {
        let mut inner = world.gateway.lock();
        inner.say("Are you there?", true);
        inner.seat_taken = true;
    }
    let told = |world: &World| {
        let inner = world.gateway.lock();
        inner.egress.iter().any(|report| report.ways.contains(&EgressWay::ApiServer))
    };
    until("a report", || told(&world)).await;
    assert!(pod.ended().await.success());
    assert_eq!(world.gateway.lock().posts.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_is_prepared_by_a_pod_that_ends_and_the_thread_on_it_sets_nothing_up() {
    let mut world = World::new(in_order(vec![says("Here I am.")])).await;
    let prepare = |world: &mut World, setup: &str| {
        let command = Some(setup.to_owned());
        let mut inner = world.gateway.lock();
        inner.session.setup.clone_from(&command);
        inner.seat_set_up = Some(SeatSetUp { command, requires_enforcement: true });
        drop(inner);
        world.pod_with(None, |agent| {
            agent.arg("--prepare");
        })
    };
    let setup = "mkdir -p deps; echo once >> deps/ran";
    assert!(prepare(&mut world, setup).ended().await.success());
    assert!(world.path("work/.unclaimed").exists() && world.transcript().is_empty());
    world.gateway.lock().say("Are you there?", true);
    world.one_pod().await;
    assert_eq!(std::fs::read_to_string(world.tree("deps/ran")).unwrap(), "once\n");
    assert_eq!(world.gateway.lock().post_texts().last(), Some(&"Here I am."));

    let mut other = World::new(in_order(vec![])).await;
    assert!(!prepare(&mut other, "exit 3").ended().await.success());
    // The role of its pod was taken away meanwhile: the gateway wants no set-up.
    let mut other = World::new(in_order(vec![])).await;
    let pod = other.pod_with(None, |agent| {
        agent.arg("--prepare");
    });
    assert!(!pod.ended().await.success());
}

/// The pod of a role whose own commands run in a copy of the worktree.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_only_reads_has_its_clone_set_up_by_nobody_once_a_thread_works_in_it() {
    let world = World::new(in_order(vec![])).await;
    let socket = world.path("run/toolbox.sock");
    let reads = ["--worktree", "read-only", "--role", "pm"];
    let _process = world.toolbox_command(&socket).args(reads).spawn().unwrap();
    let toolbox = ToolboxClient::connect(&socket).await.unwrap();
    let thread = hello(&world);
    let base = ToolboxHello { branch: thread.base_branch.clone(), ..thread.clone() };
    toolbox.ask(ToolboxRequest::Hello(base)).await.unwrap();
    text(&toolbox, ToolboxRequest::PrepareBase).await;
    let set_up = || {
        let command = Some("mkdir -p deps && echo once >> deps/ran".to_owned());
        toolbox.ask(ToolboxRequest::SetUpBase { command, seconds: 60 })
    };
    for _ in 0..2 {
        let ToolboxReply::SetUp(Some(done)) = set_up().await.unwrap() else { panic!("no set-up") };
        assert!(done.ended.unwrap().is_success());
    }
    let ran = || std::fs::read_to_string(world.tree("deps/ran")).unwrap();
    assert_eq!(ran(), "once\n", "in the worktree itself, and once");

    toolbox.ask(ToolboxRequest::Hello(thread)).await.unwrap();
    text(&toolbox, ToolboxRequest::Prepare { made_at: None, planned: vec![] }).await;
    let refused = set_up().await.unwrap();
    assert!(matches!(refused, ToolboxReply::Refused(_)), "{refused:?}");
    let tree = world.tree("").canonicalize().unwrap();
    text(&toolbox, bash(&format!("echo mine >> {}/deps/ran", tree.display()), None)).await;
    assert_eq!(ran(), "once\n", "its commands have the copy alone");
}
