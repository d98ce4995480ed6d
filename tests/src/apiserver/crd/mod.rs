//! Custom resources: what a CustomResourceDefinition turns into.

mod definition;
mod validate;

pub use definition::{accept, check, default, kinds_of};
pub use validate::Checks;

use std::collections::HashMap;

use kube_cel::{CompiledSchema, RootContext, Validator, compile_schema};
use regex::Regex;
use serde_json::{Value, json};

use super::definitions::{DEFINITIONS, OBJECT_META};
use super::jsonpath::JsonPath;
use super::schema::{Node, REF_PREFIX};
use super::status::Cause;

/// A printer column.
pub struct Column {
    /// Heading.
    pub name: String,
    /// OpenAPI type, or `date`.
    pub kind: String,
    /// OpenAPI format.
    pub format: String,
    /// What it shows.
    pub description: String,
    /// Above 0: only in wide output.
    pub priority: i64,
    /// Where its value is.
    pub path: Option<JsonPath>,
}

/// One served version of a custom resource, with everything compiled.
pub struct CustomVersion {
    /// The schema, with metadata filled in.
    pub schema: Value,
    /// Printer columns.
    pub columns: Vec<Column>,
    /// Field selectors, as written (`spec.repo`) and parsed.
    pub selectable: Vec<(String, JsonPath)>,
    patterns: HashMap<String, Regex>,
    rules: CompiledSchema,
    validator: Validator,
    root: RootContext,
}

impl CustomVersion {
    /// Compiles one entry of `spec.versions`.
    pub fn new(group: &str, kind: &str, version: &Value) -> Self {
        let mut schema = version
            .pointer("/schema/openAPIV3Schema")
            .cloned()
            .unwrap_or_else(|| json!({"type": "object"}));
        // Rules see what the author wrote, defaults and metadata come from this server.
        let rules = compile_schema(&schema);
        let properties = super::object::map_at(&mut schema, "properties");
        properties.insert("apiVersion".to_owned(), json!({"type": "string"}));
        properties.insert("kind".to_owned(), json!({"type": "string"}));
        let meta = format!("{REF_PREFIX}{OBJECT_META}");
        properties.insert("metadata".to_owned(), json!({ "allOf": [{"$ref": meta}] }));
        let mut patterns = HashMap::new();
        collect_patterns(&schema, &mut patterns);
        let columns = version.get("additionalPrinterColumns").and_then(Value::as_array);
        let columns = match columns {
            Some(columns) => columns.iter().map(Column::new).collect(),
            None => vec![Column::new(&json!({
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
            api_version: super::kinds::api_version(group, name),
            api_group: group.to_owned(),
            kind: kind.to_owned(),
        };
        Self { schema, columns, selectable, patterns, rules, validator: Validator::new(), root }
    }

    /// The schema as a view.
    pub fn node(&self) -> Node<'_> {
        Node::new(&self.schema, &DEFINITIONS)
    }

    /// Everything that is wrong with an object.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = Checks { patterns: &self.patterns }.run(object, self.node());
        // Rules rely on types: upstream, too, runs them on well-formed objects only.
        if causes.is_empty()
            && let Err(errors) = self.validator.validate_compiled_with_context(
                &self.rules,
                object,
                old,
                Some(&self.root),
            )
        {
            causes.extend(errors.iter().map(|error| rule_cause(object, error)));
        }
        causes
    }
}

impl Column {
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

fn rule_cause(object: &Value, error: &kube_cel::ValidationError) -> Cause {
    let pointer = error.field_path.replace(['.', '['], "/").replace(']', "");
    let value = object.pointer(&format!("/{pointer}")).unwrap_or(&Value::Null);
    let field = error.field_path.clone();
    match error.reason.as_deref() {
        Some("FieldValueForbidden") => Cause::forbidden(field, &error.message),
        Some("FieldValueRequired") => Cause::required(field, &error.message),
        Some("FieldValueDuplicate") => Cause::duplicate(field, value),
        _ => match value {
            Value::Object(_) | Value::Array(_) | Value::Null => {
                Cause::wrong_type(field, "object", &error.message)
            }
            scalar => Cause::invalid(field, scalar, &error.message),
        },
    }
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
