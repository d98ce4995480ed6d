//! Volumes that no node reaches.

use super::*;
use crate::homes::VolumeHome;

const SAID: &str =
    "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had volume node affinity conflict.";

/// A role whose pod has found no node since then.
fn stuck(since: &str, said: &str) -> (Thread, ObservedThread) {
    let thread = testing::thread(&json!({"roles": {
        "pm": {"inbox": MAIL, "podUID": "a", "admitted": true}}}));
    let status = json!({"phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "lastTransitionTime": since, "message": said}]});
    let pods = vec![pod(&thread, "pm", "a", status)];
    let world = ObservedThread { pods, volume: Some(claim(&thread, "Bound")), ..world() };
    (thread, world)
}

fn gone() -> VolumeHome {
    VolumeHome::Gone(vec!["worker-3".to_owned()])
}

#[test]
fn a_volume_on_a_node_that_is_gone_is_told_and_after_a_while_made_again() {
    let (thread, mut world) = stuck("2026-01-01T11:58:00Z", SAID);
    let asks = plan(&thread, &world);
    assert!(asks.find_home, "before anybody is told anything");
    world.home = Some(gone());
    let told = plan(&thread, &world);
    assert_eq!((ready(&told).0, told.delete_volume), ("VolumeUnreachable", false));
    for part in ["node `worker-3`", "`kubectl -n team delete pvc shop-", "not pushed is lost"] {
        assert!(ready(&told).1.contains(part), "{part}: {}", ready(&told).1);
    }

    let (thread, mut world) = stuck("2026-01-01T11:50:00Z", SAID);
    world.home = Some(gone());
    let made = plan(&thread, &world);
    assert_eq!(
        (ready(&made).0, deleted(&made), made.delete_volume),
        ("VolumeLost", vec!["a"], true)
    );
    assert_eq!(made.notices[0].reason, "VolumeLost");
}

#[test]
fn a_volume_whose_node_is_there_is_nobodys_to_remove() {
    let new = "0/1 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity.";
    for said in [SAID, new] {
        let (thread, mut world) = stuck("2026-01-01T10:00:00Z", said);
        world.home = Some(VolumeHome::Somewhere(vec!["worker-3".to_owned()]));
        let told = plan(&thread, &world);
        assert_eq!((ready(&told).0, told.delete_volume), ("VolumeUnreachable", false));
        assert!(ready(&told).1.contains("bring that node back"), "{}", ready(&told).1);
    }
    let (thread, mut world) =
        stuck("2026-01-01T10:00:00Z", "0/1 nodes are available: 1 Too many pods.");
    world.home = Some(gone());
    assert_eq!(ready(&plan(&thread, &world)).0, "PodUnschedulable");
}
