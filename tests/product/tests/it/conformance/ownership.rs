//! Server-side apply and managed fields.

use serde_json::{Value, json};

use super::behaviours;
use super::lab::{Lab, Reply, map, thread, version};

behaviours! { "apply",
    creates => "applying what is not there: 201, owned by the manager",
    conflict_one => "another manager's field: 409 with one conflict and its cause",
    conflict_many => "several fields and managers: sorted list in the message, causes",
    conflict_update => "a conflict names the operation's version and time",
    forced => "force takes the fields",
    nameless => "a write without a manager's or a program's name: unknown",
    left_out => "what a manager no longer applies goes, unless others own it",
    shared => "the same value is owned together",
    idempotent => "applying again makes no version",
    keyed_lists => "items of keyed lists have owners of their own",
    atomic_lists => "atomic lists are owned whole",
    status_apart => "the status is applied apart, with an entry of its own",
    before_first_apply => "unmanaged objects: fields belong to before-first-apply",
    reset => "an empty entry clears all managers",
    no_manager => "no fieldManager: 422 required",
    managed_fields => "a configuration with managedFields: 400",
    undeclared => "a field the schema does not know: 500 typed patch",
    identity => "a configuration of another name: 400; needs a kind",
    other_version => "a configuration of another version: 400 with both",
    stale => "a stale resourceVersion in the configuration: 409",
    dry => "a dry run reports the conflict too",
    times => "an entry's time moves with a change, and never makes one",
}

fn data(data: Value) -> Value {
    json!({"metadata": {"name": "m"}, "data": data})
}

fn managers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let show = |e: &Value| {
        let text = |field: &str| e[field].as_str().unwrap_or_default().to_owned();
        format!("{} {} {}", text("manager"), text("operation"), text("subresource"))
            .trim()
            .to_owned()
    };
    let mut shown: Vec<String> = entries.iter().map(show).collect();
    shown.sort();
    shown
}

async fn nameless(lab: Lab) {
    let made = lab.post("configmaps", map("m")).await;
    assert_eq!(managers(made.ok(201)), ["unknown Update"]);
}

async fn creates(lab: Lab) {
    let made =
        lab.apply("configmaps/m?fieldManager=a", data(json!({"x": "1"}))).await.ok(201).clone();
    let entry = &made["metadata"]["managedFields"][0];
    assert_eq!((&entry["manager"], &entry["operation"]), (&json!("a"), &json!("Apply")));
    assert_eq!(entry["fieldsV1"], json!({"f:data": {"f:x": {}}}));
}

async fn conflict_one(lab: Lab) {
    lab.apply("configmaps/m?fieldManager=a", data(json!({"x": "1", "y": "1"}))).await.ok(201);
    let refused = lab.apply("configmaps/m?fieldManager=b", data(json!({"x": "2"}))).await;
    refused
        .says(409, "Conflict", "Apply failed with 1 conflict: conflict with \"a\": .data.x")
        .cause(".data.x", "FieldManagerConflict");
    assert_eq!(refused.json["details"]["causes"][0]["message"], "conflict with \"a\"");
    assert_eq!(refused.json["details"].get("name"), None);
}

async fn conflict_many(lab: Lab) {
    lab.apply("configmaps/m?fieldManager=b", data(json!({"x": "1"}))).await.ok(201);
    lab.apply("configmaps/m?fieldManager=a", data(json!({"z": "1", "y": "1"}))).await.ok(200);
    let config = data(json!({"x": "2", "y": "2", "z": "2"}));
    lab.apply("configmaps/m?fieldManager=c", config).await.says(
        409,
        "Conflict",
        "Apply failed with 3 conflicts: conflicts with \"a\":\n- .data.y\n- .data.z\nconflicts with \"b\":\n- .data.x",
    );
}

