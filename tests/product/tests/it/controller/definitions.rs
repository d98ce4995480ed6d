//! The definitions in the cluster are missing, or of another version than the controller.

use std::net::TcpListener;

use serde_json::Value;

use super::world::{World, eventually};

/// Returns status and text of `/readyz`.
async fn readiness(url: &str) -> Option<(u16, String)> {
    let answer = reqwest::get(url).await.ok()?;
    let code = answer.status().as_u16();
    answer.text().await.ok().map(|text| (code, text))
}

#[tokio::test]
async fn definitions_that_are_missing_or_older_are_waited_for_and_named() {
    let world = World::without_definitions().await;
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{free}/readyz");
    let (stop, running) = world.replica_at("a", free);
    let waits_for = |what: &'static str| {
        let url = url.clone();
        async move {
            let said = || async {
                let (code, text) = readiness(&url).await?;
                (code == 503 && text.contains(what)).then_some(text)
            };
            eventually(&format!("/readyz names {what}"), said).await
        }
    };
    let said = waits_for("does not know the kinds of codebutler.dev/v1alpha1").await;
    assert!(said.contains("codebutler-crds"), "{said}");

    // An older version knows no Repo, and has not all that is written of a Thread.
    for crd in codebutler_crds::all_definitions() {
        let mut crd: Value = serde_json::to_value(crd).unwrap();
        match crd["spec"]["names"]["kind"].as_str().unwrap() {
            "Repo" => continue,
            "Thread" => {
                let status = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
                let status = crd.pointer_mut(status).unwrap().as_object_mut().unwrap();
                status.remove("term").unwrap();
            }
            _ => {}
        }
        world.cluster().apply_yaml(&crd.to_string()).await.unwrap();
    }
    let said = waits_for("without `Repo`, `Thread.status.term`").await;
    assert!(said.contains("upgrade the chart codebutler-crds"), "{said}");
    assert!(!running.is_finished());

    world.define().await;
    let ready = || async { readiness(&url).await.filter(|(code, _)| *code == 200).map(drop) };
    eventually("it is ready", ready).await;
    world.create_repo().await;
    world.repo_is_ready().await;
    stop.cancel();
    running.await.unwrap().unwrap();
}
