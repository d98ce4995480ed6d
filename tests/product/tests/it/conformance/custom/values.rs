//! Values: what schemas allow, fill in and drop.

use serde_json::{Value, json};

use super::super::behaviours;
use super::super::lab::Lab;
use super::{Kind, object};

behaviours! { "custom",
    required => "required, type, enum: messages and causes",
    ranges => "minimum, maximum, multipleOf, lengths, pattern, counts",
    lists => "sets and keyed lists have no duplicates",
    defaults => "defaults are filled in below what is there",
    pruning => "unknown fields go, unless they are to be kept",
    nulls => "null: kept where nullable, otherwise as if it were not there",
    int_or_string => "integers or strings",
    metadata => "only metadata that is known is kept",
}

async fn required(lab: Lab) {
    let mut schema = object(json!({
        "a": {"type": "integer"}, "b": {"type": "string", "enum": ["x", "y"]}, "c": {"type": "array", "items": {"type": "string"}},
    }));
    schema["required"] = json!(["a"]);
    let kind = Kind::new(lab, schema, Value::Null).await;
    let named = format!("Widget.{} \"w\" is invalid: ", kind.group);
    kind.create(json!({}))
        .await
        .says(422, "Invalid", &format!("{named}spec.a: Required value"))
        .about("w", &kind.group, "Widget")
        .cause("spec.a", "FieldValueRequired");
    kind.create(json!({"a": "1"}))
        .await
        .says(422, "Invalid", &format!("{named}spec.a: Invalid value: \"string\": spec.a in body must be of type integer: \"string\""))
        .cause("spec.a", "FieldValueTypeInvalid");
    kind.create(json!({"a": 1, "b": "z"}))
        .await
        .says(
            422,
            "Invalid",
            &format!("{named}spec.b: Unsupported value: \"z\": supported values: \"x\", \"y\""),
        )
        .cause("spec.b", "FieldValueNotSupported");
    kind.create(json!({"a": 1, "c": ["x", 2]}))
        .await
        .refused(422, "Invalid", &["spec.c[1]: Invalid value: \"integer\": spec.c[1] in body must be of type string: \"integer\""])
        .cause("spec.c[1]", "FieldValueTypeInvalid");
    kind.create(json!({"a": 1.5})).await.refused(
        422,
        "Invalid",
        &["spec.a in body must be of type integer: \"number\""],
    );
    kind.gone().await;
}

async fn ranges(lab: Lab) {
    let kind = Kind::new(
        lab,
        object(json!({
            "n": {"type": "integer", "minimum": 2, "maximum": 8, "multipleOf": 2},
            "s": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]*$"},
            "l": {"type": "array", "maxItems": 2, "minItems": 1, "items": {"type": "string"}},
            "m": {"type": "object", "maxProperties": 1, "additionalProperties": {"type": "string"}},
            "d": {"type": "string", "format": "date-time"},
        })),
        Value::Null,
    )
    .await;
    for (spec, part, reason, field) in [
        (
            json!({"n": 0}),
            "spec.n: Invalid value: 0: spec.n in body should be greater than or equal to 2",
            "FieldValueInvalid",
            "spec.n",
        ),
        (
            json!({"n": 10}),
            "spec.n: Invalid value: 10: spec.n in body should be less than or equal to 8",
            "FieldValueInvalid",
            "spec.n",
        ),
        (
            json!({"n": 3}),
            "spec.n: Invalid value: 3: spec.n in body should be a multiple of 2",
            "FieldValueInvalid",
            "spec.n",
        ),
        (
            json!({"s": "a"}),
            "spec.s: Invalid value: \"a\": spec.s in body should be at least 2 chars long",
            "FieldValueInvalid",
            "spec.s",
        ),
        (
            json!({"s": "abcde"}),
            "spec.s: Too long: may not be more than 4 bytes",
            "FieldValueTooLong",
            "spec.s",
        ),
        (
            json!({"s": "A1"}),
            "spec.s: Invalid value: \"A1\": spec.s in body should match '^[a-z]*$'",
            "FieldValueInvalid",
            "spec.s",
        ),
        (
            json!({"l": []}),
            "spec.l: Invalid value: 0: spec.l in body should have at least 1 items",
            "FieldValueInvalid",
            "spec.l",
        ),
        (
            json!({"l": ["a", "b", "c"]}),
            "spec.l: Too many: 3: must have at most 2 items",
            "FieldValueTooMany",
            "spec.l",
        ),
        (
            json!({"m": {"a": "1", "b": "2"}}),
            "spec.m: Too many: 2: must have at most 1 item",
            "FieldValueTooMany",
            "spec.m",
        ),
        (
            json!({"d": "today"}),
            "spec.d: Invalid value: \"today\": spec.d in body must be of type date-time: \"today\"",
            "FieldValueTypeInvalid",
            "spec.d",
        ),
    ] {
        kind.create(spec).await.refused(422, "Invalid", &[part]).cause(field, reason);
    }
    kind.gone().await;
}

