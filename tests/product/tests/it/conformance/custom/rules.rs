//! Rules over values, and over what they were before.

use serde_json::{Value, json};

use super::super::behaviours;
use super::super::lab::Lab;
use super::{Kind, object};

behaviours! { "custom",
    rules => "rules: message, default message, simple values told",
    rule_paths => "rules: fieldPath, reason, messageExpression",
    unchecked => "rules are not looked at where values are of the wrong kind, and that is said",
    transitions => "rules over oldSelf hold on update only",
    ratcheting => "what was wrong already and does not change is let be",
}

/// Text that is added to the errors when rules were not evaluated.
pub(crate) const UNCHECKED: &str = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

async fn rules(lab: Lab) {
    let mut schema = object(json!({
        "a": {"type": "integer", "x-kubernetes-validations": [{"rule": "self % 2 == 0", "message": "must be even"}]},
        "b": {"type": "integer"}, "n": {"type": "string", "maxLength": 10, "x-kubernetes-validations": [{"rule": "self.startsWith('x')"}]},
    }));
    schema["x-kubernetes-validations"] =
        json!([{"rule": "!has(self.b) || self.b < 10", "message": "b is too much"}]);
    let kind = Kind::new(lab, schema, Value::Null).await;
    let named = format!("Widget.{} \"w\" is invalid: ", kind.group);
    kind.create(json!({"a": 1}))
        .await
        .says(422, "Invalid", &format!("{named}spec.a: Invalid value: 1: must be even"))
        .cause("spec.a", "FieldValueInvalid");
    kind.create(json!({"b": 11}))
        .await
        .says(422, "Invalid", &format!("{named}spec: Invalid value: b is too much"))
        .cause("spec", "FieldValueInvalid");
    kind.create(json!({"n": "y"})).await.says(
        422,
        "Invalid",
        &format!("{named}spec.n: Invalid value: \"y\": failed rule: self.startsWith('x')"),
    );
    kind.create(json!({"a": 2, "b": 3, "n": "xy"})).await.ok(201);
    kind.gone().await;
}

async fn rule_paths(lab: Lab) {
    let mut schema = object(json!({"a": {"type": "integer"}, "b": {"type": "integer"}}));
    schema["x-kubernetes-validations"] = json!([
        {"rule": "!has(self.a) || self.a < 10", "fieldPath": ".a", "reason": "FieldValueForbidden", "message": "too much"},
        {"rule": "!has(self.b) || self.b < 10", "messageExpression": "self.b == 12 ? 'b is 12' : 'b is another'"},
    ]);
    let kind = Kind::new(lab, schema, Value::Null).await;
    kind.create(json!({"a": 11}))
        .await
        .refused(422, "Invalid", &["spec.a: Forbidden: too much"])
        .cause("spec.a", "FieldValueForbidden");
    kind.create(json!({"b": 12})).await.refused(422, "Invalid", &["spec: Invalid value: b is 12"]);
    kind.gone().await;
}

async fn unchecked(lab: Lab) {
    let mut schema = object(json!({
        "a": {"type": "integer", "minimum": 5}, "b": {"type": "string", "enum": ["x"]}, "c": {"type": "integer"},
    }));
    schema["x-kubernetes-validations"] =
        json!([{"rule": "!has(self.c) || self.c < 10", "message": "c is too much"}]);
    let kind = Kind::new(lab, schema, Value::Null).await;
    let named = format!("Widget.{} \"w\" is invalid: ", kind.group);
    let small =
        "spec.a: Invalid value: 1: spec.a in body should be greater than or equal to 5".to_owned();
    kind.create(json!({"a": 1, "c": 11})).await.says(
        422,
        "Invalid",
        &format!("{named}[{small}, spec: Invalid value: c is too much]"),
    );
    let unknown = "spec.b: Unsupported value: \"y\": supported values: \"x\"";
    kind.create(json!({"b": "y", "c": 11}))
        .await
        .says(422, "Invalid", &format!("{named}[{unknown}, {UNCHECKED}]"))
        .cause("<nil>", "FieldValueInvalid");
    kind.gone().await;
}

async fn transitions(lab: Lab) {
    let kind = Kind::new(
        lab,
        object(json!({"a": {"type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "a stays"}]}})),
        Value::Null,
    )
    .await;
    kind.create(json!({"a": "1"})).await.ok(201);
    kind.lab.merge(&kind.one("w"), json!({"metadata": {"labels": {"x": "y"}}})).await.ok(200);
    kind.lab.merge(&kind.one("w"), json!({"spec": {"a": "2"}})).await.refused(
        422,
        "Invalid",
        &["spec.a: Invalid value: \"2\": a stays"],
    );
    kind.lab.merge(&kind.one("w"), json!({"spec": {"a": null}})).await.ok(200);
    kind.gone().await;
}

async fn ratcheting(lab: Lab) {
    let schema = |maximum: i64| {
        object(json!({"a": {"type": "integer", "maximum": maximum}, "b": {"type": "string"}}))
    };
    let kind = Kind::new(lab, schema(10), Value::Null).await;
    kind.create(json!({"a": 9})).await.ok(201);
    let path = format!("customresourcedefinitions/widgets.{}", kind.group);
    let tighter = json!([{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec", "value": schema(5)}]);
    kind.lab.json_patch(&path, tighter).await.ok(200);
    let refuses = || async {
        let mut wanted = kind.widget(json!({"a": 8}));
        wanted["metadata"]["name"] = "v".into();
        let reply = kind.lab.post(&format!("{}?dryRun=All", kind.path()), wanted).await;
        (reply.code == 422).then_some(())
    };
    kind.lab.until("new schema", refuses).await;
    kind.lab.merge(&kind.one("w"), json!({"spec": {"b": "x"}})).await.ok(200);
    kind.lab.merge(&kind.one("w"), json!({"spec": {"a": 7}})).await.refused(
        422,
        "Invalid",
        &["spec.a"],
    );
    kind.gone().await;
}
