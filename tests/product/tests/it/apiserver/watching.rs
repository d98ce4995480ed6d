//! Watches, reflectors, controllers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::Thread;
use futures::{StreamExt as _, TryStreamExt as _};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::reflector;
use kube::runtime::watcher::{self, watcher};
use kube::{Client, ResourceExt as _};
use serde_json::json;

use super::{Fixture, config_map, thread};

const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_watch_tells_what_happens_after_a_version() {
    let fixture = Fixture::new().await;
    let maps = fixture.maps();
    let post = PostParams::default();
    let first = maps.create(&post, &config_map("before")).await.unwrap();
    let params = WatchParams::default().labels("watched=yes").timeout(60);
    let version = first.resource_version().unwrap();
    let mut events = maps.watch(&params, &version).await.unwrap().boxed();

    let mut map = config_map("m");
    maps.create(&post, &config_map("other")).await.unwrap();
    map.labels_mut().insert("watched".to_owned(), "yes".to_owned());
    maps.create(&post, &map).await.unwrap();
    let patch = |value: serde_json::Value| Patch::Merge(value);
    let none = PatchParams::default();
    maps.patch("m", &none, &patch(json!({"data": {"a": "2"}}))).await.unwrap();
    // Leaving the selection is a deletion to who watches it, coming back an addition.
    maps.patch("m", &none, &patch(json!({"metadata": {"labels": {"watched": "no"}}})))
        .await
        .unwrap();
    maps.patch("m", &none, &patch(json!({"metadata": {"labels": {"watched": "yes"}}})))
        .await
        .unwrap();
    maps.delete("m", &DeleteParams::default()).await.unwrap();

    let mut seen = Vec::new();
    while seen.len() < 5 {
        let event = tokio::time::timeout(SOON, events.try_next()).await.unwrap().unwrap().unwrap();
        match event {
            WatchEvent::Added(o) => seen.push(format!("added {}", o.name_any())),
            WatchEvent::Modified(o) => seen.push(format!("modified {}", o.data["data"]["a"])),
            WatchEvent::Deleted(o) => seen.push(format!("deleted {}", o.name_any())),
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(error) => panic!("{error}"),
        }
    }
    assert_eq!(seen, ["added m", "modified \"2\"", "deleted m", "added m", "deleted m"]);
    fixture.done().await;
}

#[tokio::test]
async fn a_watch_ends_with_a_bookmark_when_its_time_is_up() {
    let fixture = Fixture::new().await;
    let maps = fixture.maps();
    let version = maps.list(&kube::api::ListParams::default()).await.unwrap();
    let version = version.metadata.resource_version.unwrap();
    // The bookmark is sent two seconds before the end.
    let params = WatchParams::default().timeout(6);
    let events = maps.watch(&params, &version).await.unwrap();
    let made = maps.create(&PostParams::default(), &config_map("m")).await.unwrap();
    let all: Vec<_> = tokio::time::timeout(SOON, events.try_collect()).await.unwrap().unwrap();
    let bookmarks: Vec<&str> = all
        .iter()
        .filter_map(|event| match event {
            WatchEvent::Bookmark(mark) => Some(mark.metadata.resource_version.as_str()),
            _ => None,
        })
        .collect();
    let last: u64 = bookmarks.last().unwrap().parse().unwrap();
    assert!(last >= made.resource_version().unwrap().parse::<u64>().unwrap());
    fixture.done().await;
}

#[tokio::test]
async fn a_reflector_follows_a_collection() {
    let fixture = Fixture::new().await;
    let threads: Api<Thread> = Api::namespaced(fixture.client.clone(), &fixture.namespace);
    let (reader, writer) = reflector::store();
    let stream = reflector(writer, watcher(threads, watcher::Config::default()));
    let task = tokio::spawn(stream.applied_objects().for_each(|_| async {}));
    tokio::time::timeout(SOON, reader.wait_until_ready()).await.unwrap().unwrap();
    let api = fixture.threads();
    for index in 0..20 {
        api.create(&PostParams::default(), &thread(&format!("t{index:02}"))).await.unwrap();
    }
    for index in 0..10 {
        api.delete(&format!("t{index:02}"), &DeleteParams::default()).await.unwrap();
    }
    let wanted: BTreeSet<String> = (10..20).map(|i| format!("t{i:02}")).collect();
    let settled = async {
        loop {
            let have: BTreeSet<String> = reader.state().iter().map(|t| t.name_any()).collect();
            if have == wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, settled).await.unwrap();
    task.abort();
    fixture.done().await;
}

#[tokio::test]
async fn a_controller_reconciles_and_writes_status() {
    #[derive(Debug, thiserror::Error)]
    #[error(transparent)]
    struct Failure(#[from] kube::Error);

    async fn reconcile(thread: Arc<Thread>, client: Arc<Client>) -> Result<Action, Failure> {
        let namespace = thread.namespace().unwrap();
        let threads: Api<Thread> = Api::namespaced(client.as_ref().clone(), &namespace);
        let status = Patch::Apply(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
            "status": {"observedGeneration": thread.metadata.generation},
        }));
        let params = PatchParams::apply("controller").force();
        threads.patch_status(&thread.name_any(), &params, &status).await?;
        Ok(Action::await_change())
    }

    let fixture = Fixture::new().await;
    let threads: Api<Thread> = Api::namespaced(fixture.client.clone(), &fixture.namespace);
    let controller = Controller::new(threads.clone(), watcher::Config::default()).run(
        reconcile,
        |_, _, _| Action::requeue(Duration::from_secs(1)),
        Arc::new(fixture.client.clone()),
    );
    let task = tokio::spawn(controller.for_each(|_| async {}));
    fixture.threads().create(&PostParams::default(), &thread("t")).await.unwrap();
    for generation in 1..=2 {
        let observed = kube::runtime::wait::await_condition(
            threads.clone(),
            "t",
            move |t: Option<&Thread>| {
                t.and_then(|t| t.status.as_ref()?.observed_generation) == Some(generation)
            },
        );
        tokio::time::timeout(SOON, observed).await.unwrap().unwrap();
        let close = Patch::Merge(json!({"spec": {"state": "Closed"}}));
        fixture.threads().patch("t", &PatchParams::default(), &close).await.unwrap();
    }
    task.abort();
    fixture.done().await;
}
