//! Forms, paths and codes below the objects.

use serde_json::{Value, json};

use super::behaviours;
use super::lab::{Lab, map, thread};

behaviours! { "protocol",
    version => "/version",
    health => "/healthz, /livez, /readyz, single checks, verbose",
    discovery => "/api, /apis, groups and resources",
    aggregated => "aggregated discovery in one answer",
    openapi_v3 => "/openapi/v3: an index and documents with kinds",
    openapi_v2 => "/openapi/v2: definitions of built-in and custom kinds",
    unknown_path => "a path that is nothing: 404",
    not_acceptable => "a form nobody has: 406, custom kinds name the forms",
    custom_protobuf => "custom resources have no protobuf: 406",
    preferred => "protobuf before JSON: either is right",
    unknown_body => "a body in an unknown format: 415 naming the formats",
    yaml => "YAML in and out",
    methods => "a method that is not allowed: 405",
    too_large => "a body over 3 MiB: 413",
    content_type => "answers say what they are",
    lists_of_nothing => "an empty list has items",
    all_or_one => "a name in a collection's path needs its namespace",
}

async fn version(lab: Lab) {
    let found = lab.get("/version").await.ok(200).clone();
    assert_eq!(found["major"], "1");
    assert!(found["gitVersion"].as_str().unwrap().starts_with("v1."));
    for field in ["minor", "gitCommit", "buildDate", "goVersion", "platform"] {
        assert!(found[field].is_string(), "{field}");
    }
}

async fn health(lab: Lab) {
    for path in ["/healthz", "/livez", "/readyz", "/readyz/ping", "/livez/ping"] {
        let reply = lab.get_as(path, "*/*").await;
        assert_eq!((reply.code, reply.text.as_str()), (200, "ok"), "{path}");
        assert!(reply.content_type.starts_with("text/plain"), "{}", reply.content_type);
    }
    let reply = lab.get_as("/readyz?verbose", "*/*").await;
    assert!(reply.text.contains("[+]ping ok\n"), "{}", reply.text);
    assert!(reply.text.ends_with("readyz check passed\n"), "{}", reply.text);
    let reply = lab.get_as("/healthz?verbose=1", "*/*").await;
    assert!(reply.text.ends_with("healthz check passed\n"), "{}", reply.text);
    assert_eq!(lab.get_as("/readyz/nope", "*/*").await.code, 404);
}

async fn discovery(lab: Lab) {
    let api = lab.get("/api").await.ok(200).clone();
    assert_eq!((&api["kind"], &api["versions"]), (&json!("APIVersions"), &json!(["v1"])));
    let groups = lab.get("/apis").await.ok(200).clone();
    assert_eq!(groups["kind"], "APIGroupList");
    let ours = groups["groups"]
        .as_array()
        .unwrap()
        .iter()
        .find(|g| g["name"] == "codebutler.dev")
        .unwrap();
    assert_eq!(ours["preferredVersion"]["groupVersion"], "codebutler.dev/v1alpha1");
    let resources = lab.get("/apis/codebutler.dev/v1alpha1").await.ok(200).clone();
    let all = resources["resources"].as_array().unwrap();
    let threads = all.iter().find(|r| r["name"] == "threads").unwrap();
    assert_eq!((&threads["kind"], &threads["namespaced"]), (&json!("Thread"), &json!(true)));
    let status = all.iter().find(|r| r["name"] == "threads/status").unwrap();
    assert_eq!(status["verbs"], json!(["get", "patch", "update"]));
    let core = lab.get("/api/v1").await.ok(200).clone();
    let pods = core["resources"].as_array().unwrap().iter().find(|r| r["name"] == "pods").unwrap();
    assert_eq!((&pods["shortNames"], &pods["categories"]), (&json!(["po"]), &json!(["all"])));
    let all = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    assert_eq!(pods["verbs"], json!(all));
}