async fn conflict_update(lab: Lab) {
    lab.apply("configmaps/m?fieldManager=a", data(json!({"x": "1"}))).await.ok(201);
    lab.merge("configmaps/m?fieldManager=editor", json!({"data": {"x": "2"}})).await.ok(200);
    let found = lab.get("configmaps/m").await.ok(200).clone();
    let entries = found["metadata"]["managedFields"].as_array().unwrap();
    let entry = entries.iter().find(|e| e["manager"] == "editor").unwrap();
    let refused = lab.apply("configmaps/m?fieldManager=a", data(json!({"x": "1"}))).await;
    let message = format!(
        "Apply failed with 1 conflict: conflict with \"editor\" using v1 at {}: .data.x",
        entry["time"].as_str().unwrap()
    );
    // The time is left out where it is not known to the second.
    let short = "Apply failed with 1 conflict: conflict with \"editor\" using v1: .data.x";
    refused.refused(409, "Conflict", &[]);
    assert!(refused.message() == message || refused.message() == short, "{}", refused.message());
}

async fn forced(lab: Lab) {
    lab.apply("configmaps/m?fieldManager=a", data(json!({"x": "1", "y": "1"}))).await.ok(201);
    let taken = lab.apply("configmaps/m?fieldManager=b&force=true", data(json!({"x": "2"}))).await;
    assert_eq!(taken.ok(200)["data"], json!({"x": "2", "y": "1"}));
    // No longer a's: leaving it out does not remove it.
    let after = lab.apply("configmaps/m?fieldManager=a", data(json!({"y": "1"}))).await;
    assert_eq!(after.ok(200)["data"], json!({"x": "2", "y": "1"}));
}

async fn left_out(lab: Lab) {
    lab.apply("configmaps/m?fieldManager=a", data(json!({"x": "1", "y": "1"}))).await.ok(201);
    lab.apply("configmaps/m?fieldManager=b", data(json!({"y": "1", "z": "1"}))).await.ok(200);
    let after = lab.apply("configmaps/m?fieldManager=b", data(json!({}))).await;
    assert_eq!(after.ok(200)["data"], json!({"x": "1", "y": "1"}));
    let after = lab.apply("configmaps/m?fieldManager=a", json!({"metadata": {"name": "m"}})).await;
    assert_eq!(after.ok(200).get("data"), None);
}

async fn shared(lab: Lab) {
    lab.apply("configmaps/m?fieldManager=a", data(json!({"x": "1"}))).await.ok(201);
    let both = lab.apply("configmaps/m?fieldManager=b", data(json!({"x": "1"}))).await;
    assert_eq!(managers(both.ok(200)), ["a Apply", "b Apply"]);
    let refused = lab.apply("configmaps/m?fieldManager=a", data(json!({"x": "2"}))).await;
    refused.refused(409, "Conflict", &["conflict with \"b\": .data.x"]);
}

async fn idempotent(lab: Lab) {
    let one =
        lab.apply("configmaps/m?fieldManager=a", data(json!({"x": "1"}))).await.ok(201).clone();
    let two =
        lab.apply("configmaps/m?fieldManager=a", data(json!({"x": "1"}))).await.ok(200).clone();
    assert_eq!(version(&one), version(&two));
    assert_eq!(one, two);
}

async fn keyed_lists(lab: Lab) {
    let service = |ports: Value| json!({"metadata": {"name": "s"}, "spec": {"ports": ports}});
    let one = service(json!([{"name": "one", "port": 1}]));
    lab.apply("services/s?fieldManager=a", one).await.ok(201);
    let two = service(json!([{"name": "two", "port": 2}]));
    let both = lab.apply("services/s?fieldManager=b", two).await.ok(200).clone();
    assert_eq!(both["spec"]["ports"].as_array().unwrap().len(), 2);
    let entries = both["metadata"]["managedFields"].as_array().unwrap();
    let b = entries.iter().find(|e| e["manager"] == "b").unwrap();
    let item = "k:{\"port\":2,\"protocol\":\"TCP\"}";
    let fields = json!({".": {}, "f:name": {}, "f:port": {}});
    assert_eq!(b["fieldsV1"]["f:spec"]["f:ports"][item], fields);
    let clash = service(json!([{"name": "uno", "port": 1}]));
    lab.apply("services/s?fieldManager=b", clash).await.refused(
        409,
        "Conflict",
        &["conflict with \"a\": .spec.ports[port=1,protocol=\"TCP\"].name"],
    );
    let left = lab.apply("services/s?fieldManager=a", json!({"metadata": {"name": "s"}})).await;
    assert_eq!(left.ok(200)["spec"]["ports"].as_array().unwrap().len(), 1);
}

