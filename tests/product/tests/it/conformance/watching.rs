//! Watches.

use serde_json::{Value, json};

use super::behaviours;
use super::lab::{Lab, map, thread, version};

behaviours! { "watching",
    from_version => "from a version: what happened after it, in order",
    selection => "leaving a selection is a deletion, coming back an addition",
    present => "without a version: the present state as additions",
    deleted_version => "a deletion carries its own, newer version",
    too_old => "a version that is forgotten: an ERROR event with a 410 Status",
    future => "a version from the future: silence",
    ends => "timeoutSeconds ends it",
    initial_events => "sendInitialEvents: additions, then a bookmark that says so",
    initial_events_rules => "sendInitialEvents needs resourceVersionMatch=NotOlderThan",
    match_rules => "resourceVersionMatch on a watch needs sendInitialEvents",
    one => "one name by field selector",
    tables => "rows as tables, columns in the first event only",
    partial => "metadata alone",
    status_events => "a status write is a modification",
    namespace => "another namespace is not seen",
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|e| e["type"].as_str().unwrap()).filter(|t| *t != "BOOKMARK").collect()
}

fn seen(count: usize) -> impl Fn(&[Value]) -> bool {
    move |events| kinds(events).len() >= count
}

async fn now(lab: &Lab) -> String {
    version(lab.get("configmaps").await.ok(200)).to_owned()
}

async fn from_version(lab: Lab) {
    let from = now(&lab).await;
    lab.post("configmaps", map("m")).await.ok(201);
    lab.merge("configmaps/m", json!({"data": {"a": "2"}})).await.ok(200);
    lab.delete("configmaps/m", Value::Null).await.ok(200);
    let events = lab.watch(&format!("configmaps?watch=true&resourceVersion={from}"), seen(3)).await;
    assert_eq!(kinds(&events), ["ADDED", "MODIFIED", "DELETED"]);
    assert_eq!(events[1]["object"]["data"]["a"], "2");
    assert_eq!(events[0]["object"]["kind"], "ConfigMap");
    // From the middle.
    let from = version(&events[0]["object"]);
    let events = lab.watch(&format!("configmaps?watch=1&resourceVersion={from}"), seen(2)).await;
    assert_eq!(kinds(&events), ["MODIFIED", "DELETED"]);
}

async fn selection(lab: Lab) {
    let from = now(&lab).await;
    lab.post("configmaps", map("m")).await.ok(201);
    let label = |value: Value| json!({"metadata": {"labels": {"w": value}}});
    lab.merge("configmaps/m", label(json!("yes"))).await.ok(200);
    let out = lab.merge("configmaps/m", label(Value::Null)).await.ok(200).clone();
    lab.merge("configmaps/m", label(json!("yes"))).await.ok(200);
    let path = format!("configmaps?watch=true&labelSelector=w%3Dyes&resourceVersion={from}");
    let events = lab.watch(&path, seen(3)).await;
    assert_eq!(kinds(&events), ["ADDED", "DELETED", "ADDED"]);
    // The last selected state, with the version of the change that ended it.
    assert_eq!(events[1]["object"]["metadata"]["labels"]["w"], "yes");
    assert_eq!(version(&events[1]["object"]), version(&out));
}

async fn present(lab: Lab) {
    for name in ["a", "b"] {
        lab.post("threads", thread(name)).await.ok(201);
    }
    let events = lab.watch("threads?watch=true", seen(2)).await;
    assert_eq!(kinds(&events), ["ADDED", "ADDED"]);
    let events = lab.watch("threads?watch=true&resourceVersion=0", seen(2)).await;
    assert_eq!(kinds(&events), ["ADDED", "ADDED"]);
}

async fn deleted_version(lab: Lab) {
    let made = lab.post("configmaps", map("m")).await.ok(201).clone();
    lab.delete("configmaps/m", Value::Null).await.ok(200);
    let path = format!("configmaps?watch=true&resourceVersion={}", version(&made));
    let events = lab.watch(&path, seen(1)).await;
    assert_eq!(kinds(&events), ["DELETED"]);
    let number = |text: &str| text.parse::<u64>().unwrap();
    assert!(number(version(&events[0]["object"])) > number(version(&made)));
}

async fn too_old(lab: Lab) {
    // A resource that did not exist then: nobody remembers what it was like.
    let events = lab.watch("threads?watch=true&resourceVersion=1", |e| !e.is_empty()).await;
    assert_eq!(kinds(&events), ["ERROR"]);
    let status = &events[0]["object"];
    assert_eq!((&status["kind"], &status["code"]), (&json!("Status"), &json!(410)));
    assert_eq!(status["reason"], "Expired");
    assert!(status["message"].as_str().unwrap().starts_with("too old resource version: 1 ("));
}

