//! Custom resources: definitions, schemas, rules.

use serde_json::{Value, json};

use super::behaviours;
use super::lab::{Lab, version};

behaviours! { "custom",
    established => "a definition is established, discovered and served",
    definition_names => "a definition's name, versions and storage version are checked",
    structural => "schemas are structural: every value has a type",
    bad_rule => "a rule that does not compile is refused",
    bad_default => "a default that its own schema refuses is refused",
    names_taken => "a kind that is taken: NamesAccepted is False",
    required => "required, type, enum: messages and causes",
    ranges => "minimum, maximum, multipleOf, lengths, pattern, counts",
    lists => "sets and keyed lists have no duplicates",
    defaults => "defaults are filled in below what is there",
    pruning => "unknown fields go, unless they are to be kept",
    nulls => "null: kept where nullable, otherwise dropped for the default",
    int_or_string => "integers or strings",
    rules => "rules: message, default message, type as value",
    rule_paths => "rules: fieldPath, reason, messageExpression",
    transitions => "rules over oldSelf hold on update only",
    ratcheting => "what was wrong already and does not change is let be",
    scale => "the scale subresource",
    columns => "printer columns make the table",
    selectable => "fields that can be selected",
    dropped => "a definition goes with its objects",
    metadata => "only metadata that is known is kept",
}

struct Kind {
    lab: Lab,
    group: String,
}

