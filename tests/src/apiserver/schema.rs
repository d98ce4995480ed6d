//! OpenAPI schemas as the server walks them: one view over a CustomResourceDefinition's schema and
//! over the built-in kinds' definitions, where properties are references.

use serde_json::{Map, Value};

/// Prefix of references to definitions.
pub(super) const REF_PREFIX: &str = "#/components/schemas/";

/// A schema node and the definitions that its references name.
#[derive(Clone, Copy, Debug)]
pub(super) struct SchemaNode<'a> {
    schema: &'a Value,
    definitions: &'a Map<String, Value>,
}

/// Type of a list for server-side apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ListKind {
    /// The list is owned and replaced as one value.
    Atomic,
    /// Items are scalars without order.
    Set,
    /// Items are objects known by these fields.
    Map(Vec<String>),
}

impl<'a> SchemaNode<'a> {
    /// A view of a schema, with references resolved.
    pub(super) fn new(schema: &'a Value, definitions: &'a Map<String, Value>) -> Self {
        Self { schema, definitions }.resolved()
    }

    fn at(self, schema: &'a Value) -> Self {
        Self { schema, definitions: self.definitions }.resolved()
    }

    fn resolved(self) -> Self {
        let reference = self.schema.get("$ref").or_else(|| {
            let all = self.schema.get("allOf")?.as_array()?;
            if all.len() == 1 { all[0].get("$ref") } else { None }
        });
        let target = reference
            .and_then(Value::as_str)
            .and_then(|r| self.definitions.get(r.strip_prefix(REF_PREFIX)?));
        match target {
            Some(schema) => Self { schema, definitions: self.definitions }.resolved(),
            None => self,
        }
    }

    /// True if this is the definition of that name.
    pub(super) fn is(self, definition: &str) -> bool {
        self.definitions.get(definition).is_some_and(|d| std::ptr::eq(d, self.schema))
    }

    /// The last part of its definition's name, if it is one.
    pub(super) fn name(self) -> Option<&'a str> {
        let found = self.definitions.iter().find(|(_, d)| std::ptr::eq(*d, self.schema));
        found.map(|(name, _)| name.rsplit('.').next().unwrap_or(name))
    }

    /// Reads the value of a keyword.
    pub(super) fn keyword(self, name: &str) -> Option<&'a Value> {
        self.schema.get(name)
    }

    /// True if a keyword is `true`.
    pub(super) fn flag(self, name: &str) -> bool {
        self.keyword(name).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(super) fn kind(self) -> Option<&'a str> {
        self.keyword("type").and_then(Value::as_str)
    }

    /// The schema of a declared property.
    pub(super) fn property(self, name: &str) -> Option<Self> {
        Some(self.at(self.schema.get("properties")?.get(name)?))
    }

    /// All declared properties with their schemas.
    pub(super) fn properties(self) -> impl Iterator<Item = (&'a str, Self)> {
        self.schema
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(move |(name, schema)| (name.as_str(), self.at(schema)))
    }

    /// The schema of the values of a map.
    pub(super) fn additional(self) -> Option<Self> {
        self.schema.get("additionalProperties").filter(|a| a.is_object()).map(|a| self.at(a))
    }

    /// The schema of a field: declared or, in a map, of any name.
    pub(super) fn field(self, name: &str) -> Option<Self> {
        self.property(name).or_else(|| self.additional())
    }

    /// The schema of a list's items.
    pub(super) fn items(self) -> Option<Self> {
        self.schema.get("items").map(|items| self.at(items))
    }

    /// The schemas of `allOf`, `anyOf` or `oneOf`.
    pub(super) fn branches(self, keyword: &str) -> Vec<Self> {
        let branches = self.schema.get(keyword).and_then(Value::as_array);
        branches.into_iter().flatten().map(|schema| self.at(schema)).collect()
    }

    /// A keyword that is a schema, such as `not`.
    pub(super) fn branch(self, keyword: &str) -> Option<Self> {
        self.schema.get(keyword).map(|schema| self.at(schema))
    }

    /// True if undeclared fields are kept instead of pruned.
    pub(super) fn keeps_unknown(self) -> bool {
        self.flag("x-kubernetes-preserve-unknown-fields")
            || self.schema.get("additionalProperties") == Some(&Value::Bool(true))
    }

    /// True if the value may be an integer or a string.
    pub(super) fn is_int_or_string(self) -> bool {
        self.flag("x-kubernetes-int-or-string")
            || self.keyword("format").and_then(Value::as_str) == Some("int-or-string")
    }

    /// Type of the list; see [`ListKind`].
    pub(super) fn list_kind(self) -> ListKind {
        match self.keyword("x-kubernetes-list-type").and_then(Value::as_str) {
            Some("set") => ListKind::Set,
            Some("map") => ListKind::Map(
                self.keyword("x-kubernetes-list-map-keys")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect(),
            ),
            _ => ListKind::Atomic,
        }
    }

    /// True if a map or structure is owned and replaced as one value.
    pub(super) fn is_atomic_map(self) -> bool {
        self.keyword("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic")
    }
}

/// Removes the fields that a schema does not know and lists their paths.
pub(super) fn prune_unknown(
    value: &mut Value,
    node: SchemaNode<'_>,
    path: &str,
    unknown: &mut Vec<String>,
) {
    match value {
        Value::Object(map) => {
            map.retain(|name, _| {
                let known = node.field(name).is_some() || node.keeps_unknown() || is_any(node);
                if !known {
                    unknown.push(join_path(path, name));
                }
                known
            });
            for (name, child) in map.iter_mut() {
                if let Some(schema) = node.field(name) {
                    prune_unknown(child, schema, &join_path(path, name), unknown);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = node.items() {
                for (index, item) in items.iter_mut().enumerate() {
                    prune_unknown(item, schema, &format!("{path}[{index}]"), unknown);
                }
            }
        }
        _ => {}
    }
}

/// Takes a null for nothing where the schema allows none and has no default for it.
pub(super) fn drop_nulls(value: &mut Value, node: SchemaNode<'_>) {
    match value {
        Value::Object(map) => {
            map.retain(|name, field| {
                let Some(schema) = node.field(name) else { return true };
                let kept = schema.flag("nullable") || schema.keyword("default").is_some();
                !field.is_null() || kept
            });
            for (name, child) in map.iter_mut() {
                if let Some(schema) = node.field(name) {
                    drop_nulls(child, schema);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = node.items() {
                for item in items {
                    drop_nulls(item, schema);
                }
            }
        }
        _ => {}
    }
}

/// A schema that says nothing of its value's type.
fn is_any(node: SchemaNode<'_>) -> bool {
    node.kind().is_none() && node.keyword("properties").is_none()
}

/// Fills in the defaults that a schema declares.
pub(super) fn fill_defaults(value: &mut Value, node: SchemaNode<'_>) {
    match value {
        Value::Object(map) => {
            for (name, schema) in node.properties() {
                if let Some(default) = schema.keyword("default") {
                    let absent =
                        map.get(name).is_none_or(|v| v.is_null() && !schema.flag("nullable"));
                    if absent {
                        map.insert(name.to_owned(), default.clone());
                    }
                }
            }
            for (name, child) in map.iter_mut() {
                if let Some(schema) = node.field(name) {
                    fill_defaults(child, schema);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = node.items() {
                for item in items {
                    fill_defaults(item, schema);
                }
            }
        }
        _ => {}
    }
}

/// Appends a field to a path.
pub(super) fn join_path(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
