//! Custom resources.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::conditions;
use kube::runtime::wait::{await_condition, delete::delete_and_finalize};
use kube::{ResourceExt as _, discovery::Discovery};
use serde_json::json;

use super::{Fixture, object, refusal, resource, thread};

#[tokio::test]
async fn defaults_are_filled_in_and_unknown_fields_dropped() {
    let fixture = Fixture::new().await;
    let mut wanted = thread("t");
    wanted.data["spec"]["bogus"] = 1.into();
    let made = fixture.threads().create(&PostParams::default(), &wanted).await.unwrap();
    assert_eq!(made.data["spec"]["state"], "Active");
    assert_eq!(made.data["spec"].get("bogus"), None);
    assert_eq!(made.metadata.generation, Some(1));
    let strict = PatchParams {
        field_validation: Some(kube::api::ValidationDirective::Strict),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({"spec": {"bogus": 1}}));
    let refused = refusal(fixture.threads().patch("t", &strict, &patch).await);
    assert!(refused.message.contains("unknown field \"spec.bogus\""), "{}", refused.message);
    fixture.done().await;
}

#[tokio::test]
async fn schemas_and_rules_are_enforced() {
    let fixture = Fixture::new().await;
    let (threads, post) = (fixture.threads(), PostParams::default());
    let mut bad = thread("bad");
    bad.data["spec"] = json!({"slack": {"channel": "nope", "ts": 5}, "state": "Open"});
    let refused = refusal(threads.create(&post, &bad).await);
    assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"));
    for part in [
        "spec.repo: Required value",
        "spec.slack.channel: Invalid value: \"nope\": spec.slack.channel in body should match",
        "spec.slack.ts: Invalid value: \"integer\": spec.slack.ts in body must be of type string",
        "spec.state: Unsupported value: \"Open\": supported values: \"Active\", \"Closed\"",
    ] {
        assert!(refused.message.contains(part), "{part} is not in {}", refused.message);
    }
    threads.create(&post, &thread("t")).await.unwrap();
    let patch = Patch::Merge(json!({"spec": {"repo": "other"}}));
    let refused = refusal(threads.patch("t", &PatchParams::default(), &patch).await);
    assert!(refused.message.contains("a Thread stays with its Repo"), "{}", refused.message);
    let patch = Patch::Merge(json!({"spec": {"state": "Closed"}}));
    let closed = threads.patch("t", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(closed.metadata.generation, Some(2));
    fixture.done().await;
}

#[tokio::test]
async fn status_and_spec_are_written_apart() {
    let fixture = Fixture::new().await;
    let (threads, params) = (fixture.threads(), PatchParams::default());
    let mut wanted = thread("t");
    wanted.data["status"] = json!({"phase": "pm"});
    let made = threads.create(&PostParams::default(), &wanted).await.unwrap();
    assert_eq!(made.data.get("status"), None);
    let both = Patch::Merge(json!({"spec": {"state": "Closed"}, "status": {"phase": "pm"}}));
    let after = threads.patch_status("t", &params, &both).await.unwrap();
    assert_eq!(
        (&after.data["status"]["phase"], &after.data["spec"]["state"]),
        (&json!("pm"), &json!("Active"))
    );
    assert_eq!(after.metadata.generation, Some(1));
    let both = Patch::Merge(json!({"spec": {"state": "Closed"}, "status": {"phase": "coder"}}));
    let after = threads.patch("t", &params, &both).await.unwrap();
    assert_eq!(
        (&after.data["status"]["phase"], &after.data["spec"]["state"]),
        (&json!("pm"), &json!("Closed"))
    );
    assert_eq!(after.metadata.generation, Some(2));
    // As the gateway moves marks.
    let mark = json!([
        {"op": "test", "path": "/status/phase", "value": "pm"},
        {"op": "add", "path": "/status/roles", "value": {"pm": {"inbox": "1700000000.000100"}}},
    ]);
    let patch = Patch::Json::<()>(serde_json::from_value(mark).unwrap());
    let after = threads.patch_status("t", &params, &patch).await.unwrap();
    assert_eq!(after.data["status"]["roles"]["pm"]["inbox"], "1700000000.000100");
    assert_eq!(after.data["status"]["roles"]["pm"]["turns"], 0);
    fixture.done().await;
}

#[tokio::test]
async fn selectable_fields_select() {
    let fixture = Fixture::new().await;
    fixture.threads().create(&PostParams::default(), &thread("t")).await.unwrap();
    let count = async |selector: &str| {
        fixture.threads().list(&ListParams::default().fields(selector)).await.unwrap().items.len()
    };
    assert_eq!(count("spec.repo=shop").await, 1);
    assert_eq!(count("spec.repo=other").await, 0);
    fixture.done().await;
}

#[tokio::test]
async fn a_definition_comes_and_goes_with_its_objects() {
    let fixture = Fixture::new().await;
    let group = format!("{}.example.org", fixture.namespace);
    let name = format!("widgets.{group}");
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "properties": {"spec": {
                    "type": "object",
                    "properties": {
                        "size": {"type": "integer", "minimum": 1, "default": 3},
                        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                        "port": {"x-kubernetes-int-or-string": true},
                        "parts": {
                            "type": "array", "maxItems": 5,
                            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                            "items": {"type": "object", "required": ["name"], "properties": {
                                "name": {"type": "string"}, "count": {"type": "integer"},
                            }},
                        },
                    },
                    "x-kubernetes-validations": [
                        {"rule": "!has(self.parts) || self.parts.size() <= self.size",
                         "message": "more parts than size"},
                    ],
                }}},
            }}],
        },
    }))
    .unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(fixture.client.clone());
    definitions.create(&PostParams::default(), &definition).await.unwrap();
    let established = await_condition(definitions.clone(), &name, conditions::is_crd_established());
    tokio::time::timeout(Duration::from_secs(20), established).await.unwrap().unwrap();
    let found = Discovery::new(fixture.client.clone()).filter(&[&group]).run().await.unwrap();
    assert!(found.has_group(&group));

    let api = Api::<kube::api::DynamicObject>::namespaced_with(
        fixture.client.clone(),
        &fixture.namespace,
        &resource(&format!("{group}/v1"), "Widget", "widgets"),
    );
    let widget = |spec: serde_json::Value| {
        object(json!({
            "apiVersion": format!("{group}/v1"), "kind": "Widget",
            "metadata": {"name": "w"}, "spec": spec,
        }))
    };
    let post = PostParams::default();
    for (spec, part) in [
        (json!({"size": 0}), "spec.size in body should be greater than or equal to 1"),
        (json!({"port": true}), "must be of type integer,string"),
        (json!({"parts": [{"name": "a"}, {"name": "a"}]}), "spec.parts[1]: Duplicate value"),
        (json!({"size": 1, "parts": [{"name": "a"}, {"name": "b"}]}), "more parts than size"),
    ] {
        let refused = refusal(api.create(&post, &widget(spec)).await);
        assert!(refused.message.contains(part), "{part} is not in {}", refused.message);
    }
    let good = json!({"free": {"any": [1, {"x": null}]}, "port": "http", "odd": 1});
    let made = api.create(&post, &widget(good)).await.unwrap();
    assert_eq!(
        made.data["spec"],
        json!({"free": {"any": [1, {"x": null}]}, "port": "http", "size": 3})
    );

    let params = DeleteParams::default();
    let gone = delete_and_finalize(definitions, &name, &params);
    tokio::time::timeout(Duration::from_secs(30), gone).await.unwrap().unwrap();
    assert_eq!(refusal(api.get(&made.name_any()).await).code, 404);
    fixture.done().await;
}