impl Kind {
    fn definition(lab: &Lab, schema: Value, more: Value) -> Value {
        let group = format!("{}.example.org", lab.namespace);
        let mut version = json!({
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": schema}}},
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            version[key] = value.clone();
        }
        json!({
            "metadata": {"name": format!("widgets.{group}")},
            "spec": {
                "group": group, "scope": "Namespaced", "versions": [version],
                "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
            },
        })
    }

    async fn new(lab: Lab, schema: Value, more: Value) -> Self {
        let definition = Self::definition(&lab, schema, more);
        lab.post("customresourcedefinitions", definition).await.ok(201);
        let kind = Self { group: format!("{}.example.org", lab.namespace), lab };
        let path = kind.path();
        // Established and served are not the same moment.
        kind.lab
            .until("kind", || async { (kind.lab.get(&path).await.code == 200).then_some(()) })
            .await;
        kind
    }

    fn path(&self) -> String {
        format!("/apis/{}/v1/namespaces/{}/widgets", self.group, self.lab.namespace)
    }

    fn one(&self, name: &str) -> String {
        format!("{}/{name}", self.path())
    }

    fn widget(&self, spec: Value) -> Value {
        json!({
            "apiVersion": format!("{}/v1", self.group), "kind": "Widget",
            "metadata": {"name": "w"}, "spec": spec,
        })
    }

    async fn create(&self, spec: Value) -> super::lab::Reply {
        self.lab.post(&self.path(), self.widget(spec)).await
    }

    async fn gone(self) {
        let name = format!("customresourcedefinitions/widgets.{}", self.group);
        self.lab.delete(&name, Value::Null).await.ok(200);
    }
}

fn object(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

async fn established(lab: Lab) {
    let kind = Kind::new(lab, object(json!({"a": {"type": "string"}})), Value::Null).await;
    let name = format!("customresourcedefinitions/widgets.{}", kind.group);
    let found = kind.lab.get(&name).await.ok(200).clone();
    let condition = |name: &str| {
        let all = found["status"]["conditions"].as_array().unwrap();
        all.iter().find(|c| c["type"] == name).cloned().unwrap_or_default()
    };
    assert_eq!(condition("Established")["status"], "True");
    assert_eq!(condition("NamesAccepted")["reason"], "NoConflicts");
    assert_eq!(found["status"]["acceptedNames"]["plural"], "widgets");
    assert_eq!(found["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(found["spec"]["conversion"]["strategy"], "None");
    let list = kind.lab.get(&format!("/apis/{}/v1", kind.group)).await.ok(200).clone();
    assert_eq!(list["kind"], "APIResourceList");
    assert_eq!(list["resources"][0]["name"], "widgets");
    assert_eq!(list["resources"][0]["singularName"], "widget");
    let group = kind.lab.get(&format!("/apis/{}", kind.group)).await.ok(200).clone();
    assert_eq!(group["preferredVersion"]["version"], "v1");
    kind.gone().await;
}

async fn definition_names(lab: Lab) {
    let good = Kind::definition(&lab, object(json!({})), Value::Null);
    let mut bad = good.clone();
    bad["metadata"]["name"] = "other.example.org".into();
    lab.post("customresourcedefinitions", bad)
        .await
        .refused(422, "Invalid", &["metadata.name: Invalid value: \"other.example.org\": must be spec.names.plural+\".\"+spec.group"])
        .cause("metadata.name", "FieldValueInvalid");
    let mut bad = good.clone();
    bad["spec"]["versions"][0]["storage"] = false.into();
    lab.post("customresourcedefinitions", bad).await.refused(
        422,
        "Invalid",
        &[
            "spec.versions: Invalid value: ",
            "must have exactly one version marked as storage version",
        ],
    );
    let mut bad = good.clone();
    bad["spec"]["scope"] = "Galactic".into();
    lab.post("customresourcedefinitions", bad).await.refused(
        422,
        "Invalid",
        &["spec.scope: Unsupported value: \"Galactic\""],
    );
    let mut bad = good;
    bad["spec"]["versions"][0].as_object_mut().unwrap().remove("schema");
    lab.post("customresourcedefinitions", bad).await.refused(
        422,
        "Invalid",
        &["schemas are required"],
    );
}

const SPEC: &str = "spec.versions[0].schema.openAPIV3Schema.properties[spec]";

async fn structural(lab: Lab) {
    let bad = Kind::definition(&lab, object(json!({"a": {"description": "no type"}})), Value::Null);
    let part = "properties[a].type: Required value: must not be empty for specified object fields";
    lab.post("customresourcedefinitions", bad).await.refused(422, "Invalid", &[part]);
    let bad = Kind::definition(&lab, object(json!({"a": {"type": "thing"}})), Value::Null);
    lab.post("customresourcedefinitions", bad).await.refused(
        422,
        "Invalid",
        &["properties[a].type: Unsupported value: \"thing\""],
    );
}

async fn bad_rule(lab: Lab) {
    let mut schema = object(json!({"a": {"type": "integer"}}));
    schema["x-kubernetes-validations"] = json!([{"rule": "self.a >"}]);
    let bad = Kind::definition(&lab, schema, Value::Null);
    let path = format!("{SPEC}.x-kubernetes-validations[0].rule");
    lab.post("customresourcedefinitions", bad)
        .await
        .refused(422, "Invalid", &[&path, "compilation failed: "])
        .cause(&path, "FieldValueInvalid");
    let mut schema = object(json!({"a": {"type": "integer"}}));
    schema["x-kubernetes-validations"] = json!([{"rule": ""}]);
    let bad = Kind::definition(&lab, schema, Value::Null);
    lab.post("customresourcedefinitions", bad).await.refused(
        422,
        "Invalid",
        &["rule is not specified"],
    );
}

async fn bad_default(lab: Lab) {
    let bad = Kind::definition(
        &lab,
        object(json!({"a": {"type": "integer", "default": "x"}})),
        Value::Null,
    );
    let path = format!("{SPEC}.properties[a].default");
    lab.post("customresourcedefinitions", bad).await.refused(
        422,
        "Invalid",
        &[&path, "must be of type integer"],
    );
}

async fn names_taken(lab: Lab) {
    let kind = Kind::new(lab, object(json!({})), Value::Null).await;
    let mut other = Kind::definition(&kind.lab, object(json!({})), Value::Null);
    other["metadata"]["name"] = format!("gadgets.{}", kind.group).into();
    other["spec"]["names"]["plural"] = "gadgets".into();
    other["spec"]["names"]["singular"] = "gadget".into();
    kind.lab.post("customresourcedefinitions", other).await.ok(201);
    let path = format!("customresourcedefinitions/gadgets.{}", kind.group);
    let refused = || async {
        let found = kind.lab.get(&path).await;
        let conditions = found.json["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|c| c["type"] == "NamesAccepted" && c["status"] == "False")
    };
    let condition = kind.lab.until("refusal", refused).await;
    assert_eq!(condition["reason"], "ListKindConflict");
    assert_eq!(condition["message"], "\"WidgetList\" is already in use");
    kind.lab.delete(&path, Value::Null).await.ok(200);
    kind.gone().await;
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
            "spec.m: Too many: 2: must have at most 1 items",
            "FieldValueTooMany",
            "spec.m",
        ),
        (
            json!({"d": "today"}),
            "spec.d: Invalid value: \"today\": spec.d in body must be of type date-time: \"today\"",
            "FieldValueInvalid",
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
    let made = kind.create(json!({"a": null, "b": null})).await.ok(201).clone();
    assert_eq!(made["spec"], json!({"a": null, "b": "x"}));
    kind.lab.delete(&kind.one("w"), Value::Null).await.ok(200);
    kind.create(json!({"c": null})).await.refused(
        422,
        "Invalid",
        &["spec.c: Invalid value: \"null\": spec.c in body must be of type string: \"null\""],
    );
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
        .says(422, "Invalid", &format!("{named}spec.a: Invalid value: \"integer\": must be even"))
        .cause("spec.a", "FieldValueInvalid");
    kind.create(json!({"b": 11}))
        .await
        .says(422, "Invalid", &format!("{named}spec: Invalid value: \"object\": b is too much"))
        .cause("spec", "FieldValueInvalid");
    kind.create(json!({"n": "y"})).await.says(
        422,
        "Invalid",
        &format!("{named}spec.n: Invalid value: \"string\": failed rule: self.startsWith('x')"),
    );
    kind.create(json!({"a": 2, "b": 3, "n": "xy"})).await.ok(201);
    kind.gone().await;
}

async fn rule_paths(lab: Lab) {
    let mut schema = object(json!({"a": {"type": "integer"}, "b": {"type": "integer"}}));
    schema["x-kubernetes-validations"] = json!([
        {"rule": "!has(self.a) || self.a < 10", "fieldPath": ".a", "reason": "FieldValueForbidden", "message": "too much"},
        {"rule": "!has(self.b) || self.b < 10", "messageExpression": "'b is ' + string(self.b)"},
    ]);
    let kind = Kind::new(lab, schema, Value::Null).await;
    kind.create(json!({"a": 11}))
        .await
        .refused(422, "Invalid", &["spec.a: Forbidden: too much"])
        .cause("spec.a", "FieldValueForbidden");
    kind.create(json!({"b": 12})).await.refused(
        422,
        "Invalid",
        &["spec: Invalid value: \"object\": b is 12"],
    );
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
        &["spec.a: Invalid value: \"string\": a stays"],
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

async fn dropped(lab: Lab) {
    let kind = Kind::new(lab, object(json!({"a": {"type": "string"}})), Value::Null).await;
    let mut held = kind.widget(json!({}));
    held["metadata"]["finalizers"] = json!(["example.org/hold"]);
    kind.lab.post(&kind.path(), held).await.ok(201);
    let name = format!("customresourcedefinitions/widgets.{}", kind.group);
    let waiting = kind.lab.delete(&name, Value::Null).await.ok(200).clone();
    assert_eq!(
        waiting["metadata"]["finalizers"],
        json!(["customresourcecleanup.apiextensions.k8s.io"])
    );
    let marked = || async {
        let found = kind.lab.get(&kind.one("w")).await;
        found.json["metadata"]["deletionTimestamp"].is_string().then_some(())
    };
    kind.lab.until("deletion of the object", marked).await;
    kind.lab.merge(&kind.one("w"), json!({"metadata": {"finalizers": null}})).await.ok(200);
    kind.lab.until("end", || async { (kind.lab.get(&name).await.code == 404).then_some(()) }).await;
    kind.lab
        .until("404", || async { (kind.lab.get(&kind.path()).await.code == 404).then_some(()) })
        .await;
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