async fn atomic_lists(lab: Lab) {
    let policy = |ports: Value| json!({"metadata": {"name": "n"}, "spec": {"podSelector": {}, "ingress": [{"ports": ports}]}});
    lab.apply("networkpolicies/n?fieldManager=a", policy(json!([{"port": 1}]))).await.ok(201);
    let refused = lab.apply("networkpolicies/n?fieldManager=b", policy(json!([{"port": 2}]))).await;
    refused.refused(409, "Conflict", &["conflict with \"a\": .spec.ingress"]);
}

async fn status_apart(lab: Lab) {
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "Test", "message": "",
               "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let mut config = thread("t");
    config["status"] = json!({"phase": "pm"});
    let made = lab.apply("threads/t?fieldManager=a", config).await;
    assert_eq!(made.ok(201).get("status"), None);
    let status = |kind: &str| json!({"metadata": {"name": "t"}, "status": {"conditions": [condition(kind)]}});
    lab.apply("threads/t/status?fieldManager=a", status("Ready")).await.ok(200);
    let both =
        lab.apply("threads/t/status?fieldManager=b", status("Stalled")).await.ok(200).clone();
    assert_eq!(both["status"]["conditions"].as_array().unwrap().len(), 2);
    assert_eq!(managers(&both), ["a Apply", "a Apply status", "b Apply status"]);
    let mut clash = status("Ready");
    clash["status"]["conditions"][0]["status"] = "False".into();
    lab.apply("threads/t/status?fieldManager=b", clash).await.refused(
        409,
        "Conflict",
        &["conflict with \"a\" with subresource \"status\": .status.conditions[type=\"Ready\"].status"],
    );
}

async fn before_first_apply(lab: Lab) {
    let mut wanted = map("m");
    wanted["metadata"]["managedFields"] = json!([{}]);
    lab.post("configmaps", wanted).await.ok(201);
    // Forget who made it, so that nothing is managed.
    lab.merge("configmaps/m", json!({"metadata": {"managedFields": [{}]}})).await.ok(200);
    assert!(managers(&lab.get("configmaps/m").await.json).is_empty());
    let refused = lab.apply("configmaps/m?fieldManager=a", data(json!({"a": "2"}))).await;
    refused.refused(409, "Conflict", &["conflict with \"before-first-apply\" using v1", ".data.a"]);
    let after = lab.apply("configmaps/m?fieldManager=a", data(json!({"b": "2"}))).await;
    assert_eq!(managers(after.ok(200)), ["a Apply", "before-first-apply Update"]);
}

async fn reset(lab: Lab) {
    lab.apply("configmaps/m?fieldManager=a", data(json!({"x": "1"}))).await.ok(201);
    let cleared = lab.merge("configmaps/m", json!({"metadata": {"managedFields": [{}]}})).await;
    assert!(managers(cleared.ok(200)).is_empty());
    // An object that is not tracked stays so until somebody applies.
    let after = lab.merge("configmaps/m?fieldManager=e", json!({"data": {"x": "2"}})).await;
    assert!(managers(after.ok(200)).is_empty());
}

async fn no_manager(lab: Lab) {
    lab.apply("configmaps/m", data(json!({"x": "1"})))
        .await
        .says(
            422,
            "Invalid",
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
        )
        .about("", "meta.k8s.io", "PatchOptions")
        .cause("fieldManager", "FieldValueRequired");
}

async fn managed_fields(lab: Lab) {
    let mut config = data(json!({"x": "1"}));
    config["metadata"]["managedFields"] = json!([{"manager": "x"}]);
    let refused = lab.apply("configmaps/m?fieldManager=a", config).await;
    refused.refused(400, "BadRequest", &["metadata.managedFields must be nil"]);
}

