//! Get and list: pages, versions, selectors.

use serde_json::{Value, json};

use super::behaviours;
use super::lab::{Lab, map, pod, thread, version};

behaviours! { "reading",
    missing => "get of what is not there: 404 with details",
    list_shape => "a list has kind, version, items without kind in order of name",
    pages => "limit and continue: one moment in pages, remainingItemCount",
    pages_selected => "with a selector there is no remainingItemCount",
    bad_continue => "a continue token that is none: 400",
    zero => "resourceVersion=0 and NotOlderThan give some state, Exact gives that one",
    match_needs_version => "resourceVersionMatch without a version: 422",
    match_unknown => "another resourceVersionMatch: 422; Exact with 0: 422",
    match_continue => "resourceVersionMatch with continue: 422",
    initial_events_list => "sendInitialEvents on a list: 422",
    future => "a version from the future: 504 Timeout with cause and retry",
    bad_version => "a version that is no number: 400 or 422",
    labels => "label selectors: =, !=, in, notin, exists, not exists",
    bad_labels => "a selector that is none: 400",
    fields => "field selectors: metadata.name, !=, pods by phase",
    bad_fields => "a field that can't be selected: 400 naming it",
    custom_fields => "selectable fields of a custom resource",
    all_namespaces => "all namespaces at once",
    unknown_resource => "a resource that is not there: 404",
    unknown_subresource => "a subresource that is not there: 404",
    partial => "metadata alone: PartialObjectMetadata(List)",
    tables => "tables: columns, cells, object metadata; includeObject",
}

async fn missing(lab: Lab) {
    lab.get("configmaps/m").await.says(404, "NotFound", "configmaps \"m\" not found").about(
        "m",
        "",
        "configmaps",
    );
    lab.get("threads/t")
        .await
        .says(404, "NotFound", "threads.codebutler.dev \"t\" not found")
        .about("t", "codebutler.dev", "threads");
}

