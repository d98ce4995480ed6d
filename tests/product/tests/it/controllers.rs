//! The controllers, through the API alone.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use k8s_openapi::api::core::v1::{
    ConfigMap, Namespace, PersistentVolumeClaim, Secret, ServiceAccount,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::core::{DynamicObject, GroupVersionKind};
use kube::discovery::ApiResource;
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use crate::support::needs_process_kubelet;
use crate::world::{World, without_kubelet};

fn owned_by(owner: &ConfigMap, name: &str) -> Value {
    json!({"metadata": {"name": name, "ownerReferences": [{
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner.name_any(), "uid": owner.uid(),
        "blockOwnerDeletion": true,
    }]}})
}

async fn gone(world: &World, name: &str) {
    world
        .until(name, || async {
            world.api::<ConfigMap>().get_opt(name).await.unwrap().is_none().then_some(())
        })
        .await;
}

#[tokio::test]
async fn what_is_owned_goes_with_its_owner() {
    if needs_process_kubelet("the testbed's controllers are what is tested") {
        return;
    }
    let world = without_kubelet().await;
    let owner: ConfigMap = world.create(json!({"metadata": {"name": "owner"}})).await;
    let child: ConfigMap = world.create(owned_by(&owner, "child")).await;
    let _: ConfigMap = world.create(owned_by(&child, "grandchild")).await;
    let _: ConfigMap = world.create(json!({"metadata": {"name": "bystander"}})).await;
    let maps = world.api::<ConfigMap>();
    maps.delete("owner", &DeleteParams::background()).await.unwrap();
    gone(&world, "grandchild").await;
    gone(&world, "child").await;
    assert!(maps.get_opt("bystander").await.unwrap().is_some());
    // A dependent that comes too late.
    let _: ConfigMap = world.create(owned_by(&owner, "late")).await;
    gone(&world, "late").await;
    world.end().await;
}

#[tokio::test]
async fn a_new_owner_of_the_same_name_is_another() {
    if needs_process_kubelet("the testbed's controllers are what is tested") {
        return;
    }
    let world = without_kubelet().await;
    let old: ConfigMap = world.create(json!({"metadata": {"name": "owner"}})).await;
    let maps = world.api::<ConfigMap>();
    maps.delete("owner", &DeleteParams::default()).await.unwrap();
    let new: ConfigMap = world.create(json!({"metadata": {"name": "owner"}})).await;
    let _: ConfigMap = world.create(owned_by(&old, "of-old")).await;
    let _: ConfigMap = world.create(owned_by(&new, "of-new")).await;
    gone(&world, "of-old").await;
    assert!(maps.get_opt("of-new").await.unwrap().is_some());
    world.end().await;
}

