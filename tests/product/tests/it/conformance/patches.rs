//! The patch formats and what they fail with.

use serde_json::{Value, json};

use super::behaviours;
use super::custom::rules::UNCHECKED;
use super::lab::{Lab, map, pod, thread, version};

behaviours! { "patches",
    json_patch => "JSON patch: test, add, replace, remove, move, copy",
    json_test => "a failed test, or a path that is not there: 422 without details",
    json_lenient => "JSON patch: replacing what is not there adds it, and null is nothing",
    json_malformed => "a JSON patch that is none: 400",
    merge_null => "merge patch: null deletes",
    conditional => "a patch with a stale resourceVersion: 409",
    strategic_keys => "strategic merge knows the keys of lists",
    strategic_directives => "strategic merge: $patch delete and replace, $deleteFromPrimitiveList",
    strategic_custom => "strategic merge of a custom resource: 415 naming the formats",
    unknown_format => "another patch format: 415, custom kinds name the formats",
    nothing => "patching what is not there: 404",
    identity => "a patch can't rename or move",
    invalid_result => "a patch with an invalid result: 422 naming the field",
    force_needs_apply => "force without apply: 422 about the options",
    order => "racing patches all arrive",
}

async fn json_patch(lab: Lab) {
    lab.post("configmaps", map("m")).await.ok(201);
    let patch = json!([
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "add", "path": "/data/b", "value": "2"},
        {"op": "copy", "from": "/data/b", "path": "/data/c"},
        {"op": "move", "from": "/data/a", "path": "/data/d"},
        {"op": "replace", "path": "/data/b", "value": "3"},
    ]);
    let after = lab.json_patch("configmaps/m", patch).await;
    assert_eq!(after.ok(200)["data"], json!({"b": "3", "c": "2", "d": "1"}));
}

async fn json_test(lab: Lab) {
    lab.post("configmaps", map("m")).await.ok(201);
    for patch in [
        json!([{"op": "test", "path": "/data/a", "value": "9"}]),
        json!([{"op": "remove", "path": "/data/zzz"}]),
        json!([{"op": "replace", "path": "/zzz/zzz", "value": "1"}]),
    ] {
        let refused = lab.json_patch("configmaps/m", patch).await;
        refused.says(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        );
        assert_eq!(refused.json["details"], json!({}));
    }
}

async fn json_lenient(lab: Lab) {
    lab.post("configmaps", map("m")).await.ok(201);
    let patch = json!([
        {"op": "test", "path": "/data/zzz", "value": null},
        {"op": "replace", "path": "/data/zzz", "value": "1"},
    ]);
    assert_eq!(lab.json_patch("configmaps/m", patch).await.ok(200)["data"]["zzz"], "1");
}

async fn json_malformed(lab: Lab) {
    lab.post("configmaps", map("m")).await.ok(201);
    lab.json_patch("configmaps/m", json!({"op": "remove"})).await.refused(400, "BadRequest", &[]);
}

async fn merge_null(lab: Lab) {
    lab.post("configmaps", map("m")).await.ok(201);
    let after = lab.merge("configmaps/m", json!({"data": {"a": null, "b": "2"}})).await;
    assert_eq!(after.ok(200)["data"], json!({"b": "2"}));
}

async fn conditional(lab: Lab) {
    let made = lab.post("configmaps", map("m")).await.ok(201).clone();
    let with = |version: &str, value: &str| json!({"metadata": {"resourceVersion": version}, "data": {"a": value}});
    let after = lab.merge("configmaps/m", with(version(&made), "2")).await;
    after.ok(200);
    lab.merge("configmaps/m", with(version(&made), "3")).await.says(
        409,
        "Conflict",
        "Operation cannot be fulfilled on configmaps \"m\": the object has been modified; please apply your changes to the latest version and try again",
    );
    lab.strategic("configmaps/m", with(version(&made), "3")).await.refused(409, "Conflict", &[]);
}

async fn strategic_keys(lab: Lab) {
    lab.post("pods", pod("p")).await.ok(201);
    let patch = json!({
        "metadata": {"finalizers": ["example.org/a"]},
        "spec": {"containers": [{"name": "main", "image": "image:2"}]},
    });
    let after = lab.strategic("pods/p", patch).await.ok(200).clone();
    assert_eq!(after["spec"]["containers"].as_array().unwrap().len(), 1);
    assert_eq!(after["spec"]["containers"][0]["image"], "image:2");
    let more = json!({"metadata": {"finalizers": ["example.org/b"]}});
    let after = lab.strategic("pods/p", more).await;
    assert_eq!(after.ok(200)["metadata"]["finalizers"].as_array().unwrap().len(), 2);
    lab.merge("pods/p", json!({"metadata": {"finalizers": null}})).await.ok(200);
}

