//! CustomResourceDefinitions themselves: checks, defaults, conditions, and the kinds they add.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use super::crd::known::KnownTexts;
use super::crd::{CustomVersion, wrong_default};
use crate::apiserver::kinds::{KindShape, ScalePaths, ServedKind, printed_table};
use crate::apiserver::object::{self, default_to, map_at, text_at};
use crate::apiserver::status::StatusCause;

static KNOWN_CAUSES: LazyLock<KnownTexts<Vec<StatusCause>>> = LazyLock::new(KnownTexts::new);
static KNOWN_VERSIONS: LazyLock<KnownTexts<Arc<CustomVersion>>> = LazyLock::new(KnownTexts::new);

/// Lists the mistakes in a definition.
pub(crate) fn check_definition(definition: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let field = |pointer: &str| text_at(definition, pointer).unwrap_or_default();
    let (group, plural) = (field("/spec/group"), field("/spec/names/plural"));
    for (pointer, path) in [
        ("/spec/group", "spec.group"),
        ("/spec/scope", "spec.scope"),
        ("/spec/names/plural", "spec.names.plural"),
        ("/spec/names/kind", "spec.names.kind"),
    ] {
        if field(pointer).is_empty() {
            causes.push(StatusCause::required(path, ""));
        }
    }
    let name = format!("{plural}.{group}");
    if object::object_name(definition) != name {
        causes.push(StatusCause::invalid(
            "metadata.name",
            &object::object_name(definition).into(),
            "must be spec.names.plural+\".\"+spec.group",
        ));
    }
    if !matches!(field("/spec/scope"), "Namespaced" | "Cluster" | "") {
        let allowed = ["Cluster".to_owned(), "Namespaced".to_owned()];
        causes.push(StatusCause::unsupported("spec.scope", &field("/spec/scope").into(), &allowed));
    }
    let versions = list_versions(definition);
    if versions.is_empty() {
        causes.push(StatusCause::required("spec.versions", "must have at least one version"));
    }
    let storage = versions.iter().filter(|v| v["storage"] == true).count();
    if storage != 1 {
        causes.push(StatusCause::invalid(
            "spec.versions",
            definition.pointer("/spec/versions").unwrap_or(&Value::Null),
            "must have exactly one version marked as storage version",
        ));
    }
    let schema_of = |version: &Value| version.pointer("/schema/openAPIV3Schema").cloned();
    // Upstream moves what all versions have in common out of them before it looks.
    let first = versions.first().and_then(schema_of);
    let common =
        first.filter(|first| versions.iter().all(|v| schema_of(v).as_ref() == Some(first)));
    if let Some(schema) = common {
        causes.extend(check_schema(&schema, "spec.validation.openAPIV3Schema"));
        return causes;
    }
    for (index, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{index}].schema.openAPIV3Schema");
        match version.pointer("/schema/openAPIV3Schema") {
            None => causes.push(StatusCause::required(path, "")),
            Some(schema) => causes.extend(check_schema(schema, &path)),
        }
    }
    causes
}

fn check_schema(schema: &Value, path: &str) -> Vec<StatusCause> {
    KNOWN_CAUSES.find_or_make(path, schema, || {
        let mut causes = Vec::new();
        check_structural(schema, path, &mut causes);
        causes
    })
}

/// A schema must say every value's type, so that pruning has one meaning.
fn check_structural(schema: &Value, path: &str, causes: &mut Vec<StatusCause>) {
    let flag = |name: &str| schema.get(name) == Some(&Value::Bool(true));
    if schema.get("type").is_none()
        && !flag("x-kubernetes-int-or-string")
        && !flag("x-kubernetes-preserve-unknown-fields")
    {
        causes.push(StatusCause::required(
            format!("{path}.type"),
            "must not be empty for specified object fields",
        ));
    }
    let types = ["array", "boolean", "integer", "number", "object", "string"];
    if let Some(other) = schema.get("type").filter(|t| !types.iter().any(|known| *t == known)) {
        causes.push(StatusCause::unsupported(
            format!("{path}.type"),
            other,
            &types.map(str::to_owned),
        ));
    }
    if let Some(default) = schema.get("default").filter(|_| causes.is_empty()) {
        let found = wrong_default(schema, default);
        causes.extend(
            found.into_iter().map(|cause| StatusCause {
                field: format!("{path}.default{}", cause.field),
                ..cause
            }),
        );
    }
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
        && let Err(error) = regex::Regex::new(pattern)
    {
        causes.push(StatusCause::invalid(
            format!("{path}.pattern"),
            &pattern.into(),
            &format!("must be a valid regular expression, but isn't: {error}"),
        ));
    }
    for (index, compiled) in
        kube_cel::compile_schema(&own_rules(schema)).validations.iter().enumerate()
    {
        let path = format!("{path}.x-kubernetes-validations[{index}].rule");
        let rule = schema.pointer(&format!("/x-kubernetes-validations/{index}/rule"));
        if rule.and_then(Value::as_str).unwrap_or_default().trim().is_empty() {
            causes.push(StatusCause::required(path, "rule is not specified"));
        } else if let Err(error) = compiled {
            let rule = schema
                .pointer(&format!("/x-kubernetes-validations/{index}/rule"))
                .unwrap_or(&Value::Null);
            causes.push(StatusCause::invalid(path, rule, &format!("compilation failed: {error}")));
        }
    }
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        for (name, child) in properties {
            check_structural(child, &format!("{path}.properties[{name}]"), causes);
        }
    }
    if let Some(items) = schema.get("items") {
        check_structural(items, &format!("{path}.items"), causes);
    }
    if let Some(additional) = schema.get("additionalProperties").filter(|a| a.is_object()) {
        check_structural(additional, &format!("{path}.additionalProperties"), causes);
    }
}

