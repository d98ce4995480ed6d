//! Custom resources: what a CustomResourceDefinition turns into.

pub(super) mod known;
pub(super) mod names;
mod validate;

pub(super) use validate::SchemaChecks;

use std::collections::HashMap;

use kube_cel::{CompiledSchema, RootContext, Validator, compile_schema};
use regex::Regex;
use serde_json::{Value, json};

use super::definitions::{DEFINITIONS, OBJECT_META};
use super::jsonpath::JsonPath;
use super::schema::{REF_PREFIX, SchemaNode};
use super::status::StatusCause;

/// A printer column of a definition.
pub(super) struct CrdColumn {
    pub name: String,
    /// Type in OpenAPI's words, or `date`.
    pub kind: String,
    pub format: String,
    /// Explanation for people, as in the definition.
    pub description: String,
    /// Above 0: only in wide output.
    pub priority: i64,
    /// JSON path of the value, if it can be parsed.
    pub path: Option<JsonPath>,
}

/// A served version of a custom resource, with schema, rules and patterns compiled.
pub(super) struct CustomVersion {
    /// The schema, with metadata filled in.
    pub schema: Value,
    pub columns: Vec<CrdColumn>,
    /// Field selectors, as written (`spec.repo`) and parsed.
    pub selectable: Vec<(String, JsonPath)>,
    patterns: HashMap<String, Regex>,
    rules: CompiledSchema,
    has_rules: bool,
    validator: Validator,
    root: RootContext,
}

impl CustomVersion {
    /// Compiles one entry of `spec.versions`.
    pub(super) fn new(group: &str, kind: &str, version: &Value) -> Self {
        let mut schema = version
            .pointer("/schema/openAPIV3Schema")
            .cloned()
            .unwrap_or_else(|| json!({"type": "object"}));
        // Rules see what the author wrote, defaults and metadata come from this server.
        let rules = compile_schema(&schema);
        let has_rules = schema.to_string().contains("\"x-kubernetes-validations\"");
        let properties = super::object::map_at(&mut schema, "properties");
        properties.insert("apiVersion".to_owned(), json!({"type": "string"}));
        properties.insert("kind".to_owned(), json!({"type": "string"}));
        let meta = format!("{REF_PREFIX}{OBJECT_META}");
        properties.insert("metadata".to_owned(), json!({ "allOf": [{"$ref": meta}] }));
        let mut patterns = HashMap::new();
        collect_patterns(&schema, &mut patterns);
        let columns = version.get("additionalPrinterColumns").and_then(Value::as_array);
        let columns = match columns {
            Some(columns) => columns.iter().map(CrdColumn::new).collect(),
            None => vec![CrdColumn::new(&json!({
                "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
            }))],
        };
        let selectable = version
            .get("selectableFields")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|field| field.get("jsonPath")?.as_str())
            .filter_map(|path| {
                Some((path.trim_start_matches('.').to_owned(), JsonPath::parse(path)?))
            })
            .collect();
        let name = version.get("name").and_then(Value::as_str).unwrap_or_default();
        let root = RootContext {
            api_version: super::object::api_version(group, name),
            api_group: group.to_owned(),
            kind: kind.to_owned(),
        };
        let validator = Validator::new();
        Self { schema, columns, selectable, patterns, rules, has_rules, validator, root }
    }

    /// View of the schema with upstream's definitions.
    pub(super) fn node(&self) -> SchemaNode<'_> {
        SchemaNode::new(&self.schema, &DEFINITIONS)
    }

    /// Everything that is wrong with an object.
    pub(super) fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<StatusCause> {
        let mut causes = SchemaChecks { patterns: &self.patterns }.run(object, self.node());
        if let Some(old) = old {
            causes.retain(|cause| !is_unchanged(object, old, &cause.field));
        }
        if causes.iter().any(StatusCause::blocks_rules) {
            if self.has_rules {
                causes.push(StatusCause::rules_unchecked());
            }
        } else if let Err(errors) = self.validator.validate_compiled_with_context(
            &self.rules,
            object,
            old,
            Some(&self.root),
        ) {
            causes.extend(errors.iter().filter_map(|error| {
                let about_change = error.rule.contains("oldSelf");
                let same = |old| !about_change && is_unchanged(object, old, &error.field_path);
                (!old.is_some_and(same)).then(|| self.rule_cause(error, object))
            }));
        }
        causes
    }
}

impl CustomVersion {
    /// A broken rule as upstream tells it: with the value of what has the rule, if it is a simple one.
    fn rule_cause(&self, error: &kube_cel::ValidationError, object: &Value) -> StatusCause {
        let field = error.field_path.clone();
        let mut node = self.node();
        let mut found = Some(node);
        for part in field.split(['.', '[']).filter(|part| !part.is_empty()) {
            found = found.and_then(|n| if part.ends_with(']') { n.items() } else { n.field(part) });
        }
        if let Some(found) = found {
            node = found;
        }
        let declared = node.keyword("x-kubernetes-validations").and_then(Value::as_array);
        let own = declared.into_iter().flatten().any(|rule| rule["rule"] == error.rule.as_str());
        let pointer = format!("/{}", field.replace(['.', '['], "/").replace(']', ""));
        // A rule of an object may point at one of its fields.
        let value = object
            .pointer(&pointer)
            .filter(|value| own && !matches!(value, Value::Object(_) | Value::Array(_)));
        match error.reason.as_deref() {
            Some("FieldValueForbidden") => StatusCause::forbidden(field, &error.message),
            Some("FieldValueRequired") => StatusCause::required(field, &error.message),
            Some("FieldValueDuplicate") => {
                StatusCause::duplicate(field, value.unwrap_or(&Value::Null))
            }
            _ => match value {
                Some(value) => StatusCause::invalid(field, value, &error.message),
                None => StatusCause::broken(field, &error.message),
            },
        }
    }
}

impl CrdColumn {
    fn new(column: &Value) -> Self {
        let text =
            |field: &str| column.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self {
            name: text("name"),
            kind: text("type"),
            format: text("format"),
            description: text("description"),
            priority: column.get("priority").and_then(Value::as_i64).unwrap_or(0),
            path: JsonPath::parse(&text("jsonPath")),
        }
    }
}

/// True if the value at a path, or the closest parent where it is absent, is unchanged: an update is not
/// refused for what it leaves alone.
fn is_unchanged(object: &Value, old: &Value, path: &str) -> bool {
    let mut pointer = format!("/{}", path.replace(['.', '['], "/").replace(']', ""));
    while object.pointer(&pointer).is_none() {
        match pointer.rfind('/') {
            Some(at) => pointer.truncate(at),
            None => break,
        }
    }
    object.pointer(&pointer) == old.pointer(&pointer)
}

/// Lists the violations of a schema by its own default.
pub(super) fn wrong_default(schema: &Value, default: &Value) -> Vec<StatusCause> {
    let mut patterns = HashMap::new();
    collect_patterns(schema, &mut patterns);
    SchemaChecks { patterns: &patterns }.run(default, SchemaNode::new(schema, &DEFINITIONS))
}

fn collect_patterns(schema: &Value, patterns: &mut HashMap<String, Regex>) {
    match schema {
        Value::Object(map) => {
            if let Some(pattern) = map.get("pattern").and_then(Value::as_str)
                && let Ok(regex) = Regex::new(pattern)
            {
                patterns.insert(pattern.to_owned(), regex);
            }
            map.values().for_each(|child| collect_patterns(child, patterns));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_patterns(item, patterns)),
        _ => {}
    }
}