#[tokio::test]
async fn foreground_and_orphan() {
    if needs_process_kubelet("the testbed's controllers are what is tested") {
        return;
    }
    let world = without_kubelet().await;
    let maps = world.api::<ConfigMap>();
    let first: ConfigMap = world.create(json!({"metadata": {"name": "first"}})).await;
    let mut child = owned_by(&first, "child");
    child["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let _: ConfigMap = world.create(child).await;
    maps.delete("first", &DeleteParams::foreground()).await.unwrap();
    world
        .until("deletion of the child", || async {
            maps.get("child").await.unwrap().meta().deletion_timestamp.clone()
        })
        .await;
    assert!(maps.get_opt("first").await.unwrap().is_some(), "waits for its child");
    let free = kube::api::Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("child", &kube::api::PatchParams::default(), &free).await.unwrap();
    gone(&world, "child").await;
    gone(&world, "first").await;

    let second: ConfigMap = world.create(json!({"metadata": {"name": "second"}})).await;
    let _: ConfigMap = world.create(owned_by(&second, "orphan")).await;
    maps.delete("second", &DeleteParams::orphan()).await.unwrap();
    gone(&world, "second").await;
    assert!(maps.get("orphan").await.unwrap().owner_references().is_empty());
    world.end().await;
}

#[tokio::test]
async fn custom_resources_own_and_are_owned() {
    if needs_process_kubelet("the testbed's controllers are what is tested") {
        return;
    }
    let world = without_kubelet().await;
    let kind = format!("Thing{}", &world.namespace[5..]);
    let plural = format!("{}s", kind.to_lowercase());
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }}],
        },
    }))
    .unwrap();
    // Of an owner that nobody can look for yet.
    let early = json!([{"apiVersion": "example.com/v1", "kind": kind, "name": "never",
                        "uid": "5e9a3f0c-7c1c-4a53-9d6f-0b1f0c6f3c11"}]);
    let _: ConfigMap =
        world.create(json!({"metadata": {"name": "early", "ownerReferences": early}})).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    definitions.create(&PostParams::default(), &definition).await.unwrap();
    gone(&world, "early").await;
    let resource = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("example.com", "v1", &kind),
        &plural,
    );
    let things: Api<DynamicObject> =
        Api::namespaced_with(world.client.clone(), &world.namespace, &resource);
    let thing = world
        .until("definition", || async {
            let new = DynamicObject::new("thing", &resource);
            things.create(&PostParams::default(), &new).await.ok()
        })
        .await;
    let owner = json!([{"apiVersion": "example.com/v1", "kind": kind, "name": "thing",
                        "uid": thing.uid()}]);
    let _: ConfigMap =
        world.create(json!({"metadata": {"name": "child", "ownerReferences": owner}})).await;
    let map: ConfigMap = world.create(json!({"metadata": {"name": "map"}})).await;
    let mut second = DynamicObject::new("second", &resource);
    second.metadata = serde_json::from_value(owned_by(&map, "second")["metadata"].clone()).unwrap();
    things.create(&PostParams::default(), &second).await.unwrap();
    world.api::<ConfigMap>().delete("map", &DeleteParams::default()).await.unwrap();
    world
        .until("owned thing", || async {
            things.get_opt("second").await.unwrap().is_none().then_some(())
        })
        .await;
    things.delete("thing", &DeleteParams::default()).await.unwrap();
    gone(&world, "child").await;
    definitions.delete(&definition.name_any(), &DeleteParams::default()).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn a_namespace_is_emptied_before_it_goes() {
    if needs_process_kubelet("the testbed's controllers are what is tested") {
        return;
    }
    let world = without_kubelet().await;
    let _: ConfigMap = world
        .create(json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}))
        .await;
    let _: Secret = world.create(json!({"metadata": {"name": "s"}})).await;
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    namespaces.delete(&world.namespace, &DeleteParams::default()).await.unwrap();
    world
        .until("emptying", || async {
            let left = world.api::<Secret>().list(&ListParams::default()).await.unwrap();
            left.items.is_empty().then_some(())
        })
        .await;
    let found = namespaces.get(&world.namespace).await.unwrap();
    assert_eq!(found.status.unwrap().phase.as_deref(), Some("Terminating"));
    let free = kube::api::Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let params = kube::api::PatchParams::default();
    world.api::<ConfigMap>().patch("held", &params, &free).await.unwrap();
    world
        .until("end of the namespace", || async {
            namespaces.get_opt(&world.namespace).await.unwrap().is_none().then_some(())
        })
        .await;
    world.end().await;
}

#[tokio::test]
async fn a_volume_grows_when_its_claim_does() {
    if needs_process_kubelet("the testbed's controllers are what is tested") {
        return;
    }
    let world = without_kubelet().await;
    let claim: PersistentVolumeClaim = world
        .create(json!({"metadata": {"name": "c"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "standard",
            "resources": {"requests": {"storage": "1Gi"}},
        }}))
        .await;
    let claims = world.api::<PersistentVolumeClaim>();
    let capacity = |size: &'static str| {
        let claims = claims.clone();
        move || {
            let claims = claims.clone();
            async move {
                let claim = claims.get("c").await.unwrap();
                let now = claim.status?.capacity?.get("storage")?.0.clone();
                (now == size).then_some(())
            }
        }
    };
    world.until("a volume", capacity("1Gi")).await;
    let grow = kube::api::Patch::Merge(
        json!({"spec": {"resources": {"requests": {"storage": "2048Mi"}}}}),
    );
    let params = kube::api::PatchParams::default();
    claims.patch(&claim.name_any(), &params, &grow).await.unwrap();
    world.until("a larger volume", capacity("2Gi")).await;
    claims.delete("c", &DeleteParams::default()).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn every_namespace_has_its_default_account() {
    if needs_process_kubelet("the testbed's controllers are what is tested") {
        return;
    }
    let world = without_kubelet().await;
    let accounts = world.api::<ServiceAccount>();
    let first = accounts.get("default").await.unwrap();
    accounts.delete("default", &DeleteParams::default()).await.unwrap();
    world
        .until("a new account", || async {
            let now = accounts.get_opt("default").await.unwrap()?;
            (now.uid() != first.uid()).then_some(())
        })
        .await;
    let bundle = world.until("root CA", || async {
        world.api::<ConfigMap>().get_opt("kube-root-ca.crt").await.unwrap()
    });
    assert!(bundle.await.data.unwrap()["ca.crt"].contains("BEGIN CERTIFICATE"));
    world.end().await;
}