async fn future(lab: Lab) {
    lab.post("configmaps", map("m")).await.ok(201);
    let path = "configmaps?watch=true&timeoutSeconds=1&resourceVersion=999999999999";
    assert_eq!(lab.watch(path, |_| false).await, [] as [Value; 0]);
}

async fn ends(lab: Lab) {
    let from = now(&lab).await;
    lab.post("configmaps", map("m")).await.ok(201);
    let path = format!("configmaps?watch=true&timeoutSeconds=1&resourceVersion={from}");
    let events = lab.watch(&path, |_| false).await;
    assert_eq!(kinds(&events), ["ADDED"]);
}

const INITIAL: &str = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";

async fn initial_events(lab: Lab) {
    for name in ["a", "b"] {
        lab.post("threads", thread(name)).await.ok(201);
    }
    let path = format!("threads?{INITIAL}&allowWatchBookmarks=true");
    let marked = |events: &[Value]| events.last().is_some_and(|e| e["type"] == "BOOKMARK");
    let events = lab.watch(&path, |events| marked(events) || kinds(events) == ["ERROR"]).await;
    if kinds(&events) == ["ERROR"] {
        // An etcd before 3.4.31 can't say how far a watch has come.
        let why = events[0]["object"]["message"].as_str().unwrap();
        assert!(why.contains("required storage feature"), "{why}");
        return;
    }
    assert_eq!(kinds(&events), ["ADDED", "ADDED"]);
    let mark = &events[2]["object"];
    assert_eq!(mark["kind"], "Thread");
    assert_eq!(mark["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert!(!version(mark).is_empty());
    // Later changes follow the bookmark.
    let next = |events: &[Value]| kinds(events).len() >= 3;
    let (watched, made) = tokio::join!(lab.watch(&path, next), lab.post("threads", thread("c")));
    made.ok(201);
    assert_eq!(watched.iter().filter(|e| e["type"] == "ADDED").count(), 3);
}

async fn initial_events_rules(lab: Lab) {
    let reply = lab.get("threads?watch=true&sendInitialEvents=true").await;
    reply
        .says(
            422,
            "Invalid",
            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        )
        .cause("resourceVersionMatch", "FieldValueForbidden");
}

async fn match_rules(lab: Lab) {
    let reply = lab.get("threads?watch=true&resourceVersionMatch=NotOlderThan").await;
    reply.says(
        422,
        "Invalid",
        "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
    );
}

async fn one(lab: Lab) {
    for name in ["a", "b"] {
        lab.post("configmaps", map(name)).await.ok(201);
    }
    let events = lab.watch("configmaps?watch=true&fieldSelector=metadata.name%3Db", seen(1)).await;
    assert_eq!(events[0]["object"]["metadata"]["name"], "b");
}

async fn tables(lab: Lab) {
    for name in ["a", "b"] {
        lab.post("threads", thread(name)).await.ok(201);
    }
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let reply = lab.get_as("threads?watch=true&timeoutSeconds=1", accept).await;
    assert_eq!(reply.code, 200, "{}", reply.text);
    let events: Vec<Value> = reply.text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(events[0]["object"]["kind"], "Table");
    assert_eq!(events[0]["object"]["rows"][0]["cells"][0], "a");
    assert!(events[0]["object"]["columnDefinitions"].as_array().is_some_and(|c| !c.is_empty()));
    assert!(events[1]["object"]["columnDefinitions"].as_array().is_none_or(Vec::is_empty));
}

async fn partial(lab: Lab) {
    lab.post("threads", thread("a")).await.ok(201);
    let accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let reply = lab.get_as("threads?watch=true&timeoutSeconds=1", accept).await;
    let event: Value = serde_json::from_str(reply.text.lines().next().unwrap()).unwrap();
    assert_eq!(event["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(event["object"].get("spec"), None);
}

async fn status_events(lab: Lab) {
    let made = lab.post("threads", thread("a")).await.ok(201).clone();
    lab.merge("threads/a/status", json!({"status": {"phase": "pm"}})).await.ok(200);
    let path = format!("threads?watch=true&resourceVersion={}", version(&made));
    let events = lab.watch(&path, seen(1)).await;
    assert_eq!(events[0]["type"], "MODIFIED");
    assert_eq!(events[0]["object"]["status"]["phase"], "pm");
}

async fn namespace(lab: Lab) {
    let from = now(&lab).await;
    lab.post("/api/v1/namespaces/default/configmaps", {
        let mut other = map(&lab.namespace);
        other["apiVersion"] = "v1".into();
        other["kind"] = "ConfigMap".into();
        other
    })
    .await
    .ok(201);
    lab.post("configmaps", map("m")).await.ok(201);
    let events = lab.watch(&format!("configmaps?watch=true&resourceVersion={from}"), seen(1)).await;
    assert_eq!(events[0]["object"]["metadata"]["name"], "m");
    let path = format!("/api/v1/namespaces/default/configmaps/{}", lab.namespace);
    lab.delete(&path, Value::Null).await.ok(200);
}
