//! Checks of a request body that come before all others: identity, unknown fields, types.

use serde_json::Value;

use super::ResourceRequest;
use crate::apiserver::kinds::ServedKind;
use crate::apiserver::object::{self, text_at};
use crate::apiserver::scalars;
use crate::apiserver::schema::{self, SchemaNode};
use crate::apiserver::status::{ApiError, StatusCause};
use crate::apiserver::twice;

impl ResourceRequest<'_> {
    /// Checks that an object is what the path says and completes what the path says of it.
    pub(super) fn check_identity(&self, value: &mut Value) -> Result<(), ApiError> {
        let kind = &self.kind;
        if !value.is_object() {
            return Err(ApiError::bad_request("the body of the request must be an object"));
        }
        // Typed clients leave out what the path says; an applied configuration has to say it.
        let says = |field| text_at(value, field).is_some_and(|text| !text.is_empty());
        let applied = self.request.content_type() == "application/apply-patch+yaml";
        if kind.custom().is_none() && !applied && !says("/kind") && !says("/apiVersion") {
            value["apiVersion"] = kind.api_version().into();
            value["kind"] = kind.kind.clone().into();
        }
        let found = text_at(value, "/kind").unwrap_or_default();
        let version = kind.api_version();
        let given = text_at(value, "/apiVersion").unwrap_or_default();
        if applied && (given != version || found != kind.kind) {
            let (group, number) = given.rsplit_once('/').unwrap_or(("", given));
            return Err(ApiError::bad_request(format!(
                "invalid object type: {group}/{number}, Kind={found}"
            )));
        }
        if found.is_empty() {
            return Err(ApiError::bad_request(format!("Object 'Kind' is missing in '{value}'")));
        }
        if given != version {
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({given}) does not match the expected API version ({version})"
            )));
        }
        if found != kind.kind {
            return Err(ApiError::bad_request(format!(
                "{found} in version \"{}\" cannot be handled as a {}: no kind \"{found}\" is registered for this resource",
                kind.version, kind.kind
            )));
        }
        let namespace = object::object_namespace(value);
        if !namespace.is_empty() && namespace != self.target.namespace {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        if kind.namespaced {
            let namespace = self.target.namespace.clone();
            object::set_meta(value, "namespace", Some(namespace.into()));
        }
        let name = object::object_name(value);
        if !self.target.name.is_empty() && name != self.target.name {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                self.target.name
            )));
        }
        Ok(())
    }

    /// Removes what the schema does not know, as strictly as the client asks, and checks the types
    /// of built-in kinds. Returns warnings.
    pub(super) fn screen(&self, value: &mut Value, patch: bool) -> Result<Vec<String>, ApiError> {
        let Some(node) = self.kind.node() else { return Ok(Vec::new()) };
        let mut unknown = Vec::new();
        schema::prune_unknown(value, node, "", &mut unknown);
        let json = matches!(self.request.content_type(), "" | "application/json");
        let twice =
            if json && !patch { twice::doubled_fields(&self.request.body) } else { Vec::new() };
        let twice = twice.iter().map(|path| format!("duplicate field \"{path}\""));
        let unknown = unknown.iter().map(|path| format!("unknown field \"{path}\""));
        let warnings: Vec<String> = twice.chain(unknown).collect();
        if !warnings.is_empty() && self.request.query.get("fieldValidation") == Some("Strict") {
            let why = format!("strict decoding error: {}", warnings.join(", "));
            return Err(self.unreadable(value, patch, &why));
        }
        tidy_meta(value);
        if self.kind.custom().is_some() {
            schema::drop_nulls(value, node);
        } else {
            drop_nulls(value);
            if let Some(why) = wrong_type(value, node, node, "") {
                return Err(self.unreadable(value, patch, &why));
            }
            let before = value.clone();
            scalars::normalize_value(value, node, "")
                .map_err(|error| self.unreadable(&before, patch, &error.to_string()))?;
        }
        let quiet = self.request.query.get("fieldValidation") == Some("Ignore");
        Ok(if quiet { Vec::new() } else { warnings })
    }

    fn unreadable(&self, value: &Value, patch: bool, why: &str) -> ApiError {
        if patch {
            // The patch can be read; what came of it can't.
            let cause = StatusCause::invalid("patch", &value.to_string().into(), why);
            return ApiError::invalid("", "", "", &[cause]);
        }
        ApiError::bad_request(format!(
            "{0} in version \"{1}\" cannot be handled as a {0}: {why}",
            self.kind.kind, self.kind.version
        ))
    }
}

/// The first field that a configuration names and its schema does not know.
pub(super) fn undeclared_field(kind: &ServedKind, config: &Value) -> Option<String> {
    let mut unknown = Vec::new();
    schema::prune_unknown(&mut config.clone(), kind.node()?, "", &mut unknown);
    unknown.into_iter().next()
}

/// Metadata is the same type in every kind, and its empty fields are not kept.
fn tidy_meta(value: &mut Value) {
    object::meta_mut(value).retain(|_, field| match field {
        Value::Null => false,
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => true,
    });
}

/// Removes fields that are null, which in built-in kinds is the same as absent.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, child| !child.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// The error for a value of the wrong type, as Go words it: the field by the structure it is in and the
/// path to it.
fn wrong_type(
    value: &Value,
    node: SchemaNode<'_>,
    owner: SchemaNode<'_>,
    path: &str,
) -> Option<String> {
    // A schema inside a schema.
    if node.keeps_unknown() {
        return None;
    }
    let (found, ok) = match value {
        Value::Object(_) => ("object", matches!(node.kind(), Some("object") | None)),
        Value::Array(_) => ("array", matches!(node.kind(), Some("array") | None)),
        Value::String(_) => ("string", matches!(node.kind(), Some("string") | None)),
        Value::Bool(_) => ("bool", matches!(node.kind(), Some("boolean") | None)),
        Value::Number(_) => {
            let ok = matches!(node.kind(), Some("integer" | "number") | None);
            ("number", ok || node.is(scalars::QUANTITY))
        }
        Value::Null => ("null", true),
    };
    if !ok && !(node.is_int_or_string() && (value.is_string() || value.is_number())) {
        let wanted = node.kind().unwrap_or("object");
        let structure = owner.name().unwrap_or_default();
        return Some(format!(
            "json: cannot unmarshal {found} into Go struct field {structure}.{path} of type {wanted}"
        ));
    }
    match value {
        Value::Object(map) => map.iter().find_map(|(name, child)| match node.property(name) {
            Some(schema) => wrong_type(child, schema, node, &schema::join_path(path, name)),
            // The keys of a map are not part of the path.
            None => wrong_type(child, node.field(name)?, owner, path),
        }),
        Value::Array(items) => {
            let schema = node.items()?;
            items.iter().find_map(|item| wrong_type(item, schema, owner, path))
        }
        _ => None,
    }
}
