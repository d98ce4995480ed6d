//! Definitions: what is let in, and what becomes of them.

use serde_json::{Value, json};

use super::super::behaviours;
use super::super::lab::Lab;
use super::{Kind, object};

behaviours! { "custom",
    established => "a definition is established, discovered and served",
    definition_names => "a definition's name, versions and storage version are checked",
    structural => "schemas are structural: every value has a type",
    bad_rule => "a rule that does not compile is refused",
    bad_default => "a default that its own schema refuses is refused",
    names_taken => "a kind that is taken: NamesAccepted is False",
    dropped => "a definition goes with its objects",
}

/// Path by which messages name the schema that all versions have in common.
const SPEC: &str = "spec.validation.openAPIV3Schema.properties[spec]";

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
        &["spec.versions[0].schema.openAPIV3Schema: Required value"],
    );
}

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
