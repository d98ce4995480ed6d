//! A pod that waits for a Thread.

use std::net::TcpListener;

use codebutler_wire::EgressWay;

use crate::world::{World, in_order, says, until};

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
