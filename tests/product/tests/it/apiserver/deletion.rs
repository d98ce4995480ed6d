//! Deletion and what delays it.

use kube::ResourceExt as _;
use kube::api::{
    DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy,
};
use serde_json::json;

use super::{Fixture, config_map, object, pod, refusal};

#[tokio::test]
async fn finalizers_hold_an_object_until_they_are_gone() {
    let fixture = Fixture::new().await;
    let maps = fixture.maps();
    let mut map = config_map("m");
    map.metadata.finalizers = Some(vec!["example.org/hold".to_owned()]);
    maps.create(&PostParams::default(), &map).await.unwrap();
    let held = maps.delete("m", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert!(held.metadata.deletion_timestamp.is_some());
    let params = PatchParams::default();
    let more =
        Patch::Merge(json!({"metadata": {"finalizers": ["example.org/hold", "example.org/more"]}}));
    let refused = refusal(maps.patch("m", &params, &more).await);
    assert!(refused.message.contains("no new finalizers can be added"), "{}", refused.message);
    let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("m", &params, &none).await.unwrap();
    assert_eq!(refusal(maps.get("m").await).code, 404);
    fixture.done().await;
}

#[tokio::test]
async fn preconditions_name_the_object_that_is_meant() {
    let fixture = Fixture::new().await;
    let maps = fixture.maps();
    let made = maps.create(&PostParams::default(), &config_map("m")).await.unwrap();
    let with_uid = |uid: &str| DeleteParams {
        preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
        ..DeleteParams::default()
    };
    let refused = refusal(maps.delete("m", &with_uid("other")).await);
    assert_eq!(refused.code, 409);
    assert!(
        refused
            .message
            .contains("the UID in the precondition (other) does not match the UID in record")
    );
    let done = maps.delete("m", &with_uid(&made.uid().unwrap())).await.unwrap();
    assert_eq!(done.right().unwrap().status, Some(kube::core::response::StatusSummary::Success));
    fixture.done().await;
}

#[tokio::test]
async fn foreground_deletion_waits_for_the_collector() {
    let fixture = Fixture::new().await;
    let maps = fixture.maps();
    let mut map = config_map("m");
    // So that a cluster with a collector does not finish before this test looks.
    map.metadata.finalizers = Some(vec!["example.org/hold".to_owned()]);
    maps.create(&PostParams::default(), &map).await.unwrap();
    let params = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Foreground),
        ..DeleteParams::default()
    };
    let held = maps.delete("m", &params).await.unwrap().left().unwrap();
    assert!(held.finalizers().iter().any(|f| f == "foregroundDeletion"));
    let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("m", &PatchParams::default(), &none).await.unwrap();
    fixture.done().await;
}

#[tokio::test]
async fn a_selected_part_of_a_collection_is_deleted() {
    let fixture = Fixture::new().await;
    let maps = fixture.maps();
    for name in ["a", "b", "c"] {
        let mut map = config_map(name);
        map.labels_mut().insert("keep".to_owned(), (name == "c").to_string());
        maps.create(&PostParams::default(), &map).await.unwrap();
    }
    let selected = ListParams::default().labels("keep=false");
    maps.delete_collection(&DeleteParams::default(), &selected).await.unwrap();
    let left = maps.list(&ListParams::default().labels("keep")).await.unwrap();
    assert_eq!(left.items.iter().map(kube::ResourceExt::name_any).collect::<Vec<_>>(), ["c"]);
    fixture.done().await;
}

#[tokio::test]
async fn a_running_pod_stays_until_its_kubelet_is_done() {
    let fixture = Fixture::new().await;
    let pods = fixture.pods();
    pods.create(&PostParams::default(), &pod("waiting")).await.unwrap();
    pods.delete("waiting", &DeleteParams::default()).await.unwrap();
    assert_eq!(refusal(pods.get("waiting").await).code, 404);

    let made = pods.create(&PostParams::default(), &pod("running")).await.unwrap();
    let binding = object(json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "running"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "no-such-node"},
    }));
    let body = serde_json::to_vec(&binding).unwrap();
    let path = format!("/api/v1/namespaces/{}/pods/running/binding", fixture.namespace);
    let request =
        http::Request::post(path).header("content-type", "application/json").body(body).unwrap();
    fixture.client.request::<serde_json::Value>(request).await.unwrap();
    let status = Patch::Merge(json!({"status": {"phase": "Running"}}));
    pods.patch_status("running", &PatchParams::default(), &status).await.unwrap();
    let held = pods.delete("running", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert_eq!(held.metadata.deletion_grace_period_seconds, Some(30));
    let seen = pods.get("running").await.unwrap();
    assert_eq!((seen.uid(), seen.metadata.deletion_timestamp.is_some()), (made.uid(), true));
    pods.delete("running", &DeleteParams::default().grace_period(0)).await.unwrap();
    assert_eq!(refusal(pods.get("running").await).code, 404);
    fixture.done().await;
}
