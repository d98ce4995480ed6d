//! Names, labels, annotations, owners: what metadata may say.

use serde_json::{Value, json};

use super::behaviours;
use super::lab::{Lab, map};

behaviours! { "metadata",
    subdomains => "names are RFC 1123 subdomains",
    long => "names have at most 253 bytes",
    label_names => "namespaces and services are RFC 1123 labels",
    path_names => "names of roles may hold colons, not slashes",
    label_keys => "label keys are qualified names",
    label_values => "label values are short and plain",
    annotations => "annotations have at most 256 KiB together",
    annotation_keys => "annotation keys are qualified names",
    owners => "owner references are complete, one controller at most",
    finalizers => "finalizers of built-in kinds are qualified or standard",
    several => "all mistakes are told at once",
}

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

async fn subdomains(lab: Lab) {
    for name in ["Upper", "under_score", "-start", "end-", "two..dots", "sp ace"] {
        let message = format!(
            "ConfigMap \"{name}\" is invalid: metadata.name: Invalid value: \"{name}\": {SUBDOMAIN}"
        );
        lab.post("configmaps", map(name))
            .await
            .says(422, "Invalid", &message)
            .about(name, "", "ConfigMap")
            .cause("metadata.name", "FieldValueInvalid");
    }
    lab.post("configmaps", map("a.b-c.1")).await.ok(201);
}

async fn long(lab: Lab) {
    lab.post("configmaps", map(&"x".repeat(253))).await.ok(201);
    let reply = lab.post("configmaps", map(&"x".repeat(254))).await;
    reply.refused(422, "Invalid", &["must be no more than 253 "]);
}

async fn label_names(lab: Lab) {
    let reply = lab.post("namespaces", json!({"metadata": {"name": "a.b"}})).await;
    let reply = reply.refused(422, "Invalid", &["metadata.name: Invalid value: \"a.b\": "]);
    reply.cause("metadata.name", "FieldValueInvalid");
    let told = reply.message();
    // Before 1.36 it was told like any other wrong name.
    let older = "a lowercase RFC 1123 label must consist of";
    assert!(told.ends_with("must not contain dots") || told.contains(older), "{told}");
    let service = |name| json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    let refused = lab.post("services", service("a.b")).await;
    refused.refused(422, "Invalid", &["metadata.name: Invalid value: \"a.b\": "]);
    // Before 1.34 they were RFC 1035 labels, which begin with a letter.
    let digit = lab.post("services", service("1a")).await;
    let minor = lab.get("/version").await.ok(200)["minor"].as_str().unwrap().to_owned();
    let minor: u32 = minor.trim_end_matches('+').parse().unwrap();
    match digit.code {
        201 => assert!(minor >= 34, "1.{minor}"),
        _ => drop(digit.refused(422, "Invalid", &["a DNS-1035 label must consist of"])),
    }
}

async fn path_names(lab: Lab) {
    lab.post("roles", json!({"metadata": {"name": "system:Mine"}, "rules": []})).await.ok(201);
    let reply = lab.post("roles", json!({"metadata": {"name": "a/b"}, "rules": []})).await;
    reply.refused(422, "Invalid", &["metadata.name: Invalid value: \"a/b\": may not contain '/'"]);
}

fn with(field: &str, value: Value) -> Value {
    let mut wanted = map("m");
    wanted["metadata"][field] = value;
    wanted
}

async fn label_keys(lab: Lab) {
    for (key, part) in [
        (
            "a b",
            "metadata.labels: Invalid value: \"a b\": name part must consist of alphanumeric characters",
        ),
        ("/b", "prefix part must be non-empty"),
        ("Pre_fix/b", "prefix part a lowercase RFC 1123 subdomain must consist of"),
    ] {
        let reply = lab.post("configmaps", with("labels", json!({key: "v"}))).await;
        reply.refused(422, "Invalid", &[part]).cause("metadata.labels", "FieldValueInvalid");
    }
    let reply = lab.post("configmaps", with("labels", json!({"x".repeat(64): "v"}))).await;
    reply.refused(422, "Invalid", &["name part must be no more than 63 "]);
}

async fn label_values(lab: Lab) {
    let reply = lab.post("configmaps", with("labels", json!({"a": "b c"}))).await;
    reply
        .refused(
            422,
            "Invalid",
            &[
                "metadata.labels: Invalid value: \"b c\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.'",
            ],
        )
        .cause("metadata.labels", "FieldValueInvalid");
    let reply = lab.post("configmaps", with("labels", json!({"a": "x".repeat(64)}))).await;
    reply.refused(422, "Invalid", &["must be no more than 63 "]);
    lab.post("configmaps", with("labels", json!({"a": ""}))).await.ok(201);
}

async fn annotations(lab: Lab) {
    let reply =
        lab.post("configmaps", with("annotations", json!({"a": "x".repeat(262_144)}))).await;
    reply
        .refused(
            422,
            "Invalid",
            &["metadata.annotations: Too long: may not be more than 262144 bytes"],
        )
        .cause("metadata.annotations", "FieldValueTooLong");
    lab.post("configmaps", with("annotations", json!({"a": "x".repeat(262_143)}))).await.ok(201);
}

async fn annotation_keys(lab: Lab) {
    let reply = lab.post("configmaps", with("annotations", json!({"a b": ""}))).await;
    reply
        .refused(
            422,
            "Invalid",
            &["metadata.annotations: Invalid value: \"a b\": name part must consist of"],
        )
        .cause("metadata.annotations", "FieldValueInvalid");
}

async fn owners(lab: Lab) {
    let owner = |uid: &str, name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "controller": true});
    let reply = lab.post("configmaps", with("ownerReferences", json!([owner("", "a")]))).await;
    reply
        .refused(
            422,
            "Invalid",
            &["metadata.ownerReferences.uid: Invalid value: \"\":", "must not be empty"],
        )
        .cause("metadata.ownerReferences.uid", "FieldValueInvalid");
    let two = json!([owner("1", "a"), owner("2", "b")]);
    let reply = lab.post("configmaps", with("ownerReferences", two)).await;
    let part = "Only one reference can have Controller set to true. Found \"true\" in references for ConfigMap/a and ConfigMap/b";
    reply.refused(422, "Invalid", &[part]).cause("metadata.ownerReferences", "FieldValueInvalid");
}

async fn finalizers(lab: Lab) {
    let reply = lab.post("configmaps", with("finalizers", json!(["nope"]))).await;
    reply.refused(
        422,
        "Invalid",
        &["Invalid value: \"nope\": name is neither a standard finalizer name nor is it fully qualified"],
    );
    let reply = lab.post("configmaps", with("finalizers", json!(["a b/c d"]))).await;
    reply.refused(422, "Invalid", &["metadata.finalizers"]);
}

async fn several(lab: Lab) {
    let mut wanted = map("Upper");
    wanted["metadata"]["labels"] = json!({"a": "b c"});
    let reply = lab.post("configmaps", wanted).await;
    reply
        .refused(
            422,
            "Invalid",
            &[
                "ConfigMap \"Upper\" is invalid: [metadata.name: Invalid value:",
                ", metadata.labels: Invalid value:",
            ],
        )
        .cause("metadata.name", "FieldValueInvalid")
        .cause("metadata.labels", "FieldValueInvalid");
    assert!(reply.message().ends_with(']'));
}