async fn aggregated(lab: Lab) {
    let accept =
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let reply = lab.get_as("/apis", accept).await;
    assert_eq!(reply.ok(200)["kind"], "APIGroupDiscoveryList");
    assert!(reply.content_type.contains("as=APIGroupDiscoveryList"), "{}", reply.content_type);
    let ours = reply.json["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|g| g["metadata"]["name"] == "codebutler.dev")
        .unwrap();
    assert_eq!(ours["versions"][0]["version"], "v1alpha1");
    let threads = ours["versions"][0]["resources"]
        .as_array()
        .unwrap()
        .iter()
        .find(|r| r["resource"] == "threads")
        .unwrap();
    assert_eq!(threads["scope"], "Namespaced");
    assert_eq!(threads["responseKind"]["kind"], "Thread");
    assert_eq!(lab.get_as("/api", accept).await.ok(200)["kind"], "APIGroupDiscoveryList");
}

async fn openapi_v3(lab: Lab) {
    let index = lab.get("/openapi/v3").await.ok(200).clone();
    let entry = &index["paths"]["apis/codebutler.dev/v1alpha1"]["serverRelativeURL"];
    assert!(entry.as_str().unwrap().starts_with("/openapi/v3/apis/codebutler.dev/v1alpha1?hash="));
    let document = lab.get(entry.as_str().unwrap()).await.ok(200).clone();
    assert!(document["openapi"].as_str().unwrap().starts_with("3."));
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let kind = json!([{"group": "codebutler.dev", "kind": "Thread", "version": "v1alpha1"}]);
    let thread = schemas.values().find(|s| s["x-kubernetes-group-version-kind"] == kind).unwrap();
    assert_eq!(thread["properties"]["spec"]["properties"]["repo"]["type"], "string");
    lab.get("/openapi/v3/api/v1").await.ok(200);
}

async fn openapi_v2(lab: Lab) {
    let document = lab.get_as("/openapi/v2", "application/json").await.ok(200).clone();
    assert_eq!(document["swagger"], "2.0");
    let definitions = &document["definitions"];
    assert_eq!(definitions["io.k8s.api.core.v1.ConfigMap"]["type"], "object");
    let reference = &definitions["io.k8s.api.core.v1.Pod"]["properties"]["spec"]["$ref"];
    assert_eq!(*reference, "#/definitions/io.k8s.api.core.v1.PodSpec");
    let published = || async {
        let document = lab.get_as("/openapi/v2", "application/json").await;
        document.json["definitions"].get("dev.codebutler.v1alpha1.Thread").is_some().then_some(())
    };
    lab.until("definition of a custom kind", published).await;
}

async fn unknown_path(lab: Lab) {
    assert_eq!(lab.get("/nope").await.code, 404);
    assert_eq!(lab.get("/apis/nope.example.org").await.code, 404);
}

async fn not_acceptable(lab: Lab) {
    let reply = lab.get_as("configmaps", "text/html").await;
    reply.refused(406, "NotAcceptable", &["406: Not Acceptable"]);
    let reply = lab.get_as("threads", "text/html").await;
    reply.refused(
        406,
        "NotAcceptable",
        &["only the following media types are accepted: application/json, application/yaml"],
    );
}

async fn custom_protobuf(lab: Lab) {
    let reply = lab.get_as("threads", "application/vnd.kubernetes.protobuf").await;
    // The refusal itself may be in that form.
    let known = "only the following media types are accepted: application/json, application/yaml";
    assert_eq!(reply.code, 406, "{}", reply.text);
    assert!(reply.text.contains(known), "{}", reply.text);
}

async fn preferred(lab: Lab) {
    let reply =
        lab.get_as("configmaps", "application/vnd.kubernetes.protobuf,application/json").await;
    assert_eq!(reply.code, 200, "{}", reply.text);
    let known = ["application/json", "application/vnd.kubernetes.protobuf"];
    assert!(known.contains(&reply.content_type.as_str()), "{}", reply.content_type);
    let reply = lab.get_as("threads", "application/vnd.kubernetes.protobuf,application/json").await;
    assert_eq!(reply.content_type, "application/json");
}

async fn unknown_body(lab: Lab) {
    let headers = [("content-type", "text/plain"), ("accept", "application/json")];
    let reply = lab.call("POST", "configmaps", &headers, b"x".to_vec()).await;
    reply.refused(
        415,
        "UnsupportedMediaType",
        &["the body of the request was in an unknown format - accepted media types include: application/json, application/yaml"],
    );
}

async fn yaml(lab: Lab) {
    let headers = [("content-type", "application/yaml"), ("accept", "application/yaml")];
    let body =
        b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: m\ndata:\n  a: \"1\"\n".to_vec();
    let made = lab.call("POST", "configmaps", &headers, body).await;
    assert_eq!(made.code, 201, "{}", made.text);
    assert_eq!(made.content_type, "application/yaml");
    assert!(made.text.contains("kind: ConfigMap\n"), "{}", made.text);
    assert_eq!(lab.get("configmaps/m").await.ok(200)["data"]["a"], "1");
}

async fn methods(lab: Lab) {
    lab.post("configmaps", map("m")).await.ok(201);
    let json = [("content-type", "application/json")];
    let body = map("m").to_string().into_bytes();
    for (method, path) in [("POST", "configmaps/m"), ("PUT", "configmaps"), ("PATCH", "configmaps")]
    {
        let reply = lab.call(method, path, &json, body.clone()).await;
        reply.refused(
            405,
            "MethodNotAllowed",
            &["the server does not allow this method on the requested resource"],
        );
    }
    let reply = lab.get("tokenreviews").await;
    assert_eq!(reply.code, 405, "{}", reply.text);
}

async fn too_large(lab: Lab) {
    let json = [("content-type", "application/json")];
    let reply = lab.call("POST", "configmaps", &json, vec![b' '; 3 * 1024 * 1024 + 1]).await;
    reply.says(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728");
}

async fn content_type(lab: Lab) {
    let reply = lab.get_as("configmaps", "*/*").await;
    assert_eq!(reply.content_type, "application/json");
    let reply = lab.get("configmaps/nope").await;
    assert_eq!(reply.content_type, "application/json");
    assert_eq!(reply.json["metadata"], json!({}));
    assert_eq!(reply.json["apiVersion"], "v1");
}

async fn lists_of_nothing(lab: Lab) {
    let list = lab.get("threads").await.ok(200).clone();
    assert_eq!(list["items"], json!([]));
    let list = lab.get("secrets?labelSelector=nope").await.ok(200).clone();
    assert_eq!(list["items"].as_array().map_or(0, Vec::len), 0);
}

async fn all_or_one(lab: Lab) {
    lab.post("threads", thread("t")).await.ok(201);
    let reply = lab.get("/apis/codebutler.dev/v1alpha1/threads/t").await;
    assert!(matches!(reply.code, 404 | 405), "{}", reply.text);
    let body: Value = thread("u");
    let reply = lab.post("/apis/codebutler.dev/v1alpha1/threads", body).await;
    assert!(reply.code >= 400, "{}", reply.text);
}
