//! Tables for `kubectl get`: upstream's columns of the built-in kinds, a definition's for others.

mod age;
mod columns;

use serde_json::{Value, json};

use super::jsonpath::JsonPath;
use super::kinds::ServedKind;
use super::object;
use super::render::partial_object;

/// A column of a kind's table.
pub(super) struct TableColumn {
    name: &'static str,
    kind: &'static str,
    wide: bool,
    cell: fn(&Value) -> Value,
}

/// Objects as a table. `include` is the client's `includeObject`; the columns are left out after
/// the first table of a watch.
pub(super) fn render_table(
    kind: &ServedKind,
    objects: &[&Value],
    include: &str,
    version: &str,
    with_columns: bool,
) -> Value {
    let (columns, cells): (Vec<Value>, Vec<Vec<Value>>) = match kind.custom() {
        Some(custom) => custom_table(&custom.columns, objects),
        None => core_table(kind, objects),
    };
    let rows: Vec<Value> = objects
        .iter()
        .zip(cells)
        .map(|(object, cells)| {
            let mut row = json!({ "cells": cells });
            match include {
                "None" => {}
                "Object" => row["object"] = (*object).clone(),
                _ => row["object"] = partial_object(object),
            }
            row
        })
        .collect();
    let columns = if with_columns { Value::Array(columns) } else { json!([]) };
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": version},
        "columnDefinitions": columns, "rows": rows,
    })
}

fn column_definition(
    name: &str,
    kind: &str,
    format: &str,
    description: &str,
    priority: i64,
) -> Value {
    json!({
        "name": name, "type": kind, "format": format, "description": description,
        "priority": priority,
    })
}

const NAME: &str = "Name must be unique within a namespace.";

fn core_table(kind: &ServedKind, objects: &[&Value]) -> (Vec<Value>, Vec<Vec<Value>>) {
    let columns = columns::kind_columns(kind);
    let definitions = columns
        .iter()
        .map(|c| {
            let format = if c.name == "Name" { "name" } else { "" };
            let description = if c.name == "Name" { NAME } else { "" };
            column_definition(c.name, c.kind, format, description, i64::from(c.wide))
        })
        .collect();
    let cells =
        objects.iter().map(|object| columns.iter().map(|c| (c.cell)(object)).collect()).collect();
    (definitions, cells)
}

fn custom_table(
    columns: &[super::crd::CrdColumn],
    objects: &[&Value],
) -> (Vec<Value>, Vec<Vec<Value>>) {
    let mut definitions = vec![column_definition("Name", "string", "name", NAME, 0)];
    definitions.extend(
        columns
            .iter()
            .map(|c| column_definition(&c.name, &c.kind, &c.format, &c.description, c.priority)),
    );
    let cells = objects
        .iter()
        .map(|object| {
            let mut cells = vec![Value::from(object::object_name(object))];
            cells.extend(columns.iter().map(|c| custom_cell(&c.kind, c.path.as_ref(), object)));
            cells
        })
        .collect();
    (definitions, cells)
}

fn custom_cell(kind: &str, path: Option<&JsonPath>, object: &Value) -> Value {
    let Some(found) = path.and_then(|path| path.first(object)) else { return Value::Null };
    match (kind, found) {
        ("date", Value::String(text)) => age::age_since(text).into(),
        ("string", Value::String(_))
        | ("integer" | "number", Value::Number(_))
        | ("boolean", Value::Bool(_)) => found.clone(),
        ("string", other) => other.to_string().into(),
        _ => Value::Null,
    }
}
