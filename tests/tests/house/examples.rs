//! Examples on pages: objects and values that people copy have only fields that exist.

use std::collections::BTreeMap;
use std::fs;

use regex::Regex;
use serde_json::Value;

use super::pages::{definitions, has_value, pages, top};

/// Blocks of YAML on the pages about installing and configuring.
fn examples() -> Vec<(String, Value)> {
    let block = Regex::new(r"(?s)```yaml\n(.*?)\n```").unwrap();
    let mut found = Vec::new();
    for (name, text) in pages() {
        if name != "README.md" && !name.starts_with("charts/") {
            continue;
        }
        for block in block.captures_iter(&text) {
            let objects: Result<Vec<Value>, _> = serde_saphyr::from_multiple(&block[1]);
            let objects = objects.unwrap_or_else(|error| panic!("{name}: {error}: {}", &block[1]));
            found.extend(objects.into_iter().map(|object| (name.clone(), object)));
        }
    }
    found
}

/// Adds the paths of fields that the schema does not have.
fn find_unknown(value: &Value, schema: &Value, path: &str, unknown: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let at = format!("{path}.{name}");
                let any = &schema["additionalProperties"];
                let is_open =
                    *any == true || schema["x-kubernetes-preserve-unknown-fields"] == true;
                let own = schema["properties"].get(name).or(any.is_object().then_some(any));
                match own {
                    Some(schema) => find_unknown(value, schema, &at, unknown),
                    None if is_open => {}
                    None => unknown.push(at),
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                find_unknown(item, &schema["items"], path, unknown);
            }
        }
        _ => {}
    }
}

/// Fields of an object, or of a piece of one, that no definition of this kind has.
fn unknown_of(object: &Value, kind: &str, schema: &Value) -> Vec<String> {
    let mut unknown = Vec::new();
    let mut own = object.clone();
    if let Some(fields) = own.as_object_mut() {
        fields.retain(|name, _| !["apiVersion", "kind", "metadata"].contains(&name.as_str()));
    }
    find_unknown(&own, schema, kind, &mut unknown);
    unknown
}

/// Paths of a chart's values in a block, down to what is no map.
fn value_paths(value: &Value, path: &[String], found: &mut Vec<Vec<String>>) {
    match value.as_object().filter(|fields| !fields.is_empty()) {
        Some(fields) => {
            for (name, value) in fields {
                value_paths(value, &[path, std::slice::from_ref(name)].concat(), found);
            }
        }
        None => found.push(path.to_vec()),
    }
}

#[test]
fn objects_and_values_that_pages_show_have_only_fields_that_exist() {
    let definitions: BTreeMap<String, Value> = definitions().into_iter().collect();
    let values = fs::read_to_string(top().join("charts/codebutler/values.yaml")).unwrap();
    let values: Value = serde_saphyr::from_str(&values).unwrap();
    let (mut seen, mut wrong) = (0, Vec::new());
    for (page, object) in examples() {
        let mut unknown = Vec::new();
        match object["kind"].as_str() {
            Some(kind) => {
                let Some(schema) = definitions.get(kind) else { continue };
                unknown = unknown_of(&object, kind, schema);
            }
            // A piece of an object of one of the kinds.
            None if object.get("spec").is_some() => {
                let each =
                    definitions.iter().map(|(kind, schema)| unknown_of(&object, kind, schema));
                unknown = each.min_by_key(Vec::len).unwrap();
            }
            None => {
                let mut paths = Vec::new();
                value_paths(&object, &[], &mut paths);
                for path in paths {
                    let names: Vec<&str> = path.iter().map(String::as_str).collect();
                    if !has_value(&values, &names) {
                        unknown.push(path.join("."));
                    }
                }
            }
        }
        seen += 1;
        wrong.extend(unknown.into_iter().map(|field| format!("{page}: {field}")));
    }
    assert!(seen > 12, "{seen}");
    assert!(wrong.is_empty(), "no such field or value: {wrong:#?}");
}

#[test]
fn a_field_that_does_not_exist_is_found() {
    let definitions: BTreeMap<String, Value> = definitions().into_iter().collect();
    let repo = serde_json::json!({
        "kind": "Repo", "metadata": {"name": "shop"},
        "spec": {
            "git": {"url": "https://github.com/acme/shop", "brnach": "main"},
            "mcpServers": [{"name": "a", "envs": []}],
            "model": {"prices": {"any/id": {"prompt": "1", "promt": "2"}}},
        },
    });
    assert_eq!(
        unknown_of(&repo, "Repo", &definitions["Repo"]),
        [
            "Repo.spec.git.brnach",
            "Repo.spec.mcpServers.envs",
            "Repo.spec.model.prices.any/id.promt"
        ]
    );
}