async fn lists(lab: Lab) {
    let kind = Kind::new(
        lab,
        object(json!({
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}},
        })),
        Value::Null,
    )
    .await;
    kind.create(json!({"set": ["a", "a"]}))
        .await
        .refused(422, "Invalid", &["spec.set[1]: Duplicate value: \"a\""])
        .cause("spec.set[1]", "FieldValueDuplicate");
    kind.create(json!({"map": [{"name": "a"}, {"name": "a"}]}))
        .await
        .refused(422, "Invalid", &["spec.map[1]: Duplicate value: "])
        .cause("spec.map[1]", "FieldValueDuplicate");
    kind.gone().await;
}

async fn defaults(lab: Lab) {
    let kind = Kind::new(
        lab,
        object(json!({
            "a": {"type": "integer", "default": 3},
            "deep": {"type": "object", "properties": {"b": {"type": "string", "default": "x"}}},
            "list": {"type": "array", "items": {"type": "object", "properties": {"c": {"type": "boolean", "default": true}}}},
            "filled": {"type": "object", "default": {}, "properties": {"d": {"type": "string", "default": "y"}}},
        })),
        Value::Null,
    )
    .await;
    let made = kind.create(json!({"deep": {}, "list": [{}, {"c": false}]})).await.ok(201).clone();
    assert_eq!(
        made["spec"],
        json!({"a": 3, "deep": {"b": "x"}, "list": [{"c": true}, {"c": false}], "filled": {"d": "y"}})
    );
    kind.gone().await;
}

async fn pruning(lab: Lab) {
    let kind = Kind::new(
        lab,
        object(json!({
            "a": {"type": "string"},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                "strict": {"type": "object", "properties": {"b": {"type": "string"}}},
            }},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"c": {"type": "string"}}}},
        })),
        Value::Null,
    )
    .await;
    let made = kind
        .create(json!({
            "a": "1", "x": 1, "free": {"y": [1], "strict": {"b": "1", "z": 1}}, "map": {"k": {"c": "1", "w": 1}},
        }))
        .await;
    assert_eq!(
        made.ok(201)["spec"],
        json!({"a": "1", "free": {"y": [1], "strict": {"b": "1"}}, "map": {"k": {"c": "1"}}})
    );
    made.warned("unknown field \\\"spec.free.strict.z\\\"")
        .warned("unknown field \\\"spec.map.k.w\\\"");
    kind.gone().await;
}

async fn nulls(lab: Lab) {
    let kind = Kind::new(
        lab,
        object(json!({
            "a": {"type": "string", "nullable": true}, "b": {"type": "string", "default": "x"}, "c": {"type": "string"},
        })),
        Value::Null,
    )
    .await;
    let made = kind.create(json!({"a": null, "b": null, "c": null})).await.ok(201).clone();
    assert_eq!(made["spec"], json!({"a": null, "b": "x"}));
    kind.gone().await;
}

async fn int_or_string(lab: Lab) {
    let kind =
        Kind::new(lab, object(json!({"p": {"x-kubernetes-int-or-string": true}})), Value::Null)
            .await;
    for good in [json!("50%"), json!(5)] {
        assert_eq!(kind.create(json!({"p": good})).await.ok(201)["spec"]["p"], good);
        kind.lab.delete(&kind.one("w"), Value::Null).await.ok(200);
    }
    kind.create(json!({"p": true})).await.refused(
        422,
        "Invalid",
        &["must be of type integer,string: \"boolean\""],
    );
    kind.gone().await;
}

async fn metadata(lab: Lab) {
    let kind = Kind::new(lab, object(json!({})), Value::Null).await;
    let mut wanted = kind.widget(json!({}));
    wanted["metadata"]["bogus"] = 1.into();
    wanted["metadata"]["annotations"] = json!({"a": "b"});
    let made = kind.lab.post(&kind.path(), wanted).await.ok(201).clone();
    assert_eq!(made["metadata"].get("bogus"), None);
    assert_eq!(made["metadata"]["annotations"], json!({"a": "b"}));
    kind.gone().await;
}