async fn undeclared(lab: Lab) {
    let mut config = thread("t");
    config["spec"]["bogus"] = 1.into();
    let refused = lab.apply("threads/t?fieldManager=a", config).await;
    refused.refused(
        500,
        "",
        &["failed to create typed patch object", ".spec.bogus: field not declared in schema"],
    );
}

async fn identity(lab: Lab) {
    let other = json!({"metadata": {"name": "n"}});
    let refused = lab.apply("configmaps/m?fieldManager=a", other).await;
    refused.refused(
        400,
        "BadRequest",
        &["the name of the object (n) does not match the name on the URL (m)"],
    );
    let yaml = [("content-type", "application/apply-patch+yaml")];
    let body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {x: z}\n".to_vec();
    lab.call("PATCH", "configmaps/m?fieldManager=a", &yaml, body).await.ok(201);
    let body = b"metadata: {name: m}\ndata: {x: z}\n".to_vec();
    let refused = lab.call("PATCH", "configmaps/m?fieldManager=a", &yaml, body).await;
    refused.refused(400, "BadRequest", &[]);
}

async fn other_version(lab: Lab) {
    let mut config = data(json!({"x": "1"}));
    config["apiVersion"] = "v2".into();
    config["kind"] = "ConfigMap".into();
    let refused = lab.apply("configmaps/m?fieldManager=a", config.clone()).await;
    says_other_type(&refused, "/v2, Kind=ConfigMap", "v2");
    lab.apply("configmaps/m?fieldManager=a", data(json!({"x": "1"}))).await.ok(201);
    let refused = lab.apply("configmaps/m?fieldManager=a", config).await;
    says_other_type(&refused, "/v2, Kind=ConfigMap", "v2");
    let mut config = thread("t");
    config["apiVersion"] = "codebutler.dev/v9".into();
    config["kind"] = "Thread".into();
    let refused = lab.apply("threads/t?fieldManager=a", config).await;
    says_other_type(&refused, "codebutler.dev/v9, Kind=Thread", "codebutler.dev/v9");
}

/// Servers before 1.36 name the version that they expect.
fn says_other_type(refused: &Reply, kind: &str, version: &str) {
    refused.refused(400, "BadRequest", &[]);
    let told = refused.message();
    let older = format!("Specified patch version: {version}, expected: ");
    assert!(told == format!("invalid object type: {kind}") || told.contains(&older), "{told}");
}

async fn stale(lab: Lab) {
    let made =
        lab.apply("configmaps/m?fieldManager=a", data(json!({"x": "1"}))).await.ok(201).clone();
    lab.merge("configmaps/m", json!({"data": {"y": "1"}})).await.ok(200);
    let mut config = data(json!({"x": "2"}));
    config["metadata"]["resourceVersion"] = version(&made).into();
    lab.apply("configmaps/m?fieldManager=a", config).await.refused(
        409,
        "Conflict",
        &["the object has been modified; please apply your changes to the latest version and try again"],
    );
}

async fn dry(lab: Lab) {
    lab.apply("configmaps/m?fieldManager=a", data(json!({"x": "1"}))).await.ok(201);
    let path = "configmaps/m?fieldManager=b&dryRun=All";
    lab.apply(path, data(json!({"x": "2"}))).await.refused(409, "Conflict", &[".data.x"]);
    assert_eq!(lab.apply(path, data(json!({"y": "2"}))).await.ok(200)["data"]["y"], "2");
    assert_eq!(lab.get("configmaps/m").await.ok(200)["data"], json!({"x": "1"}));
}

async fn times(lab: Lab) {
    let made =
        lab.apply("configmaps/m?fieldManager=a", data(json!({"x": "1"}))).await.ok(201).clone();
    let time = |object: &Value| object["metadata"]["managedFields"][0]["time"].clone();
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    let same =
        lab.apply("configmaps/m?fieldManager=a", data(json!({"x": "1"}))).await.ok(200).clone();
    assert_eq!((version(&same), time(&same)), (version(&made), time(&made)));
    let after =
        lab.apply("configmaps/m?fieldManager=a", data(json!({"x": "2"}))).await.ok(200).clone();
    assert_ne!(time(&after), time(&made));
}