async fn make(lab: &Lab, count: usize) {
    for index in 0..count {
        let mut wanted = map(&format!("m{index}"));
        wanted["metadata"]["labels"] = json!({"mine": "yes", "n": index.to_string()});
        lab.post("configmaps", wanted).await.ok(201);
    }
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap().iter();
    items.map(|i| i["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

async fn list_shape(lab: Lab) {
    make(&lab, 3).await;
    let list = lab.get("configmaps?labelSelector=mine").await.ok(200).clone();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("ConfigMapList"), &json!("v1")));
    assert!(version(&list).parse::<u64>().unwrap() > 0);
    assert_eq!(names(&list), ["m0", "m1", "m2"]);
    lab.post("threads", thread("t")).await.ok(201);
    let list = lab.get("threads").await.ok(200).clone();
    assert_eq!(list["kind"], "ThreadList");
    assert_eq!(list["items"][0]["kind"], "Thread");
}

async fn pages(lab: Lab) {
    for index in 0..5 {
        lab.post("threads", thread(&format!("t{index}"))).await.ok(201);
    }
    let first = lab.get("threads?limit=2").await.ok(200).clone();
    assert_eq!(names(&first), ["t0", "t1"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    lab.post("threads", thread("t2-late")).await.ok(201);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = lab.get(&format!("threads?limit=2&continue={token}")).await.ok(200).clone();
    assert_eq!(names(&second), ["t2", "t3"]);
    assert_eq!(version(&second), version(&first));
    let token = second["metadata"]["continue"].as_str().unwrap();
    let last = lab.get(&format!("threads?limit=2&continue={token}")).await.ok(200).clone();
    assert_eq!(names(&last), ["t4"]);
    assert_eq!(last["metadata"].get("continue").and_then(Value::as_str).unwrap_or_default(), "");
    assert_eq!(last["metadata"].get("remainingItemCount"), None);
}

async fn pages_selected(lab: Lab) {
    make(&lab, 3).await;
    let first = lab.get("configmaps?limit=2&labelSelector=mine").await.ok(200).clone();
    assert_eq!(names(&first), ["m0", "m1"]);
    assert!(!first["metadata"]["continue"].as_str().unwrap().is_empty());
    assert_eq!(first["metadata"].get("remainingItemCount"), None);
}

async fn bad_continue(lab: Lab) {
    let refused = lab.get("configmaps?limit=2&continue=nope").await;
    refused.refused(400, "BadRequest", &["continue key is not valid"]);
}

async fn zero(lab: Lab) {
    make(&lab, 1).await;
    let list = lab.get("configmaps?labelSelector=mine").await.ok(200).clone();
    let at = version(&list).to_owned();
    make_one_more(&lab).await;
    lab.get("configmaps?resourceVersion=0").await.ok(200);
    let path = format!("configmaps?labelSelector=mine&resourceVersion={at}");
    let newer = lab.get(&format!("{path}&resourceVersionMatch=NotOlderThan")).await.ok(200).clone();
    assert!(version(&newer).parse::<u64>().unwrap() >= at.parse::<u64>().unwrap());
    let exact = lab.get(&format!("{path}&resourceVersionMatch=Exact")).await.ok(200).clone();
    assert_eq!(version(&exact), at);
    assert_eq!(names(&exact), ["m0"]);
    // With a limit, a version without a match means exactly that one.
    let limited = lab.get(&format!("{path}&limit=10")).await.ok(200).clone();
    assert!(names(&limited).contains(&"m0".to_owned()));
}

async fn make_one_more(lab: &Lab) {
    let mut wanted = map("more");
    wanted["metadata"]["labels"] = json!({"mine": "yes"});
    lab.post("configmaps", wanted).await.ok(201);
}

const OPTIONS: &str = "ListOptions.meta.k8s.io \"\" is invalid: ";

async fn match_needs_version(lab: Lab) {
    let message = format!(
        "{OPTIONS}resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
    );
    lab.get("configmaps?resourceVersionMatch=Exact")
        .await
        .says(422, "Invalid", &message)
        .about("", "meta.k8s.io", "ListOptions")
        .cause("resourceVersionMatch", "FieldValueForbidden");
}

async fn match_unknown(lab: Lab) {
    let reply = lab.get("configmaps?resourceVersion=1&resourceVersionMatch=Nearly").await;
    reply
        .refused(422, "Invalid", &["resourceVersionMatch: Unsupported value: \"Nearly\""])
        .cause("resourceVersionMatch", "FieldValueNotSupported");
    let reply = lab.get("configmaps?resourceVersion=0&resourceVersionMatch=Exact").await;
    let part = "resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
    reply.refused(422, "Invalid", &[part]);
}

async fn match_continue(lab: Lab) {
    make(&lab, 2).await;
    let first = lab.get("configmaps?limit=1").await.ok(200).clone();
    let token = first["metadata"]["continue"].as_str().unwrap();
    let path = format!("configmaps?limit=1&continue={token}&resourceVersionMatch=NotOlderThan");
    let part = "resourceVersionMatch is forbidden when continue is provided";
    lab.get(&path).await.refused(422, "Invalid", &[part]);
}

async fn initial_events_list(lab: Lab) {
    let message =
        format!("{OPTIONS}sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list");
    lab.get("configmaps?sendInitialEvents=true").await.says(422, "Invalid", &message);
}

async fn future(lab: Lab) {
    let path = "configmaps?resourceVersion=999999999999&resourceVersionMatch=NotOlderThan";
    let reply = lab.get(path).await;
    reply
        .refused(504, "Timeout", &["Timeout: Too large resource version: 999999999999, current: "])
        .cause("", "ResourceVersionTooLarge");
    assert!(reply.json["details"]["retryAfterSeconds"].as_i64().unwrap() >= 1);
}

async fn bad_version(lab: Lab) {
    let reply = lab.get("configmaps?resourceVersion=nope").await;
    assert!(matches!(reply.code, 400 | 422), "{}", reply.text);
    assert!(reply.message().contains("resourceVersion: Invalid value: \"nope\""), "{}", reply.text);
}

async fn labels(lab: Lab) {
    make(&lab, 4).await;
    for (selector, wanted) in [
        ("n%3D1", vec!["m1"]),
        ("n%3D%3D1", vec!["m1"]),
        ("mine,n!%3D1", vec!["m0", "m2", "m3"]),
        ("n in (0,3)", vec!["m0", "m3"]),
        ("mine,n notin (0,3)", vec!["m1", "m2"]),
        ("n", vec!["m0", "m1", "m2", "m3"]),
        ("mine,!n", vec![]),
        ("n>1", vec!["m2", "m3"]),
        ("n<1", vec!["m0"]),
    ] {
        let selector = selector.replace(' ', "%20").replace('>', "%3E").replace('<', "%3C");
        let list = lab.get(&format!("configmaps?labelSelector={selector}")).await;
        assert_eq!(names(list.ok(200)), wanted, "{selector}");
    }
}

async fn bad_labels(lab: Lab) {
    let reply = lab.get("configmaps?labelSelector=a%20in%20b").await;
    reply.refused(400, "BadRequest", &["unable to parse requirement"]);
}

async fn fields(lab: Lab) {
    make(&lab, 3).await;
    let path = |selector: &str| format!("configmaps?labelSelector=mine&fieldSelector={selector}");
    assert_eq!(names(lab.get(&path("metadata.name=m1")).await.ok(200)), ["m1"]);
    assert_eq!(names(lab.get(&path("metadata.name!=m1")).await.ok(200)), ["m0", "m2"]);
    let both = format!("metadata.name=m1,metadata.namespace={}", lab.namespace);
    assert_eq!(names(lab.get(&path(&both)).await.ok(200)), ["m1"]);
    lab.post("pods", pod("p")).await.ok(201);
    assert_eq!(names(lab.get("pods?fieldSelector=status.phase=Pending").await.ok(200)), ["p"]);
    assert!(names(lab.get("pods?fieldSelector=spec.nodeName=n").await.ok(200)).is_empty());
}

async fn bad_fields(lab: Lab) {
    let reply = lab.get("configmaps?fieldSelector=data.a=1").await;
    let part =
        "\"data.a\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"";
    reply.refused(400, "BadRequest", &[part]);
    let reply = lab.get("pods?fieldSelector=spec.bogus=1").await;
    reply.refused(400, "BadRequest", &["field label not supported: spec.bogus"]);
    let reply = lab.get("threads?fieldSelector=spec.bogus=1").await;
    reply.refused(400, "BadRequest", &["field label not supported: spec.bogus"]);
}

async fn custom_fields(lab: Lab) {
    lab.post("threads", thread("t")).await.ok(201);
    assert_eq!(names(lab.get("threads?fieldSelector=spec.repo=shop").await.ok(200)), ["t"]);
    assert!(names(lab.get("threads?fieldSelector=spec.repo!=shop").await.ok(200)).is_empty());
}

async fn all_namespaces(lab: Lab) {
    make(&lab, 1).await;
    let selector = format!("metadata.namespace={}", lab.namespace);
    let list =
        lab.get(&format!("/api/v1/configmaps?labelSelector=mine&fieldSelector={selector}")).await;
    assert_eq!(list.ok(200)["items"][0]["metadata"]["namespace"], lab.namespace);
}

async fn unknown_resource(lab: Lab) {
    for path in
        ["/apis/nope.example.org/v1/things", "/api/v1/things", "/apis/codebutler.dev/v9/threads"]
    {
        let reply = lab.get(path).await;
        assert_eq!(reply.code, 404, "{path}: {}", reply.text);
    }
}

async fn unknown_subresource(lab: Lab) {
    lab.post("configmaps", map("m")).await.ok(201);
    assert_eq!(lab.get("configmaps/m/status").await.code, 404);
    lab.post("threads", thread("t")).await.ok(201);
    assert_eq!(lab.get("threads/t/scale").await.code, 404);
}

async fn partial(lab: Lab) {
    make(&lab, 1).await;
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let one = lab.get_as("configmaps/m0", accept).await;
    assert_eq!(one.ok(200)["kind"], "PartialObjectMetadata");
    assert_eq!(one.json["apiVersion"], "meta.k8s.io/v1");
    assert_eq!(one.json.get("data"), None);
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let list = lab.get_as("configmaps?labelSelector=mine", accept).await;
    assert_eq!(list.ok(200)["kind"], "PartialObjectMetadataList");
    assert_eq!(list.json["items"][0]["metadata"]["name"], "m0");
}

async fn tables(lab: Lab) {
    lab.post("threads", thread("t")).await.ok(201);
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let table = lab.get_as("threads", accept).await.ok(200).clone();
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    let columns: Vec<&str> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["name"].as_str().unwrap())
        .collect();
    assert_eq!(&columns[..2], ["Name", "Repo"]);
    assert_eq!(table["columnDefinitions"][0]["format"], "name");
    assert_eq!(table["rows"][0]["cells"][0], "t");
    assert_eq!(table["rows"][0]["cells"][1], "shop");
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let table = lab.get_as("threads?includeObject=None", accept).await;
    assert_eq!(table.ok(200)["rows"][0].get("object").filter(|o| !o.is_null()), None);
    let table = lab.get_as("threads?includeObject=Object", accept).await;
    assert_eq!(table.ok(200)["rows"][0]["object"]["kind"], "Thread");
    lab.post("pods", pod("p")).await.ok(201);
    let table = lab.get_as("pods", accept).await.ok(200).clone();
    let columns: Vec<&str> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["name"].as_str().unwrap())
        .collect();
    assert_eq!(&columns[..5], ["Name", "Ready", "Status", "Restarts", "Age"]);
    assert_eq!(table["rows"][0]["cells"][1], "0/1");
    assert_eq!(table["rows"][0]["cells"][2], "Pending");
}
