//! Secrets and ConfigMaps.

use serde_json::json;

use super::super::behaviours;
use super::super::lab::{Lab, map};

behaviours! { "core kinds",
    secret_strings => "secrets: stringData wins over data and is never shown",
    secret_type => "secrets: Opaque by default; the type can't change",
    secret_base64 => "secrets: data is base64",
    immutable_maps => "ConfigMaps and Secrets: immutable means that",
    map_keys => "ConfigMaps: keys; one key in data and binaryData",
    map_size => "ConfigMaps: at most 1 MiB",
}

async fn secret_strings(lab: Lab) {
    let wanted = json!({"metadata": {"name": "s"}, "data": {"a": "MQ==", "b": "Mg=="}, "stringData": {"a": "x"}});
    let made = lab.post("secrets", wanted).await.ok(201).clone();
    assert_eq!(made["data"], json!({"a": "eA==", "b": "Mg=="}));
    assert_eq!(made.get("stringData"), None);
    let after = lab.merge("secrets/s", json!({"stringData": {"b": "y"}})).await;
    assert_eq!(after.ok(200)["data"]["b"], "eQ==");
}

async fn secret_type(lab: Lab) {
    let made = lab.post("secrets", json!({"metadata": {"name": "s"}})).await;
    assert_eq!(made.ok(201)["type"], "Opaque");
    lab.merge("secrets/s", json!({"type": "example.org/other"}))
        .await
        .says(422, "Invalid", "Secret \"s\" is invalid: type: Invalid value: \"example.org/other\": field is immutable")
        .cause("type", "FieldValueInvalid");
    let wanted = json!({"metadata": {"name": "t"}, "type": "kubernetes.io/tls"});
    lab.post("secrets", wanted).await.refused(
        422,
        "Invalid",
        &["data[tls.crt]: Required value", "data[tls.key]: Required value"],
    );
}

async fn secret_base64(lab: Lab) {
    let wanted = json!({"metadata": {"name": "s"}, "data": {"a": "not base64!"}});
    lab.post("secrets", wanted).await.refused(
        400,
        "BadRequest",
        &["Secret in version \"v1\" cannot be handled as a Secret: illegal base64 data at input byte 3"],
    );
}

async fn immutable_maps(lab: Lab) {
    let mut wanted = map("m");
    wanted["immutable"] = true.into();
    lab.post("configmaps", wanted).await.ok(201);
    lab.merge("configmaps/m", json!({"data": {"a": "2"}}))
        .await
        .says(422, "Invalid", "ConfigMap \"m\" is invalid: data: Forbidden: field is immutable when `immutable` is set")
        .cause("data", "FieldValueForbidden");
    lab.merge("configmaps/m", json!({"immutable": false})).await.refused(
        422,
        "Invalid",
        &["immutable: Forbidden: field is immutable when `immutable` is set"],
    );
    lab.merge("configmaps/m", json!({"metadata": {"labels": {"a": "b"}}})).await.ok(200);
    lab.post("secrets", json!({"metadata": {"name": "s"}, "immutable": true})).await.ok(201);
    lab.merge("secrets/s", json!({"stringData": {"a": "2"}})).await.refused(
        422,
        "Invalid",
        &["data: Forbidden: field is immutable when `immutable` is set"],
    );
}

async fn map_keys(lab: Lab) {
    let wanted = json!({"metadata": {"name": "m"}, "data": {"a b": "1"}});
    lab.post("configmaps", wanted)
        .await
        .refused(422, "Invalid", &["data[a b]: Invalid value: \"a b\": a valid config key must consist of alphanumeric characters, '-', '_' or '.'"])
        .cause("data[a b]", "FieldValueInvalid");
    let wanted =
        json!({"metadata": {"name": "m"}, "data": {"a": "1"}, "binaryData": {"a": "MQ=="}});
    lab.post("configmaps", wanted).await.refused(
        422,
        "Invalid",
        &["data[a]: Invalid value: \"a\": duplicate of key present in binaryData"],
    );
}

async fn map_size(lab: Lab) {
    let wanted = json!({"metadata": {"name": "m"}, "data": {"a": "x".repeat(1_048_577)}});
    lab.post("configmaps", wanted).await.refused(
        422,
        "Invalid",
        &["Too long: may not be more than 1048576 bytes"],
    );
}
