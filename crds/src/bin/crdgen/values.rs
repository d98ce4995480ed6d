//! The table of the chart's values, from `values.yaml` and `values.schema.json`.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

const BEGIN: &str = "<!-- values: written by `cargo crdgen` -->\n";
const END: &str = "<!-- /values -->";

/// The chart's page with the table as it has to be.
pub(crate) fn values_page(chart: &Path) -> Result<(PathBuf, String), Box<dyn Error>> {
    let read = |name: &str| std::fs::read_to_string(chart.join(name));
    let mut schema: Value = serde_json::from_str(&read("values.schema.json")?)?;
    let mut values: Value = serde_saphyr::from_str(&read("values.yaml")?)?;
    // Sort, so that rows keep their order wherever a value stands in the chart's files.
    schema.sort_all_objects();
    values.sort_all_objects();
    let path = chart.join("REFERENCE.md");
    let text = std::fs::read_to_string(&path)?;
    let missing = || format!("{} has no lines `{}` and `{END}`", path.display(), BEGIN.trim());
    let (before, rest) = text.split_once(BEGIN).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    let text = format!("{before}{BEGIN}\n{}\n{END}{after}", values_table(&schema, &values));
    Ok((path, text))
}

fn values_table(schema: &Value, values: &Value) -> String {
    let mut out = "| value | default | what |\n|---|---|---|\n".to_owned();
    add_rows(&mut out, schema, values, "");
    out
}

/// A row for each value below `prefix` that is no group of others.
fn add_rows(out: &mut String, schema: &Value, values: &Value, prefix: &str) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let Some(value) = values.get(name) else { continue };
        let path = format!("{prefix}{name}");
        if property.get("properties").is_some() {
            add_rows(out, property, value, &format!("{path}."));
            continue;
        }
        let said = property.get("description").and_then(Value::as_str).unwrap_or_default();
        let said = said.replace('|', "\\|").replace('\n', " ");
        let _ = writeln!(out, "| `{path}` | {} | {said} |", show_value(value));
    }
}

fn show_value(value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => String::new(),
        Value::String(text) => format!("`{text}`"),
        Value::Array(items) if items.is_empty() => String::new(),
        Value::Object(fields) if fields.is_empty() => String::new(),
        Value::Null => String::new(),
        other => format!("`{}`", other.to_string().replace('|', "\\|")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_value_is_a_row_with_its_default() {
        let schema = json!({
            "properties": {
                "controller": {"properties": {"log": {"description": "How much | is said."}}},
                "names": {"description": "Names."},
                "global": {"description": "Helm's own."},
            },
        });
        let values = json!({"controller": {"log": "info"}, "names": []});
        let expected = "| value | default | what |\n|---|---|---|\n\
            | `controller.log` | `info` | How much \\| is said. |\n\
            | `names` |  | Names. |\n";
        assert_eq!(values_table(&schema, &values), expected);
    }
}