async fn strategic_directives(lab: Lab) {
    let service = json!({"metadata": {"name": "s", "finalizers": ["example.org/a", "example.org/b"]}, "spec": {
        "selector": {"a": "1", "b": "2"},
        "ports": [{"name": "one", "port": 1}, {"name": "two", "port": 2}],
    }});
    lab.post("services", service).await.ok(201);
    let patch = json!({
        "metadata": {"$deleteFromPrimitiveList/finalizers": ["example.org/a"]},
        "spec": {
            "selector": {"$patch": "replace", "c": "3"},
            "ports": [{"$patch": "delete", "port": 1}],
        },
    });
    let after = lab.strategic("services/s", patch).await.ok(200).clone();
    assert_eq!(after["metadata"]["finalizers"], json!(["example.org/b"]));
    assert_eq!(after["spec"]["selector"], json!({"c": "3"}));
    assert_eq!(after["spec"]["ports"].as_array().unwrap().len(), 1);
    assert_eq!(after["spec"]["ports"][0]["name"], "two");
    lab.merge("services/s", json!({"metadata": {"finalizers": null}})).await.ok(200);
}

async fn strategic_custom(lab: Lab) {
    lab.post("threads", thread("t")).await.ok(201);
    lab.strategic("threads/t", json!({"spec": {"state": "Closed"}})).await.refused(
        415,
        "UnsupportedMediaType",
        &[
            "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        ],
    );
}

async fn unknown_format(lab: Lab) {
    lab.post("configmaps", map("m")).await.ok(201);
    lab.post("threads", thread("t")).await.ok(201);
    let json = [("content-type", "application/json")];
    lab.call("PATCH", "configmaps/m", &json, b"{}".to_vec()).await.says(
        415,
        "UnsupportedMediaType",
        "415: Unsupported Media Type",
    );
    lab.call("PATCH", "threads/t", &json, b"{}".to_vec()).await.refused(
        415,
        "UnsupportedMediaType",
        &[
            "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        ],
    );
}

async fn nothing(lab: Lab) {
    lab.merge("configmaps/m", json!({"data": {}})).await.says(
        404,
        "NotFound",
        "configmaps \"m\" not found",
    );
}

async fn identity(lab: Lab) {
    lab.post("configmaps", map("m")).await.ok(201);
    let rename = lab.merge("configmaps/m", json!({"metadata": {"name": "n"}})).await;
    rename.says(
        400,
        "BadRequest",
        "the name of the object (n) does not match the name on the URL (m)",
    );
    let moved = lab.merge("configmaps/m", json!({"metadata": {"namespace": "other"}})).await;
    moved.refused(400, "BadRequest", &["the namespace of the provided object does not match"]);
    let other = lab.merge("configmaps/m", json!({"metadata": {"uid": "other"}})).await;
    let named = "ConfigMap \"m\" is invalid: metadata.uid: Invalid value: \"other\": ";
    other
        .says(422, "Invalid", &format!("{named}field is immutable"))
        .cause("metadata.uid", "FieldValueInvalid");
}

async fn invalid_result(lab: Lab) {
    lab.post("threads", thread("t")).await.ok(201);
    lab.merge("threads/t", json!({"spec": {"state": "Open"}}))
        .await
        .says(
            422,
            "Invalid",
            &format!("Thread.codebutler.dev \"t\" is invalid: [spec.state: Unsupported value: \"Open\": supported values: \"Active\", \"Closed\", {UNCHECKED}]"),
        )
        .about("t", "codebutler.dev", "Thread")
        .cause("spec.state", "FieldValueNotSupported");
}

async fn force_needs_apply(lab: Lab) {
    lab.post("configmaps", map("m")).await.ok(201);
    lab.merge("configmaps/m?force=true", json!({"data": {"a": "2"}}))
        .await
        .says(
            422,
            "Invalid",
            "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch",
        )
        .cause("force", "FieldValueForbidden");
}

async fn order(lab: Lab) {
    lab.post("configmaps", map("m")).await.ok(201);
    let patches = (0..12).map(|n| {
        let lab = lab.clone();
        async move { lab.merge("configmaps/m", json!({"data": {format!("k{n}"): "1"}})).await.code }
    });
    let codes = futures::future::join_all(patches).await;
    let done = codes.iter().filter(|code| **code == 200).count();
    // Patches without a version are tried again by the server, some times.
    assert!(codes.iter().all(|code| matches!(code, 200 | 409)), "{codes:?}");
    let found = lab.get("configmaps/m").await;
    let data: &Value = &found.ok(200)["data"];
    assert_eq!(data.as_object().unwrap().len(), done + 1);
}