fn own_rules(schema: &Value) -> Value {
    let rules = schema.get("x-kubernetes-validations").cloned().unwrap_or_else(|| json!([]));
    json!({ "type": "object", "x-kubernetes-validations": rules })
}

/// Fills in what may be left out.
pub(crate) fn default_definition(definition: &mut Value) {
    let spec = map_at(definition, "spec");
    default_to(spec, "conversion", json!({"strategy": "None"}));
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        default_to(names, "singular", kind.to_lowercase());
        default_to(names, "listKind", format!("{kind}List"));
    }
}

/// Sets the conditions by which a definition is accepted and established.
pub(crate) fn accept_definition(definition: &mut Value, now: &str) {
    let names = definition.pointer("/spec/names").cloned().unwrap_or_default();
    let storage = list_versions(definition)
        .iter()
        .find(|v| v["storage"] == true)
        .and_then(|v| v.get("name").cloned())
        .unwrap_or_default();
    let conditions = definition.pointer("/status/conditions").cloned();
    let mut stored = definition
        .pointer("/status/storedVersions")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    if !stored.contains(&storage) {
        stored.push(storage);
    }
    let status = json!({
        "acceptedNames": names,
        "storedVersions": stored,
        "conditions": conditions.unwrap_or_else(|| json!([
            {
                "type": "NamesAccepted", "status": "True", "lastTransitionTime": now,
                "reason": "NoConflicts", "message": "no conflicts found",
            },
            {
                "type": "Established", "status": "True", "lastTransitionTime": now,
                "reason": "InitialNamesAccepted",
                "message": "the initial names have been accepted",
            },
        ])),
    });
    object::set_field(definition, "status", Some(status));
}

/// The kinds that a definition serves.
pub(crate) fn kinds_of(definition: &Value) -> Vec<ServedKind> {
    let field = |pointer: &str| text_at(definition, pointer).unwrap_or_default().to_owned();
    let list = |pointer: &str| -> Vec<String> {
        let items = definition.pointer(pointer).and_then(Value::as_array);
        items.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let (group, plural, kind) =
        (field("/spec/group"), field("/spec/names/plural"), field("/spec/names/kind"));
    list_versions(definition)
        .iter()
        .filter(|version| version["served"] == true)
        .map(|version| ServedKind {
            group: group.clone(),
            version: text_at(version, "/name").unwrap_or_default().to_owned(),
            plural: plural.clone(),
            singular: field("/spec/names/singular"),
            kind: kind.clone(),
            short_names: list("/spec/names/shortNames"),
            categories: list("/spec/names/categories"),
            namespaced: field("/spec/scope") == "Namespaced",
            table: printed_table(&group, &plural),
            status: version.pointer("/subresources/status").is_some(),
            scale: version.pointer("/subresources/scale").map(read_scale),
            extra: &[],
            virtual_only: false,
            generation: true,
            shape: KindShape::Custom(KNOWN_VERSIONS.find_or_make(
                &format!("{group} {kind}"),
                version,
                || Arc::new(CustomVersion::new(&group, &kind, version)),
            )),
        })
        .collect()
}

fn read_scale(scale: &Value) -> ScalePaths {
    let pointer =
        |field: &str| scale.get(field).and_then(Value::as_str).map(|path| path.replace('.', "/"));
    ScalePaths {
        spec: pointer("specReplicasPath").unwrap_or_default(),
        status: pointer("statusReplicasPath").unwrap_or_default(),
        selector: pointer("labelSelectorPath"),
    }
}

fn list_versions(definition: &Value) -> &[Value] {
    definition
        .pointer("/spec/versions")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}
