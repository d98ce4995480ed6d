//! Server-side apply.

use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{Fixture, refusal};

fn map(data: &Value) -> Patch<Value> {
    Patch::Apply(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data,
    }))
}

#[tokio::test]
async fn managers_own_what_they_apply_and_lose_what_they_leave_out() {
    let fixture = Fixture::new().await;
    let maps = fixture.maps();
    let (a, b) = (PatchParams::apply("a"), PatchParams::apply("b"));
    maps.patch("m", &a, &map(&json!({"x": "1", "y": "1"}))).await.unwrap();
    let both = maps.patch("m", &b, &map(&json!({"y": "1", "z": "2"}))).await.unwrap();
    assert_eq!(both.data["data"], json!({"x": "1", "y": "1", "z": "2"}));

    let conflict = refusal(maps.patch("m", &b, &map(&json!({"x": "2"}))).await);
    assert_eq!((conflict.code, conflict.reason.as_str()), (409, "Conflict"));
    assert_eq!(conflict.message, "Apply failed with 1 conflict: conflict with \"a\": .data.x");
    let more = refusal(maps.patch("m", &b, &map(&json!({"x": "2", "y": "2"}))).await);
    assert_eq!(
        more.message,
        "Apply failed with 2 conflicts: conflicts with \"a\":\n- .data.x\n- .data.y"
    );
    // `y` has two owners and stays when one of them leaves it out; `z` has one and goes.
    let after = maps.patch("m", &b, &map(&json!({}))).await.unwrap();
    assert_eq!(after.data["data"], json!({"x": "1", "y": "1"}));
    let after = maps.patch("m", &b.clone().force(), &map(&json!({"x": "2"}))).await.unwrap();
    assert_eq!(after.data["data"], json!({"x": "2", "y": "1"}));
    // `x` is no longer a's, so leaving it out does not remove it.
    let after = maps.patch("m", &a, &map(&json!({"y": "1"}))).await.unwrap();
    assert_eq!(after.data["data"], json!({"x": "2", "y": "1"}));
    let again = maps.patch("m", &a, &map(&json!({"y": "1"}))).await.unwrap();
    assert_eq!(again.resource_version(), after.resource_version());

    let managers: Vec<(String, String)> = after
        .managed_fields()
        .iter()
        .map(|e| (e.manager.clone().unwrap(), e.operation.clone().unwrap()))
        .collect();
    assert!(managers.contains(&("a".into(), "Apply".into())));
    assert!(managers.contains(&("b".into(), "Apply".into())));
    fixture.done().await;
}

#[tokio::test]
async fn other_writes_take_fields_and_are_named_in_conflicts() {
    let fixture = Fixture::new().await;
    let maps = fixture.maps();
    let a = PatchParams::apply("a");
    maps.patch("m", &a, &map(&json!({"x": "1"}))).await.unwrap();
    let editor = PatchParams { field_manager: Some("editor".into()), ..PatchParams::default() };
    let edit = Patch::Merge(json!({"data": {"x": "2"}}));
    let edited = maps.patch("m", &editor, &edit).await.unwrap();
    let entry = edited.managed_fields().iter().find(|e| e.manager.as_deref() == Some("editor"));
    let fields = serde_json::to_value(&entry.unwrap().fields_v1).unwrap();
    assert_eq!(fields, json!({"f:data": {"f:x": {}}}));
    let conflict = refusal(maps.patch("m", &a, &map(&json!({"x": "1"}))).await);
    let start = "Apply failed with 1 conflict: conflict with \"editor\" using v1";
    assert!(conflict.message.starts_with(start), "{}", conflict.message);
    assert!(conflict.message.ends_with(": .data.x"), "{}", conflict.message);
    // A manager that applies the same value becomes an owner beside the other.
    maps.patch("m", &a, &map(&json!({"x": "2"}))).await.unwrap();
    fixture.done().await;
}

#[tokio::test]
async fn items_of_keyed_lists_have_owners_of_their_own() {
    let fixture = Fixture::new().await;
    let services = fixture.api("v1", "Service", "services");
    let service = |ports: Value| {
        Patch::Apply(json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
            "spec": {"selector": {"app": "x"}, "ports": ports},
        }))
    };
    let (a, b) = (PatchParams::apply("a"), PatchParams::apply("b"));
    let one = json!([{"name": "one", "port": 1}]);
    services.patch("s", &a, &service(one)).await.unwrap();
    let both =
        services.patch("s", &b, &service(json!([{"name": "two", "port": 2}]))).await.unwrap();
    assert_eq!(both.data["spec"]["ports"].as_array().unwrap().len(), 2);
    let left = services
        .patch(
            "s",
            &a,
            &Patch::Apply(json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
            })),
        )
        .await
        .unwrap();
    let ports = left.data["spec"]["ports"].as_array().unwrap();
    assert_eq!(ports.len(), 1);
    assert_eq!(ports[0]["name"], "two");
    fixture.done().await;
}

#[tokio::test]
async fn status_is_applied_apart() {
    let fixture = Fixture::new().await;
    let threads = fixture.threads();
    let whole = |spec: Value, status: Value| {
        Patch::Apply(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread", "metadata": {"name": "t"},
            "spec": spec, "status": status,
        }))
    };
    let spec = json!({"repo": "shop", "slack": {"channel": "C0123", "ts": "1700000000.000100"}});
    let params = PatchParams::apply("a");
    let made =
        threads.patch("t", &params, &whole(spec.clone(), json!({"phase": "pm"}))).await.unwrap();
    assert_eq!(made.data.get("status"), None);
    let condition = |kind: &str| {
        json!({
            "type": kind, "status": "True", "reason": "Test", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let mut status = whole(json!({}), json!({"phase": "pm", "conditions": [condition("Ready")]}));
    if let Patch::Apply(value) = &mut status {
        value.as_object_mut().unwrap().remove("spec");
    }
    threads.patch_status("t", &params, &status).await.unwrap();
    let other = Patch::Apply(json!({
        "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
        "status": {"conditions": [condition("Stalled")]},
    }));
    let done = threads.patch_status("t", &PatchParams::apply("b"), &other).await.unwrap();
    assert_eq!(done.data["status"]["conditions"].as_array().unwrap().len(), 2);
    assert_eq!(done.data["spec"]["repo"], "shop");
    // Applying the spec again does not touch the status.
    let again = threads.patch("t", &params, &whole(spec, json!({}))).await.unwrap();
    assert_eq!(again.data["status"]["phase"], "pm");
    let entries = again.managed_fields();
    assert!(
        entries.iter().any(
            |e| e.manager.as_deref() == Some("a") && e.subresource.as_deref() == Some("status")
        )
    );
    fixture.done().await;
}
