//! Views of served objects: scale, tables, selectors.

use serde_json::{Value, json};

use super::super::behaviours;
use super::super::lab::{Lab, version};
use super::{Kind, object};

behaviours! { "custom",
    scale => "the scale subresource",
    columns => "printer columns make the table",
    selectable => "fields that can be selected",
}

async fn scale(lab: Lab) {
    let subresources = json!({"subresources": {"status": {}, "scale": {
        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector",
    }}, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}}},
    }}}});
    let kind = Kind::new(lab, json!({"type": "object"}), subresources).await;
    kind.create(json!({"replicas": 3})).await.ok(201);
    let status = json!({"status": {"replicas": 2, "selector": "a=b"}});
    kind.lab.merge(&format!("{}/status", kind.one("w")), status).await.ok(200);
    let found = kind.lab.get(&format!("{}/scale", kind.one("w"))).await.ok(200).clone();
    assert_eq!((&found["kind"], &found["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
    assert_eq!(
        (&found["spec"]["replicas"], &found["status"]),
        (&json!(3), &json!({"replicas": 2, "selector": "a=b"}))
    );
    let mut wanted = found.clone();
    wanted["spec"]["replicas"] = 5.into();
    let after = kind.lab.put(&format!("{}/scale", kind.one("w")), wanted.clone()).await;
    assert_eq!(after.ok(200)["spec"]["replicas"], 5);
    let object = kind.lab.get(&kind.one("w")).await.ok(200).clone();
    assert_eq!(
        (&object["spec"]["replicas"], &object["metadata"]["generation"]),
        (&json!(5), &json!(2))
    );
    assert_eq!(version(&object), version(&after.json));
    kind.lab.put(&format!("{}/scale", kind.one("w")), wanted).await.refused(409, "Conflict", &[]);
    kind.gone().await;
}

async fn columns(lab: Lab) {
    let more = json!({"additionalPrinterColumns": [
        {"name": "A", "type": "string", "jsonPath": ".spec.a"},
        {"name": "N", "type": "integer", "jsonPath": ".spec.n", "priority": 1},
        {"name": "First", "type": "string", "jsonPath": ".spec.list[0].x"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]});
    let kind = Kind::new(
        lab,
        object(json!({"a": {"type": "string"}, "n": {"type": "integer"}, "list": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "string"}}}}})),
        more,
    )
    .await;
    kind.create(json!({"a": "x", "list": [{"x": "y"}]})).await.ok(201);
    let table = kind
        .lab
        .get_as(&kind.path(), "application/json;as=Table;v=v1;g=meta.k8s.io")
        .await
        .ok(200)
        .clone();
    let names: Vec<&str> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["Name", "A", "N", "First", "Age"]);
    assert_eq!(table["columnDefinitions"][2]["priority"], 1);
    let cells = &table["rows"][0]["cells"];
    assert_eq!(
        (&cells[0], &cells[1], &cells[2], &cells[3]),
        (&json!("w"), &json!("x"), &Value::Null, &json!("y"))
    );
    kind.gone().await;
}

async fn selectable(lab: Lab) {
    let more = json!({"selectableFields": [{"jsonPath": ".spec.a"}]});
    let kind =
        Kind::new(lab, object(json!({"a": {"type": "string"}, "b": {"type": "string"}})), more)
            .await;
    kind.create(json!({"a": "x", "b": "y"})).await.ok(201);
    let list = kind.lab.get(&format!("{}?fieldSelector=spec.a%3Dx", kind.path())).await;
    assert_eq!(list.ok(200)["items"].as_array().unwrap().len(), 1);
    let list = kind.lab.get(&format!("{}?fieldSelector=spec.b%3Dy", kind.path())).await;
    list.refused(400, "BadRequest", &["field label not supported: spec.b"]);
    kind.gone().await;
}
